"""Converts VHLO operations to StableHLO operations.

Responsible for removing the version from names, for combining VHLO attributes that are one struct in StableHLO
(dimension numbers, channel handles), and for removing default values, which VHLO makes explicit, so that programs of
all versions have the same form. Does not depend on the encoding.

Source: StableHLO's VhloLegalizeToStablehlo.cpp, StablehloOps.td, StablehloAttrs.td.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import BytecodeError
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.structs import FIELDS

Attributes = dict[str, Any]
Defaults = dict[str, Callable[[Any], bool]]

_VERSION = re.compile(r"_v\d+$")
_FUNCTIONS = {"func": "func.func", "call": "func.call"}

_CONVOLUTION = ("dimension_numbers", "stablehlo.conv", FIELDS["conv"])
_GATHER = ("dimension_numbers", "stablehlo.gather", FIELDS["gather"])
STRUCTS = {
    "convolution": _CONVOLUTION,
    "dot_general": ("dot_dimension_numbers", "stablehlo.dot", FIELDS["dot"]),
    "dynamic_conv": _CONVOLUTION,
    "dynamic_gather": _GATHER,
    "gather": _GATHER,
    "scatter": ("scatter_dimension_numbers", "stablehlo.scatter", FIELDS["scatter"]),
}
"""For each operation: the struct attribute, the name of the struct, and the VHLO attributes that are its fields."""

ALGORITHM = FIELDS["dot_algorithm"]
"""The VHLO attributes that are the fields of a dot algorithm."""

FLAGS = ("use_global_device_ids", "has_dynamic_root")
"""The attributes that are booleans in VHLO and unit attributes in StableHLO."""


def _is_empty(value: Any) -> bool:
    return isinstance(value, str | tuple | dict) and not value


def _is_all(number: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, ir.ElementsAttribute) and value.is_all(number)


def _is_number(number: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, ir.IntegerAttribute) and value.value == number


def _is_default_precision(value: Any) -> bool:
    return isinstance(value, tuple) and all(case == "DEFAULT" for case in value)


def _is_default_accuracy(value: Any) -> bool:
    return isinstance(value, ir.StructAttribute) and value.fields == {"mode": "DEFAULT"}


def _has_no_elements(value: Any) -> bool:
    return isinstance(value, ir.ElementsAttribute) and value.values.size == 0


def _is_false(value: Any) -> bool:
    return value is False


_WINDOW_DEFAULTS: Defaults = {
    "window_strides": _is_all(1),
    "base_dilations": _is_all(1),
    "window_dilations": _is_all(1),
    "padding": _is_all(0),
}
_CONVOLUTION_DEFAULTS: Defaults = {
    "window_strides": _is_all(1),
    "padding": _is_all(0),
    "lhs_dilation": _is_all(1),
    "rhs_dilation": _is_all(1),
    "window_reversal": _is_all(0),
    "precision_config": _is_default_precision,
}
_SORTED: Defaults = {"indices_are_sorted": _is_false, "unique_indices": _is_false}
_TRANSFER: Defaults = {"is_host_transfer": _is_false, "source_target_pairs": _has_no_elements}
_DEFAULTS: dict[str, Defaults] = {
    "cholesky": {"lower": _is_false},
    "compare": {"compare_type": lambda value: value == "NOTYPE"},
    "composite": {"version": _is_number(0), "composite_attributes": _is_empty},
    "convolution": _CONVOLUTION_DEFAULTS,
    "custom_call": {
        "has_side_effect": _is_false,
        "backend_config": _is_empty,
        "api_version": _is_number(1),
        "called_computations": _is_empty,
        "output_operand_aliases": _is_empty,
        "result_tilings": _is_empty,
    },
    "dot": {"precision_config": _is_default_precision},
    "dot_general": {"precision_config": _is_default_precision},
    "dynamic_broadcast_in_dim": {
        "known_expanding_dimensions": _has_no_elements,
        "known_nonexpanding_dimensions": _has_no_elements,
    },
    "dynamic_conv": _CONVOLUTION_DEFAULTS,
    "dynamic_gather": _SORTED,
    "func": {"sym_visibility": _is_empty, "arg_attrs": _is_empty, "res_attrs": _is_empty},
    "gather": _SORTED,
    "infeed": {"infeed_config": _is_empty, "layout": _is_empty},
    "outfeed": {"outfeed_config": _is_empty},
    "recv": _TRANSFER,
    "reduce_window": _WINDOW_DEFAULTS,
    "scatter": _SORTED,
    "select_and_scatter": _WINDOW_DEFAULTS,
    "send": _TRANSFER,
    "sort": {"dimension": _is_number(-1), "is_stable": _is_false},
}
"""For each operation: the attributes with a default, and a predicate that recognizes the default value."""


def legalize_to_stablehlo(name: str, attributes: Attributes, is_in_function: bool) -> tuple[str, Attributes]:
    """Returns the name and attributes in StableHLO of a VHLO operation.

    `is_in_function`: the parent operation is a function, so that `return` becomes `func.return`.
    """
    mnemonic = _VERSION.sub("", name.removeprefix("vhlo."))
    result = dict(attributes)
    if mnemonic in STRUCTS:
        attribute, struct, fields = STRUCTS[mnemonic]
        result[attribute] = _combine_struct(name, struct, fields, result)
    if mnemonic == "dot_general":
        _combine_algorithm(result)
    if mnemonic == "dynamic_conv":
        result.pop("padding", None)
    _combine_channel(mnemonic, result)
    _convert_symbols(mnemonic, result)
    for flag in FLAGS:
        if flag in result and result.pop(flag):
            result[flag] = ir.Unit()
    _drop_defaults(mnemonic, result)
    if mnemonic == "return":
        return ("func.return" if is_in_function else "stablehlo.return"), result
    return _FUNCTIONS.get(mnemonic, f"stablehlo.{mnemonic}"), result


def _combine_struct(operation: str, name: str, fields: tuple[str, ...], attributes: Attributes) -> ir.StructAttribute:
    """Combines VHLO attributes into a struct. Drops zero and empty fields, except those of "conv"."""
    found = {field: _field(operation, field, attributes.pop(field)) for field in fields if field in attributes}
    if name != "stablehlo.conv":
        found = {field: value for field, value in found.items() if value not in (0, ())}
    return ir.StructAttribute(name, found)


def _field(operation: str, field: str, value: Any) -> Any:
    if isinstance(value, ir.IntegerAttribute):
        return value.value
    if isinstance(value, ir.ElementsAttribute) and value.values.ndim == 1:
        return tuple(value.listed().tolist())
    raise BytecodeError(
        codes.BYTECODE_KIND,
        f"MLIR bytecode: {field} of {operation} must be an integer or a list of integers, found {value}",
    )


def _combine_algorithm(attributes: Attributes) -> None:
    fields = {name: attributes.pop(name) for name in ALGORITHM if name in attributes}
    if not fields or any(isinstance(value, ir.NoneType) for value in fields.values()):
        return
    numbers = {name: value.value if isinstance(value, ir.IntegerAttribute) else value for name, value in fields.items()}
    attributes["algorithm"] = ir.StructAttribute("stablehlo.dot_algorithm", numbers)


def _combine_channel(mnemonic: str, attributes: Attributes) -> None:
    """Combines the channel attributes into a channel handle. Channel 0 means no channel, except in send and recv."""
    if "channel_id" not in attributes:
        return
    handle, kind = attributes.pop("channel_id"), attributes.pop("channel_type", None)
    number = handle.value if isinstance(handle, ir.IntegerAttribute) else 0
    if number or mnemonic in ("send", "recv"):
        type_ = kind.value if isinstance(kind, ir.IntegerAttribute) else 0
        fields = {"handle": number, "type": type_}
        attributes["channel_handle"] = ir.StructAttribute("stablehlo.channel_handle", fields)


def _convert_symbols(mnemonic: str, attributes: Attributes) -> None:
    """Converts the names of functions, which are strings in VHLO, to symbol references."""
    symbol = {"call": "callee", "composite": "decomposition"}.get(mnemonic)
    if symbol and isinstance(attributes.get(symbol), str):
        attributes[symbol] = ir.SymbolReference(attributes[symbol])
    if mnemonic == "custom_call":
        called = attributes.get("called_computations")
        if not isinstance(called, tuple):
            return
        attributes["called_computations"] = tuple(
            [ir.SymbolReference(name) if isinstance(name, str) else name for name in called]
        )


def _drop_defaults(mnemonic: str, attributes: Attributes) -> None:
    for name, is_default in _DEFAULTS.get(mnemonic, {}).items():
        if name in attributes and is_default(attributes[name]):
            del attributes[name]
    if mnemonic == "custom_call" and not attributes.get("operand_layouts") and not attributes.get("result_layouts"):
        attributes.pop("operand_layouts", None)
        attributes.pop("result_layouts", None)
    if "result_accuracy" in attributes and _is_default_accuracy(attributes["result_accuracy"]):
        del attributes["result_accuracy"]
