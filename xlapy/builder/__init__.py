"""Building computations one op at a time: `XlaBuilder`, `XlaOp`, `XlaComputation`, and the functions of `xlapy.ops`."""

from xlapy.builder.accuracy import ResultAccuracy
from xlapy.builder.builder import OperandError, XlaBuilder
from xlapy.builder.computation import XlaComputation
from xlapy.builder.op import XlaOp

__all__ = ["OperandError", "ResultAccuracy", "XlaBuilder", "XlaComputation", "XlaOp"]
