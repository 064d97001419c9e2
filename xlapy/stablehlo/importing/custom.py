"""Import rules of custom calls and composites.

Responsible for `custom_call` in all its forms, for the custom-call targets and composites that frameworks use for
operations that HLO has (`mhlo.topk`, composites named after CHLO operations), and for `shape_assertion`. Does not
depend on what other targets do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes, CustomCallSchedule
from xlapy.stablehlo import ir
from xlapy.stablehlo.elementwise_operations import COMPOSITES
from xlapy.stablehlo.importing.core.attribute_text import dictionary_text
from xlapy.stablehlo.importing.core.attributes import (
    array,
    as_integer,
    as_integers,
    as_symbol,
    describe,
    flag,
    integer,
    required,
    symbol,
    text,
)
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import RULES, Results, check_arrays, rule
from xlapy.stablehlo.importing.elementwise import DIRECT_OPCODES
from xlapy.stablehlo.importing.sorting import emit_top_k

TargetRule = Callable[[ComputationBuilder, ir.Operation, Mapping[str, Any]], Results]
TARGET_RULES: dict[str, TargetRule] = {}
"""Rules of the custom-call targets that are imported as other instructions.

The third argument of a rule is the dictionary in the call's `mhlo.attributes`.
"""

_VERSIONS = dict(enumerate(CustomCallApiVersion))
_TARGET_ATTRIBUTES = "mhlo.attributes"
_TYPED_FFI_CONFIG = "mhlo.backend_config"
"""Attributes of custom calls that frameworks define: those of the target, and the config of a typed FFI call."""
_ELEMENTWISE_TARGETS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh", "tan",
)  # fmt: skip


def target(*names: str) -> Callable[[TargetRule], TargetRule]:
    """Decorator: registers a function as the rule of custom calls of the named targets."""

    def register(function: TargetRule) -> TargetRule:
        TARGET_RULES.update(dict.fromkeys(names, function))
        return function

    return register


def array_operands(
    builder: ComputationBuilder, operation: ir.Operation, operands: int | None = None, results: int | None = None
) -> list[Instruction]:
    """Returns the operands of a custom call, which must be arrays; for the rules of targets.

    Raises `ShapeError` for another number of operands or results than a target requires.
    """
    given = builder.operands(operation)
    for what, expected, values in (("operands", operands, operation.operands), ("results", results, operation.results)):
        if expected is not None and len(values) != expected:
            raise ShapeError(codes.OPERATION_COUNTS, f"it takes {expected} {what}, but has {len(values)}")
    check_arrays(given)
    return given


@rule("stablehlo.custom_call", results=None, on_storage_type=True, any_operands=True)
def custom_call(builder: ComputationBuilder, operation: ir.Operation) -> Results:
    name = text(operation, "call_target_name")
    target_rule = TARGET_RULES.get(name)
    if target_rule is not None:
        attributes = operation.attributes.get(_TARGET_ATTRIBUTES, {})
        return target_rule(builder, operation, attributes if isinstance(attributes, dict) else {})
    return emit_custom_call(builder, operation, name)


def emit_custom_call(builder: ComputationBuilder, operation: ir.Operation, name: str) -> Sequence[Instruction]:
    """Emits an HLO custom-call. Several results are returned as a tuple, no results as an empty tuple."""
    operands = builder.operands(operation)
    version, configuration = _version_and_config(operation)
    shapes = [builder.declared_shape(result) for result in operation.results]
    constraints = _operand_layout_constraints([operand.shape for operand in operands], operation)
    attributes = CustomCallAttributes.make(
        custom_call_target=name,
        operand_layout_constraints=constraints,
        custom_call_has_side_effect=flag(operation, "has_side_effect"),
        output_to_operand_aliasing=_aliases(operation),
        schedule=_schedule(operation),
        api_version=version,
    )
    called = [
        builder.context.computation(as_symbol(each, "called_computations"))
        for each in array(operation, "called_computations")
    ]
    results = _with_result_layouts(shapes, operation)
    shape = results[0] if len(results) == 1 else Shape.tuple(results)
    call = builder.emit(opcodes.CUSTOM_CALL, operands, attributes, called, shape=shape)
    call.backend_config = _config_text(configuration)
    if not shapes:
        builder.context.annotations.annotate(operation, [call])
    return builder.unpack(call, len(shapes))


def _version_and_config(operation: ir.Operation) -> tuple[CustomCallApiVersion, Any]:
    """Returns the API version and the backend config.

    Before StableHLO had dictionaries as backend config, typed FFI calls were written as calls of the original API
    version with the dictionary in `mhlo.backend_config`. JAX still does so.
    """
    version, typed_config = _version(operation), operation.attributes.get(_TYPED_FFI_CONFIG)
    if version is CustomCallApiVersion.ORIGINAL and isinstance(typed_config, dict):
        return CustomCallApiVersion.TYPED_FFI, typed_config
    return version, operation.attributes.get("backend_config")


def _version(operation: ir.Operation) -> CustomCallApiVersion:
    given = operation.attributes.get("api_version", 1)
    if isinstance(given, str):
        if given not in CustomCallApiVersion.__members__ and not any(v.value == given for v in _VERSIONS.values()):
            raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no api_version {given!r}")
        return next(v for v in _VERSIONS.values() if given in (v.value, v.name))
    number = integer(operation, "api_version", 1)
    if number not in _VERSIONS:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no api_version {number}")
    return _VERSIONS[number or 1]  # version 0, unspecified, means the first version


def _schedule(operation: ir.Operation) -> CustomCallSchedule:
    given = operation.attributes.get("custom_call_schedule", "NONE")
    is_known = isinstance(given, str) and given in CustomCallSchedule.__members__
    return CustomCallSchedule[given] if is_known else CustomCallSchedule.NONE


def _config_text(given: Any) -> str:
    """Returns a string as it is and a dictionary in MLIR's syntax."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if isinstance(given, dict):
        return dictionary_text(given)
    raise ShapeError(codes.ATTRIBUTE_KIND, f"backend_config must be a string or a dictionary, but is {describe(given)}")


def _with_layouts(operation: ir.Operation, name: str, shapes: Sequence[Shape]) -> list[Shape] | None:
    """Returns the shapes with the layouts that an attribute lists, or None if the attribute is absent."""
    given = operation.attributes.get(name)
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != len(shapes):
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"attribute {name} must list {len(shapes)} layouts, but is {describe(given)}"
        )
    return [_with_layout(shape, as_integers(each, name)) for shape, each in zip(shapes, given, strict=True)]


def _with_layout(shape: Shape, minor_to_major: Sequence[int]) -> Shape:
    return shape.with_layout(Layout(minor_to_major)) if shape.is_array else shape


def _operand_layout_constraints(shapes: Sequence[Shape], operation: ir.Operation) -> tuple[Shape, ...] | None:
    constrained = _with_layouts(operation, "operand_layouts", shapes)
    return None if constrained is None else tuple(constrained)


def _with_result_layouts(shapes: Sequence[Shape], operation: ir.Operation) -> Sequence[Shape]:
    """Returns the result shapes with the layouts of `result_layouts`, which lists those of a tuple's elements."""
    if len(shapes) == 1 and shapes[0].is_tuple:
        elements = _with_layouts(operation, "result_layouts", shapes[0].tuple_shapes)
        return shapes if elements is None else [Shape.tuple(elements)]
    return _with_layouts(operation, "result_layouts", shapes) or shapes


def _aliases(operation: ir.Operation) -> tuple[OutputAlias, ...]:
    aliases: list[OutputAlias] = []
    for each in array(operation, "output_operand_aliases"):
        if not isinstance(each, ir.StructAttribute):
            raise ShapeError(
                codes.ATTRIBUTE_KIND, f"an alias must be #stablehlo.output_operand_alias<...>, but is {describe(each)}"
            )
        aliases.append(
            OutputAlias(
                as_integers(each.fields.get("output_tuple_indices", ()), "output_tuple_indices"),
                as_integer(each.fields.get("operand_index", 0), "operand_index"),
                as_integers(each.fields.get("operand_tuple_indices", ()), "operand_tuple_indices"),
            )
        )
    return tuple(aliases)


# -- targets that stand for HLO instructions


@target(*(f"{dialect}.{name}" for dialect in ("mhlo", "chlo") for name in _ELEMENTWISE_TARGETS))
def elementwise_target(builder: ComputationBuilder, operation: ir.Operation, _: Mapping[str, Any]) -> Instruction:
    name = text(operation, "call_target_name").partition(".")[2]
    return builder.emit(DIRECT_OPCODES.get(f"chlo.{name}", opcodes.TAN), array_operands(builder, operation))


@target("mhlo.topk")
def top_k_target(
    builder: ComputationBuilder, operation: ir.Operation, attributes: Mapping[str, Any]
) -> Sequence[Instruction]:
    k, largest = attributes.get("k"), attributes.get("largest", True)
    if not isinstance(k, ir.IntegerAttribute):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"its attribute k must be an integer, but is {describe(k)}")
    return emit_top_k(
        builder, array_operands(builder, operation, operands=1, results=2), k.value, bool(largest), is_stable=True
    )


@target("shape_assertion")
def shape_assertion(
    builder: ComputationBuilder, operation: ir.Operation, _: Mapping[str, Any]
) -> Sequence[Instruction]:
    """Checks during the import what a program asserts about the shapes of its arguments."""
    if not operation.operands:
        raise ShapeError(codes.OPERATION_COUNTS, "it takes a condition, but has no operands")
    condition, *values = array_operands(builder, operation)
    known = builder.context.constants.value_of(condition)
    if known is None:
        raise UnsupportedError(
            codes.ASSERTION, "the condition it asserts does not follow from the shapes of the arguments"
        )
    if not known.all():
        given = [builder.context.constants.value_of(value) for value in values]
        message = str(required(operation, "error_message"))
        for number, value in enumerate(given):
            message = message.replace(f"{{{number}}}", str(value))
        raise ShapeError(codes.ASSERTION, f"the shapes of the arguments violate an assertion of the program: {message}")
    return ()


# -- composites


@rule("stablehlo.composite", results=None, regions=None, on_storage_type=True, any_operands=True)
def composite(builder: ComputationBuilder, operation: ir.Operation) -> Results:
    """Imports a composite named after a CHLO operation as that operation, one that stands for an opcode as that opcode,
    and any other as a call of its decomposition.

    The name, version and attributes of the composite become frontend attributes of the call.
    """
    name = text(operation, "name")
    attributes = operation.attributes.get("composite_attributes", {})
    if not isinstance(attributes, dict):
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"composite_attributes must be a dictionary, but are {describe(attributes)}"
        )
    chlo_rule = RULES.get(name) if name.startswith("chlo.") else None
    if chlo_rule is not None:
        chlo_operation = ir.Operation(name, operation.operands, operation.results, dict(attributes))
        chlo_rule.check_counts(chlo_operation)
        check_arrays(builder.operands(chlo_operation))
        return chlo_rule.function(builder, chlo_operation)
    if name in COMPOSITES:
        return builder.emit(COMPOSITES[name], array_operands(builder, operation, operands=1, results=1))
    frontend_attributes = {
        "composite.attributes": dictionary_text(attributes),
        "composite.name": name,
        "composite.version": str(integer(operation, "version", 0)),
    }
    decomposition = symbol(operation, "decomposition")
    return builder.context.call(builder, decomposition, builder.operands(operation), frontend_attributes)
