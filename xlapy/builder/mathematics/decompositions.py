"""Real functions that exist in HLO, decomposed into simpler operations, for consumers of modules that do not support
them.

Responsible for `DECOMPOSITIONS`: erf and the inverse trigonometric and hyperbolic functions. StableHLO has them as
composites, and the pass `expand` replaces operations by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from xlapy import opcodes
from xlapy.base.element_types import F64
from xlapy.base.shape import Shape
from xlapy.builder import elementwise as e
from xlapy.builder.core.builder import XlaBuilder
from xlapy.builder.core.op import XlaOp
from xlapy.builder.mathematics.error_functions import far_erfc
from xlapy.builder.mathematics.polynomials import constant_like, horner, in_f32
from xlapy.builder.sources import parameter
from xlapy.hlo.computation import Computation
from xlapy.opcodes.registry import OpDef

_LOG_OF_2 = math.log(2)
_HUGE = {False: 2.0**60, True: 2.0**500}
"""From this x on, x^2 + 1 rounds to x^2, and x^2 does not overflow yet. Key: whether the numbers are float64."""
_TERMS = {False: 12, True: 20}
"""The number of terms of the power series of erf that is exact to rounding for |x| < 1."""


@in_f32
def erf(x: XlaOp) -> XlaOp:
    """The power series for |x| < 1, and 1 - erfc(x) elsewhere."""
    terms = range(_TERMS[x.element_type is F64], -1, -1)
    series = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in terms]
    near = x * horner(x * x, series)
    return e.select(abs(x) < 1.0, near, e.sign(x) * (1.0 - far_erfc(abs(x))))


@in_f32
def acos(x: XlaOp) -> XlaOp:
    angle = e.atan2(e.sqrt((1.0 - x) * (1.0 + x)), 1.0 + x) * 2.0
    return e.select(x == -1.0, constant_like(x, math.pi), angle)


@in_f32
def asin(x: XlaOp) -> XlaOp:
    return e.atan2(x, 1.0 + e.sqrt((1.0 - x) * (1.0 + x))) * 2.0


@in_f32
def atan(x: XlaOp) -> XlaOp:
    return e.atan2(x, constant_like(x, 1.0))


@in_f32
def sinh(x: XlaOp) -> XlaOp:
    """Uses e^x - 1 where e^x and e^-x would cancel."""
    growth, half = e.expm1(x), _half_exponential(x)
    near = (growth + growth / (growth + 1.0)) * 0.5
    return e.select(abs(x) < 1.0, near, e.sign(x) * (half - 0.25 / half))


@in_f32
def cosh(x: XlaOp) -> XlaOp:
    half = _half_exponential(x)
    return half + 0.25 / half


def _half_exponential(x: XlaOp) -> XlaOp:
    """Returns e^|x| / 2, also where e^|x| overflows."""
    root = e.exp(abs(x) * 0.5)
    return root * 0.5 * root


@in_f32
def asinh(x: XlaOp) -> XlaOp:
    size = abs(x)
    square = size * size
    finite_result = e.log1p(size + square / (1.0 + e.sqrt(square + 1.0)))
    huge = size > _HUGE[x.element_type is F64]
    return e.sign(x) * e.select(huge, e.log(size) + _LOG_OF_2, finite_result)


@in_f32
def acosh(x: XlaOp) -> XlaOp:
    """NaN for x < 1."""
    excess = x - 1.0
    finite_result = e.log1p(excess + e.sqrt(excess * (excess + 2.0)))
    huge = x > _HUGE[x.element_type is F64]
    return e.select(x < 1.0, constant_like(x, math.nan), e.select(huge, e.log(x) + _LOG_OF_2, finite_result))


@in_f32
def atanh(x: XlaOp) -> XlaOp:
    """NaN for |x| > 1."""
    return (e.log1p(x) - e.log1p(-x)) * 0.5


DECOMPOSITIONS: Final[Mapping[OpDef, Callable[[XlaOp], XlaOp]]] = {
    opcodes.ACOS: acos,
    opcodes.ACOSH: acosh,
    opcodes.ASIN: asin,
    opcodes.ASINH: asinh,
    opcodes.ATAN: atan,
    opcodes.ATANH: atanh,
    opcodes.COSH: cosh,
    opcodes.ERF: erf,
    opcodes.SINH: sinh,
}
"""The decomposition of each unary opcode that has one, for floating-point elements."""


def decomposition_of(op: OpDef, shape: Shape, name: str) -> Computation:
    """Returns a computation, in a module of its own, that computes an opcode by its decomposition.

    `shape` is the shape of the parameter. Raises ShapeError if its elements are not floating-point.
    """
    builder = XlaBuilder(name)
    computation = builder.build(DECOMPOSITIONS[op](parameter(builder, 0, shape, "x"))).module.entry_computation
    for instruction in computation:
        instruction.metadata = None  # it would name the place where this function built it
    return computation
