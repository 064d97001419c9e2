"""Converts StableHLO operations to operations of a version of VHLO, the reverse of `legalize_to_stablehlo`.

Responsible for the VHLO version that a program needs, for the StableHLO attributes that are several attributes in VHLO,
and for the default values that VHLO makes explicit. Does not depend on the encoding.

Source: StableHLO's StablehloLegalizeToVhlo.cpp, VhloDialect.td (the versions), docs/vhlo.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, S64
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.legalize_to_stablehlo import ALGORITHM, FLAGS, STRUCTS, Attributes
from xlapy.stablehlo.bytecode.vhlo import ENUMS
from xlapy.stablehlo.bytecode.vhlo_properties import PROPERTIES, WITH_RESULT_ACCURACY

_MIN_WRITTEN_MINOR = 12
"""The minor version of VHLO for programs that need nothing newer, so that older readers accept them."""

_SECOND_VERSION_SINCE = {
    "all_gather": 5,
    "all_reduce": 5,
    "all_to_all": 5,
    "collective_broadcast": 20,
    "composite": 14,
    "custom_call": 18,
    "dot_general": 6,
    "dynamic_conv": 0,
    "dynamic_gather": 1,
    "gather": 1,
    "recv": 12,
    "scatter": 1,
    "send": 12,
    **dict.fromkeys(WITH_RESULT_ACCURACY, 10),
}
"""The minor version of VHLO that introduced the second version of each operation."""

_REQUIRED_MINOR = {"async_start": 15, "async_done": 15, "collective_reduce": 19}
"""The minor version of VHLO that introduced an operation."""

_ENUM_CODES = {
    "comparison_direction": 3,
    "compare_type": 4,
    "fft_type": 7,
    "precision_config": 11,
    "rng_algorithm": 12,
    "rng_distribution": 13,
    "transpose_a": 16,
}
"""The code of the enum of each attribute that is an enum case."""

_API_VERSION = 5
"""The code of the enum of custom-call API versions."""
_I64 = ir.ScalarType(S64)


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a VHLO enum: the code of the enum and the number of the case."""

    enum: int
    number: int


@dataclass(frozen=True, slots=True)
class VhloOperation:
    """An operation of VHLO: its name, the values of its properties in encoding order, and its other attributes."""

    name: str
    properties: tuple[Any, ...]
    others: Attributes


def required_version(module: ir.Operation) -> int:
    """Returns the minor version of VHLO 1 that a program needs."""
    return max(_required_version(operation) for operation in ir.walk(module))


def _required_version(operation: ir.Operation) -> int:
    mnemonic = operation.name.partition(".")[2]
    types = [value.type for value in (*operation.operands, *operation.results)]
    version = max(_MIN_WRITTEN_MINOR, _REQUIRED_MINOR.get(mnemonic, 0))
    if any(isinstance(type_, ir.BufferType) for type_ in types):
        version = max(version, 13)
    if any(isinstance(type_, ir.FutureType) for type_ in types):
        version = max(version, 17 if mnemonic == "custom_call" else 15)
    if mnemonic == "composite" and operation.regions:
        version = max(version, 14)
    if isinstance(operation.attributes.get("replica_groups"), ir.StructAttribute):
        version = max(version, 16)
    if operation.attributes.get("result_tilings"):
        version = max(version, 18)
    return (
        max(version, 20)
        if "has_dynamic_root" in operation.attributes and mnemonic == "collective_broadcast"
        else version
    )


def legalize_to_vhlo(operation: ir.Operation, minor: int) -> VhloOperation:
    """Converts an operation to VHLO 1.`minor`. Raises `UnsupportedError` if VHLO has no such operation."""
    dialect, _, mnemonic = operation.name.partition(".")
    if dialect not in ("stablehlo", "func"):
        raise UnsupportedError(
            codes.ARTIFACT_OPERATION,
            f"{operation.name}: a portable artifact can hold only StableHLO operations and functions",
        )
    is_second = minor >= _SECOND_VERSION_SINCE.get(mnemonic, minor + 1)
    name = f"vhlo.{mnemonic}_v{2 if is_second else 1}"
    names = PROPERTIES.get(name, ())
    attributes = dict(operation.attributes)
    _split_structs(mnemonic, attributes)
    for attribute in names:
        if attribute not in attributes:
            attributes[attribute] = _default(operation, mnemonic, attribute)
    properties = tuple([_property(attribute, attributes.pop(attribute)) for attribute in names])
    return VhloOperation(name, properties, attributes)


def _property(name: str, value: Any) -> Any:
    if name in _ENUM_CODES:
        enum = _ENUM_CODES[name]
        return tuple([_case(enum, case) for case in value]) if isinstance(value, tuple) else _case(enum, value)
    if name == "api_version":
        return Case(_API_VERSION, value.value)
    return value


def _case(enum: int, case: Any) -> Case:
    cases = ENUMS[enum]
    if case not in cases:
        raise UnsupportedError(codes.ARTIFACT_ATTRIBUTE, f"{case!r} is not one of {', '.join(filter(None, cases))}")
    return Case(enum, cases.index(case))


def _split_structs(mnemonic: str, attributes: Attributes) -> None:
    """Replaces struct attributes by the attributes that VHLO has for their fields."""
    if mnemonic in STRUCTS:
        attribute, _, fields = STRUCTS[mnemonic]
        struct = attributes.pop(attribute).fields
        for field in fields:
            is_list = field.endswith(("dims", "dimensions", "index_map"))
            attributes[field] = _i64_array(struct.get(field, ())) if is_list else i64_attribute(struct.get(field, 0))
    if mnemonic == "dot_general":
        struct = attributes.pop("algorithm").fields if "algorithm" in attributes else dict.fromkeys(ALGORITHM)
        for field in ALGORITHM:
            value = struct.get(field)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            attributes[field] = ir.NoneType() if value is None else i64_attribute(value) if is_number else value
    if "channel_handle" in attributes:
        fields = attributes.pop("channel_handle").fields
        attributes["channel_id"] = i64_attribute(fields.get("handle", 0))
        if mnemonic in ("send", "recv"):
            attributes["channel_type"] = i64_attribute(fields.get("type", 0))
    for flag in FLAGS:
        if flag in attributes:
            attributes[flag] = True


def i64_attribute(value: int) -> ir.IntegerAttribute:
    """Returns an integer attribute of type i64."""
    return ir.IntegerAttribute(value, _I64)


def _i64_array(values: tuple[int, ...]) -> ir.ElementsAttribute:
    return ir.ElementsAttribute(ir.TensorType((len(values),), S64), np.asarray(values, np.int64))


def _filled_i64_elements(value: int, sizes: tuple[int, ...]) -> ir.ElementsAttribute:
    return ir.ElementsAttribute(ir.TensorType(sizes, S64), np.full(sizes, value, np.int64))


def _spatial(operation: ir.Operation) -> int:
    return len(operation.attributes["dimension_numbers"].fields["input_spatial_dimensions"])


def _window(operation: ir.Operation) -> int:
    return int(operation.attributes["window_dimensions"].values.size)


def _reversal(operation: ir.Operation) -> ir.ElementsAttribute:
    sizes = (_spatial(operation),)
    return ir.ElementsAttribute(ir.TensorType(sizes, PRED), np.zeros(sizes, np.bool_))


_ACCURACY = ir.StructAttribute("stablehlo.result_accuracy", {"mode": "DEFAULT"})

_DEFAULTS: dict[str, Callable[[ir.Operation], Any]] = {
    "api_version": lambda operation: ir.IntegerAttribute(1, _I64),
    "arg_attrs": lambda operation: (),
    "backend_config": lambda operation: _empty_config(operation),
    "called_computations": lambda operation: (),
    "channel_id": lambda operation: i64_attribute(0),
    "compare_type": lambda operation: "NOTYPE",
    "composite_attributes": lambda operation: {},
    "dimension": lambda operation: i64_attribute(-1),
    "has_dynamic_root": lambda operation: False,
    "has_side_effect": lambda operation: False,
    "indices_are_sorted": lambda operation: False,
    "infeed_config": lambda operation: "",
    "is_host_transfer": lambda operation: False,
    "is_stable": lambda operation: False,
    "known_expanding_dimensions": lambda operation: _i64_array(()),
    "known_nonexpanding_dimensions": lambda operation: _i64_array(()),
    "layout": lambda operation: (),
    "lhs_dilation": lambda operation: _filled_i64_elements(1, (_spatial(operation),)),
    "lower": lambda operation: False,
    "operand_layouts": lambda operation: (),
    "outfeed_config": lambda operation: "",
    "output_operand_aliases": lambda operation: (),
    "precision_config": lambda operation: ("DEFAULT", "DEFAULT"),
    "res_attrs": lambda operation: (),
    "result_accuracy": lambda operation: _ACCURACY,
    "result_layouts": lambda operation: (),
    "result_tilings": lambda operation: (),
    "rhs_dilation": lambda operation: _filled_i64_elements(1, (_spatial(operation),)),
    "source_target_pairs": lambda operation: _i64_array(()),
    "sym_visibility": lambda operation: "",
    "unique_indices": lambda operation: False,
    "use_global_device_ids": lambda operation: False,
    "version": lambda operation: i64_attribute(0),
    "window_reversal": _reversal,
    "base_dilations": lambda operation: _filled_i64_elements(1, (_window(operation),)),
    "window_dilations": lambda operation: _filled_i64_elements(1, (_window(operation),)),
}
"""The default values of attributes, as functions of the operation."""

_CONVOLUTIONS = ("convolution", "dynamic_conv")


def _default(operation: ir.Operation, mnemonic: str, name: str) -> Any:
    if name in ("window_strides", "padding"):
        rank = _spatial(operation) if mnemonic in _CONVOLUTIONS else _window(operation)
        return _filled_i64_elements(1, (rank,)) if name == "window_strides" else _filled_i64_elements(0, (rank, 2))
    if name not in _DEFAULTS:
        raise UnsupportedError(
            codes.ARTIFACT_ATTRIBUTE, f"{operation.name}: the attribute {name} is missing and has no default"
        )
    return _DEFAULTS[name](operation)


def _empty_config(operation: ir.Operation) -> Any:
    """Returns the empty backend config: a dictionary for typed FFI, a string for the older API versions."""
    version = operation.attributes.get("api_version")
    return {} if isinstance(version, ir.IntegerAttribute) and version.value == 4 else ""
