"""Operations of StableHLO as operations of a version of VHLO: `upgrade` the other way round.

Owns which version a program needs, attributes that VHLO keeps apart, and the defaults that it writes out. Must not
know: bytes. Source: StableHLO's StablehloLegalizeToVhlo.cpp, VhloDialect.td (the versions), docs/vhlo.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, S64
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.upgrade import ALGORITHM, FLAGS, STRUCTS, Attributes
from xlapy.stablehlo.bytecode.vhlo import ENUMS
from xlapy.stablehlo.bytecode.vhlo_properties import PROPERTIES

_OLDEST = 12
"""The minor version that programs are written for which need nothing newer: what readers of the past year know."""

_ACCURATE = (
    *("cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "rsqrt", "sine"),
    *("sqrt", "tan", "tanh"),
)
_SECOND_SINCE = {
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
    **dict.fromkeys(_ACCURATE, 10),
}
"""The minor version from which the second form of an operation is written."""

_NEEDS = {"async_start": 15, "async_done": 15, "collective_reduce": 19}

_ENUM_OF = {
    "comparison_direction": 3,
    "compare_type": 4,
    "fft_type": 7,
    "precision_config": 11,
    "rng_algorithm": 12,
    "rng_distribution": 13,
    "transpose_a": 16,
}
"""The attributes that are cases of enums, and the number of the enum."""

_API_VERSION = 5
_NUMBER = ir.ScalarType(S64)


@dataclass(frozen=True, slots=True)
class Case:
    """A case of an enum of VHLO: the enum's number and the case's."""

    enum: int
    number: int


@dataclass(frozen=True, slots=True)
class VersionedOperation:
    """An operation as it is written: its name, the values of its properties in their order, and other attributes."""

    name: str
    properties: tuple[Any, ...]
    others: Attributes


def needed_version(module: ir.Operation) -> int:
    """The minor version of VHLO 1 that a program needs."""
    return max(_version_of(operation) for operation in ir.walk(module))


def _version_of(operation: ir.Operation) -> int:
    plain = operation.name.partition(".")[2]
    types = [value.type for value in (*operation.operands, *operation.results)]
    version = max(_OLDEST, _NEEDS.get(plain, 0))
    if any(isinstance(type_, ir.BufferType) for type_ in types):
        version = max(version, 13)
    if any(isinstance(type_, ir.FutureType) for type_ in types):
        version = max(version, 17 if plain == "custom_call" else 15)
    if plain == "composite" and operation.regions:
        version = max(version, 14)
    if isinstance(operation.attributes.get("replica_groups"), ir.StructAttribute):
        version = max(version, 16)
    if operation.attributes.get("result_tilings"):
        version = max(version, 18)
    return (
        max(version, 20) if "has_dynamic_root" in operation.attributes and plain == "collective_broadcast" else version
    )


def versioned(operation: ir.Operation, minor: int) -> VersionedOperation:
    """The operation for VHLO of version 1.`minor`; `UnsupportedError` for operations that VHLO lacks."""
    dialect, _, plain = operation.name.partition(".")
    if dialect not in ("stablehlo", "func"):
        raise UnsupportedError(f"{operation.name}: a portable artifact holds operations of StableHLO and functions")
    is_second = minor >= _SECOND_SINCE.get(plain, minor + 1)
    name = f"vhlo.{plain}_v{2 if is_second else 1}"
    names = PROPERTIES.get(name, ())
    attributes = dict(operation.attributes)
    _unfold(plain, attributes)
    for attribute in names:
        if attribute not in attributes:
            attributes[attribute] = _default(operation, plain, attribute)
    properties = tuple([_property(attribute, attributes.pop(attribute)) for attribute in names])
    return VersionedOperation(name, properties, attributes)


def _property(name: str, value: Any) -> Any:
    if name in _ENUM_OF:
        enum = _ENUM_OF[name]
        return tuple([_case(enum, case) for case in value]) if isinstance(value, tuple) else _case(enum, value)
    if name == "api_version":
        return Case(_API_VERSION, value.value)
    return value


def _case(enum: int, case: Any) -> Case:
    cases = ENUMS[enum]
    if case not in cases:
        raise UnsupportedError(f"{case!r} is none of {', '.join(filter(None, cases))}")
    return Case(enum, cases.index(case))


def _unfold(plain: str, attributes: Attributes) -> None:
    """Takes apart what VHLO keeps apart."""
    if plain in STRUCTS:
        attribute, _, fields = STRUCTS[plain]
        struct = attributes.pop(attribute).fields
        for field in fields:
            is_list = field.endswith(("dims", "dimensions", "index_map"))
            attributes[field] = _numbers(struct.get(field, ())) if is_list else number(struct.get(field, 0))
    if plain == "dot_general":
        struct = attributes.pop("algorithm").fields if "algorithm" in attributes else dict.fromkeys(ALGORITHM)
        for field in ALGORITHM:
            value = struct.get(field)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            attributes[field] = ir.NoneType() if value is None else number(value) if is_number else value
    if "channel_handle" in attributes:
        fields = attributes.pop("channel_handle").fields
        attributes["channel_id"] = number(fields.get("handle", 0))
        if plain in ("send", "recv"):
            attributes["channel_type"] = number(fields.get("type", 0))
    for flag in FLAGS:
        if flag in attributes:
            attributes[flag] = True


def number(value: int) -> ir.IntegerAttribute:
    """A number of 64 bits."""
    return ir.IntegerAttribute(value, _NUMBER)


def _numbers(values: tuple[int, ...]) -> ir.ElementsAttribute:
    return ir.ElementsAttribute(ir.TensorType((len(values),), S64), np.asarray(values, np.int64))


def _filled(value: int, sizes: tuple[int, ...]) -> ir.ElementsAttribute:
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
    "api_version": lambda operation: ir.IntegerAttribute(1, _NUMBER),
    "arg_attrs": lambda operation: (),
    "backend_config": lambda operation: _empty_config(operation),
    "called_computations": lambda operation: (),
    "channel_id": lambda operation: number(0),
    "compare_type": lambda operation: "NOTYPE",
    "composite_attributes": lambda operation: {},
    "dimension": lambda operation: number(-1),
    "has_dynamic_root": lambda operation: False,
    "has_side_effect": lambda operation: False,
    "indices_are_sorted": lambda operation: False,
    "infeed_config": lambda operation: "",
    "is_host_transfer": lambda operation: False,
    "is_stable": lambda operation: False,
    "known_expanding_dimensions": lambda operation: _numbers(()),
    "known_nonexpanding_dimensions": lambda operation: _numbers(()),
    "layout": lambda operation: (),
    "lhs_dilation": lambda operation: _filled(1, (_spatial(operation),)),
    "lower": lambda operation: False,
    "operand_layouts": lambda operation: (),
    "outfeed_config": lambda operation: "",
    "output_operand_aliases": lambda operation: (),
    "precision_config": lambda operation: ("DEFAULT", "DEFAULT"),
    "res_attrs": lambda operation: (),
    "result_accuracy": lambda operation: _ACCURACY,
    "result_layouts": lambda operation: (),
    "result_tilings": lambda operation: (),
    "rhs_dilation": lambda operation: _filled(1, (_spatial(operation),)),
    "source_target_pairs": lambda operation: _numbers(()),
    "sym_visibility": lambda operation: "",
    "unique_indices": lambda operation: False,
    "use_global_device_ids": lambda operation: False,
    "version": lambda operation: number(0),
    "window_reversal": _reversal,
    "base_dilations": lambda operation: _filled(1, (_window(operation),)),
    "window_dilations": lambda operation: _filled(1, (_window(operation),)),
}
"""What the absence of an attribute means."""

_CONVOLUTIONS = ("convolution", "dynamic_conv")


def _default(operation: ir.Operation, plain: str, name: str) -> Any:
    if name in ("window_strides", "padding"):
        rank = _spatial(operation) if plain in _CONVOLUTIONS else _window(operation)
        return _filled(1, (rank,)) if name == "window_strides" else _filled(0, (rank, 2))
    if name not in _DEFAULTS:
        raise UnsupportedError(f"{operation.name}: the attribute {name} is missing, which has no default")
    return _DEFAULTS[name](operation)


def _empty_config(operation: ir.Operation) -> Any:
    """A dictionary for typed FFI, text for the older interfaces."""
    version = operation.attributes.get("api_version")
    return {} if isinstance(version, ir.IntegerAttribute) and version.value == 4 else ""
