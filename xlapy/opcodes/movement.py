"""Definitions of the operations that move elements without computing new ones.

Responsible for broadcast, reshape, dynamic-reshape, transpose, reverse, concatenate, slice, pad, dynamic-slice,
dynamic-update-slice, copy, bitcast, shuffle, and reading and setting the size of a dimension.
Does not depend on the memory layout of arrays, except that a bitcast keeps the number of bytes.
Source: BroadcastInDim, Reshape, DynamicReshape, Transpose, Rev, Concatenate, Slice, Pad, DynamicSlice,
DynamicUpdateSlice, GetDimensionSize, SetDimensionSize of the specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from xlapy.base.element_types import S32
from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import (
    INTEGER,
    INTEGERS,
    LITERAL,
    ONE_INTEGER,
    Attributes,
    EnumCodec,
    attribute,
    attributes,
)
from xlapy.opcodes.attributes.dimensions import PADDING, SLICE_RANGES, PaddingConfig, SliceRanges
from xlapy.opcodes.registry import OpDef, ProgramShapes, at_least, constraint, exactly
from xlapy.opcodes.requirements import require_array, require_dimension, require_distinct

_INT32_MAX = 2**31 - 1


@attributes
class DimensionsAttributes(Attributes):
    """Attributes with a list of dimensions: the permutation of a transpose, the dimensions of a reverse or a reduce."""

    dimensions: tuple[int, ...] = attribute(INTEGERS)


@attributes
class DimensionAttributes(Attributes):
    """Attributes with exactly one dimension, which HLO text writes as a list: `dimensions={1}`."""

    dimension: int = attribute(ONE_INTEGER, key="dimensions")


def _require_same_type(name: str, shape: Shape, operand: Shape) -> None:
    if not shape.is_array or shape.element_type is not operand.element_type:
        raise ShapeError(
            codes.KEPT_ELEMENT_TYPE,
            f"{name} keeps the element type: operand "
            f"{operand.to_text(layout=False)}, result {shape.to_text(layout=False)}",
        )


# -- broadcast and reshape


@attributes
class BroadcastAttributes(DimensionsAttributes):
    dimensions: tuple[int, ...] = attribute(INTEGERS, default=(), always=True)
    """The result dimension of each operand dimension, in any order."""


def _check_broadcast(shape: Shape, operands: Sequence[Shape], attrs: BroadcastAttributes, _: ProgramShapes) -> None:
    """Each operand dimension becomes a result dimension of the same size; the other result dimensions are new."""
    operand = operands[0]
    require_array("broadcast", operand)
    _require_same_type("broadcast", shape, operand)
    dimensions = attrs.dimensions
    if len(dimensions) != operand.rank:
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            "broadcast takes one entry in dimensions for each "
            f"dimension of the operand {operand.to_text(layout=False)}, "
            f"given {list(dimensions)}",
        )
    require_distinct("broadcast", "dimensions", dimensions)
    for source, target in enumerate(dimensions):
        require_dimension("broadcast", "dimension", target, shape)
        if operand.dimensions[source] != shape.dimensions[target]:
            raise ShapeError(
                codes.BROADCAST_SIZES,
                f"broadcast maps operand dimension {source} of "
                f"{operand.to_text(layout=False)} to result dimension {target} "
                f"of {shape.to_text(layout=False)}: sizes "
                f"{operand.dimensions[source]} and {shape.dimensions[target]} differ; "
                f"reshape dimensions of size 1 away first",
            )


BROADCAST = OpDef(
    name="broadcast",
    family="movement",
    summary=("Repeats the operand along new dimensions: operand dimension i becomes result dimension `dimensions[i]`."),
    result=(
        "Any dimensions, which are declared, with the operand's element type. Dimension `dimensions[i]` has "
        "the size of operand dimension i."
    ),
    operands="operand",
    constraints=(
        constraint(
            "The operand is an array, and the result has the same element type.",
            shared.ARRAY_OPERAND,
            codes.KEPT_ELEMENT_TYPE,
        ),
        constraint("`dimensions` has one entry per dimension of the operand.", shared.ENTRY_PER_DIMENSION),
        constraint(
            "The entries are distinct dimensions of the result.", shared.DIMENSION_NUMBER, shared.DISTINCT_DIMENSIONS
        ),
        constraint("A dimension keeps its size; a dimension of size 1 is not expanded.", codes.BROADCAST_SIZES),
    ),
    arity=exactly(1),
    attributes=BroadcastAttributes,
    check=_check_broadcast,
)


@attributes
class ReshapeAttributes(Attributes):
    inferred_dimension: int = attribute(INTEGER, default=-1)
    """The result dimension that becomes dynamic if there are several candidates, or -1."""


def _check_reshape(shape: Shape, operands: Sequence[Shape], attrs: ReshapeAttributes, _: ProgramShapes) -> None:
    """Requires that operand and result have the same number of elements."""
    operand = operands[0]
    require_array("reshape", operand)
    _require_same_type("reshape", shape, operand)
    _require_size("reshape", shape, operand)
    if not -1 <= attrs.inferred_dimension < shape.rank:
        raise ShapeError(
            codes.INFERRED_DIMENSION,
            f"reshape: inferred_dimension {attrs.inferred_dimension} is not a dimension of "
            f"{shape.to_text(layout=False)}",
        )


def _require_size(name: str, shape: Shape, operand: Shape) -> None:
    if shape.size != operand.size:
        raise ShapeError(
            codes.ELEMENT_COUNT,
            f"{name} keeps the number of elements: operand {operand.to_text(layout=False)} has {operand.size}, "
            f"result {shape.to_text(layout=False)} has {shape.size}",
        )


def reshaped(operand: Shape, dimensions: Sequence[int], inferred_dimension: int = -1) -> Shape:
    """The shape of a reshape to static sizes or bounds `dimensions`, with the dynamic dimensions of the operand.

    A dynamic operand dimension makes the result dimension that it becomes dynamic. If it is split over several result
    dimensions, `inferred_dimension` becomes dynamic or, without one, the first of them that is larger than 1. Raises
    `ShapeError` if the element counts differ, or if a dynamic dimension is both merged with others and split.
    Source: Reshape of the specification; InferReshapeShape of XLA.
    """
    require_array("reshape", operand)
    shape = operand.with_dimensions(dimensions)
    _require_size("reshape", shape, operand)
    if operand.is_static:
        return shape
    dynamic = [False] * shape.rank
    for dimension, is_dynamic in enumerate(operand.dynamic_dimensions):
        target = _dynamic_target(operand, shape, dimension, inferred_dimension) if is_dynamic else None
        if target is not None:
            dynamic[target] = True
    return operand.with_dimensions(dimensions, dynamic)


def _dynamic_target(operand: Shape, shape: Shape, dimension: int, inferred_dimension: int) -> int | None:
    """The result dimension that a dynamic operand dimension becomes; None if there is none."""
    what = f"reshape of {operand.to_text(layout=False)} to {shape.to_text(layout=False)}: dynamic dimension {dimension}"
    candidates = _candidates(operand, shape, dimension, what)
    if operand.dimensions[dimension] == 1 and shape.rank:
        if dimension == operand.rank - 1:
            return shape.rank - 1
        if dimension == 0:
            return 0
        raise ShapeError(codes.DYNAMIC_DIMENSION_OF_RESHAPE, f"{what} has size 1 and is neither the first nor the last")
    if len(candidates) == 1:
        return candidates[0]
    if inferred_dimension != -1:
        return inferred_dimension
    return next((d for d in candidates if shape.dimensions[d] != 1), None)


def _candidates(operand: Shape, shape: Shape, dimension: int, what: str) -> range:
    """The result dimensions that share elements with an operand dimension, including adjacent ones of size 1."""
    groups = list(factor_groups(operand.dimensions, shape.dimensions))
    place = next(i for i, (merged, _) in enumerate(groups) if dimension in merged)
    merged, split = groups[place]
    if len(merged) > 1 and len(split) > 1:
        raise ShapeError(
            codes.DYNAMIC_DIMENSION_OF_RESHAPE,
            f"{what} is both merged with other dimensions and split, which is not supported",
        )
    stop = split.stop
    for without_operand, appended in groups[place + 1 :]:
        if without_operand:
            break
        stop = appended.stop
    return range(split.start, stop)


def factor_groups(left: Sequence[int], right: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Splits two lists of sizes into minimal groups of equal product: (2,3,4), (6,2,2) gives (2,3)~(6), (4)~(2,2)."""
    i = j = 0
    while i < len(left) or j < len(right):
        start_left, start_right = i, j
        product_left = left[i] if i < len(left) else 1
        product_right = right[j] if j < len(right) else 1
        i, j = min(i + 1, len(left)), min(j + 1, len(right))
        while product_left != product_right:
            if i < len(left) and (product_left < product_right or j == len(right)):
                product_left *= left[i]
                i += 1
            elif j == len(right):
                break  # sizes of zero are in the previous groups
            else:
                product_right *= right[j]
                j += 1
        yield range(start_left, i), range(start_right, j)


RESHAPE = OpDef(
    name="reshape",
    family="movement",
    summary="Changes the dimensions; the elements keep their row-major order.",
    result="Any dimensions with the operand's number of elements, which are declared, and the operand's element type.",
    operands="operand",
    constraints=(
        constraint(
            "The operand is an array, and the result has the same element type.",
            shared.ARRAY_OPERAND,
            codes.KEPT_ELEMENT_TYPE,
        ),
        constraint("The result has the same number of elements.", codes.ELEMENT_COUNT),
        constraint("`inferred_dimension` is a dimension of the result, or -1.", codes.INFERRED_DIMENSION),
    ),
    arity=exactly(1),
    attributes=ReshapeAttributes,
    check=_check_reshape,
)


def _check_dynamic_reshape(shape: Shape, operands: Sequence[Shape], _: Any, __: ProgramShapes) -> None:
    """Requires one scalar s32 operand per result dimension, which gives its size at run time."""
    operand, *sizes = operands
    require_array("dynamic-reshape", operand)
    _require_same_type("dynamic-reshape", shape, operand)
    _require_size("dynamic-reshape", shape, operand)
    if len(sizes) != shape.rank:
        raise ShapeError(
            codes.SIZE_OPERANDS,
            f"dynamic-reshape takes one size operand per dimension of {shape.to_text(layout=False)}, "
            f"given {len(sizes)}",
        )
    for dimension, size in enumerate(sizes):
        if not size.is_scalar or size.element_type is not S32:
            raise ShapeError(
                codes.SIZE_OPERAND,
                f"dynamic-reshape takes sizes of shape s32[], size {dimension} is {size.to_text(layout=False)}",
            )


DYNAMIC_RESHAPE = OpDef(
    name="dynamic-reshape",
    family="movement",
    summary="A reshape to sizes that are only known at run time; the declared sizes are upper bounds.",
    result="The declared dimensions, whose sizes are bounds of the sizes at run time, with the operand's element type.",
    operands="operand dim_sizes*",
    constraints=(
        constraint("The operand is an array, and the result has the same element type.", codes.KEPT_ELEMENT_TYPE),
        constraint("The declared shape has the same number of elements as the operand.", codes.ELEMENT_COUNT),
        constraint("There is one size per dimension of the result.", codes.SIZE_OPERANDS),
        constraint("Sizes have the shape s32[].", codes.SIZE_OPERAND),
    ),
    arity=at_least(1),
    check=_check_dynamic_reshape,
)


# -- transpose, reverse, shuffle


def _infer_transpose(operands: Sequence[Shape], attrs: DimensionsAttributes, _: ProgramShapes) -> Shape:
    """Result dimension `i` is operand dimension `dimensions[i]`."""
    operand = operands[0]
    require_array("transpose", operand)
    permutation = attrs.dimensions
    if sorted(permutation) != list(range(operand.rank)):
        raise ShapeError(
            codes.PERMUTATION,
            "transpose takes a permutation of the dimensions of "
            f"{operand.to_text(layout=False)}, given {list(permutation)}",
        )
    dynamic = [operand.dynamic_dimensions[d] for d in permutation]
    sizes = [operand.dimensions[d] for d in permutation]
    if operand.layout is None or operand.layout.tiles:
        return operand.with_dimensions(sizes, dynamic)
    # As in XLA, the layout is permuted with the dimensions, so that no element moves in memory.
    minor_to_major = [permutation.index(d) for d in operand.layout.minor_to_major]
    layout = operand.layout.replace(minor_to_major=minor_to_major)
    return Shape.array(operand.element_type, sizes, dynamic, layout)


def _infer_reverse(operands: Sequence[Shape], attrs: DimensionsAttributes, _: ProgramShapes) -> Shape:
    operand = operands[0]
    require_array("reverse", operand)
    require_distinct("reverse", "dimensions", attrs.dimensions)
    for dimension in attrs.dimensions:
        require_dimension("reverse", "dimension", dimension, operand)
    return operand


TRANSPOSE = OpDef(
    name="transpose",
    family="movement",
    summary="Reorders the dimensions: dimension i of the result is dimension `dimensions[i]` of the operand.",
    result=(
        "The dimensions of the operand in the order of `dimensions`: dimension i has the size of operand "
        "dimension `dimensions[i]`."
    ),
    operands="operand",
    constraints=(
        constraint("The operand is an array.", shared.ARRAY_OPERAND),
        constraint("`dimensions` is a permutation of the operand's dimensions.", codes.PERMUTATION),
    ),
    arity=exactly(1),
    attributes=DimensionsAttributes,
    infer=_infer_transpose,
)
REVERSE = OpDef(
    name="reverse",
    family="movement",
    summary="Reverses the order of the elements along each of `dimensions`.",
    result="The shape of the operand.",
    operands="operand",
    constraints=(
        constraint("The operand is an array.", shared.ARRAY_OPERAND),
        constraint(
            "`dimensions` are distinct dimensions of the operand.", shared.DIMENSION_NUMBER, shared.DISTINCT_DIMENSIONS
        ),
    ),
    arity=exactly(1),
    attributes=DimensionsAttributes,
    infer=_infer_reverse,
)


class ShuffleMode(Enum):
    """How a shuffle moves elements."""

    ROTATE = "rotate"
    """Each dimension of `dimensions` is rotated to the left by its entry of `shifts`."""
    PERMUTE = "permute"
    """Each result element is the operand element at the coordinates that `indices` holds at the same index."""


@attributes
class ShuffleAttributes(DimensionsAttributes):
    mode: ShuffleMode = attribute(EnumCodec(ShuffleMode))
    shifts: tuple[int, ...] = attribute(INTEGERS, default=())
    indices: Literal | None = attribute(LITERAL, default=None)
    """Coordinates in the shuffled dimensions, in the order of `dimensions`; see `_check_indices` for the shape."""


def _infer_shuffle(operands: Sequence[Shape], attrs: ShuffleAttributes, _: ProgramShapes) -> Shape:
    operand = operands[0]
    require_array("shuffle", operand)
    require_distinct("shuffle", "dimensions", attrs.dimensions)
    for dimension in attrs.dimensions:
        require_dimension("shuffle", "dimension", dimension, operand)
    if attrs.mode is ShuffleMode.PERMUTE:
        _check_indices(operand, attrs)
    elif attrs.indices is not None:
        raise ShapeError(
            codes.SHUFFLE_PATTERN,
            f"shuffle of mode rotate takes no indices, given {attrs.indices.shape.to_text(layout=False)}",
        )
    elif len(attrs.shifts) != len(attrs.dimensions):
        raise ShapeError(
            codes.SHUFFLE_PATTERN,
            f"shuffle of mode rotate takes one shift per dimension of {list(attrs.dimensions)}, "
            f"given {list(attrs.shifts)}",
        )
    return operand


def _check_indices(operand: Shape, attrs: ShuffleAttributes) -> None:
    """Requires integer indices with the sizes of the operand, or size 1 in dimensions where they are broadcast.

    An additional innermost dimension holds one coordinate per shuffled dimension; it is absent if only one is shuffled.
    """
    if attrs.indices is None or attrs.shifts:
        raise ShapeError(codes.SHUFFLE_PATTERN, "shuffle of mode permute takes indices and no shifts")
    shape = attrs.indices.shape
    count = len(attrs.dimensions)
    expected = operand.dimensions if count == 1 else (*operand.dimensions, count)
    fits = len(expected) == shape.rank and all(
        given == size or (given == 1 and place < operand.rank)
        for place, (given, size) in enumerate(zip(shape.dimensions, expected, strict=True))
    )
    if not shape.is_array or not shape.element_type.is_integral or not fits:
        raise ShapeError(
            codes.SHUFFLE_INDICES,
            f"shuffle of {operand.to_text(layout=False)} takes integer indices of dimensions {list(expected)} "
            f"(1 where shared), given {shape.to_text(layout=False)}",
        )


SHUFFLE = OpDef(
    name="shuffle",
    family="movement",
    summary=(
        "Moves elements in a fixed pattern: rotates `dimensions` to the left by `shifts`, or reads each "
        "element at the coordinates in `indices`."
    ),
    result="The shape of the operand.",
    operands="operand",
    constraints=(
        constraint("The operand is an array.", shared.ARRAY_OPERAND),
        constraint(
            "`dimensions` are distinct dimensions of the operand.", shared.DIMENSION_NUMBER, shared.DISTINCT_DIMENSIONS
        ),
        constraint("Mode rotate takes one shift per dimension and no indices.", codes.SHUFFLE_PATTERN),
        constraint("Mode permute takes indices and no shifts.", codes.SHUFFLE_PATTERN),
        constraint(
            "The indices are integers with the operand's dimensions (or size 1 where they are broadcast). If "
            "several dimensions are shuffled, an additional innermost dimension holds the coordinates.",
            codes.SHUFFLE_INDICES,
        ),
    ),
    arity=exactly(1),
    attributes=ShuffleAttributes,
    infer=_infer_shuffle,
)


# -- concatenate, slice, pad


def _infer_concatenate(operands: Sequence[Shape], attrs: DimensionAttributes, _: ProgramShapes) -> Shape:
    """Adds the sizes along the dimension; other sizes must be equal. A dimension is dynamic if any operand's is."""
    first, dimension = operands[0], attrs.dimension
    require_array("concatenate", first)
    require_dimension("concatenate", "dimension", dimension, first)
    for number, operand in enumerate(operands):
        require_array("concatenate", operand, f"operand {number}")
        if operand.element_type is not first.element_type:
            raise ShapeError(
                shared.SAME_ELEMENT_TYPE,
                f"concatenate takes operands of the same element type: operand 0 is {first.to_text(layout=False)} "
                f"and operand {number} {operand.to_text(layout=False)}",
            )
        if _without(operand.dimensions, dimension) != _without(first.dimensions, dimension):
            raise ShapeError(
                codes.CONCATENATED_SIZES,
                f"concatenate takes operands that differ only in dimension {dimension}, "
                f"operand 0 is {first.to_text(layout=False)} and operand {number} {operand.to_text(layout=False)}",
            )
    sizes = list(first.dimensions)
    sizes[dimension] = sum(operand.dimensions[dimension] for operand in operands)
    dynamic = [any(operand.dynamic_dimensions[d] for operand in operands) for d in range(first.rank)]
    return first.with_dimensions(sizes, dynamic)


def _without(dimensions: Sequence[int], dimension: int) -> tuple[int, ...]:
    return (*dimensions[:dimension], len(dimensions), *dimensions[dimension + 1 :])


CONCATENATE = OpDef(
    name="concatenate",
    family="movement",
    summary="Concatenates arrays along one dimension, in the order of the operands.",
    result="The dimensions of the operands; the size of the concatenated dimension is the sum of theirs.",
    operands="operands*",
    constraints=(
        constraint("Operands are arrays of the same element type.", shared.ARRAY_OPERAND, shared.SAME_ELEMENT_TYPE),
        constraint("The dimension is a dimension of the operands.", shared.DIMENSION_NUMBER),
        constraint("Operands have equal sizes in all other dimensions.", codes.CONCATENATED_SIZES),
    ),
    arity=at_least(1),
    attributes=DimensionAttributes,
    infer=_infer_concatenate,
)


@attributes
class SliceAttributes(Attributes):
    ranges: SliceRanges = attribute(SLICE_RANGES, key="slice")


def _infer_slice(operands: Sequence[Shape], attrs: SliceAttributes, _: ProgramShapes) -> Shape:
    """Each result dimension has `ceil((limit - start) / stride)` elements, which may be 0."""
    operand, ranges = operands[0], attrs.ranges
    require_array("slice", operand)
    if not len(ranges.starts) == len(ranges.limits) == len(ranges.strides) == operand.rank:
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            f"slice takes one range per dimension of {operand.to_text(layout=False)}, "
            f"given {SLICE_RANGES.write(ranges)}",
        )
    sizes = [_slice_size(operand, ranges, dimension) for dimension in range(operand.rank)]
    dynamic = [flag and size != 1 for flag, size in zip(operand.dynamic_dimensions, sizes, strict=True)]
    return operand.with_dimensions(sizes, dynamic)


def _slice_size(operand: Shape, ranges: SliceRanges, dimension: int) -> int:
    start, limit, stride = ranges.starts[dimension], ranges.limits[dimension], ranges.strides[dimension]
    size = operand.dimensions[dimension]
    where = f"slice of {operand.to_text(layout=False)}, dimension {dimension}"
    if start < 0:
        raise ShapeError(codes.SLICE_RANGE, f"{where}: start {start} is negative")
    if limit > size:
        raise ShapeError(codes.SLICE_RANGE, f"{where}: limit {limit} is beyond the size {size}")
    if start > limit:
        raise ShapeError(codes.SLICE_RANGE, f"{where}: start {start} is beyond the limit {limit}")
    if stride < 1:
        raise ShapeError(codes.SLICE_STRIDE, f"{where}: stride must be at least 1, given {stride}")
    return -((start - limit) // stride)


SLICE = OpDef(
    name="slice",
    family="movement",
    summary="Every stride-th element from the start to the limit (exclusive) in each dimension.",
    result="The rank of the operand. A dimension has the size `ceil((limit - start) / stride)`.",
    operands="operand",
    constraints=(
        constraint("The operand is an array.", shared.ARRAY_OPERAND),
        constraint("`slice` has one range per dimension.", shared.ENTRY_PER_DIMENSION),
        constraint("0 <= start <= limit <= size.", codes.SLICE_RANGE),
        constraint("Strides are at least 1.", codes.SLICE_STRIDE),
    ),
    arity=exactly(1),
    attributes=SliceAttributes,
    infer=_infer_slice,
)


@attributes
class PadAttributes(Attributes):
    padding: PaddingConfig = attribute(PADDING)


def _infer_pad(operands: Sequence[Shape], attrs: PadAttributes, _: ProgramShapes) -> Shape:
    """Applies interior padding, then edge padding. A negative edge removes elements, also those of interior padding."""
    operand, value = operands
    config = attrs.padding.dimensions
    require_array("pad", operand)
    if not value.is_scalar:
        raise ShapeError(codes.PADDING_VALUE, f"pad takes a scalar padding value, given {value.to_text(layout=False)}")
    if value.element_type is not operand.element_type:
        raise ShapeError(
            shared.SAME_ELEMENT_TYPE,
            f"pad takes a padding value of the operand's element type: operand {operand.to_text(layout=False)}, "
            f"padding value {value.to_text(layout=False)}",
        )
    if len(config) != operand.rank:
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            "pad takes one padding entry per dimension of "
            f"{operand.to_text(layout=False)}, given {PADDING.write(attrs.padding)!r}",
        )
    for dimension, entry in enumerate(config):
        if entry.interior < 0:
            raise ShapeError(
                codes.INTERIOR_PADDING,
                f"pad of {operand.to_text(layout=False)}, dimension "
                f"{dimension}: interior padding {entry.interior} is negative",
            )
    sizes = [entry.output_size(size) for entry, size in zip(config, operand.dimensions, strict=True)]
    for dimension, size in enumerate(sizes):
        if size < 0:
            raise ShapeError(
                codes.NEGATIVE_PADDING,
                f"pad of {operand.to_text(layout=False)} by {PADDING.write(attrs.padding)} gives dimension {dimension} "
                f"the negative size {size}",
            )
    return operand.with_dimensions(sizes, operand.dynamic_dimensions)


PAD = OpDef(
    name="pad",
    family="movement",
    summary=(
        "Inserts padding between the elements (interior), then before and after them (low, high); negative "
        "low and high padding removes elements."
    ),
    result=(
        "The rank of the operand. A dimension of n elements gets the size `n + interior * (n - 1) + low + "
        "high`, in which `n - 1` is 0 for an empty dimension."
    ),
    operands="operand padding_value",
    constraints=(
        constraint(
            "The operand is an array, and the padding value is a scalar of the same element type.",
            shared.ARRAY_OPERAND,
            shared.SAME_ELEMENT_TYPE,
            codes.PADDING_VALUE,
        ),
        constraint("`padding` has one entry per dimension.", shared.ENTRY_PER_DIMENSION),
        constraint("Interior padding is not negative.", codes.INTERIOR_PADDING),
        constraint("Negative padding does not remove more elements than there are.", codes.NEGATIVE_PADDING),
    ),
    arity=exactly(2),
    attributes=PadAttributes,
    infer=_infer_pad,
)


# -- slices at run-time positions


@attributes
class DynamicSliceAttributes(Attributes):
    dynamic_slice_sizes: tuple[int, ...] = attribute(INTEGERS)


def _check_start_indices(name: str, operand: Shape, indices: Sequence[Shape]) -> None:
    """Requires one integer scalar per dimension, all of one type, or a vector of them (the older form)."""
    if len(indices) == 1 and indices[0].rank == 1:
        count, rank = indices[0].dimensions[0], 1
    else:
        count, rank = len(indices), 0
    if count != operand.rank:
        raise ShapeError(
            codes.START_INDEX_COUNT,
            f"{name} takes one start index per dimension of {operand.to_text(layout=False)}, given {count}",
        )
    for number, index in enumerate(indices):
        if index.rank != rank or not index.element_type.is_integral:
            raise ShapeError(
                codes.START_INDEX_TYPE,
                f"{name} takes integer scalars as start indices, index {number} is {index.to_text(layout=False)}",
            )
        if index.element_type is not indices[0].element_type:
            raise ShapeError(
                codes.START_INDEX_TYPE,
                f"{name} takes start indices of the same type: index 0 is {indices[0].to_text(layout=False)}, "
                f"index {number} is {index.to_text(layout=False)}",
            )


def _infer_dynamic_slice(operands: Sequence[Shape], attrs: DynamicSliceAttributes, _: ProgramShapes) -> Shape:
    """The sizes are constant; the position is clamped at run time so that the slice is in bounds."""
    operand, *indices = operands
    sizes = attrs.dynamic_slice_sizes
    require_array("dynamic-slice", operand)
    _check_start_indices("dynamic-slice", operand, indices)
    if len(sizes) != operand.rank:
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            f"dynamic-slice takes one size per dimension of {operand.to_text(layout=False)}, given {list(sizes)}",
        )
    for dimension, size in enumerate(sizes):
        if not 0 <= size <= operand.dimensions[dimension]:
            raise ShapeError(
                codes.SLICE_SIZES,
                f"dynamic-slice size {size} of dimension {dimension} is not between 0 and the operand's "
                f"{operand.dimensions[dimension]} ({operand.to_text(layout=False)})",
            )
    dynamic = [
        flag and size == whole and size > 1
        for flag, size, whole in zip(operand.dynamic_dimensions, sizes, operand.dimensions, strict=True)
    ]
    return operand.with_dimensions(sizes, dynamic)


DYNAMIC_SLICE = OpDef(
    name="dynamic-slice",
    family="movement",
    summary=(
        "The slice with `dynamic_slice_sizes` at a run-time position, which is clamped so that the slice is in bounds."
    ),
    result="The sizes `dynamic_slice_sizes`, with the operand's element type.",
    operands="operand start_indices*",
    constraints=(
        constraint("The operand is an array.", shared.ARRAY_OPERAND),
        constraint(
            "There is one start index per dimension, as separate scalars or in one vector.", codes.START_INDEX_COUNT
        ),
        constraint("The start indices are integers of the same type.", codes.START_INDEX_TYPE),
        constraint(
            "There is one slice size per dimension, from 0 to the operand's size.",
            shared.ENTRY_PER_DIMENSION,
            codes.SLICE_SIZES,
        ),
    ),
    arity=at_least(1),
    attributes=DynamicSliceAttributes,
    infer=_infer_dynamic_slice,
)


def _infer_dynamic_update_slice(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    """Returns the operand's shape. A dimension that the update replaces entirely is dynamic if the update's is."""
    operand, update, *indices = operands
    require_array("dynamic-update-slice", operand)
    require_array("dynamic-update-slice", update, "update")
    _check_start_indices("dynamic-update-slice", operand, indices)
    if update.element_type is not operand.element_type:
        raise ShapeError(
            shared.SAME_ELEMENT_TYPE,
            "dynamic-update-slice takes operands of the same element type: operand "
            f"{operand.to_text(layout=False)}, update {update.to_text(layout=False)}",
        )
    if update.rank != operand.rank:
        raise ShapeError(
            codes.UPDATE_SIZE,
            "dynamic-update-slice takes operands of the same rank: operand "
            f"{operand.to_text(layout=False)}, update {update.to_text(layout=False)}",
        )
    for dimension, (size, whole) in enumerate(zip(update.dimensions, operand.dimensions, strict=True)):
        if size > whole:
            raise ShapeError(
                codes.UPDATE_SIZE,
                f"dynamic-update-slice: the update {update.to_text(layout=False)} "
                f"is larger than the operand {operand.to_text(layout=False)} "
                f"in dimension {dimension}",
            )
    dynamic = [
        flag or (updated and update.dimensions[d] == operand.dimensions[d])
        for d, (flag, updated) in enumerate(zip(operand.dynamic_dimensions, update.dynamic_dimensions, strict=True))
    ]
    return operand if not any(dynamic) else operand.with_dimensions(operand.dimensions, dynamic)


DYNAMIC_UPDATE_SLICE = OpDef(
    name="dynamic-update-slice",
    family="movement",
    summary=(
        "Overwrites a slice of the operand with the update, at a run-time position that is clamped so that "
        "the slice is in bounds."
    ),
    result="The shape of the operand.",
    operands="operand update start_indices*",
    constraints=(
        constraint(
            "Operand and update are arrays of the same element type.", shared.ARRAY_OPERAND, shared.SAME_ELEMENT_TYPE
        ),
        constraint(
            "The update has the operand's rank and is not larger than the operand in any dimension.", codes.UPDATE_SIZE
        ),
        constraint(
            "There is one start index per dimension, as separate scalars or in one vector.", codes.START_INDEX_COUNT
        ),
        constraint("The start indices are integers of the same type.", codes.START_INDEX_TYPE),
    ),
    arity=at_least(2),
    infer=_infer_dynamic_update_slice,
)


# -- copies


def _infer_copy(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    """Accepts any operand; the declared layout may differ from the operand's."""
    return operands[0]


COPY = OpDef(
    name="copy",
    family="movement",
    summary="Copies the operand into a buffer of its own with the declared layout.",
    result="The shape of the operand.",
    operands="operand",
    arity=exactly(1),
    infer=_infer_copy,
)


def _check_bitcast(shape: Shape, operands: Sequence[Shape], _: Any, __: ProgramShapes) -> None:
    """Requires that operand and result have the same number of bytes."""
    operand = operands[0]
    require_array("bitcast", operand)
    if not shape.is_array:
        raise ShapeError(shared.ARRAY_RESULT, f"bitcast returns an array, declared {shape.to_text(layout=False)}")
    if shape.byte_size != operand.byte_size:
        raise ShapeError(
            codes.BITCAST_BYTES,
            f"bitcast keeps the number of bytes: operand {operand} has {operand.byte_size}, "
            f"result {shape} has {shape.byte_size}",
        )


BITCAST = OpDef(
    name="bitcast",
    family="movement",
    summary="Reinterprets the bytes with another shape, element type or layout.",
    result="Any array shape with the operand's number of bytes, which is declared.",
    operands="operand",
    constraints=(
        constraint("Operand and result are arrays.", shared.ARRAY_OPERAND, shared.ARRAY_RESULT),
        constraint("Both have the same number of bytes.", codes.BITCAST_BYTES),
    ),
    arity=exactly(1),
    check=_check_bitcast,
)


# -- sizes of dimensions


def _require_size_dimension(name: str, dimension: int, operand: Shape) -> None:
    require_array(name, operand)
    require_dimension(name, "dimension", dimension, operand)
    if operand.dimensions[dimension] > _INT32_MAX:
        raise ShapeError(
            codes.DIMENSION_SIZE_LIMIT,
            f"{name}: dimension {dimension} of {operand.to_text(layout=False)} "
            f"is larger than {_INT32_MAX}, the largest size in s32",
        )


def _infer_get_dimension_size(operands: Sequence[Shape], attrs: DimensionAttributes, _: ProgramShapes) -> Shape:
    _require_size_dimension("get-dimension-size", attrs.dimension, operands[0])
    return Shape.scalar(S32)


def _infer_set_dimension_size(operands: Sequence[Shape], attrs: DimensionAttributes, _: ProgramShapes) -> Shape:
    """Returns the operand's shape with one dimension dynamic, bounded by its former size."""
    operand, size = operands
    _require_size_dimension("set-dimension-size", attrs.dimension, operand)
    if not size.is_scalar or size.element_type is not S32:
        raise ShapeError(
            codes.SIZE_OPERAND, f"set-dimension-size takes a size of shape s32[], given {size.to_text(layout=False)}"
        )
    dynamic = list(operand.dynamic_dimensions)
    dynamic[attrs.dimension] = True
    return operand.with_dimensions(operand.dimensions, dynamic)


GET_DIMENSION_SIZE = OpDef(
    name="get-dimension-size",
    family="movement",
    summary="The size of one dimension at run time, as s32.",
    result="`s32[]`.",
    operands="operand",
    constraints=(
        constraint("The operand is an array that has the dimension.", shared.ARRAY_OPERAND, shared.DIMENSION_NUMBER),
        constraint("The size fits into s32.", codes.DIMENSION_SIZE_LIMIT),
    ),
    arity=exactly(1),
    attributes=DimensionAttributes,
    infer=_infer_get_dimension_size,
)
SET_DIMENSION_SIZE = OpDef(
    name="set-dimension-size",
    family="movement",
    summary="Makes one dimension of the operand dynamic: elements at index `size` and above are padding.",
    result="The shape of the operand, in which the dimension is dynamic, as in `f32[<=10]`.",
    operands="operand size",
    constraints=(
        constraint("The operand is an array that has the dimension.", shared.ARRAY_OPERAND, shared.DIMENSION_NUMBER),
        constraint("The size has the shape s32[].", codes.SIZE_OPERAND),
        constraint("The bound of the dimension fits into s32.", codes.DIMENSION_SIZE_LIMIT),
    ),
    arity=exactly(2),
    attributes=DimensionAttributes,
    infer=_infer_set_dimension_size,
)
