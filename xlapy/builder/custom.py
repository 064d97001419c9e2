"""Calls of code outside of HLO.

Owns: the builder functions of `ops/custom.py`. Must not know: which targets exist.
Source: CustomCall of the specification; its forms in xla_builder.h.

Arguments all forms share:
`call_target_name`: names the code. `operands`, `shape`: any values, and what the code returns for them.
`opaque`: text handed to the code. `has_side_effect`: the call is kept, and in its place, even if nobody reads it.
`output_operand_aliasing`: results that live in the buffer of an operand, as pairs `(output index, (operand number,
index in the operand))` of tuple indices, or as `OutputAlias`: `[((0,), (1, ()))]` puts element 0 of the result in
operand 1. `literal`: a constant handed to the code. `schedule`: where to place the call. `api_version`: the calling
convention.
Every function raises `BuilderError` at the caller's line when the arguments do not fit, and for targets that start
with `$`, which are internal to the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from xlapy.base.errors import InvalidArgumentError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.builder.broadcasting import as_ints
from xlapy.builder.builder import XlaBuilder
from xlapy.builder.computation import XlaComputation
from xlapy.builder.op import XlaOp
from xlapy.ops.aliasing import OutputAlias
from xlapy.ops.custom import CUSTOM_CALL, CustomCallApiVersion, CustomCallAttributes, CustomCallSchedule
from xlapy.ops.dimensions import ConvDimensions, Window

Alias: TypeAlias = OutputAlias | tuple[Sequence[int], tuple[int, Sequence[int]]]


def _alias(given: Alias) -> OutputAlias:
    if isinstance(given, OutputAlias):
        return given
    output, (operand, index) = given
    return OutputAlias(as_ints("output index", output), operand, as_ints("operand index", index))


def _append(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape: Shape,
    opaque: str,
    output_operand_aliasing: Sequence[Alias],
    computations: Sequence[XlaComputation] = (),
    **attributes: Any,
) -> XlaOp:
    with builder.building("custom-call"):
        if call_target_name.startswith("$"):
            raise InvalidArgumentError(f"targets that start with $ are internal, given {call_target_name!r}")
        aliases = tuple([_alias(alias) for alias in output_operand_aliasing])
        made = CustomCallAttributes.make(
            custom_call_target=call_target_name, output_to_operand_aliasing=aliases, **attributes
        )
        result = builder.append(CUSTOM_CALL, operands, made, computations, shape=shape)
        result.instruction.backend_config = opaque
        return result


def custom_call(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape: Shape,
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """What the code `call_target_name` returns for the operands, in layouts that the compiler chooses."""
    return _append(
        builder, call_target_name, operands, shape, opaque, output_operand_aliasing,
        custom_call_has_side_effect=has_side_effect, literal=literal, schedule=schedule, api_version=api_version,
    )  # fmt: skip


def custom_call_with_computation(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    computation: XlaComputation,
    shape: Shape,
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call` of code that applies a computation."""
    return _append(
        builder, call_target_name, operands, shape, opaque, output_operand_aliasing, (computation,),
        custom_call_has_side_effect=has_side_effect, literal=literal, schedule=schedule, api_version=api_version,
    )  # fmt: skip


def custom_call_with_layout(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape_with_layout: Shape,
    operand_shapes_with_layout: Sequence[Shape],
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call` of code that takes operands and returns its result in the given layouts, one shape an operand."""
    return _append(
        builder, call_target_name, operands, shape_with_layout, opaque, output_operand_aliasing,
        operand_layout_constraints=tuple(operand_shapes_with_layout), custom_call_has_side_effect=has_side_effect,
        literal=literal, schedule=schedule, api_version=api_version,
    )  # fmt: skip


def custom_call_with_computation_and_layouts(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    computation: XlaComputation,
    shape: Shape,
    operand_shapes_with_layout: Sequence[Shape],
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call_with_layout` of code that applies a computation."""
    return _append(
        builder, call_target_name, operands, shape, opaque, output_operand_aliasing, (computation,),
        operand_layout_constraints=tuple(operand_shapes_with_layout), custom_call_has_side_effect=has_side_effect,
        literal=literal, schedule=schedule, api_version=api_version,
    )  # fmt: skip


def custom_call_with_conv_dnums(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape: Shape,
    operand_shapes_with_layout: Sequence[Shape],
    opaque: str,
    has_side_effect: bool,
    output_operand_aliasing: Sequence[Alias],
    literal: Literal | None,
    window: Window,
    dnums: ConvDimensions,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call` of a convolution with its window and dimension numbers.

    Layouts are fixed if `operand_shapes_with_layout` is not empty.
    """
    return _append(
        builder, call_target_name, operands, shape, opaque, output_operand_aliasing, window=window, dim_labels=dnums,
        operand_layout_constraints=tuple(operand_shapes_with_layout) or None, literal=literal,
        custom_call_has_side_effect=has_side_effect, schedule=schedule, api_version=api_version,
    )  # fmt: skip
