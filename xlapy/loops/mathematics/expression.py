"""Expressions: values of loop IR with Python operators, in which this package writes its formulas.

`x * y + 1` on expressions appends the operations to the kernel under construction, each rounded; `fma` rounds once.
Python numbers become constants of the other operand's type. `FloatParameters` describes a float type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from xlapy.loops.builder import Builder
from xlapy.loops.ir import Value
from xlapy.loops.types import F32, F64, I1, ScalarType, integer_type

Number = float
"""A Python number that an operator accepts next to an expression."""


@dataclass(frozen=True)
class FloatParameters:
    """A binary floating-point type: `digits` bits of significand including the leading one, exponents up to `bias`."""

    type: ScalarType
    digits: int
    bias: int

    @cached_property
    def integer(self) -> ScalarType:
        """The integer type of the same width."""
        return integer_type(self.type.bits)

    @property
    def fraction(self) -> int:
        """Bits of the significand without the leading one: the bits below the exponent."""
        return self.digits - 1

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def largest(self) -> float:
        return 2.0**self.bias * (2 - 2.0**-self.fraction)

    @property
    def rounder(self) -> float:
        """1.5 * 2^fraction: adding and subtracting it rounds small numbers to integers."""
        return 1.5 * 2.0**self.fraction


SINGLE: Final = FloatParameters(F32, F32.float_format.precision, F32.float_format.bias)
DOUBLE: Final = FloatParameters(F64, F64.float_format.precision, F64.float_format.bias)


class Expression:
    """A value, with the builder that emits operations on it."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> ScalarType:
        return self.value.type

    @property
    def precision(self) -> FloatParameters:
        return SINGLE if self.type is F32 else DOUBLE

    @property
    def is_single(self) -> bool:
        return self.type is F32

    def like(self, operand: Expression | Number) -> Expression:
        """The operand, or a number as a constant of this expression's type."""
        if isinstance(operand, Expression):
            return operand
        return Expression(self.builder, self.builder.constant(self.type, operand))

    def apply(self, op: str, *others: Expression | Number) -> Expression:
        """An operation on expressions of one type, with a result of that type."""
        args = [self.value, *(self.like(other).value for other in others)]
        return Expression(self.builder, self.builder.op(op, self.type, *args))

    def compare(self, floating: str, integral: str, other: Expression | Number) -> Expression:
        predicate = floating if self.type.is_float else integral
        return Expression(self.builder, self.builder.compare(predicate, self.value, self.like(other).value))

    # -- arithmetic

    def __add__(self, other: Expression | Number) -> Expression:
        return self.apply("add", other)

    def __radd__(self, other: Number) -> Expression:
        return self.like(other).apply("add", self)

    def __sub__(self, other: Expression | Number) -> Expression:
        return self.apply("sub", other)

    def __rsub__(self, other: Number) -> Expression:
        return self.like(other).apply("sub", self)

    def __mul__(self, other: Expression | Number) -> Expression:
        return self.apply("mul", other)

    def __rmul__(self, other: Number) -> Expression:
        return self.like(other).apply("mul", self)

    def __truediv__(self, other: Expression | Number) -> Expression:
        return self.apply("div", other)

    def __rtruediv__(self, other: Number) -> Expression:
        return self.like(other).apply("div", self)

    def __neg__(self) -> Expression:
        return self.apply("neg")

    def __abs__(self) -> Expression:
        return self.apply("abs")

    # -- bitwise operations on integers and booleans

    def __and__(self, other: Expression | Number) -> Expression:
        return self.apply("and", other)

    def __or__(self, other: Expression | Number) -> Expression:
        return self.apply("or", other)

    def __xor__(self, other: Expression | Number) -> Expression:
        return self.apply("xor", other)

    def __invert__(self) -> Expression:
        return self.apply("xor", 1 if self.type is I1 else -1)

    def __lshift__(self, amount: Expression | Number) -> Expression:
        return self.apply("shl", amount)

    def __rshift__(self, amount: Expression | Number) -> Expression:
        """An arithmetic shift."""
        return self.apply("ashr", amount)

    # -- comparisons: false for NaN, except `differs`

    def __lt__(self, other: Expression | Number) -> Expression:
        return self.compare("olt", "slt", other)

    def __le__(self, other: Expression | Number) -> Expression:
        return self.compare("ole", "sle", other)

    def __gt__(self, other: Expression | Number) -> Expression:
        return self.compare("ogt", "sgt", other)

    def __ge__(self, other: Expression | Number) -> Expression:
        return self.compare("oge", "sge", other)

    def equals(self, other: Expression | Number) -> Expression:
        return self.compare("oeq", "eq", other)

    def differs(self, other: Expression | Number) -> Expression:
        return self.compare("une", "ne", other)

    @property
    def is_nan(self) -> Expression:
        return self.compare("uno", "", self)

    @property
    def is_infinite(self) -> Expression:
        return abs(self).equals(float("inf"))

    @property
    def is_finite(self) -> Expression:
        return abs(self) < float("inf")

    # -- conversions

    @property
    def bits(self) -> Expression:
        """A float's bits as an integer."""
        return Expression(self.builder, self.builder.bitcast(self.value, self.precision.integer))

    def as_bits_of(self, precision: FloatParameters) -> Expression:
        """The float that has an integer's bits."""
        return Expression(self.builder, self.builder.bitcast(self.value, precision.type))

    def as_float(self, precision: FloatParameters) -> Expression:
        """A signed integer as the nearest float."""
        return Expression(self.builder, self.builder.convert("sitofp", self.value, precision.type))

    def as_integer(self, type: ScalarType) -> Expression:
        """The low bits of a wider integer."""
        return Expression(self.builder, self.builder.convert("trunc", self.value, type))

    def as_double(self) -> Expression:
        return Expression(self.builder, self.builder.convert("fpext", self.value, F64))

    def as_single(self) -> Expression:
        return Expression(self.builder, self.builder.convert("fptrunc", self.value, F32))

    @property
    def sign_bit(self) -> Expression:
        """Whether the sign bit is set, which includes -0 and negative NaNs."""
        return self.bits < 0


def fma(left: Expression, right: Expression | Number, addend: Expression | Number) -> Expression:
    """left * right + addend, rounded once."""
    return left.apply("fma", right, addend)


def where(condition: Expression, on_true: Expression | Number, on_false: Expression | Number) -> Expression:
    """Selects by a condition; one of the two operands may be a number."""
    typed = on_true if isinstance(on_true, Expression) else on_false
    assert isinstance(typed, Expression)
    chosen = condition.builder.select(condition.value, typed.like(on_true).value, typed.like(on_false).value)
    return Expression(condition.builder, chosen)


def cold_path(
    name: str, condition: Expression, fast: Sequence[Expression], cold: Callable[[], Sequence[Expression]]
) -> list[Expression]:
    """Selects `cold()` where the condition is true, else `fast`; see `Builder.cold_path`."""
    builder = condition.builder
    values = [expression.value for expression in fast]
    results = builder.cold_path(name, condition.value, values, lambda: [expression.value for expression in cold()])
    return [Expression(builder, result) for result in results]


def repeat(
    initial: Sequence[Expression],
    test: Callable[[Sequence[Expression]], Expression],
    body: Callable[[Sequence[Expression]], Sequence[Expression]],
) -> list[Expression]:
    """Repeats `body`, which returns the next values of all lanes, while the test is true in some lane."""
    builder = initial[0].builder

    def expressions(values: Sequence[Value]) -> list[Expression]:
        return [Expression(builder, value) for value in values]

    results = builder.while_any_lane(
        [expression.value for expression in initial],
        lambda values: test(expressions(values)).value,
        lambda values: [expression.value for expression in body(expressions(values))],
    )
    return expressions(results)


def copysign(size: Expression | Number, sign: Expression) -> Expression:
    return sign.like(size).apply("copysign", sign)


def square_root(operand: Expression) -> Expression:
    return operand.apply("sqrt")


def at_most(operand: Expression, limit: Expression | Number) -> Expression:
    """The smaller of two values; NaN if the operand is NaN."""
    limit = operand.like(limit)
    return where(limit < operand, limit, operand)


def at_least(operand: Expression, limit: Expression | Number) -> Expression:
    """The larger of two values; NaN if the operand is NaN."""
    limit = operand.like(limit)
    return where(limit > operand, limit, operand)


def polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Evaluates a polynomial by Horner's scheme; the constant term comes first."""
    *lower, highest = coefficients
    result = x.like(highest)
    for coefficient in reversed(lower):
        result = fma(result, x, coefficient)
    return result


Formula = Callable[..., Expression]
Function = Callable[..., Value]
"""Takes a builder and values; returns a value."""


def as_function(formula: Formula) -> Function:
    """Wraps a formula on expressions as a function of a builder and values."""

    def apply(builder: Builder, *values: Value) -> Value:
        return formula(*(Expression(builder, value) for value in values)).value

    return apply
