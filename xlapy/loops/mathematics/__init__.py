"""Functions of mathematics in loop IR: branch-free formulas that fit scalars and vectors alike.

`MATHEMATICS[name](builder, x)` takes and gives values of type F32 or F64; the names are those of HLO's operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xlapy.loops.mathematics import exponential, hyperbolic, logarithm, trigonometry
from xlapy.loops.mathematics.expression import Function, as_function

MATHEMATICS: Final[Mapping[str, Function]] = {
    "cosine": as_function(trigonometry.cosine),
    "exponential": as_function(exponential.exponential),
    "exponential-minus-one": as_function(exponential.exponential_minus_one),
    "log": as_function(logarithm.log),
    "log-plus-one": as_function(logarithm.log_plus_one),
    "logistic": as_function(exponential.logistic),
    "sine": as_function(trigonometry.sine),
    "tan": as_function(trigonometry.tangent),
    "tanh": as_function(hyperbolic.tanh),
}

__all__ = ["MATHEMATICS"]
