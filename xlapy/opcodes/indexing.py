"""Definitions of gather and scatter: reading and updating many slices at positions computed at run time.

Responsible for gather, scatter.
Does not depend on the IR or on values.
Source: Gather, Scatter of the specification; gather and scatter of StableHLO for the rules on batching dimensions.

Both iterate over an array of index vectors. Example: a gather from f32[16,11] with s64[5,2] index vectors
(`index_vector_dim=1`), `start_index_map={0,1}` and `slice_sizes={8,6}` takes five slices of [8,6], each at the row and
column that its vector gives.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.error_codes.operations import indexing as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as reduction_codes
from xlapy.base.errors import ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Ints, Shape
from xlapy.opcodes.attributes.codecs import BOOL, INTEGER, INTEGERS, Attributes, attribute, attributes
from xlapy.opcodes.registry import CalledComputationSlot, OpDef, ProgramShapes, at_least, constraint, exactly
from xlapy.opcodes.requirements import (
    compatible_ignoring_dynamic,
    elements_of,
    require_arrays,
    require_distinct,
    require_programs,
    same_size,
)

# -- shared by gather and scatter


def _check_distinct(name: str, what: str, dimensions: Ints, rank: int, of: str) -> None:
    """Requires that dimension numbers are in bounds and distinct."""
    for dimension in dimensions:
        if not 0 <= dimension < rank:
            raise ShapeError(
                shared.DIMENSION_NUMBER,
                f"{name}: {what} {list(dimensions)} must be in [0, {rank}), the dimensions of {of}",
            )
    require_distinct(name, what, dimensions)


def _check_ascending(name: str, what: str, dimensions: Ints, rank: int, of: str) -> None:
    _check_distinct(name, what, dimensions, rank, of)
    if list(dimensions) != sorted(dimensions):
        raise ShapeError(codes.ASCENDING_DIMENSIONS, f"{name}: {what} {list(dimensions)} must be ascending")


def _check_disjoint(name: str, what: str, dimensions: Ints, other: str, others: Ints) -> None:
    common = sorted(set(dimensions) & set(others))
    if common:
        raise ShapeError(
            codes.DISJOINT_DIMENSIONS,
            f"{name}: {what} {list(dimensions)} and {other} {list(others)} share dimension {common[0]}",
        )


def index_vectors(name: str, indices: Shape, index_vector_dim: int) -> Shape:
    """The shape of the index array with an explicit index vector dimension, of size 1 if there was none."""
    if not indices.element_type.is_integral:
        raise ShapeError(codes.INDEX_TYPE, f"{name} takes integer indices, given {indices.to_text(layout=False)}")
    if not 0 <= index_vector_dim <= indices.rank:
        raise ShapeError(
            codes.INDEX_VECTOR_DIMENSION,
            f"{name}: index_vector_dim {index_vector_dim} must be in [0, "
            f"{indices.rank}] for indices {indices.to_text(layout=False)}",
        )
    if index_vector_dim < indices.rank:
        return indices
    return indices.with_dimensions((*indices.dimensions, 1), (*indices.dynamic_dimensions, False))


def _check_index_map(name: str, what: str, index_map: Ints, operand: Shape, vectors: Shape, vector_dim: int) -> None:
    """Requires that component `k` of an index vector indexes a valid operand dimension `index_map[k]`."""
    size = vectors.dimensions[vector_dim]
    if not same_size(len(index_map), size):
        raise ShapeError(
            codes.INDEX_COMPONENTS,
            f"{name}: {what} {list(index_map)} has {len(index_map)} entries, the index vectors have {size} "
            f"(index_vector_dim {vector_dim} of {vectors.to_text(layout=False)})",
        )
    _check_distinct(name, what, index_map, operand.rank, f"the operand {operand.to_text(layout=False)}")


def _check_batching(
    name: str, names: tuple[str, str], batching: tuple[Ints, Ints], operand: Shape, vectors: Shape, vector_dim: int
) -> None:
    """Requires batching dimensions of operand and indices that correspond to each other."""
    of_operand, of_indices = batching
    if len(of_operand) != len(of_indices):
        raise ShapeError(
            codes.BATCHING_DIMENSIONS,
            f"{name}: {names[0]} {list(of_operand)} and {names[1]} {list(of_indices)} "
            "must have the same number of entries",
        )
    _check_ascending(name, names[0], of_operand, operand.rank, f"the operand {operand.to_text(layout=False)}")
    _check_distinct(name, names[1], of_indices, vectors.rank, f"the indices {vectors.to_text(layout=False)}")
    if vector_dim in of_indices:
        raise ShapeError(
            codes.BATCHING_DIMENSIONS, f"{name}: {names[1]} {list(of_indices)} contains index_vector_dim {vector_dim}"
        )


# -- gather


@attributes
class GatherAttributes(Attributes):
    """`collapsed_slice_dims` and `operand_batching_dims` are operand dimensions that are absent in the result."""

    offset_dims: Ints = attribute(INTEGERS)
    collapsed_slice_dims: Ints = attribute(INTEGERS)
    start_index_map: Ints = attribute(INTEGERS)
    operand_batching_dims: Ints = attribute(INTEGERS, default=())
    start_indices_batching_dims: Ints = attribute(INTEGERS, default=())
    index_vector_dim: int = attribute(INTEGER)
    slice_sizes: Ints = attribute(INTEGERS)
    indices_are_sorted: bool = attribute(BOOL, default=False)


def _infer_gather(operands: Sequence[Shape], attrs: GatherAttributes, _: ProgramShapes) -> Shape:
    """Offset dimensions have the sizes of the slices, other dimensions those of the indices, in order.

    A result dimension is dynamic if its dimension of the indices is, or if the slice covers a dynamic dimension.
    """
    require_arrays("gather", operands)
    operand, indices = operands
    vectors = index_vectors("gather", indices, attrs.index_vector_dim)
    _check_gather_dimensions(operand, vectors, attrs)
    _check_slice_sizes(operand, attrs)
    dropped = (*attrs.collapsed_slice_dims, *attrs.operand_batching_dims)
    offsets = iter([d for d in range(operand.rank) if d not in dropped])
    batches = iter([d for d in range(vectors.rank) if d != attrs.index_vector_dim])
    sizes: list[int] = []
    dynamic: list[bool] = []
    for dimension in range(len(attrs.offset_dims) + vectors.rank - 1):
        if dimension in attrs.offset_dims:
            source = next(offsets)
            sizes.append(attrs.slice_sizes[source])
            dynamic.append(operand.dynamic_dimensions[source] and sizes[-1] == operand.dimensions[source])
        else:
            source = next(batches)
            sizes.append(vectors.dimensions[source])
            dynamic.append(vectors.dynamic_dimensions[source])
    return Shape.array(operand.element_type, sizes, dynamic)


def _check_gather_dimensions(operand: Shape, vectors: Shape, attrs: GatherAttributes) -> None:
    result_rank = len(attrs.offset_dims) + vectors.rank - 1
    whole = f"the operand {operand.to_text(layout=False)}"
    _check_ascending("gather", "offset_dims", attrs.offset_dims, result_rank, f"the result of rank {result_rank}")
    _check_index_map("gather", "start_index_map", attrs.start_index_map, operand, vectors, attrs.index_vector_dim)
    _check_ascending("gather", "collapsed_slice_dims", attrs.collapsed_slice_dims, operand.rank, whole)
    names = ("operand_batching_dims", "start_indices_batching_dims")
    batching = (attrs.operand_batching_dims, attrs.start_indices_batching_dims)
    _check_batching("gather", names, batching, operand, vectors, attrs.index_vector_dim)
    collapsed, batched = attrs.collapsed_slice_dims, attrs.operand_batching_dims
    _check_disjoint("gather", "collapsed_slice_dims", collapsed, "operand_batching_dims", batched)


def _check_slice_sizes(operand: Shape, attrs: GatherAttributes) -> None:
    sizes = attrs.slice_sizes
    if len(sizes) != operand.rank:
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            f"gather takes one slice size per dimension of {operand.to_text(layout=False)}, given {list(sizes)}",
        )
    kinds = len(attrs.offset_dims) + len(attrs.collapsed_slice_dims) + len(attrs.operand_batching_dims)
    if kinds != operand.rank:
        raise ShapeError(
            codes.DIMENSION_KINDS,
            f"gather: offset_dims {list(attrs.offset_dims)}, collapsed_slice_dims {list(attrs.collapsed_slice_dims)} "
            f"and operand_batching_dims {list(attrs.operand_batching_dims)} must have one entry "
            f"per dimension of the operand {operand.to_text(layout=False)}",
        )
    for dimension, (size, whole) in enumerate(zip(sizes, operand.dimensions, strict=True)):
        if size < 0 or not (size <= whole or whole < 0):
            raise ShapeError(
                movement_codes.SLICE_SIZES,
                f"gather: slice size {size} of dimension {dimension} is not between 0 and the operand's {whole} "
                f"({operand.to_text(layout=False)})",
            )
    for what in ("collapsed_slice_dims", "operand_batching_dims"):
        for dimension in getattr(attrs, what):
            if sizes[dimension] > 1:
                raise ShapeError(
                    codes.DROPPED_SLICE_SIZE,
                    f"gather: dimension {dimension} is in {what} {list(getattr(attrs, what))}, "
                    f"so its slice size must be 0 or 1, given {sizes[dimension]}",
                )


GATHER = OpDef(
    name="gather",
    family="indexing",
    summary=(
        "Reads slices of the operand at positions given by index vectors, which are clamped so that the "
        "slices are in bounds."
    ),
    result=(
        "The batch dimensions have the sizes of `start_indices` without `index_vector_dim`. The offset "
        "dimensions, at `offset_dims`, have those slice sizes that are neither collapsed nor batching."
    ),
    operands="operand start_indices",
    constraints=(
        constraint("Operands are arrays, and the indices are integers.", shared.ARRAY_OPERAND, codes.INDEX_TYPE),
        constraint(
            "`index_vector_dim` is a dimension of the indices, or equal to their rank; then each element is an "
            "index vector of size 1.",
            codes.INDEX_VECTOR_DIMENSION,
        ),
        constraint(
            "`offset_dims` are distinct dimensions of the result in ascending order.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.ASCENDING_DIMENSIONS,
        ),
        constraint(
            "`start_index_map` has one entry per component of an index vector; the entries are distinct "
            "dimensions of the operand.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.INDEX_COMPONENTS,
        ),
        constraint(
            "`collapsed_slice_dims` and `operand_batching_dims` are disjoint lists of distinct dimensions of "
            "the operand in ascending order. The batch, not the index vector, determines the position in a "
            "batching dimension that is also in `start_index_map`.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.ASCENDING_DIMENSIONS,
            codes.DISJOINT_DIMENSIONS,
        ),
        constraint(
            "`start_indices_batching_dims` are distinct dimensions of the indices other than "
            "`index_vector_dim`, paired one to one with `operand_batching_dims`.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.BATCHING_DIMENSIONS,
        ),
        constraint(
            "There is one slice size per dimension of the operand, from 0 to its size; it is 0 or 1 for a "
            "collapsed or batching dimension.",
            shared.ENTRY_PER_DIMENSION,
            movement_codes.SLICE_SIZES,
            codes.DROPPED_SLICE_SIZE,
        ),
        constraint(
            "The number of offset, collapsed and batching dimensions is the rank of the operand.", codes.DIMENSION_KINDS
        ),
    ),
    arity=exactly(2),
    attributes=GatherAttributes,
    infer=_infer_gather,
)


# -- scatter


@attributes
class ScatterAttributes(Attributes):
    """`inserted_window_dims` and `input_batching_dims` are operand dimensions that are absent in the updates."""

    update_window_dims: Ints = attribute(INTEGERS)
    inserted_window_dims: Ints = attribute(INTEGERS)
    scatter_dims_to_operand_dims: Ints = attribute(INTEGERS)
    input_batching_dims: Ints = attribute(INTEGERS, default=())
    scatter_indices_batching_dims: Ints = attribute(INTEGERS, default=())
    index_vector_dim: int = attribute(INTEGER)
    indices_are_sorted: bool = attribute(BOOL, default=False)
    unique_indices: bool = attribute(BOOL, default=False)


def window_dims_to_operand_dims(rank: int, attrs: ScatterAttributes) -> list[int]:
    """The operand dimension of each window dimension of the updates, for operands of rank `rank`."""
    dropped = (*attrs.inserted_window_dims, *attrs.input_batching_dims)
    return [d for d in range(rank) if d not in dropped]


def _infer_scatter(operands: Sequence[Shape], attrs: ScatterAttributes, programs: ProgramShapes) -> Shape:
    """Takes N operands, the indices and N updates; returns the shape of the operand, or a tuple of N operands."""
    require_programs("scatter", programs, 1)
    require_arrays("scatter", operands)
    count = len(operands) // 2
    if len(operands) != 2 * count + 1:
        raise ShapeError(
            codes.SCATTER_OPERANDS,
            f"scatter takes N operands, the indices and N updates: an odd number, given {len(operands)}",
        )
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    vectors = index_vectors("scatter", indices, attrs.index_vector_dim)
    for i in range(count):
        for what, shape, first in (("operand", inputs[i], inputs[0]), ("updates", updates[i], updates[0])):
            if shape.dimensions != first.dimensions:
                raise ShapeError(
                    shared.SAME_DIMENSIONS,
                    f"scatter: {what} 0 is {first.to_text(layout=False)}, {what} "
                    f"{i} is {shape.to_text(layout=False)}; sizes must agree",
                )
    _check_scatter_dimensions(inputs[0], vectors, updates[0], attrs)
    _check_update_sizes(inputs[0], vectors, updates[0], attrs)
    _check_update_computation(inputs, updates, programs[0])
    return inputs[0] if count == 1 else Shape.tuple(inputs)


def _check_scatter_dimensions(operand: Shape, vectors: Shape, updates: Shape, attrs: ScatterAttributes) -> None:
    rank = vectors.rank - 1 + len(attrs.update_window_dims)
    if updates.rank != rank:
        raise ShapeError(
            codes.UPDATES_RANK,
            f"scatter: updates must have rank {rank} ({vectors.rank - 1} "
            f"of the indices {vectors.to_text(layout=False)} and "
            f"{len(attrs.update_window_dims)} of the window), given {updates.to_text(layout=False)}",
        )
    whole = f"the operand {operand.to_text(layout=False)}"
    _check_ascending(
        "scatter", "update_window_dims", attrs.update_window_dims, rank, f"the updates {updates.to_text(layout=False)}"
    )
    _check_ascending("scatter", "inserted_window_dims", attrs.inserted_window_dims, operand.rank, whole)
    if len(attrs.update_window_dims) + len(attrs.inserted_window_dims) + len(attrs.input_batching_dims) != operand.rank:
        raise ShapeError(
            codes.DIMENSION_KINDS,
            f"scatter: update_window_dims {list(attrs.update_window_dims)}, inserted_window_dims "
            f"{list(attrs.inserted_window_dims)} and input_batching_dims {list(attrs.input_batching_dims)} "
            f"must have one entry per dimension of the operand {operand.to_text(layout=False)}",
        )
    index_map, vector_dim = attrs.scatter_dims_to_operand_dims, attrs.index_vector_dim
    _check_index_map("scatter", "scatter_dims_to_operand_dims", index_map, operand, vectors, vector_dim)
    names = ("input_batching_dims", "scatter_indices_batching_dims")
    batching = (attrs.input_batching_dims, attrs.scatter_indices_batching_dims)
    _check_batching("scatter", names, batching, operand, vectors, vector_dim)
    inserted, batched = attrs.inserted_window_dims, attrs.input_batching_dims
    _check_disjoint("scatter", "inserted_window_dims", inserted, "input_batching_dims", batched)


def _check_update_sizes(operand: Shape, vectors: Shape, updates: Shape, attrs: ScatterAttributes) -> None:
    """Requires windows no larger than the operand; other dimensions of the updates are those of the indices."""
    window = zip(attrs.update_window_dims, window_dims_to_operand_dims(operand.rank, attrs), strict=True)
    for dimension, target in window:
        size, most = updates.dimensions[dimension], operand.dimensions[target]
        if not (size <= most or most < 0):
            raise ShapeError(
                codes.UPDATE_WINDOW,
                f"scatter: window dimension {dimension} of the updates "
                f"{updates.to_text(layout=False)} has size {size}, "
                f"more than the {most} of dimension {target} of the operand {operand.to_text(layout=False)}",
            )
    rows = [d for d in range(updates.rank) if d not in attrs.update_window_dims]
    sources = [d for d in range(vectors.rank) if d != attrs.index_vector_dim]
    for dimension, source in zip(rows, sources, strict=True):
        if not same_size(updates.dimensions[dimension], vectors.dimensions[source]):
            raise ShapeError(
                codes.UPDATES_PER_INDEX,
                f"scatter: dimension {dimension} of the updates {updates.to_text(layout=False)} has size "
                f"{updates.dimensions[dimension]}, dimension {source} "
                f"of the indices {vectors.to_text(layout=False)} has "
                f"{vectors.dimensions[source]}",
            )


def _check_update_computation(inputs: Sequence[Shape], updates: Sequence[Shape], program: ProgramShape) -> None:
    """Requires a computation of N current values and N updates that returns N new values, all scalars."""
    count = len(inputs)
    results = elements_of(program.result)
    if len(program.parameters) != 2 * count or len(results) != count:
        raise ShapeError(
            reduction_codes.REDUCER_COUNT,
            f"scatter: the update computation takes {2 * count} parameters and returns {count} scalars "
            f"for {count} operands, given {program.to_text()}",
        )
    for i, (operand, update) in enumerate(zip(inputs, updates, strict=True)):
        if operand.element_type is not update.element_type:
            raise ShapeError(
                shared.SAME_ELEMENT_TYPE,
                f"scatter: operand {i} is {operand.to_text(layout=False)}, "
                f"but updates {i} have another type: {update.to_text(layout=False)}",
            )
        expected = Shape.scalar(operand.element_type)
        places = (
            ("parameter", i, program.parameters[i]),
            ("parameter", count + i, program.parameters[count + i]),
            ("result", i, results[i]),
        )
        for what, number, shape in places:
            if not compatible_ignoring_dynamic(shape, expected):
                raise ShapeError(
                    reduction_codes.REDUCER_TYPES,
                    f"scatter: {what} {number} of the update computation is {shape.to_text(layout=False)}, "
                    f"operand {i} is {operand.to_text(layout=False)}",
                )


SCATTER = OpDef(
    name="scatter",
    family="indexing",
    summary=(
        "Combines windows of the updates into the operands at positions given by index vectors; a window "
        "that is not completely in bounds is dropped."
    ),
    result="The shape of the operand. N operands give a tuple of N.",
    operands="operands* scatter_indices updates*",
    constraints=(
        constraint("Operands are arrays, and the indices are integers.", shared.ARRAY_OPERAND, codes.INDEX_TYPE),
        constraint(
            "`index_vector_dim` is a dimension of the indices, or equal to their rank; then each element is an "
            "index vector of size 1.",
            codes.INDEX_VECTOR_DIMENSION,
        ),
        constraint(
            "There is one array of updates per operand; all operands have equal dimensions, and so do all updates.",
            shared.SAME_DIMENSIONS,
            codes.SCATTER_OPERANDS,
        ),
        constraint(
            "The rank of the updates is the number of index dimensions without `index_vector_dim`, plus the "
            "number of `update_window_dims`.",
            codes.UPDATES_RANK,
        ),
        constraint(
            "`update_window_dims` are distinct dimensions of the updates in ascending order.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.ASCENDING_DIMENSIONS,
        ),
        constraint(
            "`inserted_window_dims` are distinct dimensions of the operand in ascending order, and none of them "
            "is in `input_batching_dims`.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.ASCENDING_DIMENSIONS,
            codes.DISJOINT_DIMENSIONS,
        ),
        constraint(
            "The number of window, inserted and batching dimensions is the rank of the operand.", codes.DIMENSION_KINDS
        ),
        constraint(
            "`scatter_dims_to_operand_dims` has one entry per component of an index vector; the entries are "
            "distinct dimensions of the operand. The batch, not the index vector, determines the position in a "
            "batching dimension among them.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.INDEX_COMPONENTS,
        ),
        constraint(
            "`scatter_indices_batching_dims` are distinct dimensions of the indices other than "
            "`index_vector_dim`, paired one to one with `input_batching_dims`.",
            shared.DIMENSION_NUMBER,
            shared.DISTINCT_DIMENSIONS,
            codes.ASCENDING_DIMENSIONS,
            codes.BATCHING_DIMENSIONS,
        ),
        constraint(
            "A window is not larger than the operand in any dimension, and the other dimension sizes of the "
            "updates are those of the indices.",
            codes.UPDATE_WINDOW,
            codes.UPDATES_PER_INDEX,
        ),
        constraint(
            "The computation takes N current values and N updates, and returns N values. All are scalars; value "
            "i and update i have the element type of operand i, and so do the updates.",
            shared.SAME_ELEMENT_TYPE,
            reduction_codes.REDUCER_COUNT,
            reduction_codes.REDUCER_TYPES,
        ),
    ),
    arity=at_least(3),
    attributes=ScatterAttributes,
    computation_slots=(CalledComputationSlot("to_apply"),),
    infer=_infer_scatter,
)
