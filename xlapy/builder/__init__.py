"""Builds computations one op at a time: `XlaBuilder`, `XlaOp`, `XlaComputation`, and the functions of `xlapy.ops`."""

from xlapy.builder.core.accuracy import ResultAccuracy
from xlapy.builder.core.builder import OperandError, XlaBuilder
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import XlaOp, define_operators
from xlapy.builder.operators import OPERATOR_FUNCTIONS

__all__ = ["OperandError", "ResultAccuracy", "XlaBuilder", "XlaComputation", "XlaOp"]

define_operators(OPERATOR_FUNCTIONS)
