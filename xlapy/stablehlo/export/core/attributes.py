"""Makes StableHLO attributes of Python values: integers, lists, matrices, layouts and precisions.

Does not depend on particular opcodes.
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
    """Returns `3 : i64`."""
    return ir.IntegerAttribute(value, I64)


def integer32(value: int) -> ir.IntegerAttribute:
    """Returns `3 : i32`."""
    return ir.IntegerAttribute(value, I32)


def integers(values: Iterable[int]) -> ir.ElementsAttribute:
    """Returns `array<i64: ...>`."""
    return constant(np.array(list(values), np.int64), PrimitiveType.S64)


def matrix(rows: Sequence[Sequence[int]], width: int = 2) -> ir.ElementsAttribute:
    """Returns `dense<[[...], ...]>` of i64. Shorter rows are padded with -1; `width` applies if there are no rows."""
    columns = max(map(len, rows), default=width)
    padded = [[*row, *[-1] * (columns - len(row))] for row in rows]
    return constant(np.array(padded, np.int64).reshape(len(rows), columns), PrimitiveType.S64)


def booleans(values: Iterable[bool]) -> ir.ElementsAttribute:
    """Returns `array<i1: ...>`."""
    return constant(np.array(list(values), np.bool_), PrimitiveType.PRED)


def layout_order(minor_to_major: Sequence[int]) -> ir.ElementsAttribute:
    """Returns a layout as `dense<[1, 0]> : tensor<2xindex>`, minor dimensions first."""
    values = np.array(minor_to_major, np.int64)
    values.flags.writeable = False
    return ir.ElementsAttribute(ir.TensorType((len(minor_to_major),), ir.IndexType()), values)


def constant(values: Array, element: PrimitiveType) -> ir.ElementsAttribute:
    """Returns the elements of a tensor (`dense<...>`) or, at rank 1, of an array (`array<...>`)."""
    values = np.asarray(values)
    values.flags.writeable = False
    return ir.ElementsAttribute(ir.TensorType(values.shape, element), values)


def precision(given: Sequence[Precision]) -> dict[str, Any]:
    """Returns the attribute `precision_config`, or no attributes for the default precision."""
    return {"precision_config": tuple(each.name for each in given)} if given else {}
