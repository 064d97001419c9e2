"""Expansions of contractions: ragged dots and scaled dots.

Source: ScaledDot of the specification; `chlo.ragged_dot` of StableHLO.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import BF16, F8E8M0FNU, F16, F32, F64, PRED, S32, S64, PrimitiveType
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.contraction import (
    DotAttributes,
    RaggedDotAttributes,
    RaggedMode,
    group_prefix,
    ragged_mode,
    with_comparable_types,
)
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.passes.expand.blocks import compare, iota, reduce_dimensions, reducer_computation
from xlapy.passes.expand.core import EXPANSIONS, wide_type
from xlapy.passes.rewrite import Writer


def _require_static(instruction: Instruction) -> None:
    for shape in (instruction.shape, *(operand.shape for operand in instruction.operands)):
        if shape.is_dynamic:
            raise UnsupportedError(
                codes.EXPANSION, f"{instruction.op.name} of dynamic dimensions, given {shape.to_text(layout=False)}"
            )
        if shape.element_type is F8E8M0FNU and instruction.op is opcodes.RAGGED_DOT:
            raise UnsupportedError(codes.EXPANSION, f"{shape.element_type} has no 0 for elements outside a group")


def _dot(write: Writer, lhs: Instruction, rhs: Instruction, attrs: DotAttributes, t: PrimitiveType) -> Instruction:
    shape = opcodes.DOT.result_shape(with_comparable_types([lhs.shape, rhs.shape]), attrs).with_element_type(t)
    return write.add(opcodes.DOT, lhs, rhs, attributes=attrs, shape=shape)


# -- scaled dot


@EXPANSIONS.rule(opcodes.SCALED_DOT)
def scaled_dot(write: Writer, instruction: Instruction) -> Instruction:
    """A dot of the operands multiplied by their scales, each broadcast along its block."""
    _require_static(instruction)
    lhs, rhs, lhs_scale, rhs_scale = instruction.operands
    t = _product_type(instruction)
    left, right = _scaled(write, lhs, lhs_scale, t), _scaled(write, rhs, rhs_scale, t)
    return _dot(write, left, right, instruction.attributes_as(DotAttributes), instruction.shape.element_type)


def _product_type(instruction: Instruction) -> PrimitiveType:
    """Returns the type to which scaled elements are rounded: the result's, if it is not narrower than the operands."""
    types = [operand.shape.element_type for operand in instruction.operands]
    t = instruction.shape.element_type
    if t.is_complex or (t.is_floating and t.bits >= F32.bits):
        return t
    if not all(each.is_floating and each.bits <= F32.bits for each in (*types, t)):
        raise UnsupportedError(codes.EXPANSION, f"scaled-dot of {', '.join(map(str, types))} to {t}")
    return t if t in (F16, BF16) and all(each.bits <= t.bits for each in types) else F32


def _scaled(write: Writer, operand: Instruction, scale: Instruction, t: PrimitiveType) -> Instruction:
    """Returns the operand times its scale; a bf16 scale of one element may mean that the operand has no scale.

    Computes in f32 at least, and in f64 for scales of f8e8m0fnu, whose smallest number is denormal in f32 and may be
    flushed to 0.
    """
    shape, blocks = operand.shape, scale.shape
    wide = F64 if blocks.element_type is F8E8M0FNU and t is F32 else wide_type(t)
    product = write.convert(operand, wide)
    unscaled = blocks.size == 1 and shape.size != 1 and blocks.element_type is shape.element_type is BF16
    if not unscaled and blocks.rank == shape.rank:
        pairs = zip(shape.dimensions, blocks.dimensions, strict=True)
        split = Shape.array(wide, [part for size, count in pairs for part in (count, size // count)])
        repeated = write.broadcast(write.convert(scale, wide), split, range(0, 2 * shape.rank, 2))
        product = write.add(opcodes.MULTIPLY, product, write.reshape(repeated, product.shape))
    return write.convert(product, t)


# -- ragged dot


@EXPANSIONS.rule(opcodes.RAGGED_DOT)
def ragged_dot(write: Writer, instruction: Instruction) -> Instruction:
    """A dot of all elements, in which those are zero that do not belong to their group."""
    _require_static(instruction)
    attrs: RaggedDotAttributes = instruction.attributes_as(RaggedDotAttributes)
    group_sizes = instruction.operands[2]
    count = group_sizes.shape.dimensions[-1]
    if not count or not instruction.shape.size:
        return write.splat(0, instruction.shape)
    owners = _owners(write, group_sizes, instruction.operands[0].shape.dimensions[attrs.lhs_ragged_dims[0]])
    rule = {
        RaggedMode.FREE: _ragged_free,
        RaggedMode.CONTRACTING: _ragged_contracting,
        RaggedMode.BATCH: _ragged_batch,
    }[ragged_mode(attrs)]
    return rule(write, instruction, owners, count)


def _owners(write: Writer, group_sizes: Instruction, size: int) -> Instruction:
    """Returns s32[..., size], the group of each index of the ragged dimension; the group count for an index in none."""
    ends = ends_of_groups(write, group_sizes)
    *leading, count = ends.shape.dimensions
    rank = len(leading)
    table = Shape.array(S64, (*leading, size, count))
    spread = write.broadcast(ends, table, (*range(rank), rank + 1))
    passed = compare(write, spread, iota(write, table, rank), ComparisonDirection.LE)
    return reduce_dimensions(write, opcodes.ADD, write.convert(passed, S32), [rank + 1])


def ends_of_groups(write: Writer, group_sizes: Instruction) -> Instruction:
    """Writes s64[..., groups], the sums of the sizes of the groups up to each one."""
    sizes = write.convert(group_sizes, S64)
    *leading, count = sizes.shape.dimensions
    rank = len(leading)
    window = Window.make([1] * rank + [count], padding=[(0, 0)] * rank + [(count - 1, 0)])
    return write.add(
        opcodes.REDUCE_WINDOW,
        sizes,
        write.scalar(0, S64),
        attributes=WindowAttributes.make(window=window),
        computations=[reducer_computation(write, opcodes.ADD, S64)],
    )


def _compare_owner(
    write: Writer,
    owners: Instruction,
    dimensions: Sequence[int],
    shape: Shape,
    direction: ComparisonDirection,
    group: Instruction,
) -> Instruction:
    """Compares the owner of each element with a group. dimensions: of the array, those that the owners have."""
    numbers = shape.with_element_type(S32)
    return compare(write, write.broadcast(owners, numbers, dimensions), group, direction)


def _owner_dimensions_of_lhs(owners: Instruction, attrs: RaggedDotAttributes, rank: int) -> list[int]:
    """Returns the dimensions of lhs, an array of the given rank, that correspond to those of the owners."""
    return list((*group_prefix(attrs, rank), *attrs.lhs_ragged_dims)[-owners.shape.rank :])


def _owner_dimensions_of_result(owners: Instruction, attrs: RaggedDotAttributes, rank: int) -> list[int]:
    order = [*attrs.lhs_batch_dims, *attrs.lhs_free_dims(rank)]
    return [order.index(d) for d in _owner_dimensions_of_lhs(owners, attrs, rank)]


def _dot_attributes(attrs: RaggedDotAttributes) -> DotAttributes:
    return DotAttributes.make(
        lhs_batch_dims=attrs.lhs_batch_dims,
        lhs_contracting_dims=attrs.lhs_contracting_dims,
        rhs_batch_dims=attrs.rhs_batch_dims,
        rhs_contracting_dims=attrs.rhs_contracting_dims,
        operand_precision=attrs.operand_precision,
    )


def _or_zero(write: Writer, condition: Instruction, values: Instruction) -> Instruction:
    return write.add(opcodes.SELECT, condition, values, write.splat(0, values.shape))


def _ragged_free(write: Writer, instruction: Instruction, owners: Instruction, count: int) -> Instruction:
    """`[b,m,k] [g,b,k,n] -> [b,m,g,n]`, in which each row keeps its own group, reduced over the groups."""
    (lhs, rhs, _), attrs, t = (
        instruction.operands,
        instruction.attributes_as(RaggedDotAttributes),
        instruction.shape.element_type,
    )
    rank = lhs.shape.rank
    sums = _dot(write, lhs, rhs, _dot_attributes(attrs), t)
    axis = rank - len(attrs.lhs_contracting_dims) + attrs.rhs_free_dims(rhs.shape.rank).index(attrs.rhs_group_dims[0])
    group = iota(write, sums.shape.with_element_type(S32), axis)
    dimensions = _owner_dimensions_of_result(owners, attrs, rank)
    own = _compare_owner(write, owners, dimensions, sums.shape, ComparisonDirection.EQ, group)
    return reduce_dimensions(write, opcodes.OR if t is PRED else opcodes.ADD, _or_zero(write, own, sums), [axis])


def _ragged_contracting(write: Writer, instruction: Instruction, owners: Instruction, count: int) -> Instruction:
    """`[g,b,m,k] [g,b,k,n] -> [g,b,m,n]` of operands broadcast to all groups, 0 where the group does not own them."""
    (lhs, rhs, _), attrs = instruction.operands, instruction.attributes_as(RaggedDotAttributes)
    pairs = dict(zip(attrs.lhs_batch_dims, attrs.rhs_batch_dims, strict=True))
    pairs |= dict(zip(attrs.lhs_contracting_dims, attrs.rhs_contracting_dims, strict=True))
    own = _owner_dimensions_of_lhs(owners, attrs, lhs.shape.rank)
    left = _by_group(write, lhs, owners, own, count)
    right = _by_group(write, rhs, owners, [pairs[d] for d in own], count)
    shifted = DotAttributes.make(
        lhs_batch_dims=(0, *(d + 1 for d in attrs.lhs_batch_dims)),
        lhs_contracting_dims=tuple(d + 1 for d in attrs.lhs_contracting_dims),
        rhs_batch_dims=(0, *(d + 1 for d in attrs.rhs_batch_dims)),
        rhs_contracting_dims=tuple(d + 1 for d in attrs.rhs_contracting_dims),
        operand_precision=attrs.operand_precision,
    )
    return _dot(write, left, right, shifted, instruction.shape.element_type)


def _by_group(
    write: Writer, operand: Instruction, owners: Instruction, dimensions: Sequence[int], count: int
) -> Instruction:
    """Broadcasts an operand along a new first dimension of groups, with 0 where another group owns the element."""
    shape = Shape.array(operand.shape.element_type, (count, *operand.shape.dimensions))
    repeated = write.broadcast(operand, shape, range(1, shape.rank))
    group = iota(write, shape.with_element_type(S32), 0)
    shifted = [d + 1 for d in dimensions]
    return _or_zero(write, _compare_owner(write, owners, shifted, shape, ComparisonDirection.EQ, group), repeated)


def _ragged_batch(write: Writer, instruction: Instruction, owners: Instruction, count: int) -> Instruction:
    """`[b,m,k] [b,k,n] -> [b,m,n]`, 0 for batches that no group covers."""
    (lhs, rhs, _), attrs = instruction.operands, instruction.attributes_as(RaggedDotAttributes)
    sums = _dot(write, lhs, rhs, _dot_attributes(attrs), instruction.shape.element_type)
    groups = write.splat(count, sums.shape.with_element_type(S32))
    dimensions = _owner_dimensions_of_result(owners, attrs, lhs.shape.rank)
    return _or_zero(write, _compare_owner(write, owners, dimensions, sums.shape, ComparisonDirection.LT, groups), sums)
