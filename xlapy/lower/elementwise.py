"""Lowers elementwise operations to operations of loop IR or functions of `loops.mathematics`.

Does not depend on dimensions: the index is only passed to the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xlapy import opcodes
from xlapy.analysis.integer_ranges import integer_range
from xlapy.base.element_types import BF16, F8E8M0FNU, F16, F64, PRED, PrimitiveType
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.loops import I32, Builder, ScalarType, Value
from xlapy.loops.mathematics import COMPLEX_MATHEMATICS, MATHEMATICS
from xlapy.loops.types import integer_type
from xlapy.lower import integers
from xlapy.lower.core import LOWERINGS, ComplexElement, Element, Index, Lowering
from xlapy.lower.element_types import register_type, rounded
from xlapy.lower.narrow_floats import is_narrow, raise_to_smallest_positive, rounded_to_odd
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType, ReducePrecisionAttributes
from xlapy.opcodes.registry import OpDef, lookup

FloatRule = Callable[..., Value]


def _op(name: str) -> Callable[..., Value]:
    """A rule that emits one operation of loop IR, on operands of the result's type."""

    def emit(builder: Builder, *args: Value) -> Value:
        return builder.op(name, args[0].type, *args)

    return emit


def _sign_of_float(builder: Builder, x: Value) -> Value:
    one = builder.constant(x.type, 1.0)
    is_number = builder.compare("one", x, builder.zero(x.type))
    return builder.select(is_number, builder.op("copysign", x.type, one, x), x)


FLOATS: Final[Mapping[OpDef, FloatRule]] = {
    opcodes.ABS: _op("abs"),
    opcodes.ADD: _op("add"),
    opcodes.CEIL: _op("ceil"),
    opcodes.DIVIDE: _op("div"),
    opcodes.FLOOR: _op("floor"),
    opcodes.MAXIMUM: _op("max"),
    opcodes.MINIMUM: _op("min"),
    opcodes.MULTIPLY: _op("mul"),
    opcodes.NEGATE: _op("neg"),
    opcodes.ROUND_NEAREST_EVEN: _op("rint"),
    opcodes.SIGN: _sign_of_float,
    opcodes.SQRT: _op("sqrt"),
    opcodes.SUBTRACT: _op("sub"),
}
"""The rule of each opcode for floats, which are F32 or F64 in registers."""

EXACT: Final = frozenset({
    opcodes.ABS, opcodes.CEIL, opcodes.FLOOR, opcodes.MAXIMUM, opcodes.MINIMUM, opcodes.NEGATE,
    opcodes.ROUND_NEAREST_EVEN, opcodes.SIGN,
})  # fmt: skip
"""Opcodes whose results bf16 and f16 represent if they represent the operands."""

LOGICAL: Final[Mapping[OpDef, str]] = {
    opcodes.ADD: "or",
    opcodes.AND: "and",
    opcodes.MAXIMUM: "or",
    opcodes.MINIMUM: "and",
    opcodes.MULTIPLY: "and",
    opcodes.OR: "or",
    opcodes.XOR: "xor",
}
"""The operation of loop IR of each opcode for PRED."""


def _emit(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    operands = [lowering.element(operand, index) for operand in instruction.operands]
    return compute(lowering.builder, instruction, operands)


def compute(builder: Builder, instruction: Instruction, operands: list[Element]) -> Element:
    """Emits an operation on elements of one type; raises `UnsupportedError` if there is no rule for the type."""
    op, t = instruction.op, instruction.operands[0].shape.element_type
    if t.is_complex and op.name in COMPLEX_MATHEMATICS:
        return _compute_complex(builder, op, operands)
    values = [operand for operand in operands if isinstance(operand, Value)]
    if len(values) < len(operands):
        raise UnsupportedError(
            codes.LOWERED_INSTRUCTION, f"{describe_instruction(instruction)}: elements of {t} do not run on cpu yet"
        )
    if t is PRED and op in LOGICAL:
        return builder.binary(LOGICAL[op], *values)
    if t is PRED and op is opcodes.NOT:
        return builder.logical_not(values[0])
    if t.is_integral and _divides_by_positive(instruction):
        return rounded(builder, integers.divided_by_positive(builder, t, op, *values), t)
    if t.is_integral and op in integers.INTEGERS:
        return rounded(builder, integers.INTEGERS[op](builder, t, *values), t)
    if t.is_floating and op in FLOATS:
        number = FLOATS[op](builder, *values)
        return number if op in EXACT and t in (BF16, F16) else rounded(builder, number, t)
    if t.is_floating and op.name in MATHEMATICS:
        return rounded(builder, MATHEMATICS[op.name](builder, *values), t)
    raise UnsupportedError(
        codes.LOWERED_INSTRUCTION, f"{describe_instruction(instruction)}: elements of {t} do not run on cpu yet"
    )


def _divides_by_positive(instruction: Instruction) -> bool:
    """Whether an instruction divides one integer by another that is known to be positive.

    An array is divided in vectors, of which the lanes beyond its end may be zero.
    """
    if instruction.op not in (opcodes.DIVIDE, opcodes.REMAINDER) or instruction.shape.size != 1:
        return False
    found = integer_range(instruction.operands[1])
    return found is not None and found[0] > 0


def _compute_complex(builder: Builder, op: OpDef, operands: list[Element]) -> Element:
    parts = [(o.real, o.imaginary) for o in operands if isinstance(o, ComplexElement)]
    result = COMPLEX_MATHEMATICS[op.name](builder, *parts)
    return ComplexElement(*result) if len(result) == 2 else result[0]


_FUNCTIONS = [lookup(name) for name in (*MATHEMATICS, *COMPLEX_MATHEMATICS)]
for _definition in dict.fromkeys((*FLOATS, *LOGICAL, *integers.INTEGERS, *_FUNCTIONS)):
    LOWERINGS.rule(_definition)(_emit)


# -- complex parts


@LOWERINGS.rule(opcodes.REAL)
def real(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    operand = lowering.element(instruction.operands[0], index)
    return operand.real if isinstance(operand, ComplexElement) else operand


@LOWERINGS.rule(opcodes.IMAG)
def imag(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    operand = lowering.element(instruction.operands[0], index)
    return operand.imaginary if isinstance(operand, ComplexElement) else lowering.builder.zero(operand.type)


@LOWERINGS.rule(opcodes.COMPLEX)
def complex_of_parts(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    real_part, imaginary = (lowering.value(operand, index) for operand in instruction.operands)
    return ComplexElement(real_part, imaginary)


# -- comparison and selection

_SIGNED: Final = {"EQ": "eq", "NE": "ne", "GE": "sge", "GT": "sgt", "LE": "sle", "LT": "slt"}
_UNSIGNED: Final = {"EQ": "eq", "NE": "ne", "GE": "uge", "GT": "ugt", "LE": "ule", "LT": "ult"}
_FLOATING: Final = {"EQ": "oeq", "NE": "une", "GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}


@LOWERINGS.rule(opcodes.COMPARE)
def compare(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    left, right = (lowering.element(operand, index) for operand in instruction.operands)
    builder, t = lowering.builder, instruction.operands[0].shape.element_type
    attributes = instruction.attributes_as(CompareAttributes)
    direction: ComparisonDirection = attributes.direction
    if isinstance(left, ComplexElement) and isinstance(right, ComplexElement):
        return _compare_complex(builder, direction, left, right)
    assert isinstance(left, Value) and isinstance(right, Value)
    if t.is_floating and attributes.type is ComparisonType.TOTALORDER:
        keys = [total_order_key(builder, value, t) for value in (left, right)]
        return builder.compare(_SIGNED[direction.name], *keys)
    table = _FLOATING if t.is_floating else _SIGNED if t.is_signed else _UNSIGNED
    return builder.compare(table[direction.name], left, right)


def _compare_complex(
    builder: Builder, direction: ComparisonDirection, left: ComplexElement, right: ComplexElement
) -> Value:
    predicate, join = ("oeq", "and") if direction is ComparisonDirection.EQ else ("une", "or")
    real_parts = builder.compare(predicate, left.real, right.real)
    return builder.binary(join, real_parts, builder.compare(predicate, left.imaginary, right.imaginary))


def total_order_key(builder: Builder, value: Value, t: PrimitiveType) -> Value:
    """Integers in the total order of the floats: the magnitude bits of negative numbers are flipped.

    In a type without -0, the only NaN is the smallest.
    """
    bits = builder.bitcast(value, integer_type(value.type.bits))
    if t.float_format.is_signed and not t.float_format.has_negative_zero:
        least = builder.constant(bits.type, -1)
        bits = builder.select(builder.compare("uno", value, value), least, bits)
    flipped = builder.binary("xor", bits, builder.constant(bits.type, 2 ** (bits.type.bits - 1) - 1))
    return builder.select(builder.compare("slt", bits, builder.zero(bits.type)), flipped, bits)


@LOWERINGS.rule(opcodes.SELECT)
def select(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    predicate, on_true, on_false = instruction.operands
    where = index if predicate.shape.rank else ()
    condition = lowering.value(predicate, where)
    return select_element(
        lowering.builder, condition, lowering.element(on_true, index), lowering.element(on_false, index)
    )


def select_element(builder: Builder, condition: Value, on_true: Element, on_false: Element) -> Element:
    """`select` of elements, complex ones included."""
    if isinstance(on_true, ComplexElement) and isinstance(on_false, ComplexElement):
        return ComplexElement(
            builder.select(condition, on_true.real, on_false.real),
            builder.select(condition, on_true.imaginary, on_false.imaginary),
        )
    assert isinstance(on_true, Value) and isinstance(on_false, Value)
    return builder.select(condition, on_true, on_false)


@LOWERINGS.rule(opcodes.CLAMP)
def clamp(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """min(max(x, low), high)."""
    low, operand, high = instruction.operands
    builder, t = lowering.builder, operand.shape.element_type
    bounds = [lowering.value(bound, index if bound.shape.rank else ()) for bound in (low, high)]
    raised = _extreme(builder, t, opcodes.MAXIMUM, lowering.value(operand, index), bounds[0])
    return _extreme(builder, t, opcodes.MINIMUM, bounds[1], raised)


def _extreme(builder: Builder, t: PrimitiveType, op: OpDef, left: Value, right: Value) -> Value:
    if t is PRED:
        return builder.binary(LOGICAL[op], left, right)
    if t.is_integral:
        return integers.INTEGERS[op](builder, t, left, right)
    return FLOATS[op](builder, left, right)


@LOWERINGS.rule(opcodes.IS_FINITE)
def is_finite(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    builder, operand = lowering.builder, lowering.value(instruction.operands[0], index)
    size = builder.unary("abs", operand)
    return builder.compare("olt", size, builder.constant(operand.type, float("inf")))


# -- conversion


@LOWERINGS.rule(opcodes.CONVERT)
def convert(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    (operand,) = instruction.operands
    element = lowering.element(operand, index)
    return convert_element(lowering.builder, element, operand.shape.element_type, instruction.shape.element_type)


def convert_element(builder: Builder, element: Element, source: PrimitiveType, target: PrimitiveType) -> Element:
    """Converts an element: floats to integers saturate, NaN becomes 0; to PRED, everything except 0 is true."""
    if isinstance(element, ComplexElement):
        if target.is_complex:
            wanted = register_type(target)
            return ComplexElement(*(_resized(builder, v, wanted) for v in (element.real, element.imaginary)))
        element, source = element.real, source.component_type
    if target.is_complex:
        part = target.component_type
        return ComplexElement(_converted(builder, element, source, part), builder.zero(register_type(part)))
    return _converted(builder, element, source, target)


def _converted(builder: Builder, value: Value, source: PrimitiveType, target: PrimitiveType) -> Value:
    if source is target:
        return value
    if target is PRED:
        return builder.compare("une" if source.is_floating else "ne", value, builder.zero(value.type))
    wanted = register_type(target)
    if target.is_floating:
        if source is F64 and is_narrow(target):  # in one step
            number = (
                raise_to_smallest_positive(builder, value) if target is F8E8M0FNU else rounded_to_odd(builder, value)
            )
        else:
            number = _to_float(builder, value, source, wanted)
        return rounded(builder, number, target)
    if source.is_floating:
        return _float_to_integer(builder, value, target)
    signed = source.is_signed
    if wanted.bits > value.type.bits:
        return builder.convert("sext" if signed else "zext", value, wanted)
    return rounded(builder, builder.convert("trunc", value, wanted), target)


def _to_float(builder: Builder, value: Value, source: PrimitiveType, wanted: ScalarType) -> Value:
    if source.is_floating:
        return _resized(builder, value, wanted)
    return builder.convert("sitofp" if source.is_signed else "uitofp", value, wanted)


def _resized(builder: Builder, value: Value, wanted: ScalarType) -> Value:
    return builder.convert("fpext" if wanted.bits > value.type.bits else "fptrunc", value, wanted)


def _float_to_integer(builder: Builder, value: Value, target: PrimitiveType) -> Value:
    how, wanted = "fptosi" if target.is_signed else "fptoui", register_type(target)
    if target.bits >= 8:
        return builder.convert(how, value, wanted)
    wide = builder.convert(how, value, I32)
    low, high = (builder.constant(I32, limit) for limit in integers.limits(target))
    if target.is_signed:
        bounded = builder.binary("smin", builder.binary("smax", wide, low), high)
    else:
        bounded = builder.binary("umin", wide, high)
    return builder.convert("trunc", bounded, wanted)


@LOWERINGS.rule(opcodes.REDUCE_PRECISION)
def reduce_precision(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """Rounds to fewer bits of exponent and mantissa, in the same type."""
    (operand,) = instruction.operands
    builder, value = lowering.builder, lowering.value(operand, index)
    t = operand.shape.element_type
    attributes = instruction.attributes_as(ReducePrecisionAttributes)
    exponent_bits, mantissa_bits = attributes.exponent_bits, attributes.mantissa_bits
    return rounded(builder, integers.reduced_precision(builder, t, value, exponent_bits, mantissa_bits), t)
