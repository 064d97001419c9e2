"""The access rules: which elements of its operands one element of an instruction takes, one rule per opcode.

Elementwise opcodes need no rule: they take the element at the same index.
Reductions, dots and convolutions take many elements: their rules add an axis for each dimension that is summed over.
Does not depend on what is computed from the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy import opcodes
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.codegen.iteration_space import Condition, IterationSpace, bounds_conditions
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.loops import Affine
from xlapy.lower.contraction import assemble_index
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.indexing import vector_component
from xlapy.lower.movement import bitcast_index, undilated_position
from xlapy.lower.reduction import insert_components
from xlapy.lower.windows import position_on_base_area
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import PadAttributes, SliceAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import Rules


@dataclass(frozen=True, slots=True)
class Read:
    """What one rule says: an element of an instruction takes the element at `index` of an operand."""

    operand: Instruction
    index: Index
    conditions: tuple[Condition, ...] = ()


AccessRule: TypeAlias = Callable[[IterationSpace, Instruction, Index], Iterable[Read]]
"""Returns the reads of the element at an index of an instruction, in the order in which lowering computes them."""

ACCESS_RULES: Rules[AccessRule] = Rules("access maps")
"""The rules of opcodes that are not elementwise."""


def reads_of(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    """The elements of its operands that the element at an index of an instruction takes."""
    op = instruction.op
    if op in ACCESS_RULES:
        return ACCESS_RULES.find(op)(space, instruction, index)
    if not op.elementwise:
        raise UnsupportedError(codes.LOWERED_INSTRUCTION, f"{describe_instruction(instruction)} has no access map")
    return [Read(operand, index if operand.shape.rank else ()) for operand in instruction.operands]


# -- sources, tuples, computations on scalars


@ACCESS_RULES.rule(opcodes.CONSTANT, opcodes.IOTA)
def _nothing(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    return ()


@ACCESS_RULES.rule(opcodes.TUPLE, opcodes.MAP, opcodes.COPY, opcodes.GET_TUPLE_ELEMENT)
def _same_index(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    return [Read(operand, index) for operand in instruction.operands]


# -- movement


@ACCESS_RULES.rule(opcodes.BROADCAST)
def _broadcast(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    return [Read(instruction.operands[0], tuple(index[d] for d in instruction.dimensions))]


@ACCESS_RULES.rule(opcodes.RESHAPE)
def _reshape(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    (operand,) = instruction.operands
    position = linear(index, instruction.shape.dimensions)
    return [Read(operand, delinear(space, position, operand.shape.dimensions))]


@ACCESS_RULES.rule(opcodes.BITCAST)
def _bitcast(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    (operand,) = instruction.operands
    return [Read(operand, bitcast_index(space, operand.shape, instruction.shape, index))]


@ACCESS_RULES.rule(opcodes.BITCAST_CONVERT)
def _bitcast_convert(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    """A wider operand lacks the last dimension, a narrower one has one more."""
    (operand,) = instruction.operands
    rank = operand.shape.rank
    if rank > len(index):
        return [Read(operand, (*index, space.axis(operand.shape.dimensions[-1])))]
    return [Read(operand, index[:rank])]


@ACCESS_RULES.rule(opcodes.TRANSPOSE)
def _transpose(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    return [Read(instruction.operands[0], assemble_index(len(index), (instruction.dimensions, index)))]


@ACCESS_RULES.rule(opcodes.REVERSE)
def _reverse(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    sizes = instruction.shape.dimensions
    flipped = [p * -1 + (sizes[d] - 1) if d in instruction.dimensions else p for d, p in enumerate(index)]
    return [Read(instruction.operands[0], tuple(flipped))]


@ACCESS_RULES.rule(opcodes.SLICE)
def _slice(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    ranges = instruction.attributes_as(SliceAttributes).ranges
    source = tuple(p * stride + start for p, start, stride in zip(index, ranges.starts, ranges.strides, strict=True))
    return [Read(instruction.operands[0], source)]


@ACCESS_RULES.rule(opcodes.PAD)
def _pad(space: IterationSpace, instruction: Instruction, index: Index) -> Iterator[Read]:
    operand, padding = instruction.operands
    yield Read(padding, ())
    source: list[Affine] = []
    conditions: list[Condition] = []
    dimensions = instruction.attributes_as(PadAttributes).padding.dimensions
    for position, dimension, size in zip(index, dimensions, operand.shape.dimensions, strict=True):
        element, found = _element_of_dilated(space, position - dimension.low, dimension.interior + 1, size)
        if found is None:
            return
        source.append(element)
        conditions += found
    yield Read(operand, tuple(source), tuple(conditions))


def _element_of_dilated(
    space: IterationSpace, position: Affine, dilation: int, size: int
) -> tuple[Affine, tuple[Condition, ...] | None]:
    """The element at a position of a padded and dilated dimension, and the conditions that there is one; None if there
    never is."""
    if not size:
        return position, None
    element, rest = undilated_position(space, position, dilation)
    holes = () if rest.is_constant and not rest.constant else (Condition(rest, 0, 1),)
    inside = bounds_conditions(element, size)
    return element, None if inside is None else (*holes, *inside)


@ACCESS_RULES.rule(opcodes.CONCATENATE)
def _concatenate(space: IterationSpace, instruction: Instruction, index: Index) -> Iterator[Read]:
    d, start = instruction.dimension, 0
    for operand in instruction.operands:
        position, size = index[d] - start, operand.shape.dimensions[d]
        conditions = bounds_conditions(position, size)
        if conditions is not None:
            yield Read(operand, (*index[:d], position, *index[d + 1 :]), conditions)
        start += size


# -- positions known at run time


def _clamped_starts(
    space: IterationSpace, starts: Sequence[Instruction], limits: Sequence[int]
) -> tuple[list[Read], list[Affine]]:
    """The reads of the start indices of a dynamic slice, one scalar per dimension or one vector, and the starts."""
    is_vector = len(starts) == 1 and starts[0].shape.rank == 1
    reads = [Read(starts[0 if is_vector else d], (Affine((), d),) if is_vector else ()) for d, _ in enumerate(limits)]
    return reads, [space.data((), limit) for limit in limits]


@ACCESS_RULES.rule(opcodes.DYNAMIC_SLICE)
def _dynamic_slice(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    operand, *starts = instruction.operands
    sizes = zip(operand.shape.dimensions, instruction.shape.dimensions, strict=True)
    reads, begins = _clamped_starts(space, starts, [whole - size for whole, size in sizes])
    return [*reads, Read(operand, tuple(p + begin for p, begin in zip(index, begins, strict=True)))]


@ACCESS_RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    operand, update, *starts = instruction.operands
    if not update.shape.size:
        return [Read(operand, index)]
    sizes = update.shape.dimensions
    limits = [whole - size for whole, size in zip(operand.shape.dimensions, sizes, strict=True)]
    reads, begins = _clamped_starts(space, starts, limits)
    source = tuple(p - begin for p, begin in zip(index, begins, strict=True))
    conditions = [bounds_conditions(position, size) for position, size in zip(source, sizes, strict=True)]
    if None not in conditions:
        reads.append(Read(update, source, tuple(c for each in conditions for c in each or ())))
    return [Read(operand, index), *reads]


@ACCESS_RULES.rule(opcodes.GATHER)
def _gather(space: IterationSpace, instruction: Instruction, index: Index) -> Iterator[Read]:
    operand, indices = instruction.operands
    attrs = instruction.attributes_as(GatherAttributes)
    batch = [position for d, position in enumerate(index) if d not in attrs.offset_dims]
    dropped = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    if any(attrs.slice_sizes[d] == 0 for d in dropped):
        return
    offsets = iter([index[d] for d in attrs.offset_dims])
    source = [Affine() if d in dropped else next(offsets) for d in range(operand.shape.rank)]
    for component, dimension in enumerate(attrs.start_index_map):
        where = vector_component(batch, attrs.index_vector_dim, component, indices.shape.rank)
        yield Read(indices, where)
        limit = operand.shape.dimensions[dimension] - attrs.slice_sizes[dimension]
        source[dimension] = source[dimension] + space.data(where, limit)
    for dimension, start in zip(attrs.operand_batching_dims, attrs.start_indices_batching_dims, strict=True):
        axis = start if start < attrs.index_vector_dim else start - 1
        source[dimension] = source[dimension] + batch[axis]
    yield Read(operand, tuple(source))


# -- sums


@ACCESS_RULES.rule(opcodes.REDUCE)
def _reduce(space: IterationSpace, instruction: Instruction, index: Index) -> Iterator[Read]:
    count = len(instruction.operands) // 2
    operands, initial = instruction.operands[:count], instruction.operands[count:]
    reduced = sorted(instruction.dimensions)
    sizes = [operands[0].shape.dimensions[d] for d in reduced]
    if math.prod(sizes) != 1:
        yield from (Read(init, ()) for init in initial)
    if 0 in sizes:
        return
    source = insert_components(index, reduced, tuple(space.axis(size) if size > 1 else Affine() for size in sizes))
    yield from (Read(operand, source) for operand in operands)


@ACCESS_RULES.rule(opcodes.REDUCE_WINDOW)
def _reduce_window(space: IterationSpace, instruction: Instruction, index: Index) -> Iterator[Read]:
    count = len(instruction.operands) // 2
    operands, initial = instruction.operands[:count], instruction.operands[count:]
    if index:
        yield from (Read(init, ()) for init in initial)
    window = instruction.attributes_as(WindowAttributes).window
    found = _under_window(space, index, window, operands[0].shape.dimensions)
    if found is not None:
        source, conditions, _ = found
        yield from (Read(operand, source, conditions) for operand in operands)


def _under_window(
    space: IterationSpace, index: Index, window: Window, sizes: Sequence[int]
) -> tuple[Index, tuple[Condition, ...], Index] | None:
    """The elements that a window at a position meets, and the axes over the window; None if it meets none."""
    source: list[Affine] = []
    axes: list[Affine] = []
    conditions: list[Condition] = []
    for position, dimension, size in zip(index, window.dimensions, sizes, strict=True):
        offset = space.axis(dimension.size) if dimension.size > 1 else Affine()
        at = position_on_base_area(position, offset, dimension)
        element, found = _element_of_dilated(space, at, dimension.base_dilation, size)
        if found is None:
            return None
        source.append(element)
        axes.append(offset)
        conditions += found
    return tuple(source), tuple(conditions), tuple(axes)


@ACCESS_RULES.rule(opcodes.DOT)
def _dot(space: IterationSpace, instruction: Instruction, index: Index) -> Iterable[Read]:
    lhs, rhs = instruction.operands
    attrs = instruction.attributes_as(DotAttributes)
    lhs_free, rhs_free = attrs.lhs_free_dims(lhs.shape.rank), attrs.rhs_free_dims(rhs.shape.rank)
    batches, frees = len(attrs.lhs_batch_dims), len(lhs_free)
    batch, left, right = index[:batches], index[batches : batches + frees], index[batches + frees :]
    sizes = [lhs.shape.dimensions[d] for d in attrs.lhs_contracting_dims]
    if 0 in sizes:
        return []
    terms = tuple(space.axis(size) for size in sizes)
    sides = (
        (lhs, (attrs.lhs_batch_dims, batch), (lhs_free, left), (attrs.lhs_contracting_dims, terms)),
        (rhs, (attrs.rhs_batch_dims, batch), (rhs_free, right), (attrs.rhs_contracting_dims, terms)),
    )
    return [Read(operand, assemble_index(operand.shape.rank, *parts)) for operand, *parts in sides]


@ACCESS_RULES.rule(opcodes.CONVOLUTION)
def _convolution(space: IterationSpace, instruction: Instruction, index: Index) -> Iterator[Read]:
    attrs = instruction.attributes_as(ConvolutionAttributes)
    lhs, rhs = instruction.operands
    numbers, filter_sizes = attrs.dim_labels, rhs.shape.dimensions
    inputs = filter_sizes[numbers.kernel_input_feature_dimension]
    if not inputs or 0 in attrs.window.sizes:
        return
    output, batch = index[numbers.output_feature_dimension], index[numbers.output_batch_dimension]
    input_feature = space.axis(inputs)
    feature = input_feature
    groups = attrs.feature_group_count * attrs.batch_group_count
    if groups > 1:
        group = space.quotient(output, filter_sizes[numbers.kernel_output_feature_dimension] // groups)
        if attrs.batch_group_count > 1:
            batch = batch + group * (lhs.shape.dimensions[numbers.input_batch_dimension] // groups)
        else:
            feature = feature + group * inputs
    positions = tuple(index[d] for d in numbers.output_spatial_dimensions)
    sizes = [lhs.shape.dimensions[d] for d in numbers.input_spatial_dimensions]
    found = _under_window(space, positions, attrs.window, sizes)
    offsets = tuple(space.axis(w.size) if w.size > 1 else Affine() for w in attrs.window.dimensions)
    if found is not None and lhs.shape.dimensions[numbers.input_batch_dimension]:
        element, conditions, offsets = found
        parts = (
            ([numbers.input_batch_dimension, numbers.input_feature_dimension], (batch, feature)),
            (numbers.input_spatial_dimensions, element),
        )
        yield Read(lhs, assemble_index(lhs.shape.rank, *parts), conditions)
    flipped = tuple(
        offset * -1 + (w.size - 1) if w.window_reversal else offset
        for offset, w in zip(offsets, attrs.window.dimensions, strict=True)
    )
    parts = (
        ([numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension], (input_feature, output)),
        (numbers.kernel_spatial_dimensions, flipped),
    )
    yield Read(rhs, assemble_index(rhs.shape.rank, *parts))
