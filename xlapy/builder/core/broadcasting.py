"""Broadcasting of operands, which the builder expresses by explicit broadcast and reshape instructions.

Responsible for which shapes are compatible under `broadcast_dimensions`, for the instructions that make them equal, and
for constants created from plain values. Does not depend on the op that needs them. Source: docs/broadcasting.md of XLA.

Example: `add(f32[4], f32[1,2], broadcast_dimensions=[0])` gives f32[4,2]. Dimension 0 of the vector, the operand of
lower rank, is matched to dimension 0 of the matrix, and the vector is repeated along the other dimension: f32[4] ->
f32[4,2]. Dimension 0 of the matrix has size 1 (it is "degenerate") where the vector has 4; a reshape drops it and a
broadcast expands it: f32[1,2] -> f32[2] -> f32[4,2].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Ints, Shape
from xlapy.base.shape_fields import UNBOUNDED
from xlapy.builder.core.builder import XlaBuilder, append
from xlapy.builder.core.op import Operand, XlaOp
from xlapy.opcodes.movement import BROADCAST, RESHAPE, BroadcastAttributes
from xlapy.opcodes.sources import CONSTANT, ConstantAttributes


def as_ints(what: str, values: Sequence[int]) -> Ints:
    """Returns a tuple of plain integers; NumPy integers are accepted. Raises `ShapeError` naming `what` for other
    values.
    """
    try:
        return tuple([index(value) for value in values])
    except TypeError:
        raise ShapeError(codes.LIST_OF_INTEGERS, f"{what} takes a list of integers, given {values!r}") from None


# -- values that are not XlaOps


def constant_of(builder: XlaBuilder, value: Operand, element_type: PrimitiveType | None = None) -> XlaOp:
    """Returns the constant of a Python number, NumPy array or Literal; returns an XlaOp unchanged.

    An array whose elements are all equal becomes a scalar constant and a broadcast, so that programs hold no large
    splats.
    """
    if isinstance(value, XlaOp):
        return value
    literal = Literal.of(value, None if isinstance(value, Literal) else element_type)
    scalar = _repeated_scalar(literal)
    if scalar is not None:
        return broadcast_scalar(constant_of(builder, scalar), literal.shape.dimensions)
    return builder.append(CONSTANT, (), ConstantAttributes.make(literal=literal), shape=literal.shape)


def _repeated_scalar(literal: Literal) -> Literal | None:
    """Returns the element that an array literal repeats bit for bit; None if its elements differ."""
    if not literal.shape.is_array or literal.is_elided or literal.shape.size < 2:
        return None
    elements = literal.array.reshape(-1)
    rows = elements.view(np.uint8).reshape(elements.size, -1)
    return Literal.array_of(elements[:1].reshape(())) if bool((rows == rows[0]).all()) else None


def constants_like(builder: XlaBuilder, *values: Operand) -> list[XlaOp]:
    """Converts the values that are not XlaOps to constants of the element type of the first XlaOp."""
    given = [value for value in values if isinstance(value, XlaOp)]
    if len(given) == len(values):
        return given
    reference = given[0]
    if not reference.shape.is_array:
        raise ShapeError(
            shared.ARRAY_OPERAND,
            f"takes arrays together with plain values, "
            f"operand {reference.name} is {reference.shape.to_text(layout=False)}",
        )
    return [constant_of(builder, value, reference.element_type) for value in values]


# -- two operands of an elementwise op


def broadcast_operands(
    name: str, operands: Sequence[XlaOp], broadcast_dimensions: Sequence[int]
) -> tuple[XlaOp, XlaOp]:
    """Returns the two operands of a binary op, broadcast to the dimensions of its result.

    With equal ranks, `broadcast_dimensions` is empty or the identity. With different ranks, it maps each dimension of
    the operand of lower rank to a dimension of the other, strictly increasing; a scalar needs none. Matched dimensions
    are equal, or one of them is 1. Raises ShapeError otherwise.
    """
    lhs, rhs = operands
    if lhs.shape is rhs.shape and not broadcast_dimensions and lhs.shape.is_array:
        return lhs, rhs
    mapped = as_ints("broadcast_dimensions", broadcast_dimensions)
    dimensions = broadcast_shapes(name, lhs.shape, rhs.shape, mapped)
    return _broadcast_to(lhs, dimensions, mapped), _broadcast_to(rhs, dimensions, mapped)


def broadcast_shapes(name: str, lhs: Shape, rhs: Shape, broadcast_dimensions: Ints) -> Ints:
    """Returns the dimension sizes of a binary op's result. Raises ShapeError if the operands are not compatible."""
    for side, shape in (("lhs", lhs), ("rhs", rhs)):
        if not shape.is_array:
            raise ShapeError(shared.ARRAY_OPERAND, f"{name} takes arrays, {side} is {shape.to_text(layout=False)}")
        if UNBOUNDED in shape.dimensions:
            raise ShapeError(
                codes.STATIC_DIMENSIONS, f"{name} takes bounded dimensions, {side} is {shape.to_text(layout=False)}"
            )
    if lhs.rank == rhs.rank:
        return _merge_equal_ranks(name, lhs, rhs, broadcast_dimensions)
    lower, higher = (lhs, rhs) if lhs.rank < rhs.rank else (rhs, lhs)
    return _merge_different_ranks(name, lower, higher, broadcast_dimensions)


def _merge_equal_ranks(name: str, lhs: Shape, rhs: Shape, broadcast_dimensions: Ints) -> Ints:
    if broadcast_dimensions and broadcast_dimensions != tuple(range(lhs.rank)):
        raise ShapeError(
            codes.BROADCAST_DIMENSIONS,
            f"{name} of operands of equal rank, {lhs.to_text(layout=False)} "
            f"and {rhs.to_text(layout=False)}, takes no broadcast_dimensions "
            f"(or the identity), given {list(broadcast_dimensions)}",
        )
    return tuple([_merge_dimension(name, lhs, d, rhs, d) for d in range(lhs.rank)])


def _merge_different_ranks(name: str, lower: Shape, higher: Shape, broadcast_dimensions: Ints) -> Ints:
    _check_mapping(name, lower, higher, broadcast_dimensions)
    sizes = list(higher.dimensions)
    for dimension, target in enumerate(broadcast_dimensions):
        sizes[target] = _merge_dimension(name, lower, dimension, higher, target)
    return tuple(sizes)


def _merge_dimension(name: str, left: Shape, i: int, right: Shape, j: int) -> int:
    """Returns the size of the result dimension in which dimension i of one operand is matched with dimension j of the
    other.
    """
    a, b = left.dimensions[i], right.dimensions[j]
    if a == b:
        return a
    where = (
        f"{name}: dimension {i} of {left.to_text(layout=False)} has size {a}, "
        f"but dimension {j} of {right.to_text(layout=False)} has size {b}"
    )
    if a != 1 and b != 1:
        raise ShapeError(codes.COMPATIBLE_SIZES, f"{where}; they must be equal, or one of them 1")
    if (left if a == 1 else right).dynamic_dimensions[i if a == 1 else j]:
        raise ShapeError(codes.REPEATED_DIMENSION, f"{where}; a dimension of size 1 is repeated only if it is static")
    return b if a == 1 else a


def _check_mapping(name: str, lower: Shape, higher: Shape, broadcast_dimensions: Ints) -> None:
    given = list(broadcast_dimensions)
    if len(given) != lower.rank:
        if not given:
            raise ShapeError(
                codes.BROADCAST_DIMENSIONS,
                f"{name} of operands of different rank, {lower.to_text(layout=False)} "
                f"and {higher.to_text(layout=False)}, needs broadcast_dimensions: "
                f"for each dimension of {lower.to_text(layout=False)} the "
                f"dimension of {higher.to_text(layout=False)} it matches",
            )
        raise ShapeError(
            codes.BROADCAST_DIMENSIONS,
            f"{name} needs {lower.rank} broadcast_dimensions, one per dimension of {lower.to_text(layout=False)} "
            f"(the other operand is {higher.to_text(layout=False)}), given {given}",
        )
    for dimension in given:
        if not 0 <= dimension < higher.rank:
            raise ShapeError(
                shared.DIMENSION_NUMBER,
                f"{name}: broadcast_dimensions {given} name dimension {dimension}, "
                f"but {higher.to_text(layout=False)} has rank {higher.rank}",
            )
    if any(a >= b for a, b in pairwise(given)):
        raise ShapeError(
            codes.ASCENDING_BROADCAST,
            f"{name}: broadcast_dimensions must be strictly increasing, "
            f"given {given} for {lower.to_text(layout=False)} onto {higher.to_text(layout=False)}",
        )


# -- the instructions


def broadcast_scalar(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Broadcasts a scalar to an array of the given sizes."""
    return _broadcast(operand, operand.shape.with_dimensions(dimensions), ())


def broadcast_in_dimensions(operand: XlaOp, sizes: Sequence[int], broadcast_dimensions: Sequence[int]) -> XlaOp:
    """Maps dimension i of the operand to dimension `broadcast_dimensions[i]` of the result; expands dimensions of size
    1.
    """
    wide = list(sizes)
    dynamic = [False] * len(wide)
    for dimension, target in enumerate(broadcast_dimensions):
        wide[target] = operand.shape.dimensions[dimension]
        dynamic[target] = operand.shape.dynamic_dimensions[dimension]
    placed = _broadcast(operand, operand.shape.with_dimensions(wide, dynamic), tuple(broadcast_dimensions))
    return expand_degenerate(placed, sizes)


def expand_degenerate(operand: XlaOp, sizes: Sequence[int]) -> XlaOp:
    """Expands dimensions of size 1 to `sizes`: a reshape drops them and a broadcast adds them again."""
    shape = operand.shape
    if shape.dimensions == tuple(sizes):
        return operand
    kept = tuple(i for i, size in enumerate(sizes) if shape.dimensions[i] == size)
    dropped = shape.with_dimensions([shape.dimensions[i] for i in kept], [shape.dynamic_dimensions[i] for i in kept])
    dense = append(RESHAPE, [operand], shape=dropped)
    return _broadcast(dense, shape.with_dimensions(sizes, shape.dynamic_dimensions), kept)


def _broadcast_to(operand: XlaOp, sizes: Ints, broadcast_dimensions: Ints) -> XlaOp:
    rank = operand.shape.rank
    if rank == len(sizes):
        return expand_degenerate(operand, sizes)
    if not rank:
        return broadcast_scalar(operand, sizes)
    return broadcast_in_dimensions(operand, sizes, broadcast_dimensions)


def _broadcast(operand: XlaOp, shape: Shape, dimensions: Ints) -> XlaOp:
    return append(BROADCAST, [operand], BroadcastAttributes.make(dimensions=dimensions), shape=shape)
