"""Computations of two scalars that rules need and programs do not spell out: sums, say.

Owns: their making. Must not know: who calls them.
"""

from __future__ import annotations

from xlapy.base.element_types import PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo.importing.core.scope import Scope


def scalar_body(scope: Scope, op: OpDef, element_type: PrimitiveType) -> Computation:
    """The computation that applies an op to two scalars."""
    inner = Scope(scope.program, op.name, scope.depth + 1)
    shape = Shape.scalar(element_type)
    return inner.finish(inner.emit(op, (inner.parameter(0, shape), inner.parameter(1, shape))))
