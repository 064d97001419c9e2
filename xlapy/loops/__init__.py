"""Loop IR: one kernel as loop nests over buffers, with explicit vector axes and loop-carried values."""

from xlapy.loops.builder import Builder
from xlapy.loops.evaluate import evaluate
from xlapy.loops.ir import (
    Affine,
    AxisKind,
    Buffer,
    For,
    If,
    Kernel,
    Location,
    MatrixProduct,
    Prefetch,
    Scan,
    SelectPositions,
    Store,
    TransposeStatement,
    Value,
    While,
)
from xlapy.loops.positions import PositionArithmetic
from xlapy.loops.printer import print_kernel
from xlapy.loops.types import F16, F32, F64, I1, I8, I16, I32, I64, ScalarType

__all__ = [
    "F16",
    "F32",
    "F64",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "Affine",
    "AxisKind",
    "Buffer",
    "Builder",
    "For",
    "If",
    "Kernel",
    "Location",
    "MatrixProduct",
    "PositionArithmetic",
    "Prefetch",
    "ScalarType",
    "Scan",
    "SelectPositions",
    "Store",
    "TransposeStatement",
    "Value",
    "While",
    "evaluate",
    "print_kernel",
]
