"""Finds dots of operands that are masked by groups: ragged dots as JAX writes them for most platforms.

    mask   = pred[g,m,k] and(compare(starts, iota(m), LE), compare(iota(m), ends, LT))
    masked = f32[g,m,k] select(mask, broadcast(f32[m,k] x), 0)

| dot | ragged dot |
|---|---|
| f32[m,n] dot(masked, f32[g,k,n] w), which contracts g and k | f32[m,n] ragged-dot(x, w, sizes): the rows are ragged |
| f32[g,k,n] dot(masked, masked y), g is a batch dimension | f32[g,k,n] ragged-dot(x, y, sizes): the terms are ragged |

The starts are 0 and all ends but the last one. Does not depend on how such a dot is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.lower.sources import uniform_value
from xlapy.opcodes.contraction import Algorithm, DotAttributes, RaggedDotAttributes
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.opcodes.movement import SliceAttributes
from xlapy.opcodes.sources import IotaAttributes


@dataclass(frozen=True, slots=True)
class MaskedDot:
    """A dot that equals a ragged dot if no group ends before it starts and the tested operand is finite."""

    lhs: Instruction
    rhs: Instruction
    ends: Instruction
    """The position after the last one of each group, along the last dimension; integers of any type."""
    attributes: RaggedDotAttributes
    limit: int
    """The size of the ragged dimension."""
    order: tuple[int, ...]
    """The dimension of the ragged dot that each dimension of the dot is."""
    tested: Instruction | None
    """An operand whose infinities and NaN would make elements of other groups NaN; None if there is none."""


def masked_dot(dot: Instruction) -> MaskedDot | None:
    """Describes a dot as a ragged dot; None if it is not one."""
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    if attrs.algorithm is not Algorithm.UNSET or dot.shape.is_dynamic or dot.shape.element_type.is_complex:
        return None
    sides = (
        _without_transpose(dot.operands[0], attrs.lhs_batch_dims, attrs.lhs_contracting_dims),
        _without_transpose(dot.operands[1], attrs.rhs_batch_dims, attrs.rhs_contracting_dims),
    )
    left, right = (_masked(side.operand) for side in sides)
    if left is None or any(o.shape.element_type.is_complex for o in dot.operands):
        return None
    found = _ragged_rows(dot, sides, left)
    return _ragged_terms(dot, sides, left, right) if found is None and right is not None else found


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot, and its paired dimensions."""

    operand: Instruction
    batch: tuple[int, ...]
    contracting: tuple[int, ...]

    @property
    def free(self) -> list[int]:
        return [d for d in range(self.operand.shape.rank) if d not in (*self.batch, *self.contracting)]


def _without_transpose(operand: Instruction, batch: tuple[int, ...], contracting: tuple[int, ...]) -> _Side:
    """The operand, or what it transposes if the free dimensions keep their order."""
    side = _Side(operand, batch, contracting)
    if operand.op is not opcodes.TRANSPOSE:
        return side
    order = operand.dimensions
    inner = _Side(operand.operands[0], tuple(order[d] for d in batch), tuple(order[d] for d in contracting))
    return inner if [order[d] for d in side.free] == inner.free else side


def _ragged_rows(dot: Instruction, sides: tuple[_Side, _Side], left: _Masked) -> MaskedDot | None:
    """The ragged dot if the groups are contracted with those of the right operand."""
    lhs, rhs = sides
    if left.group not in lhs.contracting or left.prefix not in ((), lhs.batch) or lhs.free[:1] != [left.ragged]:
        return None
    position = lhs.contracting.index(left.group)
    rest = [d for number, d in enumerate(rhs.contracting) if number != position]
    ragged = RaggedDotAttributes.make(
        lhs_batch_dims=left.inner(lhs.batch),
        lhs_contracting_dims=left.inner(lhs.contracting),
        rhs_batch_dims=rhs.batch,
        rhs_contracting_dims=tuple(rest),
        lhs_ragged_dims=left.inner((left.ragged,)),
        rhs_group_dims=(rhs.contracting[position],),
        operand_precision=dot.attributes_as(DotAttributes).operand_precision,
    )
    weights = rhs.operand
    tested = weights if weights.shape.element_type.is_floating else None
    order = tuple(range(dot.shape.rank))
    return MaskedDot(left.array, weights, left.ends, ragged, left.limit, order, tested)


def _ragged_terms(dot: Instruction, sides: tuple[_Side, _Side], left: _Masked, right: _Masked) -> MaskedDot | None:
    """The ragged dot if both operands are masked by the same groups, which are a batch dimension."""
    lhs, rhs = sides
    batches = list(zip(lhs.batch, rhs.batch, strict=True))
    terms = list(zip(lhs.contracting, rhs.contracting, strict=True))
    if left.ends is not right.ends or (left.group, right.group) not in batches:
        return None
    others = [pair for pair in batches if pair != (left.group, right.group)]
    if terms[:1] != [(left.ragged, right.ragged)]:
        return None
    prefixes = tuple(a for a, _ in others), tuple(b for _, b in others)
    if (left.prefix, right.prefix) not in (((), ()), prefixes):
        return None
    ragged = RaggedDotAttributes.make(
        lhs_batch_dims=left.inner(prefixes[0]),
        lhs_contracting_dims=left.inner(lhs.contracting),
        rhs_batch_dims=right.inner(prefixes[1]),
        rhs_contracting_dims=right.inner(rhs.contracting),
        lhs_ragged_dims=left.inner((left.ragged,)),
        operand_precision=dot.attributes_as(DotAttributes).operand_precision,
    )
    position = lhs.batch.index(left.group)
    order = (*range(1, position + 1), 0, *range(position + 1, dot.shape.rank))
    return MaskedDot(left.array, right.array, left.ends, ragged, left.limit, order, None)


@dataclass(frozen=True, slots=True)
class _Masked:
    """An array that is 0 where an index is not in a group: `select(mask, broadcast(array), 0)`."""

    array: Instruction
    ends: Instruction
    prefix: tuple[int, ...]
    """The dimensions of the masked array that the ends have besides that of the groups."""
    group: int
    """The dimension of the masked array along which the groups are."""
    ragged: int
    """The dimension that the groups divide."""
    limit: int
    """The size of the ragged dimension."""

    def inner(self, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        """The dimensions of the array without a mask; the dimension of the groups is left out."""
        return tuple(d - (d > self.group) for d in dimensions if d != self.group)


def _masked(operand: Instruction) -> _Masked | None:
    """Describes an operand as an array that is masked by groups; None if it is none."""
    if operand.op is not opcodes.SELECT or operand.shape.is_dynamic:
        return None
    mask, taken, other = operand.operands
    if not _is_zero(other) or taken.op is not opcodes.BROADCAST or mask.op is not opcodes.AND:
        return None
    tests = [_comparison(test) for test in mask.operands]
    tests.sort(key=lambda test: test is not None and test[0])
    if None in tests:
        return None
    (is_end, starts, position), (is_other_end, ends, other_position) = [test for test in tests if test is not None]
    if is_end or not is_other_end or starts.dimensions != ends.dimensions or not _are_starts(starts, ends):
        return None
    ragged, other_ragged = _iota_dimension(position), _iota_dimension(other_position)
    *prefix, group = ends.dimensions
    rest = tuple(d for d in range(operand.shape.rank) if d != group)
    if ragged is None or ragged != other_ragged or tuple(taken.dimensions) != rest or ragged in ends.dimensions:
        return None
    limit, counted = operand.shape.dimensions[ragged], ends.shape.element_type
    if limit > 1 << (counted.bits - counted.is_signed):  # the positions would wrap
        return None
    return _Masked(
        taken.operands[0],
        ends.operands[0],
        tuple(prefix),
        group,
        ragged,
        limit,
    )


def _comparison(test: Instruction) -> tuple[bool, Instruction, Instruction] | None:
    """Describes `starts <= position` as (False, starts, position), `position < ends` as (True, ends, position)."""
    if test.op is not opcodes.COMPARE or not test.operands[0].shape.element_type.is_integral:
        return None
    left, right = test.operands
    direction = test.attributes_as(CompareAttributes).direction
    if direction in (ComparisonDirection.GE, ComparisonDirection.GT):
        left, right = right, left
    is_end = direction in (ComparisonDirection.LT, ComparisonDirection.GT)
    bound, position = (right, left) if is_end else (left, right)
    if direction in (ComparisonDirection.EQ, ComparisonDirection.NE) or bound.op is not opcodes.BROADCAST:
        return None
    return (is_end, bound, position) if bound.dimensions else None


def _iota_dimension(position: Instruction) -> int | None:
    """The dimension along which an array counts from 0; None if it does not."""
    if position.op is opcodes.IOTA:
        return position.attributes_as(IotaAttributes).iota_dimension
    if position.op is opcodes.BROADCAST and (inner := position.operands[0]).op is opcodes.IOTA:
        return position.dimensions[inner.attributes_as(IotaAttributes).iota_dimension]
    return None


def _are_starts(starts: Instruction, ends: Instruction) -> bool:
    """Whether each group starts where the group before it ends, and the first one at 0. Both are broadcasts."""
    joined, all_ends = starts.operands[0], ends.operands[0]
    last = all_ends.shape.rank - 1
    if joined.op is not opcodes.CONCATENATE or joined.dimension != last or len(joined.operands) != 2:
        return False
    zero, others = joined.operands
    if others.op is not opcodes.SLICE or others.operands[0] is not all_ends or not _is_zero(zero):
        return False
    ranges = others.attributes_as(SliceAttributes).ranges
    is_leading = not any(ranges.starts) and all(stride == 1 for stride in ranges.strides)
    return zero.shape.dimensions[last] == 1 and is_leading


def _is_zero(array: Instruction) -> bool:
    while array.op is opcodes.BROADCAST:
        array = array.operands[0]
    return array.op is opcodes.CONSTANT and array.shape.is_array and uniform_value(array) == 0
