"""StableHLO's operations that move elements."""

from __future__ import annotations

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import MlirCursor
from xlapy.stablehlo.text.elements import integers
from xlapy.stablehlo.text.forms.common import (
    ends_with_function_type,
    ends_with_same_type,
    operands,
    set_integer,
    set_integers,
    value_and_comma,
)
from xlapy.stablehlo.text.operations import Form, OperationReader


def plain(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b {...} : (...) -> ...`"""
    operation.operands = reader.operands()
    ends_with_function_type(reader, operation)


def _with_integers(count: int, *fields: tuple[str, str]) -> Form:
    """`%a, %b, word = [0, 1], ... {...} : (...) -> ...` of so many operands and pairs of word and attribute."""

    def read(reader: OperationReader, operation: ir.Operation) -> None:
        operands(reader, operation, count)
        for word, attribute in fields:
            reader.cursor.expect(",", f"before {word!r}")
            set_integers(reader, operation, word, attribute)
        ends_with_function_type(reader, operation)

    return read


def _with_dimension(count: int) -> Form:
    """`%a, dim = 0 {...} : (...) -> ...` of so many operands."""

    def read(reader: OperationReader, operation: ir.Operation) -> None:
        operands(reader, operation, count)
        reader.cursor.expect(",", "before 'dim'")
        set_integer(reader, operation, "dim", "dimension")
        ends_with_function_type(reader, operation)

    return read


def reverse(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, dims = [0] {...} : type`"""
    value_and_comma(reader, operation)
    set_integers(reader, operation, "dims", "dimensions")
    ends_with_same_type(reader, operation)


def concatenate(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b, dim = 0 {...} : (...) -> ...`"""
    _operands_and_comma(reader, operation)
    set_integer(reader, operation, "dim", "dimension")
    ends_with_function_type(reader, operation)


def dynamic_slice(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %start, ..., sizes = [1] {...} : (...) -> ...`"""
    _operands_and_comma(reader, operation)
    set_integers(reader, operation, "sizes", "slice_sizes")
    ends_with_function_type(reader, operation)


def _operands_and_comma(reader: OperationReader, operation: ir.Operation) -> None:
    """Operands, with a comma behind the last one too."""
    operation.operands = reader.operands()
    if operation.operands:
        reader.cursor.expect(",", f"after the operands of {operation.name}")


def slice_(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a [0:2, 1:9:2] {...} : (...) -> ...`"""
    operation.operands = [reader.operand()]
    reader.cursor.expect("[", "before the ranges of a slice")
    ranges = reader.cursor.separated("]", lambda: _range(reader.cursor))
    for position, attribute in enumerate(("start_indices", "limit_indices", "strides")):
        operation.attributes[attribute] = integers([part[position] for part in ranges])
    ends_with_function_type(reader, operation)


def _range(cursor: MlirCursor) -> tuple[int, int, int]:
    """`start:limit` or `start:limit:stride`."""
    start = cursor.integer("the start of a slice")
    cursor.expect(":", "after the start of a slice")
    limit = cursor.integer("the limit of a slice")
    return start, limit, cursor.integer("the stride of a slice") if cursor.accept(":") else 1


FORMS: dict[str, Form] = {
    "stablehlo.bitcast_convert": plain,
    "stablehlo.broadcast": _with_integers(1, ("sizes", "broadcast_sizes")),
    "stablehlo.broadcast_in_dim": _with_integers(1, ("dims", "broadcast_dimensions")),
    "stablehlo.concatenate": concatenate,
    "stablehlo.dynamic_broadcast_in_dim": _with_integers(2, ("dims", "broadcast_dimensions")),
    "stablehlo.dynamic_pad": plain,
    "stablehlo.dynamic_reshape": plain,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": plain,
    "stablehlo.get_dimension_size": _with_dimension(1),
    "stablehlo.pad": _with_integers(
        2, ("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding")
    ),
    "stablehlo.real_dynamic_slice": plain,
    "stablehlo.reshape": plain,
    "stablehlo.reverse": reverse,
    "stablehlo.set_dimension_size": _with_dimension(2),
    "stablehlo.slice": slice_,
    "stablehlo.transpose": _with_integers(1, ("dims", "permutation")),
}
