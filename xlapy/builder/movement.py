"""Builder functions that move elements: broadcast, reshape, transpose, slices, padding, concatenation, dynamic sizes.

Responsible for the builder functions of `opcodes/movement.py`. Does not depend on layouts, except that a bitcast may
declare one.
Source: Broadcast, BroadcastInDim, Reshape, DynamicReshape, Collapse, Transpose, Rev, ConcatInDim (Concatenate), Slice,
Pad, DynamicSlice, DynamicUpdateSlice, GetDimensionSize, SetDimensionSize of the specification.

Dimension numbers count from 0; lists of sizes and dimensions hold integers. Every function raises `BuilderError` at the
caller's line if its arguments do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias, overload

from xlapy.base.element_types import S32
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.builder.core.broadcasting import as_ints, broadcast_in_dimensions, constant_of, constants_like
from xlapy.builder.core.builder import XlaBuilder, append, builder_of
from xlapy.builder.core.op import Operand, XlaOp
from xlapy.opcodes import movement as defs
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.opcodes.movement import (
    BroadcastAttributes,
    DimensionAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    ReshapeAttributes,
    ShuffleAttributes,
    ShuffleMode,
    SliceAttributes,
)
from xlapy.opcodes.requirements import require_array, require_dimension

Index: TypeAlias = XlaOp | int
"""A scalar integer XlaOp, or a Python integer, which becomes an s32 constant or a constant of the other indices'
type."""


# -- broadcast and reshape


def broadcast(operand: XlaOp, broadcast_sizes: Sequence[int]) -> XlaOp:
    """Repeats the operand along new leading dimensions: f32[3] with [4, 2] gives f32[4,2,3]."""
    with builder_of("broadcast", (operand,)).building("broadcast"):
        require_array("broadcast", operand.shape)
        sizes = as_ints("broadcast_sizes", broadcast_sizes)
        old = operand.shape
        shape = old.with_dimensions((*sizes, *old.dimensions), (*[False] * len(sizes), *old.dynamic_dimensions))
        dimensions = tuple(range(len(sizes), shape.rank))
        return append(defs.BROADCAST, (operand,), BroadcastAttributes.make(dimensions=dimensions), shape=shape)


def broadcast_in_dim(operand: XlaOp, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]) -> XlaOp:
    """Returns an array of sizes `out_dim_size` in which dimension `broadcast_dimensions[i]` is the operand's dimension
    i.

    The operand's dimension has the size of the result's, or size 1, which is repeated. `broadcast_dimensions` is
    strictly increasing.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.broadcast_in_dim(x, [5, 2, 3], [1, 2])
    <XlaOp broadcast = f32[5,2,3] broadcast>
    """
    with builder_of("broadcast_in_dim", (operand,)).building("broadcast_in_dim"):
        require_array("broadcast_in_dim", operand.shape)
        sizes = as_ints("out_dim_size", out_dim_size)
        mapped = as_ints("broadcast_dimensions", broadcast_dimensions)
        _check_broadcast(operand.shape, operand.shape.with_dimensions(sizes), mapped)
        return broadcast_in_dimensions(operand, sizes, mapped)


def _check_broadcast(operand: Shape, result: Shape, mapped: tuple[int, ...]) -> None:
    given = f"{list(mapped)} for {operand.to_text(layout=False)} to {result.to_text(layout=False)}"
    if len(mapped) != operand.rank:
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            f"needs one entry of broadcast_dimensions per dimension of the operand, given {given}",
        )
    for dimension, target in enumerate(mapped):
        if not 0 <= target < result.rank:
            raise ShapeError(
                shared.DIMENSION_NUMBER,
                f"dimension {target} is not a dimension of the result, given broadcast_dimensions {given}",
            )
        if dimension and mapped[dimension - 1] >= target:
            raise ShapeError(
                codes.ASCENDING_BROADCAST, f"broadcast_dimensions must be strictly increasing, given {given}"
            )
        size = operand.dimensions[dimension]
        if size not in (1, result.dimensions[target]):
            raise ShapeError(
                codes.COMPATIBLE_SIZES,
                f"operand dimension {dimension} has size {size} and result dimension {target} "
                f"{result.dimensions[target]}; they must be equal, or the first 1; broadcast_dimensions {given}",
            )


@overload
def reshape(operand: XlaOp, dimensions: Sequence[int], inferred_dimension: int = -1) -> XlaOp: ...
@overload
def reshape(shape: Shape, operand: XlaOp) -> XlaOp: ...
def reshape(*arguments: Any, **named: Any) -> XlaOp:
    """Returns the same elements in row-major order with other dimension sizes of the same product.

    With `dimensions`, a dynamic dimension stays dynamic in the corresponding result dimension; if it is split, that is
    `inferred_dimension`, or else the first result dimension larger than 1. With `shape`, the result has exactly that
    shape.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.reshape(x, [3, 2])
    <XlaOp reshape = f32[3,2] reshape>
    """
    if "shape" in named or (arguments and isinstance(arguments[0], Shape)):
        return _reshape_to_shape(*arguments, **named)
    return _reshape_to_sizes(*arguments, **named)


def _reshape_to_shape(shape: Shape, operand: XlaOp) -> XlaOp:
    return append(defs.RESHAPE, (operand,), shape=shape)


def _reshape_to_sizes(operand: XlaOp, dimensions: Sequence[int], inferred_dimension: int = -1) -> XlaOp:
    with builder_of("reshape", (operand,)).building("reshape"):
        sizes = as_ints("dimensions", dimensions)
        shape = defs.reshaped(operand.shape, sizes, inferred_dimension)
        attributes = ReshapeAttributes.make(inferred_dimension=inferred_dimension)
        return append(defs.RESHAPE, (operand,), attributes, shape=shape)


def reshape_with_inferred_dimension(operand: XlaOp, new_sizes: Sequence[int], inferred_dimension: int) -> XlaOp:
    """`reshape` of a dynamic array, with the result dimension that stays dynamic."""
    return reshape(operand, new_sizes, inferred_dimension)


def dynamic_reshape(
    operand: XlaOp, dim_sizes: Sequence[XlaOp], new_size_bounds: Sequence[int], dims_are_dynamic: Sequence[bool]
) -> XlaOp:
    """A reshape to sizes known at run time: one scalar s32 per result dimension, with its bound and whether it is
    dynamic.
    """
    with builder_of("dynamic-reshape", (operand,)).building("dynamic-reshape"):
        require_array("dynamic-reshape", operand.shape)
        bounds = as_ints("new_size_bounds", new_size_bounds)
        shape = operand.shape.with_dimensions(bounds, dims_are_dynamic)
        return append(defs.DYNAMIC_RESHAPE, (operand, *dim_sizes), shape=shape)


def collapse(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Merges consecutive ascending dimensions into one: f32[2,3,4,5] with [1, 2] gives f32[2,12,5]."""
    with builder_of("collapse", (operand,)).building("collapse"):
        merged = as_ints("dimensions", dimensions)
        require_array("collapse", operand.shape)
        for dimension in merged:
            require_dimension("collapse", "dimension", dimension, operand.shape)
        if len(merged) < 2:
            return operand
        first, last = merged[0], merged[-1]
        if merged != tuple(range(first, last + 1)):
            given = f"{list(merged)} of {operand.shape.to_text(layout=False)}"
            raise ShapeError(
                codes.COLLAPSED_DIMENSIONS, f"collapse takes consecutive ascending dimensions, given {given}"
            )
        sizes = operand.shape.dimensions
        return reshape(operand, (*sizes[:first], prod(sizes[first : last + 1]), *sizes[last + 1 :]))


def transpose(operand: XlaOp, permutation: Sequence[int]) -> XlaOp:
    """Dimension i of the result is dimension `permutation[i]` of the operand.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.transpose(x, [1, 0])
    <XlaOp transpose = f32[3,2] transpose>
    """
    with builder_of("transpose", (operand,)).building("transpose"):
        attributes = DimensionsAttributes.make(dimensions=as_ints("permutation", permutation))
        return append(defs.TRANSPOSE, (operand,), attributes)


def rev(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Reverses the order of the elements along each of the dimensions."""
    with builder_of("reverse", (operand,)).building("reverse"):
        attributes = DimensionsAttributes.make(dimensions=as_ints("dimensions", dimensions))
        return append(defs.REVERSE, (operand,), attributes)


def shuffle_rotate(operand: XlaOp, dimensions: Sequence[int], shifts: Sequence[int]) -> XlaOp:
    """Rotates each of the dimensions to the left by its shift."""
    with builder_of("shuffle", (operand,)).building("shuffle"):
        attributes = ShuffleAttributes.make(
            dimensions=as_ints("dimensions", dimensions), mode=ShuffleMode.ROTATE, shifts=as_ints("shifts", shifts)
        )
        return append(defs.SHUFFLE, (operand,), attributes)


def shuffle_permute(operand: XlaOp, dimensions: Sequence[int], indices: Literal) -> XlaOp:
    """Reads each element at the coordinates that `indices` holds for its position, in the given `dimensions`."""
    attributes = ShuffleAttributes.make(dimensions=tuple(dimensions), mode=ShuffleMode.PERMUTE, indices=indices)
    return append(defs.SHUFFLE, (operand,), attributes)


# -- concatenation, slices, padding


def concat_in_dim(builder: XlaBuilder, operands: Sequence[XlaOp], dimension: int) -> XlaOp:
    """Concatenates one or more arrays along `dimension`; all other sizes are equal.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.concat_in_dim(b, [x, x], 0)
    <XlaOp concatenate = f32[4,3] concatenate>
    """
    return builder.append(defs.CONCATENATE, operands, DimensionAttributes.make(dimension=dimension))


def slice(
    operand: XlaOp, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> XlaOp:
    """Takes, per dimension, the elements from start (inclusive) to limit (exclusive) in steps of stride >= 1 (default
    1).

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.slice(x, [0, 1], [2, 3], [1, 1])
    <XlaOp slice = f32[2,2] slice>
    """
    with builder_of("slice", (operand,)).building("slice"):
        starts = as_ints("start_indices", start_indices)
        steps = (1,) * len(starts) if strides is None else as_ints("strides", strides)
        limits = as_ints("limit_indices", limit_indices)
        if not len(starts) == len(limits) == len(steps):
            raise ShapeError(
                shared.ENTRY_PER_DIMENSION,
                f"start_indices, limit_indices and strides have one entry per dimension each, given {list(starts)}, "
                f"{list(limits)} and {list(steps)}",
            )
        ranges = SliceRanges(starts, limits, steps)
        return append(defs.SLICE, (operand,), SliceAttributes.make(ranges=ranges))


def slice_in_dim(operand: XlaOp, start_index: int, limit_index: int, stride: int, dimno: int) -> XlaOp:
    """A slice of dimension `dimno`; the other dimensions are taken whole."""
    with builder_of("slice", (operand,)).building("slice"):
        require_dimension("slice", "dimension", dimno, operand.shape)
        limits = list(operand.shape.dimensions)
        starts, strides = [0] * len(limits), [1] * len(limits)
        starts[dimno], limits[dimno], strides[dimno] = start_index, limit_index, stride
        return slice(operand, starts, limits, strides)


def pad(operand: XlaOp, padding_value: Operand, padding_config: PaddingConfig | Sequence[Sequence[int]]) -> XlaOp:
    """Inserts a scalar between the elements of the operand and at its edges.

    `padding_config` has (low, high) or (low, high, interior) per dimension: first `interior` >= 0 values between
    adjacent elements, then `low` and `high` values at the edges. Negative `low` or `high` remove elements.
    """
    builder = builder_of("pad", (operand,))
    with builder.building("pad"):
        attributes = PadAttributes.make(padding=_padding(padding_config))
        return builder.append(defs.PAD, constants_like(builder, operand, padding_value), attributes)


def _padding(config: PaddingConfig | Sequence[Sequence[int]]) -> PaddingConfig:
    if isinstance(config, PaddingConfig):
        return config
    rows = [as_ints("padding_config", row) for row in config]
    for row in rows:
        if len(row) not in (2, 3):
            raise ShapeError(
                codes.PADDING_FORM, f"padding_config takes (low, high) or (low, high, interior), given {list(row)}"
            )
    return PaddingConfig(tuple([PaddingDimension(*row) for row in rows]))


def pad_in_dim(operand: XlaOp, padding_value: Operand, dimno: int, pad_lo: int, pad_hi: int) -> XlaOp:
    """Edge padding of dimension `dimno` only."""
    with builder_of("pad", (operand,)).building("pad"):
        require_dimension("pad", "dimension", dimno, operand.shape)
        config = [(0, 0)] * operand.shape.rank
        config[dimno] = (pad_lo, pad_hi)
        return pad(operand, padding_value, config)


def dynamic_slice(operand: XlaOp, start_indices: Sequence[Index], slice_sizes: Sequence[int]) -> XlaOp:
    """A slice of fixed sizes at a run-time position, one scalar integer per dimension, all of one type.

    Positions are clamped so that the slice lies inside the operand.
    """
    builder = builder_of("dynamic-slice", (operand,))
    with builder.building("dynamic-slice"):
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=as_ints("slice_sizes", slice_sizes))
        return builder.append(defs.DYNAMIC_SLICE, [operand, *_indices(builder, start_indices)], attributes)


def dynamic_update_slice(operand: XlaOp, update: Operand, start_indices: Sequence[Index]) -> XlaOp:
    """The operand with `update`, of the same rank, written at a run-time position, clamped so that it lies inside."""
    builder = builder_of("dynamic-update-slice", (operand, update))
    with builder.building("dynamic-update-slice"):
        arrays = constants_like(builder, operand, update)
        return builder.append(defs.DYNAMIC_UPDATE_SLICE, [*arrays, *_indices(builder, start_indices)])


def _indices(builder: XlaBuilder, start_indices: Sequence[Index]) -> list[XlaOp]:
    element_type = next((i.element_type for i in start_indices if isinstance(i, XlaOp)), S32)
    return [constant_of(builder, i, element_type) for i in start_indices]


# -- copies


def copy(operand: XlaOp) -> XlaOp:
    """Copies the operand. Back ends may use a copy to place a value in a buffer of its own."""
    return append(defs.COPY, (operand,))


def bitcast(operand: XlaOp, shape: Shape) -> XlaOp:
    """Reinterprets the operand's memory as another array shape of the same number of bytes, layout included; for
    tools."""
    return append(defs.BITCAST, (operand,), shape=shape)


# -- sizes of dimensions


def get_dimension_size(operand: XlaOp, dimension: int) -> XlaOp:
    """The run-time size of a dimension as s32[]; a constant for a static dimension."""
    builder = builder_of("get-dimension-size", (operand,))
    with builder.building("get-dimension-size"):
        require_dimension("get-dimension-size", "dimension", dimension, operand.shape)
        if operand.shape.dynamic_dimensions[dimension]:
            return append(defs.GET_DIMENSION_SIZE, (operand,), DimensionAttributes.make(dimension=dimension))
        return constant_of(builder, operand.shape.dimensions[dimension], S32)


def set_dimension_size(operand: XlaOp, val: Operand, dimension: int) -> XlaOp:
    """Makes a dimension dynamic: its run-time size is `val` (s32[]), its bound the old size."""
    builder = builder_of("set-dimension-size", (operand,))
    with builder.building("set-dimension-size"):
        size = constant_of(builder, val, S32)
        return builder.append(defs.SET_DIMENSION_SIZE, (operand, size), DimensionAttributes.make(dimension=dimension))


def remove_dynamic_dimension(operand: XlaOp, dimension: int) -> XlaOp:
    """Makes a dimension static, with its bound as size. The elements added are unspecified."""
    with builder_of("set-dimension-size", (operand,)).building("set-dimension-size"):
        require_dimension("set-dimension-size", "dimension", dimension, operand.shape)
        old = operand.shape
        flags = [is_dynamic and d != dimension for d, is_dynamic in enumerate(old.dynamic_dimensions)]
        shape = Shape.array(old.element_type, old.dimensions, flags, old.layout)
        size = constant_of(operand.builder, old.dimensions[dimension], S32)
        return append(
            defs.SET_DIMENSION_SIZE, (operand, size), DimensionAttributes.make(dimension=dimension), shape=shape
        )
