"""The scalar types of loop IR: what one lane of a register holds.

Does not depend on the element types of HLO (`lower` maps them to scalar types) or on LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from xlapy.base.float_formats import DOUBLE, HALF, SINGLE, FloatFormat


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type of register values. Integers are signless, as in LLVM: operations say how they interpret them."""

    name: str
    bits: int
    is_float: bool = False

    @property
    def byte_size(self) -> int:
        """The size in bytes of an element in memory; I1 takes a whole byte."""
        return (self.bits + 7) // 8

    @property
    def is_integer(self) -> bool:
        return not self.is_float

    @property
    def float_format(self) -> FloatFormat:
        """The encoding of a floating-point type; KeyError for integers."""
        return _FLOAT_FORMATS[self.name]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy type of such values; integers are signed."""
        if self.bits == 1:
            return np.dtype(np.bool_)
        return np.dtype(f"{'f' if self.is_float else 'i'}{self.byte_size}")

    def __str__(self) -> str:
        return self.name


I1: Final = ScalarType("i1", 1)
I8: Final = ScalarType("i8", 8)
I16: Final = ScalarType("i16", 16)
I32: Final = ScalarType("i32", 32)
I64: Final = ScalarType("i64", 64)
F16: Final = ScalarType("f16", 16, is_float=True)
F32: Final = ScalarType("f32", 32, is_float=True)
F64: Final = ScalarType("f64", 64, is_float=True)

_FLOAT_FORMATS: Final = {"f16": HALF, "f32": SINGLE, "f64": DOUBLE}


def integer_type(bits: int) -> ScalarType:
    """The integer type with 1, 8, 16, 32 or 64 bits; raises KeyError for any other width."""
    return _INTEGERS[bits]


_INTEGERS = {t.bits: t for t in (I1, I8, I16, I32, I64)}
