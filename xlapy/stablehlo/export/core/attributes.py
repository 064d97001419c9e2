"""Values of HLO's attributes as attributes of StableHLO.

Owns: lists, tables, numbers, precision. Must not know: particular ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import Array, PrimitiveType
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.stablehlo import ir

I32 = ir.ScalarType(PrimitiveType.S32)
I64 = ir.ScalarType(PrimitiveType.S64)


def integer(value: int) -> ir.IntegerAttribute:
    """`3 : i64`"""
    return ir.IntegerAttribute(value, I64)


def small(value: int) -> ir.IntegerAttribute:
    """`3 : i32`"""
    return ir.IntegerAttribute(value, I32)


def integers(values: Iterable[int]) -> ir.ElementsAttribute:
    """`array<i64: ...>`"""
    return constant(np.array(list(values), np.int64), PrimitiveType.S64)


def table(rows: Sequence[Sequence[int]], width: int = 2) -> ir.ElementsAttribute:
    """`dense<[[...], ...]>` of i64; `width` is that of a table without rows, shorter rows end in -1."""
    widest = max(map(len, rows), default=width)
    filled = [[*row, *[-1] * (widest - len(row))] for row in rows]
    return constant(np.array(filled, np.int64).reshape(len(rows), widest), PrimitiveType.S64)


def booleans(values: Iterable[bool]) -> ir.ElementsAttribute:
    """`array<i1: ...>`"""
    return constant(np.array(list(values), np.bool_), PrimitiveType.PRED)


def order(minor_to_major: Sequence[int]) -> ir.ElementsAttribute:
    """A layout, `dense<[1, 0]> : tensor<2xindex>`."""
    values = np.array(minor_to_major, np.int64)
    values.flags.writeable = False
    return ir.ElementsAttribute(ir.TensorType((len(minor_to_major),), ir.IndexType()), values)


def constant(values: Array, element: PrimitiveType) -> ir.ElementsAttribute:
    """Elements of a tensor, or an array."""
    values = np.asarray(values)
    values.flags.writeable = False
    return ir.ElementsAttribute(ir.TensorType(values.shape, element), values)


def precision(given: Sequence[Precision]) -> dict[str, Any]:
    """`precision_config`, if any is given."""
    return {"precision_config": tuple(each.name for each in given)} if given else {}
