"""Evaluation of polynomials and Chebyshev series, and the precision in which it happens. Shared by all special
functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from xlapy.base.element_types import F32, F64
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.builder import elementwise, movement, sources
from xlapy.builder.core.op import XlaOp

Function = Callable[..., XlaOp]


def in_f32(function: Function) -> Function:
    """Decorator: computes with operands narrower than f32 in f32 and rounds the result to their type."""

    @functools.wraps(function)
    def computed(*operands: XlaOp) -> XlaOp:
        kind = operands[0].element_type
        if not kind.is_floating:
            raise ShapeError(
                shared.ELEMENT_TYPE,
                f"{function.__name__} takes real numbers, given {operands[0].shape.to_text(layout=False)}",
            )
        if kind in (F32, F64):
            return function(*operands)
        wide = [elementwise.convert_element_type(operand, F32) for operand in operands]
        return elementwise.convert_element_type(function(*wide), kind)

    return computed


def horner(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Evaluates a polynomial, highest coefficient first."""
    total = constant_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def horner_of_two(x: XlaOp, choice: XlaOp, first: Sequence[float], second: Sequence[float]) -> XlaOp:
    """Evaluates one of two polynomials of equal degree, selected for each element."""
    total = constant_like(x, 0.0)
    for one, other in zip(first, second, strict=True):
        coefficient = elementwise.select(choice, constant_like(x, one), constant_like(x, other))
        total = total * x + coefficient
    return total


def chebyshev(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Evaluates a Chebyshev series in x/2, highest coefficient first, by Clenshaw's recurrence."""
    zero = constant_like(x, 0.0)
    b0, b1, b2 = zero, zero, zero
    for coefficient in coefficients:
        b0, b1, b2 = x * b0 - b1 + coefficient, b0, b1
    return (b0 - b2) * 0.5


def constant_like(x: XlaOp, value: float) -> XlaOp:
    """Returns a constant in the shape and type of x."""
    return movement.broadcast(sources.constant(x.builder, value, x.element_type), x.shape.dimensions)
