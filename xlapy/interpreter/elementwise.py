"""Elementwise operations: the table of the NumPy kernels of each op, by element type.

Responsible for the choice by element type, and for the precision in which narrow types are computed. The kernels are in
`kernels/integer.py`, `kernels/float.py` and `kernels/complex.py`, conversions in `kernels/conversion.py`. Does not
depend on dimensions: operands broadcast as in NumPy, because scalar computations are evaluated on whole arrays.
Source: "Element-wise unary functions", "Element-wise binary arithmetic operations", "Element-wise comparison
operations", Clamp, Select and Complex of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import UnsupportedError
from xlapy.base.rounding import round_to
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, InterpreterRule, Value
from xlapy.interpreter.kernels import complex as complexes
from xlapy.interpreter.kernels import float as floats
from xlapy.interpreter.kernels import integer as integers
from xlapy.interpreter.kernels.conversion import to_native_float
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.opcodes.registry import OpDef

Kernel = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The functions that compute one operation, by kind of element type; None where the op does not accept the kind.

    logical: on PRED. integral: on native integers, with the width in bits as last argument. exact: on float32 or
    float64, where rounding the result to a narrower type gives the correctly rounded result. function: on float64,
    whatever the type. complex_valued: on complex128.
    """

    logical: Kernel | None = None
    integral: Kernel | None = None
    exact: Kernel | None = None
    function: Kernel | None = None
    complex_valued: Kernel | None = None

    def apply(self, name: str, operands: Sequence[Array]) -> Array:
        """Returns the result for operands of one element type; `UnsupportedError` if there is no kernel for it."""
        dtype = operands[0].dtype
        element_type = PrimitiveType.from_dtype(dtype)
        if element_type is PRED and self.logical:
            return np.asarray(self.logical(*operands))
        if element_type.is_integral and self.integral:
            wide = self.integral(*map(integers.to_native_integer, operands), element_type.bits)
            return integers.wrap(np.asarray(wide), dtype)
        if element_type.is_complex and self.complex_valued:
            return _rounded_complex(self.complex_valued(*[o.astype(np.complex128) for o in operands]), dtype)
        if element_type.is_floating and self.exact:
            return _rounded(self.exact(*map(to_native_float, operands)), dtype)
        if element_type.is_floating and self.function:
            return _rounded(self.function(*[o.astype(np.float64) for o in operands]), dtype)
        raise UnsupportedError(shared.ELEMENT_TYPE, f"{name}: not defined for elements of {element_type}")


def _rounded(result: Any, dtype: np.dtype[Any]) -> Array:
    array = np.asarray(result)
    return array if array.dtype == np.bool_ else round_to(array, dtype)


def _rounded_complex(result: Any, dtype: np.dtype[Any]) -> Array:
    """Converts complex128 results, or float64 results of abs, to the operands' precision."""
    array = np.asarray(result)
    if dtype == np.complex128:
        return array
    return array.astype(np.complex64 if array.dtype.kind == "c" else np.float32)


def _rule(kernels: Kernels) -> InterpreterRule:
    def evaluate(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
        return kernels.apply(f"{instruction.name} ({instruction.op.name})", values)

    return evaluate


def _analytic(real: Kernel, complex_valued: Kernel | None = None) -> Kernels:
    """Returns the kernels of a real and complex function; without `complex_valued`, `real` is used for both."""
    return Kernels(function=real, complex_valued=complex_valued or real)


KERNELS: Final[Mapping[OpDef, Kernels]] = {
    opcodes.ABS: Kernels(integral=integers.absolute, exact=np.abs, complex_valued=complexes.absolute),
    opcodes.ACOS: _analytic(np.arccos),
    opcodes.ACOSH: _analytic(np.arccosh),
    opcodes.ADD: Kernels(np.logical_or, integers.add, np.add, None, np.add),
    opcodes.AND: Kernels(np.logical_and, integers.bitwise_and),
    opcodes.ASIN: _analytic(np.arcsin),
    opcodes.ASINH: _analytic(np.arcsinh),
    opcodes.ATAN: _analytic(np.arctan),
    opcodes.ATAN2: _analytic(np.arctan2, complexes.arc_tangent_2),
    opcodes.ATANH: _analytic(np.arctanh),
    opcodes.CBRT: Kernels(function=np.cbrt),
    opcodes.CEIL: Kernels(exact=np.ceil),
    opcodes.COSH: _analytic(np.cosh),
    opcodes.COSINE: _analytic(np.cos, complexes.cosine),
    opcodes.COUNT_LEADING_ZEROS: Kernels(integral=integers.count_leading_zeros),
    opcodes.DIVIDE: Kernels(integral=integers.divide, exact=np.divide, complex_valued=complexes.divide),
    opcodes.ERF: Kernels(function=floats.error_function),
    opcodes.EXPONENTIAL: _analytic(np.exp, complexes.exponential),
    opcodes.EXPONENTIAL_MINUS_ONE: _analytic(np.expm1, complexes.exponential_minus_one),
    opcodes.FLOOR: Kernels(exact=np.floor),
    opcodes.IS_FINITE: Kernels(exact=np.isfinite),
    opcodes.LOG: _analytic(np.log, complexes.logarithm),
    opcodes.LOGISTIC: _analytic(floats.logistic, complexes.logistic),
    opcodes.LOG_PLUS_ONE: _analytic(np.log1p, complexes.logarithm_plus_one),
    opcodes.MAXIMUM: Kernels(np.logical_or, integers.maximum, floats.maximum),
    opcodes.MINIMUM: Kernels(np.logical_and, integers.minimum, floats.minimum),
    opcodes.MULHI: Kernels(integral=integers.multiply_high),
    opcodes.MULTIPLY: Kernels(np.logical_and, integers.multiply, np.multiply, None, np.multiply),
    opcodes.NEGATE: Kernels(integral=integers.negate, exact=np.negative, complex_valued=np.negative),
    opcodes.NOT: Kernels(np.logical_not, integers.bitwise_not),
    opcodes.OR: Kernels(np.logical_or, integers.bitwise_or),
    opcodes.POPCNT: Kernels(integral=integers.population_count),
    opcodes.POWER: Kernels(integral=integers.power, function=np.power, complex_valued=complexes.power),
    opcodes.REMAINDER: Kernels(integral=integers.remainder, exact=np.fmod),
    opcodes.ROUND_NEAREST_AFZ: Kernels(exact=floats.round_half_away),
    opcodes.ROUND_NEAREST_EVEN: Kernels(exact=np.rint),
    opcodes.RSQRT: _analytic(floats.reciprocal_square_root, complexes.reciprocal_square_root),
    opcodes.SHIFT_LEFT: Kernels(integral=integers.shift_left),
    opcodes.SHIFT_RIGHT_ARITHMETIC: Kernels(integral=integers.shift_right_arithmetic),
    opcodes.SHIFT_RIGHT_LOGICAL: Kernels(integral=integers.shift_right_logical),
    opcodes.SIGN: Kernels(integral=integers.sign, exact=floats.sign, complex_valued=complexes.sign),
    opcodes.SINE: _analytic(np.sin, complexes.sine),
    opcodes.SINH: _analytic(np.sinh),
    opcodes.SQRT: Kernels(exact=np.sqrt, complex_valued=complexes.square_root),
    opcodes.SUBTRACT: Kernels(integral=integers.subtract, exact=np.subtract, complex_valued=np.subtract),
    opcodes.TAN: _analytic(np.tan, complexes.tangent),
    opcodes.TANH: _analytic(np.tanh, complexes.hyperbolic_tangent),
    opcodes.XOR: Kernels(np.logical_xor, integers.bitwise_xor),
}
"""The operations whose operands share one element type and whose result depends on the elements alone."""

for _op, _kernels in KERNELS.items():
    RULES.rule(_op)(_rule(_kernels))


# -- parts of complex numbers


@RULES.rule(opcodes.REAL)
def real(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the real part; for real numbers, the operand."""
    (operand,) = values
    return np.array(operand.real) if operand.dtype.kind == "c" else operand


@RULES.rule(opcodes.IMAG)
def imag(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the imaginary part; for real numbers 0, or NaN in f8e8m0fnu, which has no zero."""
    (operand,) = values
    if operand.dtype.kind == "c":
        return np.array(operand.imag)
    return np.zeros(operand.shape, np.float32).astype(operand.dtype)


@RULES.rule(opcodes.COMPLEX)
def complex_of_parts(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return complexes.compose(*values)


# -- comparison and selection

_COMPARISONS: Final[Mapping[ComparisonDirection, Kernel]] = {
    ComparisonDirection.EQ: np.equal,
    ComparisonDirection.NE: np.not_equal,
    ComparisonDirection.GE: np.greater_equal,
    ComparisonDirection.GT: np.greater,
    ComparisonDirection.LE: np.less_equal,
    ComparisonDirection.LT: np.less,
}


@RULES.rule(opcodes.COMPARE)
def compare(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Compares numbers by value, with false before true, or floating-point numbers by `total_order_key`."""
    attributes = instruction.attributes_as(CompareAttributes)
    key = total_order_key if attributes.type is ComparisonType.TOTALORDER else _comparable
    return np.asarray(_COMPARISONS[attributes.direction](*map(key, values)))


def _comparable(array: Array) -> Array:
    """Returns the same numbers in a type that NumPy can compare."""
    element_type = PrimitiveType.from_dtype(array.dtype)
    if element_type.is_floating:
        return to_native_float(array)
    return integers.to_native_integer(array) if element_type.is_integral else array


def total_order_key(array: Array) -> Array:
    """Returns integers in the total order of floats: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.

    The bits of a float are sign and magnitude; a negative number's magnitude is inverted to give two's complement.
    Narrow types are shifted to the top of their storage, where the sign bit of an integer is. The single NaN of a type
    without -0 has the bits of -0, and is the least element, as in XLA.
    """
    element_type = PrimitiveType.from_dtype(array.dtype)
    bits = array.view(f"u{array.itemsize}")
    if not element_type.float_format.is_signed:
        return bits
    spare = bits.dtype.type(8 * array.itemsize - element_type.bits)
    signed = (bits << spare).view(f"i{array.itemsize}")
    key = np.where(signed < 0, signed ^ np.iinfo(signed.dtype).max, signed)
    if not element_type.float_format.has_negative_zero:
        return np.where(signed == np.iinfo(signed.dtype).min, np.iinfo(np.int16).min, key.astype(np.int16))
    return key


@RULES.rule(opcodes.CLAMP)
def clamp(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns min(max(x, low), high): high where low > high, and NaN where any of the three is NaN."""
    low, operand, high = values
    raised = KERNELS[opcodes.MAXIMUM].apply("clamp", (low, operand))
    return KERNELS[opcodes.MINIMUM].apply("clamp", (high, raised))


@RULES.rule(opcodes.SELECT)
def select(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return np.where(*values)
