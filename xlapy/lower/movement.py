"""Lowers operations that move data: the same element of an operand at another index.

Where an index may be out of bounds of the operand (padding, concatenation), the element is computed under a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.analysis.integer_ranges import integer_range, is_within
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.loops import I64, Affine, Builder, PositionArithmetic, Value
from xlapy.lower.bits import bits_of, of_bits
from xlapy.lower.core import LOWERINGS, ComplexElement, Element, Index, Lowering, delinear, linear
from xlapy.lower.elementwise import select_element
from xlapy.opcodes.movement import PadAttributes, SliceAttributes


@LOWERINGS.rule(opcodes.BROADCAST)
def broadcast(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    return lowering.element(instruction.operands[0], tuple(index[d] for d in instruction.dimensions))


@LOWERINGS.rule(opcodes.RESHAPE)
def reshape(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """The element at the same row-major position."""
    (operand,) = instruction.operands
    position = linear(index, instruction.shape.dimensions)
    return lowering.element(operand, delinear(lowering.builder, position, operand.shape.dimensions))


@LOWERINGS.rule(opcodes.BITCAST)
def bitcast(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """The element at the same position in memory, by the layouts of both shapes."""
    (operand,) = instruction.operands
    source, result = operand.shape, instruction.shape
    before, after = source.element_type, result.element_type
    if before.bits != after.bits or before.is_complex != after.is_complex:
        raise UnsupportedError(
            codes.LOWERED_INSTRUCTION,
            f"{describe_instruction(instruction)}: a bitcast of {source.to_text(layout=False)} "
            f"to {result.to_text(layout=False)} does not run on cpu",
        )
    element = lowering.element(operand, bitcast_index(lowering.builder, source, result, index))
    if before is after or isinstance(element, ComplexElement):
        return element
    return of_bits(lowering.builder, bits_of(lowering.builder, element, before), after)


def bitcast_index(arithmetic: PositionArithmetic, source: Shape, result: Shape, index: Index) -> Index:
    """The index in an array of shape `source` of the element that has `index` in a bitcast to shape `result`."""
    order, back = _major_to_minor(result), _major_to_minor(source)
    position = linear(tuple(index[d] for d in order), [result.dimensions[d] for d in order])
    components = delinear(arithmetic, position, [source.dimensions[d] for d in back])
    found: list[Affine] = [Affine()] * source.rank
    for dimension, source_position in zip(back, components, strict=True):
        found[dimension] = source_position
    return tuple(found)


def _major_to_minor(shape: Shape) -> list[int]:
    return list(range(shape.rank)) if shape.layout is None else list(reversed(shape.layout.minor_to_major))


@LOWERINGS.rule(opcodes.TRANSPOSE)
def transpose(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """Result dimension i is operand dimension `dimensions[i]`."""
    source: list[Affine] = [Affine()] * len(index)
    for position, dimension in zip(index, instruction.dimensions, strict=True):
        source[dimension] = position
    return lowering.element(instruction.operands[0], tuple(source))


@LOWERINGS.rule(opcodes.REVERSE)
def reverse(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    (operand,) = instruction.operands
    flipped = [
        position * -1 + (size - 1) if d in instruction.dimensions else position
        for d, (position, size) in enumerate(zip(index, operand.shape.dimensions, strict=True))
    ]
    return lowering.element(operand, tuple(flipped))


@LOWERINGS.rule(opcodes.SLICE)
def slice_(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    ranges = instruction.attributes_as(SliceAttributes).ranges
    source = tuple(p * stride + start for p, start, stride in zip(index, ranges.starts, ranges.strides, strict=True))
    return lowering.element(instruction.operands[0], source)


@LOWERINGS.rule(opcodes.COPY)
def copy(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    return lowering.element(instruction.operands[0], index)


@LOWERINGS.rule(opcodes.PAD)
def pad(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """The operand's element; the padding value around the operand and between its elements."""
    operand, value = instruction.operands
    padding = lowering.element(value, ())
    if not operand.shape.size:
        return padding
    source: list[Affine] = []
    condition: Value | None = None
    for position, d, size in zip(
        index, instruction.attributes_as(PadAttributes).padding.dimensions, operand.shape.dimensions, strict=True
    ):
        source_position, holes = undilated(lowering.builder, position - d.low, d.interior + 1)
        source.append(source_position)
        condition = conjunction(lowering.builder, condition, holes)
        condition = conjunction(lowering.builder, condition, lowering.in_bounds((source_position,), [(0, size)]))
    return masked_element(lowering, operand, tuple(source), condition, padding)


def undilated(builder: Builder, position: Affine, dilation: int) -> tuple[Affine, Value | None]:
    """The element at a position of a dilated dimension, and the condition that there is one; None if always."""
    element, rest = undilated_position(builder, position, dilation)
    if dilation == 1:
        return element, None
    return element, builder.compare("eq", builder.value_of(rest), builder.constant(I64, 0))


def undilated_position(arithmetic: PositionArithmetic, position: Affine, dilation: int) -> tuple[Affine, Affine]:
    """The element at a position of a dilated dimension, and a position that is zero where there is an element."""
    if dilation == 1:
        return position, Affine()
    limits = position.bounds()
    assert limits is not None, "positions in dilated areas are sums over axes"
    lift = max(0, -(limits[0] // dilation))  # makes the dividend nonnegative
    lifted = position + lift * dilation
    rest = arithmetic.remainder(lifted, dilation)
    return arithmetic.quotient(lifted, dilation) - lift, rest


def conjunction(builder: Builder, left: Value | None, right: Value | None) -> Value | None:
    """The conjunction of two conditions; None is true."""
    if left is None or right is None:
        return right if left is None else left
    return builder.binary("and", left, right)


def masked_element(
    lowering: Lowering, operand: Instruction, index: Index, condition: Value | None, otherwise: Element
) -> Element:
    """The operand's element where the condition is true (None: everywhere), else `otherwise`.

    Where the condition is false, the operand is not accessed.
    """
    element = element_where(lowering, operand, index, condition)
    return element if condition is None else select_element(lowering.builder, condition, element, otherwise)


def element_where(lowering: Lowering, operand: Instruction, index: Index, condition: Value | None) -> Element:
    """The operand's element where the condition is true (None: everywhere); unspecified elsewhere."""
    if condition is None:
        return lowering.element(operand, index)
    with lowering.where(condition):
        return lowering.element(operand, index)


@LOWERINGS.rule(opcodes.CONCATENATE)
def concatenate(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """Selects the element of the operand that contains the position."""
    d = instruction.dimension
    result: Element | None = None
    start = 0
    for part in instruction.operands:
        size = part.shape.dimensions[d]
        source = (*index[:d], index[d] - start, *index[d + 1 :])
        if may_be_in_bounds(source[d], size):
            condition = lowering.in_bounds((source[d],), [(0, size)])
            element = element_where(lowering, part, source, condition)
            if result is not None and condition is not None:
                element = select_element(lowering.builder, condition, element, result)
            result = element
        start += size
    assert result is not None, "a concatenation without elements has none to compute"
    return result


def may_be_in_bounds(position: Affine, size: int) -> bool:
    """Whether a position may be in bounds of a dimension."""
    limits = position.bounds()
    return limits is None or (limits[0] < size and limits[1] >= 0 and size > 0)


# -- positions known at run time


def start_position(lowering: Lowering, start: Instruction, limit: int, at: Index = ()) -> Affine:
    """An integer element as a position clamped to the range from 0 to `limit`."""
    t: PrimitiveType = start.shape.element_type
    value = lowering.value(start, at)
    found = integer_range(start) if not start.shape.rank else None
    if found is not None and is_within(found, 0, limit):
        position = lowering.builder.convert("sext" if t.is_signed else "zext", value, I64)
        position.range = found if position.range is None else position.range
        return Affine.of(position)
    return clamped_position(lowering.builder, value, t, limit)


def clamped_position(builder: Builder, value: Value, t: PrimitiveType, limit: int) -> Affine:
    """An integer of type t as a position clamped to the range from 0 to `limit`."""
    if value.type is not I64:
        return builder.clamped(builder.convert("sext" if t.is_signed else "zext", value, I64), limit)
    if not t.is_signed:
        value = builder.binary("umin", value, builder.constant(I64, limit))
    return builder.clamped(value, limit)


def clamped_starts(lowering: Lowering, operands: Sequence[Instruction], limits: Sequence[int]) -> list[Affine]:
    """The clamped start indices of a dynamic slice, given as one scalar per dimension or as one vector."""
    if len(operands) == 1 and operands[0].shape.rank == 1:
        return [start_position(lowering, operands[0], limit, (Affine((), d),)) for d, limit in enumerate(limits)]
    return [start_position(lowering, start, limit) for start, limit in zip(operands, limits, strict=True)]


@LOWERINGS.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    operand, *starts = instruction.operands
    limits = [whole - size for whole, size in zip(operand.shape.dimensions, instruction.shape.dimensions, strict=True)]
    begins = clamped_starts(lowering, starts, limits)
    return lowering.element(operand, tuple(p + begin for p, begin in zip(index, begins, strict=True)))


@LOWERINGS.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """The element of the update inside of the slice, that of the operand elsewhere."""
    operand, update, *starts = instruction.operands
    sizes = update.shape.dimensions
    if not update.shape.size:
        return lowering.element(operand, index)
    limits = [whole - size for whole, size in zip(operand.shape.dimensions, sizes, strict=True)]
    begins = clamped_starts(lowering, starts, limits)
    source = tuple(p - begin for p, begin in zip(index, begins, strict=True))
    condition = lowering.in_bounds(source, [(0, size) for size in sizes])
    return masked_element(lowering, update, source, condition, lowering.element(operand, index))
