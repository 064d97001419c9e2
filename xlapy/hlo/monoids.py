"""Monoids: reducers that apply one associative and commutative operation, such as a sum or a maximum.

The partial results of a monoid may be combined in any order and grouping, and its identity may be combined with any
value without changing it. Floating-point sums and products are counted among them: users that must not change rounding
check for those themselves.

Responsible for which computations are monoids and for their identities. Does not depend on how they are evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.opcodes.registry import OpDef


def monoid(computation: Computation) -> OpDef | None:
    """Returns the operation of a reducer that computes `op(parameter 0, parameter 1)` in either order; else None.

    The operation is one of `MONOID_OPS`.
    """
    root = computation.root_instruction
    if root.op not in MONOID_OPS or len(computation.parameters) != 2:
        return None
    operands = {operand for operand in root.operands if is_parameter(operand)}
    return root.op if operands == set(computation.parameters) else None


def identity_value(op: OpDef, element_type: PrimitiveType) -> float:
    """Returns the identity of one of `MONOID_OPS`: -0.0 for a floating-point sum, infinity for a minimum.

    The identities of minimum and maximum are infinities for all floating-point types, also for those without any.
    """
    return _IDENTITIES[op](element_type)


def identity_of(computation: Computation) -> float:
    """Returns the identity of a reducer that `monoid` recognizes."""
    op = monoid(computation)
    assert op is not None
    return identity_value(op, computation.parameters[0].shape.element_type)


def _limit(t: PrimitiveType, *, greatest: bool) -> float:
    """Returns the least or greatest value of an element type."""
    if t is PRED:
        return int(greatest)
    if t.is_floating:
        return math.inf if greatest else -math.inf
    if t.is_signed:
        return 2 ** (t.bits - 1) - 1 if greatest else -(2 ** (t.bits - 1))
    return 2**t.bits - 1 if greatest else 0


_IDENTITIES: Final[Mapping[OpDef, Callable[[PrimitiveType], float]]] = {
    opcodes.ADD: lambda t: -0.0 if t.is_floating else 0,
    opcodes.AND: lambda t: 1 if t is PRED else -1 if t.is_signed else _limit(t, greatest=True),
    opcodes.MAXIMUM: lambda t: _limit(t, greatest=False),
    opcodes.MINIMUM: lambda t: _limit(t, greatest=True),
    opcodes.MULTIPLY: lambda t: 1,
    opcodes.OR: lambda t: 0,
    opcodes.XOR: lambda t: 0,
}

MONOID_OPS: Final = frozenset(_IDENTITIES)
"""The associative and commutative operations."""

IDEMPOTENT_OPS: Final = frozenset({opcodes.MAXIMUM, opcodes.MINIMUM, opcodes.AND, opcodes.OR})
"""The monoids with `op(x, x) == x`: a value, such as the initial value of a reduction, may be combined repeatedly."""
