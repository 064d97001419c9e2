"""Makers of elementwise instructions: one maker for all ops that take operands of equal shape, and one a special op."""

from __future__ import annotations

from functools import lru_cache

from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.ops import elementwise as ops
from xlapy.ops.elementwise import (
    CompareAttributes,
    ComparisonDirection,
    ComparisonType,
    ReducePrecisionAttributes,
    bitcast_convert_shape,
)
from xlapy.ops.registry import OpDef
from xlapy.testing.random_modules.draft import MOST_ELEMENTS, Draft, Maker, Unsuitable

UNARY = (
    ops.ABS,
    ops.ACOS,
    ops.ACOSH,
    ops.ASIN,
    ops.ASINH,
    ops.ATAN,
    ops.ATANH,
    ops.CBRT,
    ops.CEIL,
    ops.COSINE,
    ops.COSH,
    ops.COUNT_LEADING_ZEROS,
    ops.ERF,
    ops.EXPONENTIAL,
    ops.EXPONENTIAL_MINUS_ONE,
    ops.FLOOR,
    ops.IMAG,
    ops.IS_FINITE,
    ops.LOG,
    ops.LOG_PLUS_ONE,
    ops.LOGISTIC,
    ops.NEGATE,
    ops.NOT,
    ops.POPCNT,
    ops.REAL,
    ops.ROUND_NEAREST_AFZ,
    ops.ROUND_NEAREST_EVEN,
    ops.RSQRT,
    ops.SIGN,
    ops.SINE,
    ops.SINH,
    ops.SQRT,
    ops.TAN,
    ops.TANH,
)
BINARY = (
    ops.ADD,
    ops.AND,
    ops.ATAN2,
    ops.DIVIDE,
    ops.MAXIMUM,
    ops.MINIMUM,
    ops.MULHI,
    ops.MULTIPLY,
    ops.OR,
    ops.POWER,
    ops.REMAINDER,
    ops.SHIFT_LEFT,
    ops.SHIFT_RIGHT_ARITHMETIC,
    ops.SHIFT_RIGHT_LOGICAL,
    ops.SUBTRACT,
    ops.XOR,
    ops.COMPLEX,
)
_EXACT_FOR_FLOATS = frozenset(
    {
        ops.ABS,
        ops.NEGATE,
        ops.IS_FINITE,
        ops.MAXIMUM,
        ops.MINIMUM,
        ops.ADD,
        ops.SUBTRACT,
        ops.FLOOR,
        ops.CEIL,
    }
)
"""Among floats of 32 and 64 bits: the same bits everywhere, and no product that could be rounded with a sum."""


@lru_cache(maxsize=4096)
def _result(op: OpDef, t: PrimitiveType) -> PrimitiveType | None:
    """The element type that an op makes of operands of type `t`; None if it refuses them."""
    try:
        return op.result_shape([Shape.scalar(t)] * op.arity.least).element_type
    except ShapeError:
        return None


def _takes(draft: Draft, op: OpDef, t: PrimitiveType) -> bool:
    result = _result(op, t)
    return result is PRED or (result in draft.choices.types and (not draft.exact or _is_exact(op, t)))


def _is_exact(op: OpDef, t: PrimitiveType) -> bool:
    return op in _EXACT_FOR_FLOATS if t.is_floating else op is not ops.POWER


def uniform(op: OpDef) -> Maker:
    """A maker of an op whose operands all have one shape."""

    def make(draft: Draft) -> None:
        first = draft.array(lambda _: True, lambda t: _takes(draft, op, t))
        others = [draft.value(first.shape) for _ in range(op.arity.least - 1)]
        draft.add(op, (first, *others))

    return make


def compare(draft: Draft) -> None:
    lhs = draft.array(lambda _: True, lambda t: True)
    t = lhs.shape.element_type
    directions = list(ComparisonDirection)
    direction = draft.choice(directions[:2] if t.is_complex else directions)
    order = ComparisonType.TOTALORDER if t.is_floating and draft.chance(0.3) else None
    attributes = CompareAttributes.make(direction=direction, type=order)
    draft.add(ops.COMPARE, (lhs, draft.value(lhs.shape)), attributes)


def select(draft: Draft) -> None:
    on_true = draft.array(lambda _: True, lambda t: True)
    dimensions = () if draft.chance(0.3) else on_true.shape.dimensions
    draft.add(ops.SELECT, (draft.values(dimensions, PRED), on_true, draft.value(on_true.shape)))


def clamp(draft: Draft) -> None:
    operand = draft.array(lambda _: True, lambda t: not t.is_complex)
    shape = operand.shape
    low, high = (draft.value(Shape.scalar(shape.element_type) if draft.chance(0.5) else shape) for _ in range(2))
    draft.add(ops.CLAMP, (low, operand, high))


def convert(draft: Draft) -> None:
    operand = draft.array(lambda _: True, lambda t: True)
    source = operand.shape.element_type
    target = draft.type(lambda t: t.is_complex or not source.is_complex)
    draft.add(ops.CONVERT, (operand,), shape=operand.shape.with_element_type(target))


def bitcast_convert(draft: Draft) -> None:
    """Of one width to another too; exact computations do without, as the bits of a NaN vary."""
    if draft.exact:
        raise Unsuitable
    operand = draft.array(lambda _: True, lambda t: True)
    shapes: list[Shape] = []
    for t in draft.choices.types:
        try:
            shape = bitcast_convert_shape(operand.shape, t)
        except ShapeError:
            continue
        if shape.size <= MOST_ELEMENTS and t.is_complex == operand.shape.element_type.is_complex:
            shapes.append(shape)
    other_widths = [shape for shape in shapes if shape.rank != operand.shape.rank]
    chosen = draft.choice(other_widths if other_widths and draft.chance(0.5) else shapes)
    if PRED in (chosen.element_type, operand.shape.element_type):
        raise Unsuitable  # a pred of other bits than 0 and 1 has no meaning
    draft.add(ops.BITCAST_CONVERT, (operand,), shape=chosen)


def reduce_precision(draft: Draft) -> None:
    operand = draft.array(lambda _: True, lambda t: t.is_floating)
    exponent, mantissa = draft.choice(((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (2, 1), (1, 0), (3, 30)))
    draft.add(
        ops.REDUCE_PRECISION, (operand,), ReducePrecisionAttributes.make(exponent_bits=exponent, mantissa_bits=mantissa)
    )


MAKERS: tuple[tuple[OpDef, Maker], ...] = (
    *((op, uniform(op)) for op in (*UNARY, *BINARY, *BINARY)),
    *((ops.COMPARE, compare) for _ in range(4)),
    *((ops.SELECT, select) for _ in range(3)),
    *((ops.CLAMP, clamp) for _ in range(3)),
    *((ops.CONVERT, convert) for _ in range(8)),
    *((ops.BITCAST_CONVERT, bitcast_convert) for _ in range(3)),
    *((ops.REDUCE_PRECISION, reduce_precision) for _ in range(2)),
)
"""Makers with the op each makes; a maker that stands there several times is drawn as often."""
