"""Lowers dot: a sum of products by fused multiply-add.

Floats narrower than F32 are accumulated in F32, integers in the type of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import C64, C128, F8E8M0FNU, F32, F64, PRED, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, AxisKind, Builder, Value
from xlapy.loops.reduction_order import ACCUMULATOR_VECTORS, accumulator_vectors
from xlapy.lower.core import LOWERINGS, ComplexElement, Element, Index, Lowering, flatten_elements
from xlapy.lower.element_types import register_type, rounded
from xlapy.lower.elementwise import convert_element
from xlapy.lower.narrow_floats import raise_to_smallest_positive
from xlapy.lower.reduction import Carried, unflatten_elements
from xlapy.opcodes import contraction as ops
from xlapy.opcodes.contraction import DotAttributes


@LOWERINGS.rule(opcodes.DOT)
def dot(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """Loops over the contracting dimensions. The dimensions of the result are batch, lhs free, rhs free."""
    lhs, rhs = instruction.operands
    attrs: ops.DotAttributes = instruction.attributes_as(DotAttributes)
    lhs_free, rhs_free = attrs.lhs_free_dims(lhs.shape.rank), attrs.rhs_free_dims(rhs.shape.rank)
    batches, frees = len(attrs.lhs_batch_dims), len(lhs_free)
    batch, left, right = index[:batches], index[batches : batches + frees], index[batches + frees :]
    extents = [lhs.shape.dimensions[d] for d in attrs.lhs_contracting_dims]
    t = sum_type([lhs.shape.element_type, rhs.shape.element_type], instruction.shape.element_type)

    def terms(inner: Index) -> tuple[Element, Element]:
        lhs_index = assemble_index(
            lhs.shape.rank, (attrs.lhs_batch_dims, batch), (lhs_free, left), (attrs.lhs_contracting_dims, inner)
        )
        rhs_index = assemble_index(
            rhs.shape.rank, (attrs.rhs_batch_dims, batch), (rhs_free, right), (attrs.rhs_contracting_dims, inner)
        )
        return (
            convert_element(lowering.builder, lowering.element(lhs, lhs_index), lhs.shape.element_type, t),
            convert_element(lowering.builder, lowering.element(rhs, rhs_index), rhs.shape.element_type, t),
        )

    total = sum_of_products(lowering, t, extents, terms)
    return convert_element(lowering.builder, total, t, instruction.shape.element_type)


def sum_type(operands: Sequence[PrimitiveType], result: PrimitiveType) -> PrimitiveType:
    """Returns the type of a sum, to which operands are converted.

    It is that of the result. It is that of the operands if the result is PRED, or integers of floats. If an operand is
    wider than the result, it is F32, F64 or C128, so that no operand is rounded.
    """
    if result.is_floating and any(t.is_floating and t.bits > result.bits for t in operands):
        return F64 if F64 in operands else F32
    if result is C64 and C128 in operands:
        return C128
    has_floats = any(t.is_floating or t.is_complex for t in (*operands, result))
    by_operands = not (result.is_floating or result.is_complex) and (has_floats or result is PRED)
    return reduce(ops.higher_precision_type, operands) if by_operands else result


def assemble_index(rank: int, *parts: tuple[Sequence[int], Index]) -> Index:
    """Assembles an index of `rank` components from pairs of dimensions and positions."""
    index: list[Affine] = [Affine()] * rank
    for dimensions, positions in parts:
        for dimension, position in zip(dimensions, positions, strict=True):
            index[dimension] = position
    return tuple(index)


def zero_element(builder: Builder, t: PrimitiveType) -> Element:
    zero = builder.zero(register_type(t))
    return ComplexElement(zero, zero) if t.is_complex else zero


Terms = Callable[[Index], tuple[Element, Element]]


def sum_of_products(lowering: Lowering, t: PrimitiveType, extents: Sequence[int], terms: Terms) -> Element:
    """The sum of left * right over all indices below `extents`; `terms(index)` returns the two factors."""
    builder = lowering.builder
    start = zero_element(builder, t)

    def nest(index: Index, carried: Carried) -> list[Value]:
        if len(index) == len(extents):
            left, right = terms(index)
            (total,) = unflatten_elements(carried, [start])
            return flatten_elements([multiply_add(builder, t, left, right, total)])
        last = len(index) == len(extents) - 1
        options = sums_in_lanes(builder, t, extents[-1]) if last and not builder.block.in_vector else {}
        return builder.reduce(extents[len(index)], carried, lambda p, c: nest((*index, p), c), **options)

    (total,) = unflatten_elements(nest((), flatten_elements([start])), [start])
    return rounded_sum(builder, total, t) if isinstance(total, Value) else total


def rounded_sum(builder: Builder, total: Value, t: PrimitiveType) -> Value:
    """Rounds a finished sum of products to its type."""
    return rounded(builder, raise_to_smallest_positive(builder, total) if t is F8E8M0FNU else total, t)


def sums_in_lanes(
    builder: Builder, t: PrimitiveType, extent: int, *, count: int = 1, limit: int = ACCUMULATOR_VECTORS
) -> dict[str, Any]:
    """The arguments of `Builder.reduce` for `count` sums in vectors along the terms; {} if there are too few terms."""
    kind = register_type(t)
    width = builder.lanes(kind)
    if extent < width or t.is_complex:
        return {}
    op = "or" if kind.bits == 1 else "add"
    return {
        "kind": AxisKind.VECTOR,
        "width": width,
        "accumulators": accumulator_vectors(extent, width, sums=count, limit=limit),
        "identities": [builder.constant(kind, -0.0 if kind.is_float else 0)] * count,
        "combine": lambda left, right: [builder.binary(op, a, b) for a, b in zip(left, right, strict=True)],
    }


def multiply_add(builder: Builder, t: PrimitiveType, left: Element, right: Element, total: Element) -> Element:
    """total + left * right."""
    if isinstance(left, ComplexElement) and isinstance(right, ComplexElement) and isinstance(total, ComplexElement):
        real = builder.fma(left.real, right.real, total.real)
        imaginary = builder.fma(left.real, right.imaginary, total.imaginary)
        negated = builder.unary("neg", left.imaginary)
        return ComplexElement(
            builder.fma(negated, right.imaginary, real), builder.fma(left.imaginary, right.real, imaginary)
        )
    assert isinstance(left, Value) and isinstance(right, Value) and isinstance(total, Value)
    if t.is_floating:
        return builder.fma(left, right, total)
    if left.type.bits == 1:
        return builder.binary("or", total, builder.binary("and", left, right))
    return builder.add(total, builder.mul(left, right))
