"""Operations of VHLO as the operations of StableHLO that they stand for.

Owns the names without their versions, attributes that VHLO keeps apart and StableHLO together (dimension numbers,
channel handles), and defaults: VHLO writes each, StableHLO leaves them out, so that programs of all versions look
alike. Must not know: bytes. Source: StableHLO's VhloLegalizeToStablehlo.cpp, StablehloOps.td, StablehloAttrs.td.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xlapy.base.errors import BytecodeError
from xlapy.stablehlo import ir

Attributes = dict[str, Any]
Defaults = dict[str, Callable[[Any], bool]]

_VERSION = re.compile(r"_v\d+$")
_FUNCTIONS = {"func": "func.func", "call": "func.call"}

STRUCTS = {
    "convolution": (
        "dimension_numbers",
        "stablehlo.conv",
        (
            "input_batch_dimension",
            "input_feature_dimension",
            "input_spatial_dimensions",
            "kernel_input_feature_dimension",
            "kernel_output_feature_dimension",
            "kernel_spatial_dimensions",
            "output_batch_dimension",
            "output_feature_dimension",
            "output_spatial_dimensions",
        ),
    ),
    "dot_general": (
        "dot_dimension_numbers",
        "stablehlo.dot",
        (
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
        ),
    ),
    "gather": (
        "dimension_numbers",
        "stablehlo.gather",
        (
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
            "index_vector_dim",
        ),
    ),
    "scatter": (
        "scatter_dimension_numbers",
        "stablehlo.scatter",
        (
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims",
            "index_vector_dim",
        ),
    ),
}
STRUCTS["dynamic_conv"] = STRUCTS["convolution"]
STRUCTS["dynamic_gather"] = STRUCTS["gather"]
"""Per operation: the attribute, the struct in it, and the attributes of VHLO that are its fields."""

ALGORITHM = (
    "lhs_precision_type",
    "rhs_precision_type",
    "accumulation_type",
    "lhs_component_count",
    "rhs_component_count",
    "num_primitive_operations",
    "allow_imprecise_accumulation",
)

FLAGS = ("use_global_device_ids", "has_dynamic_root")
"""Units in StableHLO: there, or not."""


def _is_empty(value: Any) -> bool:
    return isinstance(value, str | tuple | dict) and not value


def _is_all(number: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, ir.ElementsAttribute) and bool((value.values == number).all())


def _is_number(number: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, ir.IntegerAttribute) and value.value == number


def _is_no_precision(value: Any) -> bool:
    return isinstance(value, tuple) and all(case == "DEFAULT" for case in value)


def _is_default_accuracy(value: Any) -> bool:
    return isinstance(value, ir.StructAttribute) and value.fields == {"mode": "DEFAULT"}


def _is_without_elements(value: Any) -> bool:
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
    "precision_config": _is_no_precision,
}
_SORTED: Defaults = {"indices_are_sorted": _is_false, "unique_indices": _is_false}
_TRANSFER: Defaults = {"is_host_transfer": _is_false, "source_target_pairs": _is_without_elements}
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
    "dot": {"precision_config": _is_no_precision},
    "dot_general": {"precision_config": _is_no_precision},
    "dynamic_broadcast_in_dim": {
        "known_expanding_dimensions": _is_without_elements,
        "known_nonexpanding_dimensions": _is_without_elements,
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
"""Per operation: the attributes that StableHLO leaves out, and when."""


def upgraded(name: str, attributes: Attributes, is_in_function: bool) -> tuple[str, Attributes]:
    """The name and the attributes that an operation of VHLO has in StableHLO.

    `is_in_function`: the operation stands right in a function, where `return` is the function's.
    """
    plain = _VERSION.sub("", name.removeprefix("vhlo."))
    result = dict(attributes)
    if plain in STRUCTS:
        attribute, struct, fields = STRUCTS[plain]
        result[attribute] = _struct(name, struct, fields, result)
    if plain == "dot_general":
        _fold_algorithm(result)
    if plain == "dynamic_conv":
        result.pop("padding", None)
    _fold_channel(plain, result)
    _name_symbols(plain, result)
    for flag in FLAGS:
        if flag in result and result.pop(flag):
            result[flag] = ir.Unit()
    _drop_defaults(plain, result)
    if plain == "return":
        return ("func.return" if is_in_function else "stablehlo.return"), result
    return _FUNCTIONS.get(plain, f"stablehlo.{plain}"), result


def _struct(operation: str, name: str, fields: tuple[str, ...], attributes: Attributes) -> ir.StructAttribute:
    """A struct of what VHLO keeps apart. Its fields that are zero or empty are absent, but for those of "conv"."""
    found = {field: _field(operation, field, attributes.pop(field)) for field in fields if field in attributes}
    if name != "stablehlo.conv":
        found = {field: value for field, value in found.items() if value not in (0, ())}
    return ir.StructAttribute(name, found)


def _field(operation: str, field: str, value: Any) -> Any:
    if isinstance(value, ir.IntegerAttribute):
        return value.value
    if isinstance(value, ir.ElementsAttribute) and value.values.ndim == 1:
        return tuple(value.values.tolist())
    raise BytecodeError(f"MLIR bytecode: {field} of {operation} is a number or a list of numbers, found {value}")


def _fold_algorithm(attributes: Attributes) -> None:
    fields = {name: attributes.pop(name) for name in ALGORITHM if name in attributes}
    if not fields or any(isinstance(value, ir.NoneType) for value in fields.values()):
        return
    numbers = {name: value.value if isinstance(value, ir.IntegerAttribute) else value for name, value in fields.items()}
    attributes["algorithm"] = ir.StructAttribute("stablehlo.dot_algorithm", numbers)


def _fold_channel(plain: str, attributes: Attributes) -> None:
    """Channel 0 is none, but where a channel is always there: in send and recv."""
    if "channel_id" not in attributes:
        return
    handle, kind = attributes.pop("channel_id"), attributes.pop("channel_type", None)
    number = handle.value if isinstance(handle, ir.IntegerAttribute) else 0
    if number or plain in ("send", "recv"):
        type_ = kind.value if isinstance(kind, ir.IntegerAttribute) else 0
        fields = {"handle": number, "type": type_}
        attributes["channel_handle"] = ir.StructAttribute("stablehlo.channel_handle", fields)


def _name_symbols(plain: str, attributes: Attributes) -> None:
    """Names of functions, which VHLO has as plain text."""
    wanted = {"call": "callee", "composite": "decomposition"}.get(plain)
    if wanted and isinstance(attributes.get(wanted), str):
        attributes[wanted] = ir.SymbolReference(attributes[wanted])
    if plain == "custom_call":
        called = attributes.get("called_computations")
        if not isinstance(called, tuple):
            return
        attributes["called_computations"] = tuple(
            [ir.SymbolReference(name) if isinstance(name, str) else name for name in called]
        )


def _drop_defaults(plain: str, attributes: Attributes) -> None:
    for name, is_default in _DEFAULTS.get(plain, {}).items():
        if name in attributes and is_default(attributes[name]):
            del attributes[name]
    if plain == "custom_call" and not attributes.get("operand_layouts") and not attributes.get("result_layouts"):
        attributes.pop("operand_layouts", None)
        attributes.pop("result_layouts", None)
    if "result_accuracy" in attributes and _is_default_accuracy(attributes["result_accuracy"]):
        del attributes["result_accuracy"]
