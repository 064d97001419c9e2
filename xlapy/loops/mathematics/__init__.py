"""Mathematical functions in loop IR: branch-free formulas for scalars and vectors.

`MATHEMATICS[name](builder, x)` takes and returns values of type F32 or F64; the names are those of HLO opcodes.
`COMPLEX_MATHEMATICS[name](builder, (real, imaginary))` takes and returns pairs of values; `abs` returns one value.
Results are within 2 ULP in F32 and 3 ULP in F64 of the exact values, for arguments of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xlapy.loops.mathematics import (
    complex,
    complex_hyperbolic,
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometry,
    logarithm,
    power,
    roots,
    rounding,
    trigonometry,
)
from xlapy.loops.mathematics.complex import ComplexFunction
from xlapy.loops.mathematics.expression import Function, as_function

MATHEMATICS: Final[Mapping[str, Function]] = {
    "acos": as_function(inverse_trigonometry.arc_cosine),
    "acosh": as_function(hyperbolic.acosh),
    "asin": as_function(inverse_trigonometry.arc_sine),
    "asinh": as_function(hyperbolic.asinh),
    "atan": as_function(inverse_trigonometry.arc_tangent),
    "atan2": as_function(inverse_trigonometry.arc_tangent_2),
    "atanh": as_function(hyperbolic.atanh),
    "cbrt": as_function(roots.cube_root),
    "cosh": as_function(hyperbolic.cosh),
    "cosine": as_function(trigonometry.cosine),
    "erf": as_function(error_function.error_function),
    "exponential": as_function(exponential.exponential),
    "exponential-minus-one": as_function(exponential.exponential_minus_one),
    "log": as_function(logarithm.log),
    "log-plus-one": as_function(logarithm.log_plus_one),
    "logistic": as_function(exponential.logistic),
    "power": as_function(power.power),
    "remainder": as_function(rounding.remainder),
    "round-nearest-afz": as_function(rounding.round_half_away),
    "rsqrt": as_function(roots.reciprocal_square_root),
    "sine": as_function(trigonometry.sine),
    "sinh": as_function(hyperbolic.sinh),
    "tan": as_function(trigonometry.tangent),
    "tanh": as_function(hyperbolic.tanh),
}

_COMPLEX: Final[Mapping[str, complex.ComplexFormula]] = {
    "abs": complex.absolute,
    "acos": complex_hyperbolic.arc_cosine,
    "acosh": complex_hyperbolic.acosh,
    "add": complex.add,
    "asin": complex_hyperbolic.arc_sine,
    "asinh": complex_hyperbolic.asinh,
    "atan": complex_hyperbolic.arc_tangent,
    "atan2": complex.arc_tangent_2,
    "atanh": complex_hyperbolic.atanh,
    "cosh": complex_hyperbolic.cosh,
    "cosine": complex.cosine,
    "divide": complex.divide,
    "exponential": complex.exponential,
    "exponential-minus-one": complex.exponential_minus_one,
    "log": complex.log,
    "log-plus-one": complex.log_plus_one,
    "logistic": complex.logistic,
    "multiply": complex.multiply,
    "negate": complex.negate,
    "power": complex.to_power,
    "rsqrt": complex.reciprocal_root,
    "sign": complex.sign,
    "sine": complex.sine,
    "sinh": complex_hyperbolic.sinh,
    "sqrt": complex.root,
    "subtract": complex.subtract,
    "tan": complex.tangent,
    "tanh": complex.hyperbolic_tangent,
}
COMPLEX_MATHEMATICS: Final[Mapping[str, ComplexFunction]] = {
    name: complex.as_function(formula) for name, formula in _COMPLEX.items()
}

__all__ = ["COMPLEX_MATHEMATICS", "MATHEMATICS"]
