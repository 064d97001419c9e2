"""Definition of the operation that calls code outside of HLO.

Responsible for custom-call. Does not depend on the IR or on values.
Source: CustomCall of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from xlapy.base.element_types import U64
from xlapy.base.error_codes.operations import control as control_codes
from xlapy.base.error_codes.operations import special as codes
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.aliasing import OUTPUT_ALIASES, OutputAlias, check_aliases
from xlapy.opcodes.attributes.codecs import (
    BOOL,
    INTEGER,
    LITERAL,
    SHAPES,
    STRING,
    Attributes,
    EnumCodec,
    attribute,
    attributes,
)
from xlapy.opcodes.attributes.dimensions import (
    DIM_LABELS,
    PRECISIONS,
    WINDOW,
    ConvDimensions,
    Precision,
    Window,
    drop_default_precision,
)
from xlapy.opcodes.registry import CalledComputationSlot, Effect, OpDef, ProgramShapes, at_least, constraint
from xlapy.opcodes.requirements import compatible_ignoring_dynamic


class PaddingType(Enum):
    """A padding scheme that is passed to the target."""

    INVALID = "PADDING_INVALID"
    VALID = "PADDING_VALID"
    SAME = "PADDING_SAME"


class CustomCallSchedule(Enum):
    """A hint for the scheduler where to place the call."""

    NONE = "SCHEDULE_NONE"
    LATEST = "SCHEDULE_LATEST"
    EARLIEST = "SCHEDULE_EARLIEST"


class CustomCallApiVersion(Enum):
    """The calling convention of the target; UNSPECIFIED is illegal."""

    UNSPECIFIED = "API_VERSION_UNSPECIFIED"
    ORIGINAL = "API_VERSION_ORIGINAL"
    STATUS_RETURNING = "API_VERSION_STATUS_RETURNING"
    STATUS_RETURNING_UNIFIED = "API_VERSION_STATUS_RETURNING_UNIFIED"
    TYPED_FFI = "API_VERSION_TYPED_FFI"


@attributes
class CustomCallAttributes(Attributes):
    """`custom_call_target` names the code; other attributes are passed to it or constrain the compiler.

    `operand_layout_constraints` holds one shape with layout per operand, or is None if layouts are unconstrained.
    """

    window: Window | None = attribute(WINDOW, default=None)
    dim_labels: ConvDimensions | None = attribute(DIM_LABELS, default=None)
    feature_group_count: int = attribute(INTEGER, default=1)
    batch_group_count: int = attribute(INTEGER, default=1)
    operand_precision: tuple[Precision, ...] = attribute(PRECISIONS, default=())
    padding_type: PaddingType = attribute(EnumCodec(PaddingType), default=PaddingType.INVALID)
    custom_call_target: str = attribute(STRING)
    operand_layout_constraints: tuple[Shape, ...] | None = attribute(SHAPES, default=None)
    custom_call_has_side_effect: bool = attribute(BOOL, default=False)
    literal: Literal | None = attribute(LITERAL, default=None)
    output_to_operand_aliasing: tuple[OutputAlias, ...] = attribute(OUTPUT_ALIASES, default=())
    schedule: CustomCallSchedule = attribute(EnumCodec(CustomCallSchedule), default=CustomCallSchedule.NONE)
    api_version: CustomCallApiVersion = attribute(
        EnumCodec(CustomCallApiVersion), default=CustomCallApiVersion.ORIGINAL
    )


_UNCONSTRAINED_TARGETS = ("LayoutConstraint", "control_dep")
"""XLA's own targets whose layout constraints do not describe their operands."""

PIN_TARGET, UNPIN_TARGET = "Pin", "Unpin"
"""XLA's own targets that convert an array to a buffer and a buffer to an array, in place."""
CREATE_BUFFER_TARGET = "CreateBuffer"
"""XLA's own target that creates a buffer with undefined contents."""

_SEED_TARGET = "GetRngSeed"
"""XLA's own target that returns the random seed of the execution."""


def _check_custom_call(shape: Shape, operands: Sequence[Shape], attrs: CustomCallAttributes, _: ProgramShapes) -> None:
    if attrs.api_version is CustomCallApiVersion.UNSPECIFIED:
        raise ShapeError(codes.API_VERSION, "custom-call: api_version must not be API_VERSION_UNSPECIFIED")
    constraints = attrs.operand_layout_constraints
    if constraints is not None and attrs.custom_call_target not in _UNCONSTRAINED_TARGETS:
        _check_constraints(shape, operands, constraints)
    if attrs.custom_call_target == _SEED_TARGET:
        _check_seed(shape, operands)
    pins = attrs.custom_call_target in (PIN_TARGET, UNPIN_TARGET)
    if pins and len(attrs.output_to_operand_aliasing) != 1:
        given = len(attrs.output_to_operand_aliasing)
        raise ShapeError(
            codes.PIN_ALIAS,
            f"custom-call to {attrs.custom_call_target} needs one output_to_operand_aliasing, given {given}",
        )
    check_aliases("custom-call", attrs.output_to_operand_aliasing, shape, operands, buffers_are_arrays=pins)


def _check_seed(shape: Shape, operands: Sequence[Shape]) -> None:
    if operands or not compatible_ignoring_dynamic(shape, Shape.scalar(U64)):
        given = ", ".join(operand.to_text(layout=False) for operand in operands)
        raise ShapeError(
            codes.SEED_TARGET,
            f"custom-call to {_SEED_TARGET} takes no operands and returns u64[]: "
            f"({given}) -> {shape.to_text(layout=False)}",
        )


def _check_constraints(shape: Shape, operands: Sequence[Shape], constraints: Sequence[Shape]) -> None:
    if len(constraints) != len(operands):
        raise ShapeError(
            codes.OPERAND_LAYOUTS,
            f"custom-call has {len(operands)} operands, {len(constraints)} operand_layout_constraints",
        )
    if not _has_layout(shape):
        raise ShapeError(
            codes.OPERAND_LAYOUTS,
            f"custom-call with operand_layout_constraints needs a layout in its shape, declared {shape}",
        )
    for number, (operand, wanted) in enumerate(zip(operands, constraints, strict=True)):
        if not compatible_ignoring_dynamic(operand, wanted):
            raise ShapeError(
                codes.OPERAND_LAYOUTS,
                f"custom-call: operand {number} is {operand.to_text(layout=False)}, "
                f"its layout constraint {wanted.to_text(layout=False)}",
            )
        if not _has_layout(wanted):
            raise ShapeError(
                codes.OPERAND_LAYOUTS,
                f"custom-call: the layout constraint of operand {number} has no layout: {wanted}",
            )


def _has_layout(shape: Shape) -> bool:
    return all(leaf.layout is not None for _, leaf in shape.leaves() if leaf.is_array)


def _effect(attrs: CustomCallAttributes) -> Effect:
    return Effect.SIDE_EFFECT if attrs.custom_call_has_side_effect else Effect.PURE


CUSTOM_CALL = OpDef(
    name="custom-call",
    family="custom",
    summary="Calls the code that is registered under the name `custom_call_target`.",
    result="Any shape, which is declared.",
    operands="operands*",
    constraints=(
        constraint("`api_version` is given.", codes.API_VERSION),
        constraint(
            "`operand_layout_constraints` has one shape per operand, equal to the operand's except for the layout.",
            codes.OPERAND_LAYOUTS,
        ),
        constraint(
            "An alias pairs a subshape of the result with an equal subshape of an operand.",
            control_codes.ALIAS_PLACE,
            control_codes.ALIAS_SHAPES,
        ),
        constraint("XLA's own targets Pin and Unpin take exactly one alias.", codes.PIN_ALIAS),
        constraint("XLA's own target GetRngSeed takes no operands and returns u64[].", codes.SEED_TARGET),
    ),
    arity=at_least(0),
    attributes=CustomCallAttributes,
    check=_check_custom_call,
    computation_slots=(
        CalledComputationSlot("called_computations", variadic=True, optional=True, aliases=("to_apply",)),
    ),
    canonicalize_attributes=drop_default_precision,
    effect_rule=_effect,
)
