"""Along which dimensions an operation may be cut, so that each device computes its part from parts of the operands.

Owns: the factors of each op, the attributes of its parts. Must not know: devices, how arrays lie on them.

A factor is what a dimension of the result is computed from: in `dot(a, b)` of matrices, the rows are dimension 0 of `a`
and of the result, the sum is dimension 1 of `a` and 0 of `b` and no dimension of the result. Whatever has no rule, and
every dimension that is in no factor, is computed from whole operands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import PaddingDimension, SliceRanges, WindowDimension
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.sums import adds_up, is_sum


@dataclass(frozen=True)
class Factor:
    """The dimension of each operand and of each array of the result that are cut together; None is none of them."""

    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]

    @property
    def is_summed(self) -> bool:
        """Whether the parts of the results are to be combined."""
        return all(dimension is None for dimension in self.results)


BATCH_DIMENSIONS = "num_batch_dims"
"""The frontend attribute of a custom call that tells how many leading dimensions are those of a stack."""

Rule = Callable[[Instruction], Iterator[Factor]]
_RULES: dict[OpDef, Rule] = {}


def factors_of(instruction: Instruction) -> list[Factor]:
    if instruction.shape.is_dynamic or any(operand.shape.is_dynamic for operand in instruction.operands):
        return []
    rule = _RULES.get(instruction.op, _elementwise if instruction.op.elementwise else None)
    return [] if rule is None else list(rule(instruction))


def _rule(*definitions: OpDef) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(definitions, rule))
        return rule

    return register


def _same(instruction: Instruction, dimensions: Sequence[int]) -> Iterator[Factor]:
    """The same dimension of all operands that have as many as the first, and of all results."""
    rank = instruction.operands[0].shape.rank
    count = 1 if instruction.shape.is_array else len(instruction.shape.tuple_shapes)
    for dimension in dimensions:
        taken = tuple([dimension if operand.shape.rank == rank else None for operand in instruction.operands])
        yield Factor(taken, (dimension,) * count)


def _elementwise(instruction: Instruction) -> Iterator[Factor]:
    rank = instruction.shape.rank
    for dimension in range(rank):
        yield Factor(tuple([dimension if o.shape.rank == rank else None for o in instruction.operands]), (dimension,))


# -- movement


@_rule(opcodes.BROADCAST)
def _broadcast(instruction: Instruction) -> Iterator[Factor]:
    places = {result: operand for operand, result in enumerate(instruction.attributes.dimensions)}
    for dimension in range(instruction.shape.rank):
        yield Factor((places.get(dimension),), (dimension,))


@_rule(opcodes.TRANSPOSE)
def _transpose(instruction: Instruction) -> Iterator[Factor]:
    for result, operand in enumerate(instruction.attributes.dimensions):
        yield Factor((operand,), (result,))


@_rule(opcodes.RESHAPE)
def _reshape(instruction: Instruction) -> Iterator[Factor]:
    """The major dimensions of what is split or merged: both begin after as many elements."""
    starts = {start: dimension for dimension, start in _starts(instruction.operands[0].shape)}
    for dimension, start in _starts(instruction.shape):
        if start in starts:
            yield Factor((starts[start],), (dimension,))


def _starts(shape: Shape) -> Iterator[tuple[int, int]]:
    """Dimensions of more than one element, and how many times each is counted through."""
    start = 1
    for dimension, size in enumerate(shape.dimensions):
        if size != 1:
            yield dimension, start
        start *= size


@_rule(opcodes.REVERSE)
def _reverse(instruction: Instruction) -> Iterator[Factor]:
    return _same(instruction, _others(instruction.shape, instruction.attributes.dimensions))


@_rule(opcodes.CONCATENATE)
def _concatenate(instruction: Instruction) -> Iterator[Factor]:
    return _same(instruction, _others(instruction.shape, [instruction.attributes.dimension]))


@_rule(opcodes.PAD)
def _pad(instruction: Instruction) -> Iterator[Factor]:
    rows = instruction.attributes.padding.dimensions
    return _same(instruction, [d for d, row in enumerate(rows) if row == PaddingDimension(0, 0)])


@_rule(opcodes.SLICE, opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE)
def _slice(instruction: Instruction) -> Iterator[Factor]:
    """Dimensions that are taken whole, and those of which one element is, by the device that has it."""
    if instruction.op is not opcodes.SLICE and instruction.operands[-1].shape.rank:
        return  # all indices in one vector
    last = instruction.operands[1] if instruction.op is opcodes.DYNAMIC_UPDATE_SLICE else instruction
    sizes = list(zip(instruction.operands[0].shape.dimensions, last.shape.dimensions, strict=True))
    kept = [dimension for dimension, (before, after) in enumerate(sizes) if before == after]
    yield from _same(instruction, kept)
    if instruction.op is opcodes.SLICE:
        return
    rest = (None,) * (len(instruction.operands) - 1)
    for dimension in [dimension for dimension, (before, after) in enumerate(sizes) if after == 1 != before]:
        if instruction.op is opcodes.DYNAMIC_UPDATE_SLICE:
            yield Factor((dimension, *rest), (dimension,))
        elif is_sum(instruction):
            yield Factor((dimension, *rest), (None,))


def _others(shape: Shape, dimensions: Sequence[int]) -> list[int]:
    return [dimension for dimension in range(shape.rank) if dimension not in dimensions]


# -- contraction, convolution, reduction, sorting


@_rule(opcodes.DOT)
def _dot(instruction: Instruction) -> Iterator[Factor]:
    attributes = instruction.attributes
    left, right = (operand.shape for operand in instruction.operands[:2])
    result = iter(range(instruction.shape.rank))
    for pair in zip(attributes.lhs_batch_dims, attributes.rhs_batch_dims, strict=True):
        yield Factor(pair, (next(result),))
    for dimension in _others(left, (*attributes.lhs_batch_dims, *attributes.lhs_contracting_dims)):
        yield Factor((dimension, None), (next(result),))
    for dimension in _others(right, (*attributes.rhs_batch_dims, *attributes.rhs_contracting_dims)):
        yield Factor((None, dimension), (next(result),))
    for pair in zip(attributes.lhs_contracting_dims, attributes.rhs_contracting_dims, strict=True):
        yield Factor(pair, (None,))


@_rule(opcodes.CONVOLUTION)
def _convolution(instruction: Instruction) -> Iterator[Factor]:
    attributes = instruction.attributes
    labels = attributes.dim_labels
    if attributes.batch_group_count == 1:
        yield Factor((labels.input_batch_dimension, None), (labels.output_batch_dimension,))
        if attributes.feature_group_count == 1:
            yield Factor((None, labels.kernel_output_feature_dimension), (labels.output_feature_dimension,))
            yield Factor((labels.input_feature_dimension, labels.kernel_input_feature_dimension), (None,))


@_rule(opcodes.REDUCE)
def _reduce(instruction: Instruction) -> Iterator[Factor]:
    count = len(instruction.operands) // 2
    reduced = instruction.attributes.dimensions
    for result, dimension in enumerate(_others(instruction.operands[0].shape, reduced)):
        yield Factor((dimension,) * count + (None,) * count, (result,) * count)
    if adds_up(instruction):
        for dimension in reduced:
            yield Factor((dimension, None), (None,))


@_rule(opcodes.REDUCE_WINDOW)
def _reduce_window(instruction: Instruction) -> Iterator[Factor]:
    rows = instruction.attributes.window.dimensions
    return _same(instruction, [d for d, row in enumerate(rows) if row == WindowDimension(1)])


@_rule(opcodes.SORT)
def _sort(instruction: Instruction) -> Iterator[Factor]:
    return _same(instruction, _others(instruction.operands[0].shape, [instruction.attributes.dimension]))


# -- sources, linear algebra


@_rule(opcodes.IOTA)
def _iota(instruction: Instruction) -> Iterator[Factor]:
    """The dimension that is counted along too: a part is counted from where it begins."""
    for dimension in range(instruction.shape.rank):
        yield Factor((), (dimension,))


@_rule(opcodes.CHOLESKY, opcodes.TRIANGULAR_SOLVE)
def _matrices(instruction: Instruction) -> Iterator[Factor]:
    return _same(instruction, range(instruction.shape.rank - 2))


@_rule(opcodes.FFT)
def _fft(instruction: Instruction) -> Iterator[Factor]:
    return _same(instruction, range(instruction.shape.rank - len(instruction.attributes.fft_length)))


# -- indexing


@_rule(opcodes.GATHER)
def _gather(instruction: Instruction) -> Iterator[Factor]:
    """Also the dimensions that rows are looked up along: a device has those of its part, and zeros for others."""
    attributes = instruction.attributes
    operand, indices = (each.shape for each in instruction.operands)
    inside = _others(operand, (*attributes.collapsed_slice_dims, *attributes.operand_batching_dims))
    for dimension, result in zip(inside, attributes.offset_dims, strict=True):
        if attributes.slice_sizes[dimension] == operand.dimensions[dimension]:
            yield Factor((dimension, None), (result,))
    batching = dict(zip(attributes.start_indices_batching_dims, attributes.operand_batching_dims, strict=True))
    outside = _others(instruction.shape, attributes.offset_dims)
    for index, result in zip(_others(indices, [attributes.index_vector_dim]), outside, strict=True):
        yield Factor((batching.get(index), index), (result,))
    if is_sum(instruction):
        for dimension in attributes.collapsed_slice_dims:
            if dimension in attributes.start_index_map and attributes.slice_sizes[dimension] == 1:
                yield Factor((dimension, None), (None,))


@_rule(opcodes.SCATTER)
def _scatter(instruction: Instruction) -> Iterator[Factor]:
    attributes = instruction.attributes
    count = len(instruction.operands) // 2
    target, updates = instruction.operands[0].shape, instruction.operands[-1].shape
    indices = instruction.operands[count].shape
    inside = _others(target, (*attributes.inserted_window_dims, *attributes.input_batching_dims))
    for dimension, update in zip(inside, attributes.update_window_dims, strict=True):
        if updates.dimensions[update] == target.dimensions[dimension]:
            yield Factor((dimension,) * count + (None,) + (update,) * count, (dimension,) * count)
    outside = _others(updates, attributes.update_window_dims)
    places = dict(zip(_others(indices, [attributes.index_vector_dim]), outside, strict=True))
    batching = zip(attributes.input_batching_dims, attributes.scatter_indices_batching_dims, strict=True)
    for dimension, index in batching:
        yield Factor((dimension,) * count + (index,) + (places[index],) * count, (dimension,) * count)
    for dimension in attributes.inserted_window_dims:
        if dimension in attributes.scatter_dims_to_operand_dims:
            yield Factor((dimension,) * count + (None,) * (count + 1), (dimension,) * count)
    if is_sum(instruction):
        for index, update in places.items():
            if index not in attributes.scatter_indices_batching_dims:
                yield Factor((None, index, update), (None,))


# -- collectives by hand, whose groups do not differ in where parts lie


@_rule(opcodes.ALL_REDUCE, opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_BROADCAST)
def _all_alike(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from _same(instruction, range(instruction.shape.rank))


@_rule(opcodes.ALL_GATHER)
def _all_gather(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from _same(instruction, _others(instruction.shape, [instruction.attributes.all_gather_dimension]))


@_rule(opcodes.REDUCE_SCATTER)
def _reduce_scatter(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from _same(instruction, _others(instruction.shape, [instruction.attributes.scatter_dimension]))


@_rule(opcodes.ALL_TO_ALL)
def _all_to_all(instruction: Instruction) -> Iterator[Factor]:
    if instruction.attributes.split_dimension is not None:
        yield from _same(instruction, _others(instruction.shape, [instruction.attributes.split_dimension]))


# -- custom calls of stacks


@_rule(opcodes.CUSTOM_CALL)
def _custom_call(instruction: Instruction) -> Iterator[Factor]:
    """The leading dimensions that the program says to be those of a stack."""
    count = (instruction.frontend_attributes or {}).get(BATCH_DIMENSIONS, "")
    shapes = [*(operand.shape for operand in instruction.operands), *(leaf for _, leaf in instruction.shape.leaves())]
    if not count.isdecimal() or not all(shape.is_array for shape in shapes):
        return
    operands = len(instruction.operands)
    for dimension in range(min(int(count), *[shape.rank for shape in shapes])):
        if len({shape.dimensions[dimension] for shape in shapes}) == 1:
            yield Factor((dimension,) * operands, (dimension,) * (len(shapes) - operands))


# -- the attributes of a part


def attributes_of_part(instruction: Instruction, operands: Sequence[Shape], result: Shape) -> Attributes:
    """Of an operation on parts of its operands: sizes of what is taken whole are those of the part."""
    attributes = instruction.attributes
    if instruction.op is opcodes.SLICE:
        ranges, sizes = attributes.ranges, instruction.operands[0].shape.dimensions
        limits = _of_part(ranges.limits, sizes, operands[0].dimensions)
        return dataclasses.replace(attributes, ranges=SliceRanges(ranges.starts, limits, ranges.strides))
    if instruction.op is opcodes.DYNAMIC_SLICE:
        return dataclasses.replace(attributes, dynamic_slice_sizes=result.dimensions)
    if instruction.op is opcodes.CUSTOM_CALL and attributes.operand_layout_constraints is not None:
        constraints = [
            part.with_layout(constraint.layout)
            for part, constraint in zip(operands, attributes.operand_layout_constraints, strict=True)
        ]
        return dataclasses.replace(attributes, operand_layout_constraints=tuple(constraints))
    if instruction.op is opcodes.GATHER:
        sizes = _of_part(attributes.slice_sizes, instruction.operands[0].shape.dimensions, operands[0].dimensions)
        return dataclasses.replace(attributes, slice_sizes=sizes)
    return attributes


def _of_part(sizes: Ints, before: Ints, after: Ints) -> Ints:
    """Sizes along dimensions that were cut are those of the part; of a slice of one element too."""
    return tuple([size if old == new else min(size, new) for size, old, new in zip(sizes, before, after, strict=True)])
