"""Parses the struct attributes of StableHLO, CHLO and MHLO: `#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`.

Responsible for the names and fields of structs and for the short form of convolution dimensions. Does not depend on
operations.

Source: the definitions of the dialects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xlapy.base.cursor import integer_from_text
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import MlirCursor

_BATCHING = ("lhs_batching_dimensions", "rhs_batching_dimensions")
_CONTRACTING = ("lhs_contracting_dimensions", "rhs_contracting_dimensions")
CONVOLUTION = tuple(
    f"{side}_{dimension}"
    for side, dimensions in (
        ("input", ("batch_dimension", "feature_dimension", "spatial_dimensions")),
        ("kernel", ("input_feature_dimension", "output_feature_dimension", "spatial_dimensions")),
        ("output", ("batch_dimension", "feature_dimension", "spatial_dimensions")),
    )
    for dimension in dimensions
)
"""The fields of `conv`: those of the input, the kernel and the output."""

FIELDS: dict[str, tuple[str, ...]] = {
    "dot": _BATCHING + _CONTRACTING,
    "ragged_dot": (*_BATCHING, *_CONTRACTING, "lhs_ragged_dimensions", "rhs_group_dimensions"),
    "gather": (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
        "index_vector_dim",
    ),
    "scatter": (
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
        "index_vector_dim",
    ),
    "result_accuracy": ("atol", "rtol", "ulps", "mode"),
    "conv": CONVOLUTION,
    "dot_algorithm": (
        "lhs_precision_type",
        "rhs_precision_type",
        "accumulation_type",
        "lhs_component_count",
        "rhs_component_count",
        "num_primitive_operations",
        "allow_imprecise_accumulation",
    ),
    "output_operand_alias": ("output_tuple_indices", "operand_index", "operand_tuple_indices"),
    "channel_handle": ("handle", "type"),
    "type_extensions": ("bounds",),
    "axis_ref": ("name", "sub_axis_info"),
    "mesh_axis": ("name", "size"),
    "mesh": ("axes", "device_ids"),
    "replica_group_mesh_axes": ("mesh", "axes"),
}
"""The permitted fields of each struct."""

_WITHOUT_EMPTY_FIELDS = ("dot", "ragged_dot", "gather", "scatter", "result_accuracy")
"""The structs whose empty and zero fields MLIR does not print."""
_KEYWORD = re.compile(r"[A-Za-z_]\w*+", re.ASCII)
_SUB_AXIS = re.compile(r"\((\d+)\)\s*(\d+)", re.ASCII)
_LETTERS = (
    {"b": "input_batch_dimension", "f": "input_feature_dimension"},
    {"i": "kernel_input_feature_dimension", "o": "kernel_output_feature_dimension"},
    {"b": "output_batch_dimension", "f": "output_feature_dimension"},
)
_POSITION = re.compile(r"\d+|[a-z]\b", re.ASCII)


class StructParser:
    """Parses structs at the cursor. `parse_attribute` parses the attribute in a field."""

    def __init__(self, cursor: MlirCursor, parse_attribute: Callable[[], Any]) -> None:
        self.cursor = cursor
        self.parse_attribute = parse_attribute

    def parse(self, dialect: str) -> Any:
        """Parses a struct starting at its name: `dot<...>`."""
        cursor = self.cursor
        start = cursor.skip()
        found = cursor.match(_KEYWORD)
        name = found.group() if found else ""
        if name == "bounds":
            cursor.expect("<", "after 'bounds'")
            return ir.StructAttribute(
                f"{dialect}.type_extensions", {"bounds": tuple(cursor.separated(">", self._size))}
            )
        if name not in FIELDS:
            if cursor.peek("<"):
                return ir.OpaqueAttribute(f"{dialect}.{name}", cursor.balanced())
            cursor.fail_at(start, codes.KNOWN_KEYWORD, f"{dialect} has no attribute {name!r}")
        return self.body(f"{dialect}.{name}")

    def body(self, name: str) -> ir.StructAttribute:
        """Parses a struct starting at its `<`."""
        cursor = self.cursor
        struct = name.partition(".")[2]
        cursor.expect("<", f"after '{name}'")
        if struct == "conv" and not cursor.accept_word("raw"):
            value = self.convolution(name)
            cursor.expect(">", "after the dimensions of a convolution")
            return value
        fields: dict[str, Any] = {}
        allowed = FIELDS[struct]
        while not cursor.accept(">"):
            self._field(name, allowed, fields)
            if not cursor.accept(","):
                cursor.expect(">", f"at the end of '{name}'")
                break
        if struct in _WITHOUT_EMPTY_FIELDS:
            fields = {field: value for field, value in fields.items() if value not in (0, ())}
        return ir.StructAttribute(name, fields)

    def _field(self, name: str, allowed: tuple[str, ...], fields: dict[str, Any]) -> None:
        cursor = self.cursor
        start = cursor.skip()
        found = cursor.match(_KEYWORD)
        field = found.group() if found else cursor.describe_next()
        if field not in allowed:
            cursor.fail_at(start, codes.KNOWN_KEYWORD, f"'{name}' has the fields {', '.join(allowed)}; found {field}")
        if field in fields:
            cursor.fail_at(start, codes.DEFINED_ONCE, f"the field {field!r} occurs twice")
        cursor.expect("=", f"after {field!r}")
        fields[field] = self._value(field)

    def _value(self, field: str) -> Any:
        cursor = self.cursor
        if field == "device_ids" or (field == "axes" and cursor.peek("[")) or cursor.peek("("):
            return self._mesh_field(field)
        if cursor.accept("["):
            return tuple(cursor.separated("]", self._size))
        value = self.parse_attribute()
        return value.value if isinstance(value, ir.IntegerAttribute | ir.FloatAttribute) else value

    def _mesh_field(self, field: str) -> Any:
        cursor = self.cursor
        if field == "device_ids":
            return self.parse_attribute()
        if field == "axes":
            cursor.expect("[")
            return tuple(cursor.separated("]", self._axis))
        found = cursor.match(_SUB_AXIS)
        if found is None:
            cursor.fail(text_codes.TOKEN, f"expected a sub-axis '(pre-size)size', found {cursor.describe_next()}")
        return ir.StructAttribute(
            "stablehlo.sub_axis_info",
            {"pre_size": integer_from_text(found.group(1)), "size": integer_from_text(found.group(2))},
        )

    def _axis(self) -> Any:
        """Parses an axis of a mesh, `<name = "x", size = 2>`, or any attribute."""
        return self.body("stablehlo.mesh_axis") if self.cursor.peek("<") else self.parse_attribute()

    def _size(self) -> int | None:
        if self.cursor.accept("?"):
            return None
        return self.cursor.integer("a dimension")

    # -- convolution

    def convolution(self, name: str = "stablehlo.conv") -> ir.StructAttribute:
        """Parses the dimension numbers of a convolution: `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        cursor = self.cursor
        fields: dict[str, Any] = {}
        for letters, separator in zip(_LETTERS, ("x", "->", ""), strict=True):
            self._convolution_operand(letters, fields)
            if separator:
                cursor.expect(separator, "between the dimensions of a convolution")
        return ir.StructAttribute(name, {field: fields[field] for field in CONVOLUTION})

    def _convolution_operand(self, letters: dict[str, str], fields: dict[str, Any]) -> None:
        cursor = self.cursor
        start = cursor.skip()
        cursor.expect("[", "before the dimensions of a convolution")
        names = cursor.separated("]", self._position)
        spatial = [name for name in names if name.isdigit()]
        expected = [*letters, *(str(index) for index in range(len(spatial)))]
        if sorted(names) != sorted(expected):
            cursor.fail_at(
                start,
                text_codes.TOKEN,
                f"expected the dimensions {', '.join(expected)} in some order, found {', '.join(names)}",
            )
        positions = {name: position for position, name in enumerate(names)}
        for letter, field in letters.items():
            fields[field] = positions[letter]
        side = next(iter(letters.values())).partition("_")[0]
        fields[f"{side}_spatial_dimensions"] = tuple([positions[str(index)] for index in range(len(spatial))])

    def _position(self) -> str:
        found = self.cursor.match(_POSITION)
        if found is None:
            self.cursor.fail(
                text_codes.TOKEN, f"expected a dimension of a convolution, found {self.cursor.describe_next()}"
            )
        return found.group()
