"""Op generators for elementwise instructions: one for all ops with operands of equal shape, one per other op."""

from __future__ import annotations

from functools import lru_cache

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import NoAttributes
from xlapy.opcodes.elementwise import (
    CompareAttributes,
    ComparisonDirection,
    ComparisonType,
    ReducePrecisionAttributes,
    bitcast_convert_shape,
)
from xlapy.opcodes.registry import REGISTRY, OpDef, exactly
from xlapy.testing.random_modules.generator import MAX_ELEMENTS, ModuleGenerator, OpGenerator, SkipDraw

_UNIFORM = [op for op in REGISTRY.values() if op.elementwise and op.infer is not None and op.attributes is NoAttributes]
"""Ops that follow from their operands alone. Clamp and select, whose operands differ in shape, have op generators."""
UNARY = tuple(op for op in _UNIFORM if op.arity == exactly(1))
BINARY = tuple(op for op in _UNIFORM if op.arity == exactly(2))
_EXACT_FOR_FLOATS = frozenset(
    {
        opcodes.ABS,
        opcodes.NEGATE,
        opcodes.IS_FINITE,
        opcodes.MAXIMUM,
        opcodes.MINIMUM,
        opcodes.ADD,
        opcodes.SUBTRACT,
        opcodes.FLOOR,
        opcodes.CEIL,
    }
)
"""Ops on f32 and f64 that give the same bits everywhere and contain no product that could be rounded together with a
sum.
"""


@lru_cache(maxsize=4096)
def _result(op: OpDef, t: PrimitiveType) -> PrimitiveType | None:
    """Returns the element type of the result for operands of type `t`; None if the op refuses them."""
    try:
        return op.result_shape([Shape.scalar(t)] * op.arity.minimum).element_type
    except ShapeError:
        return None


def _takes(generator: ModuleGenerator, op: OpDef, t: PrimitiveType) -> bool:
    result = _result(op, t)
    return result is PRED or (result in generator.choices.types and (not generator.exact or _is_exact(op, t)))


def _is_exact(op: OpDef, t: PrimitiveType) -> bool:
    return op in _EXACT_FOR_FLOATS if t.is_floating else op is not opcodes.POWER


def uniform(op: OpDef) -> OpGenerator:
    """Returns an op generator for an op whose operands all have the same shape."""

    def make(generator: ModuleGenerator) -> None:
        first = generator.array(lambda _: True, lambda t: _takes(generator, op, t))
        others = [generator.value(first.shape) for _ in range(op.arity.minimum - 1)]
        generator.add(op, (first, *others))

    return make


def compare(generator: ModuleGenerator) -> None:
    lhs = generator.array(lambda _: True, lambda t: True)
    t = lhs.shape.element_type
    directions = list(ComparisonDirection)
    direction = generator.choice(directions[:2] if t.is_complex else directions)
    order = ComparisonType.TOTALORDER if t.is_floating and generator.chance(0.3) else None
    attributes = CompareAttributes.make(direction=direction, type=order)
    generator.add(opcodes.COMPARE, (lhs, generator.value(lhs.shape)), attributes)


def select(generator: ModuleGenerator) -> None:
    on_true = generator.array(lambda _: True, lambda t: True)
    dimensions = () if generator.chance(0.3) else on_true.shape.dimensions
    generator.add(opcodes.SELECT, (generator.array_of(dimensions, PRED), on_true, generator.value(on_true.shape)))


def clamp(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda _: True, lambda t: not t.is_complex)
    shape = operand.shape
    low, high = (
        generator.value(Shape.scalar(shape.element_type) if generator.chance(0.5) else shape) for _ in range(2)
    )
    generator.add(opcodes.CLAMP, (low, operand, high))


def convert(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda _: True, lambda t: True)
    source = operand.shape.element_type
    target = generator.type(lambda t: t.is_complex or not source.is_complex)
    generator.add(opcodes.CONVERT, (operand,), shape=operand.shape.with_element_type(target))


def bitcast_convert(generator: ModuleGenerator) -> None:
    """Adds a bitcast-convert, also to other widths. Exact computations avoid it, because the bits of a NaN vary."""
    if generator.exact:
        raise SkipDraw
    operand = generator.array(lambda _: True, lambda t: True)
    shapes: list[Shape] = []
    for t in generator.choices.types:
        try:
            shape = bitcast_convert_shape(operand.shape, t)
        except ShapeError:
            continue
        if shape.size <= MAX_ELEMENTS and t.is_complex == operand.shape.element_type.is_complex:
            shapes.append(shape)
    other_widths = [shape for shape in shapes if shape.rank != operand.shape.rank]
    chosen = generator.choice(other_widths if other_widths and generator.chance(0.5) else shapes)
    if PRED in (chosen.element_type, operand.shape.element_type):
        raise SkipDraw  # a pred with bits other than 0 and 1 is undefined
    generator.add(opcodes.BITCAST_CONVERT, (operand,), shape=chosen)


def reduce_precision(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda _: True, lambda t: t.is_floating)
    exponent, mantissa = generator.choice(((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (2, 1), (1, 0), (3, 30)))
    generator.add(
        opcodes.REDUCE_PRECISION,
        (operand,),
        ReducePrecisionAttributes.make(exponent_bits=exponent, mantissa_bits=mantissa),
    )


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    *((op, uniform(op)) for op in (*UNARY, *BINARY, *BINARY)),
    *((opcodes.COMPARE, compare) for _ in range(4)),
    *((opcodes.SELECT, select) for _ in range(3)),
    *((opcodes.CLAMP, clamp) for _ in range(3)),
    *((opcodes.CONVERT, convert) for _ in range(8)),
    *((opcodes.BITCAST_CONVERT, bitcast_convert) for _ in range(3)),
    *((opcodes.REDUCE_PRECISION, reduce_precision) for _ in range(2)),
)
"""Op generators with the op of each. An op generator that occurs several times is drawn more often."""
