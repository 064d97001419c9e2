"""Sharding rules: the dimensions of operands and results that may be split together, for each operation.

A factor is a group of dimensions that are split alike, in the sense of Shardy's op sharding rules. In `dot(a, b)` of
matrices, one factor is dimension 0 of `a` and of the result; another is dimension 1 of `b` and of the result; a third
is dimension 1 of `a` and dimension 0 of `b`, a reduction factor that is not a dimension of the result. An operation
without a rule, and a dimension in no factor, is computed from operands that are not split.

Responsible for the factors of each operation and the attributes of local operations. Does not depend on devices or on
how arrays are distributed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, identity_value, monoid
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import PaddingDimension, SliceRanges
from xlapy.opcodes.collectives import AllGatherAttributes, AllToAllAttributes, ReduceScatterAttributes
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes
from xlapy.opcodes.linalg import FftAttributes
from xlapy.opcodes.movement import DynamicSliceAttributes, PadAttributes, SliceAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.along_dimension.parallel_indices import counted_dimension
from xlapy.spmd.halo.concatenations import concatenates_ranges, concatenation_of
from xlapy.spmd.halo.windows import reads_padding
from xlapy.spmd.partial_sums import is_constant, is_reducible_in_parts, produces_partial_sums, reducer_op


@dataclass(frozen=True)
class Factor:
    """Dimensions that are split alike: one of each operand and of each array of the result; None for no dimension.

    exchanged: the numbers of operands of which a tile of the result needs elements of other tiles, too. groups: the
    number of groups along which a grouped convolution is split, which the number of tiles must divide. is_uneven:
    whether the last tiles may not be full. These are filled up with elements of any value, on which no other element
    depends; in the operands of reductions they are replaced by the identity.
    """

    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]
    exchanged: tuple[int, ...] = ()
    groups: int = 0
    is_uneven: bool = False

    @property
    def is_reduction(self) -> bool:
        """Whether the dimension is reduced: the results of the tiles are to be combined."""
        return all(dimension is None for dimension in self.results)


BATCH_DIMENSIONS = "num_batch_dims"
"""The frontend attribute of a custom call with the number of its leading dimensions that are batch dimensions."""

Rule = Callable[[Instruction], Iterator[Factor]]
_RULES: dict[OpDef, Rule] = {}


def sharding_factors(instruction: Instruction) -> list[Factor]:
    """Returns the factors of an operation; none for shapes with dynamic dimensions."""
    if instruction.shape.is_dynamic or any(operand.shape.is_dynamic for operand in instruction.operands):
        return []
    rule = _RULES.get(instruction.op, _elementwise if instruction.op.elementwise else None)
    return [] if rule is None else list(rule(instruction))


def _rule(*definitions: OpDef) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(definitions, rule))
        return rule

    return register


def _same_dimensions(instruction: Instruction, dimensions: Sequence[int], is_uneven: bool = False) -> Iterator[Factor]:
    """Yields a factor of each dimension that all results and all operands of the first operand's rank have alike."""
    rank = instruction.operands[0].shape.rank
    count = 1 if instruction.shape.is_array else len(instruction.shape.tuple_shapes)
    for dimension in dimensions:
        taken = tuple([dimension if operand.shape.rank == rank else None for operand in instruction.operands])
        yield Factor(taken, (dimension,) * count, is_uneven=is_uneven)


def _elementwise(instruction: Instruction) -> Iterator[Factor]:
    rank = instruction.shape.rank
    for dimension in range(rank):
        taken = tuple([dimension if operand.shape.rank == rank else None for operand in instruction.operands])
        yield Factor(taken, (dimension,), is_uneven=True)


@_rule(opcodes.COPY, opcodes.MAP)
def _elements(instruction: Instruction) -> Iterator[Factor]:
    return _elementwise(instruction)


@_rule(opcodes.BITCAST_CONVERT)
def _bitcast_convert(instruction: Instruction) -> Iterator[Factor]:
    """Yields the dimensions that both have; types of different sizes have one more for the parts of an element."""
    for dimension in range(min(instruction.shape.rank, instruction.operands[0].shape.rank)):
        yield Factor((dimension,), (dimension,))


# -- movement


@_rule(opcodes.BROADCAST)
def _broadcast(instruction: Instruction) -> Iterator[Factor]:
    operand_dimensions = {result: operand for operand, result in enumerate(instruction.dimensions)}
    for dimension in range(instruction.shape.rank):
        yield Factor((operand_dimensions.get(dimension),), (dimension,), is_uneven=True)


@_rule(opcodes.TRANSPOSE)
def _transpose(instruction: Instruction) -> Iterator[Factor]:
    for result, operand in enumerate(instruction.dimensions):
        yield Factor((operand,), (result,), is_uneven=True)


@_rule(opcodes.RESHAPE)
def _reshape(instruction: Instruction) -> Iterator[Factor]:
    """Yields the major dimension of each group of dimensions that the reshape splits or merges.

    Two dimensions correspond if the sizes of the dimensions before them have the same product.
    """
    operand_dimensions = {outer: dimension for dimension, outer in _outer_sizes(instruction.operands[0].shape)}
    for dimension, outer in _outer_sizes(instruction.shape):
        if outer in operand_dimensions:
            operand = operand_dimensions[outer]
            is_same = instruction.operands[0].shape.dimensions[operand] == instruction.shape.dimensions[dimension]
            yield Factor((operand,), (dimension,), is_uneven=is_same)


def _outer_sizes(shape: Shape) -> Iterator[tuple[int, int]]:
    """Yields each dimension of more than one element with the product of the sizes before it."""
    outer = 1
    for dimension, size in enumerate(shape.dimensions):
        if size != 1:
            yield dimension, outer
        outer *= size


@_rule(opcodes.REVERSE)
def _reverse(instruction: Instruction) -> Iterator[Factor]:
    for dimension in range(instruction.shape.rank):
        exchanged = (0,) if dimension in instruction.dimensions else ()
        yield Factor((dimension,), (dimension,), exchanged, is_uneven=True)


@_rule(opcodes.CONCATENATE)
def _concatenate(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; along the concatenated one, a tile has elements of tiles of several operands."""
    count, found = len(instruction.operands), concatenation_of(instruction)
    assert found is not None
    for dimension in range(instruction.shape.rank):
        exchanged = tuple(range(count)) if dimension == found[0] else ()
        yield Factor((dimension,) * count, (dimension,), exchanged, is_uneven=True)


@_rule(opcodes.PAD)
def _pad(instruction: Instruction) -> Iterator[Factor]:
    for dimension, padding in enumerate(instruction.attributes_as(PadAttributes).padding.dimensions):
        exchanged = () if padding == PaddingDimension(0, 0) else (0,)
        yield Factor((dimension, None), (dimension,), exchanged, is_uneven=True)


@_rule(opcodes.SLICE)
def _slice(instruction: Instruction) -> Iterator[Factor]:
    sizes = zip(instruction.operands[0].shape.dimensions, instruction.shape.dimensions, strict=True)
    for dimension, (before, after) in enumerate(sizes):
        yield Factor((dimension,), (dimension,), () if before == after else (0,), is_uneven=True)


@_rule(opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE)
def _dynamic_slice(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; those of a slice are reduced, because a device has zeros for elements of other tiles."""
    if instruction.operands[-1].shape.rank:
        return  # the start indices are one vector
    last = instruction.operands[1] if instruction.op is opcodes.DYNAMIC_UPDATE_SLICE else instruction
    sizes = list(zip(instruction.operands[0].shape.dimensions, last.shape.dimensions, strict=True))
    kept = [dimension for dimension, (before, after) in enumerate(sizes) if before == after]
    yield from _same_dimensions(instruction, kept, is_uneven=True)
    rest = (None,) * (len(instruction.operands) - 1)
    for dimension in [dimension for dimension, (before, after) in enumerate(sizes) if 0 < after != before]:
        if instruction.op is opcodes.DYNAMIC_UPDATE_SLICE:
            yield Factor((dimension, *rest), (dimension,), is_uneven=True)
        elif produces_partial_sums(instruction):
            yield Factor((dimension, *rest), (None,), is_uneven=True)


def _dimensions_except(shape: Shape, dimensions: Sequence[int]) -> list[int]:
    return [dimension for dimension in range(shape.rank) if dimension not in dimensions]


# -- contraction, convolution, reduction, sorting


@_rule(opcodes.DOT)
def _dot(instruction: Instruction) -> Iterator[Factor]:
    attributes = instruction.attributes_as(DotAttributes)
    left, right = (operand.shape for operand in instruction.operands[:2])
    result = iter(range(instruction.shape.rank))
    for pair in zip(attributes.lhs_batch_dims, attributes.rhs_batch_dims, strict=True):
        yield Factor(pair, (next(result),), is_uneven=True)
    for dimension in _dimensions_except(left, (*attributes.lhs_batch_dims, *attributes.lhs_contracting_dims)):
        yield Factor((dimension, None), (next(result),), is_uneven=True)
    for dimension in _dimensions_except(right, (*attributes.rhs_batch_dims, *attributes.rhs_contracting_dims)):
        yield Factor((None, dimension), (next(result),), is_uneven=True)
    for pair in zip(attributes.lhs_contracting_dims, attributes.rhs_contracting_dims, strict=True):
        yield Factor(pair, (None,), is_uneven=True)


@_rule(opcodes.CONVOLUTION)
def _convolution(instruction: Instruction) -> Iterator[Factor]:
    yield from _convolution_features(instruction)
    yield from _convolution_space(instruction)


def _convolution_features(instruction: Instruction) -> Iterator[Factor]:
    """Yields the batch and feature dimensions; those of grouped convolutions can be split between groups."""
    attributes = instruction.attributes_as(ConvolutionAttributes)
    labels = attributes.dim_labels
    kernel_features, features = labels.kernel_output_feature_dimension, labels.output_feature_dimension
    batch_groups, feature_groups = attributes.batch_group_count, attributes.feature_group_count
    if batch_groups == 1:
        yield Factor((labels.input_batch_dimension, None), (labels.output_batch_dimension,), is_uneven=True)
    else:
        yield Factor((labels.input_batch_dimension, kernel_features), (features,), groups=batch_groups)
    if feature_groups > 1:
        yield Factor((labels.input_feature_dimension, kernel_features), (features,), groups=feature_groups)
        return
    if batch_groups == 1:
        yield Factor((None, kernel_features), (features,), is_uneven=True)
    contracted = (labels.input_feature_dimension, labels.kernel_input_feature_dimension)
    yield Factor(contracted, (None,), is_uneven=True)


def _convolution_space(instruction: Instruction) -> Iterator[Factor]:
    """Yields the spatial dimensions: of the input and the result, or of the input and the kernel, which are contracted.

    The latter are the large ones of gradients with respect to a kernel.
    """
    attributes = instruction.attributes_as(ConvolutionAttributes)
    labels = attributes.dim_labels
    for number, window in enumerate(attributes.window.dimensions):
        dimension = labels.input_spatial_dimensions[number]
        exchanged = () if window.is_identity else (0,)
        yield Factor((dimension, None), (labels.output_spatial_dimensions[number],), exchanged, is_uneven=True)
        if not window.is_identity:
            yield Factor((dimension, labels.kernel_spatial_dimensions[number]), (None,), exchanged, is_uneven=True)


@_rule(opcodes.REDUCE)
def _reduce(instruction: Instruction) -> Iterator[Factor]:
    count = len(instruction.operands) // 2
    reduced = instruction.dimensions
    for result, dimension in enumerate(_dimensions_except(instruction.operands[0].shape, reduced)):
        yield Factor((dimension,) * count + (None,) * count, (result,) * count, is_uneven=True)
    if is_reducible_in_parts(instruction):
        for dimension in reduced:
            yield Factor((dimension, None), (None,), is_uneven=True)


@_rule(opcodes.REDUCE_WINDOW)
def _reduce_window(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; those with padding only if padding with the initial value does not change a result."""
    count = len(instruction.operands) // 2
    sizes = instruction.operands[0].shape.dimensions
    for dimension, window in enumerate(instruction.attributes_as(WindowAttributes).window.dimensions):
        needs_fill = window.base_dilation > 1 or reads_padding(window, sizes[dimension])
        if window.is_identity or not needs_fill or is_reducible_in_parts(instruction):
            exchanged = () if window.is_identity else tuple(range(count))
            operands = (dimension,) * count + (None,) * count
            yield Factor(operands, (dimension,) * count, exchanged, is_uneven=True)


@_rule(opcodes.SELECT_AND_SCATTER)
def _select_and_scatter(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; those with windows only if a comparison selects.

    A tile of the result depends on all windows that overlap it. Those of them that do not exist scatter the identity.
    """
    select, scatter = instruction.computations
    op = monoid(scatter)
    is_splittable = (
        select.root_instruction.op is opcodes.COMPARE
        and set(select.root_instruction.operands) == set(select.parameters)
        and op is not None
        and is_constant(instruction.operands[2], identity_value(op, instruction.shape.element_type))
    )
    for dimension, window in enumerate(instruction.attributes_as(WindowAttributes).window.dimensions):
        if window.is_identity:
            yield Factor((dimension, dimension, None), (dimension,), is_uneven=True)
        elif is_splittable and window.base_dilation == window.window_dilation == 1:
            yield Factor((dimension, dimension, None), (dimension,), (0, 1), is_uneven=True)


@_rule(opcodes.SORT)
def _sort(instruction: Instruction) -> Iterator[Factor]:
    dimensions = _dimensions_except(instruction.operands[0].shape, [instruction.dimension])
    return _same_dimensions(instruction, dimensions, is_uneven=True)


# -- sources, linear algebra


@_rule(opcodes.IOTA)
def _iota(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions, the iota dimension too: a tile of it counts from the tile's offset."""
    for dimension in range(instruction.shape.rank):
        yield Factor((), (dimension,), is_uneven=True)


@_rule(opcodes.CHOLESKY, opcodes.TRIANGULAR_SOLVE)
def _batched_matrices(instruction: Instruction) -> Iterator[Factor]:
    return _same_dimensions(instruction, range(instruction.shape.rank - 2))


@_rule(opcodes.FFT)
def _fft(instruction: Instruction) -> Iterator[Factor]:
    return _same_dimensions(
        instruction, range(instruction.shape.rank - len(instruction.attributes_as(FftAttributes).fft_length))
    )


# -- indexing


@_rule(opcodes.GATHER)
def _gather(instruction: Instruction) -> Iterator[Factor]:
    """Yields slice and batch dimensions, and indexed dimensions that are collapsed.

    Along an indexed dimension, a device gathers the elements of its own tile and gives zeros for all others.
    """
    attributes = instruction.attributes_as(GatherAttributes)
    operand, indices = (each.shape for each in instruction.operands)
    inside = _dimensions_except(operand, (*attributes.collapsed_slice_dims, *attributes.operand_batching_dims))
    for dimension, result in zip(inside, attributes.offset_dims, strict=True):
        if attributes.slice_sizes[dimension] == operand.dimensions[dimension]:
            yield Factor((dimension, None), (result,))
    parallel = _parallel_dimensions(instruction, attributes.start_index_map, attributes.collapsed_slice_dims)
    batching = dict(zip(attributes.start_indices_batching_dims, attributes.operand_batching_dims, strict=True))
    outside = _dimensions_except(instruction.shape, attributes.offset_dims)
    for index, result in zip(_dimensions_except(indices, [attributes.index_vector_dim]), outside, strict=True):
        yield Factor((parallel.get(index, batching.get(index)), index), (result,))
    if produces_partial_sums(instruction):
        for dimension in attributes.collapsed_slice_dims:
            is_indexed = dimension in attributes.start_index_map and attributes.slice_sizes[dimension] == 1
            if is_indexed and dimension not in parallel.values():
                yield Factor((dimension, None), (None,))


def _parallel_dimensions(instruction: Instruction, indexed: Ints, single: Ints) -> dict[int, int]:
    """Returns the indexed dimension of the first operand that corresponds to each dimension of the indices, if any.

    indexed: the dimension of each component of the index vectors. single: dimensions of which one element is taken.
    """
    attributes = instruction.attributes
    assert isinstance(attributes, GatherAttributes | ScatterAttributes)
    indices = instruction.operands[len(instruction.operands) // 2]
    found: dict[int, int] = {}
    for component, dimension in enumerate(indexed):
        index = None
        if dimension in single:
            index = counted_dimension(indices, attributes.index_vector_dim, component)
        sizes = instruction.operands[0].shape.dimensions
        if index is not None and indices.shape.dimensions[index] == sizes[dimension]:
            found.setdefault(index, dimension)
    return found


@_rule(opcodes.SCATTER)
def _scatter(instruction: Instruction) -> Iterator[Factor]:
    attributes = instruction.attributes_as(ScatterAttributes)
    count = len(instruction.operands) // 2
    target, updates = instruction.operands[0].shape, instruction.operands[-1].shape
    indices = instruction.operands[count].shape
    inside = _dimensions_except(target, (*attributes.inserted_window_dims, *attributes.input_batching_dims))
    for dimension, update in zip(inside, attributes.update_window_dims, strict=True):
        if updates.dimensions[update] == target.dimensions[dimension]:
            yield Factor((dimension,) * count + (None,) + (update,) * count, (dimension,) * count)
    outside = _dimensions_except(updates, attributes.update_window_dims)
    update_dimensions = dict(zip(_dimensions_except(indices, [attributes.index_vector_dim]), outside, strict=True))
    batching = zip(attributes.input_batching_dims, attributes.scatter_indices_batching_dims, strict=True)
    for dimension, index in batching:
        yield Factor((dimension,) * count + (index,) + (update_dimensions[index],) * count, (dimension,) * count)
    indexed = attributes.scatter_dims_to_operand_dims
    parallel = _parallel_dimensions(instruction, indexed, attributes.inserted_window_dims)
    for index, dimension in parallel.items():
        yield Factor((dimension,) * count + (index,) + (update_dimensions[index],) * count, (dimension,) * count)
    for dimension in attributes.inserted_window_dims:
        if dimension in indexed and dimension not in parallel.values():
            yield Factor((dimension,) * count + (None,) * (count + 1), (dimension,) * count)
    if produces_partial_sums(instruction) or (count == 1 and reducer_op(instruction) in IDEMPOTENT_OPS):
        for index, update in update_dimensions.items():
            if index not in attributes.scatter_indices_batching_dims and index not in parallel:
                yield Factor((None, index, update), (None,))


# -- collectives of manual regions, which all devices of a group execute on tiles of the same position


@_rule(opcodes.ALL_REDUCE, opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_BROADCAST)
def _elementwise_collective(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from _same_dimensions(instruction, range(instruction.shape.rank))


@_rule(opcodes.ALL_GATHER)
def _all_gather(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from _same_dimensions(
            instruction,
            _dimensions_except(
                instruction.shape, [instruction.attributes_as(AllGatherAttributes).all_gather_dimension]
            ),
        )


@_rule(opcodes.REDUCE_SCATTER)
def _reduce_scatter(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from _same_dimensions(
            instruction,
            _dimensions_except(
                instruction.shape, [instruction.attributes_as(ReduceScatterAttributes).scatter_dimension]
            ),
        )


@_rule(opcodes.ALL_TO_ALL)
def _all_to_all(instruction: Instruction) -> Iterator[Factor]:
    split_dimension = instruction.attributes_as(AllToAllAttributes).split_dimension
    if split_dimension is not None:
        yield from _same_dimensions(instruction, _dimensions_except(instruction.shape, [split_dimension]))


# -- batched custom calls


@_rule(opcodes.CUSTOM_CALL)
def _custom_call(instruction: Instruction) -> Iterator[Factor]:
    """Yields the leading dimensions that a frontend attribute declares to be batch dimensions."""
    if concatenates_ranges(instruction):
        yield from _concatenate(instruction)
        return
    count = (instruction.frontend_attributes or {}).get(BATCH_DIMENSIONS, "")
    shapes = [*(operand.shape for operand in instruction.operands), *(leaf for _, leaf in instruction.shape.leaves())]
    if not count.isdecimal() or not all(shape.is_array for shape in shapes):
        return
    operands = len(instruction.operands)
    for dimension in range(min(int(count), *[shape.rank for shape in shapes])):
        if len({shape.dimensions[dimension] for shape in shapes}) == 1:
            yield Factor((dimension,) * operands, (dimension,) * (len(shapes) - operands))


# -- the attributes of local operations


def local_attributes(instruction: Instruction, operands: Sequence[Shape], result: Shape) -> Attributes:
    """Returns an operation's attributes for local operands: sizes in split dimensions become those of the tile.

    operands, result: the local shapes.
    """
    attributes = instruction.attributes
    if isinstance(attributes, SliceAttributes):
        ranges, sizes = attributes.ranges, instruction.operands[0].shape.dimensions
        limits = _local_sizes(ranges.limits, sizes, operands[0].dimensions)
        return dataclasses.replace(attributes, ranges=SliceRanges(ranges.starts, limits, ranges.strides))
    if isinstance(attributes, DynamicSliceAttributes):
        return dataclasses.replace(attributes, dynamic_slice_sizes=result.dimensions)
    if isinstance(attributes, CustomCallAttributes) and attributes.operand_layout_constraints is not None:
        constraints = [
            operand.with_layout(constraint.layout)
            for operand, constraint in zip(operands, attributes.operand_layout_constraints, strict=True)
        ]
        return dataclasses.replace(attributes, operand_layout_constraints=tuple(constraints))
    if isinstance(attributes, GatherAttributes):
        sizes = _local_sizes(attributes.slice_sizes, instruction.operands[0].shape.dimensions, operands[0].dimensions)
        return dataclasses.replace(attributes, slice_sizes=sizes)
    return attributes


def _local_sizes(sizes: Ints, before: Ints, after: Ints) -> Ints:
    """Limits sizes in the dimensions that are split to the size of the tile. before, after: whole and local sizes."""
    return tuple([size if old == new else min(size, new) for size, old, new in zip(sizes, before, after, strict=True)])
