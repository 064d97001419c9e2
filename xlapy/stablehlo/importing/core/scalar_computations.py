"""Builds the scalar computations, such as the sum of two scalars, that some rules pass to reductions."""

from __future__ import annotations

from xlapy.base.element_types import PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder


def scalar_binary_computation(builder: ComputationBuilder, op: OpDef, element_type: PrimitiveType) -> Computation:
    """Adds to the module a computation that applies a binary opcode to two scalars, and returns it."""
    inner = ComputationBuilder(builder.context, op.name)
    shape = Shape.scalar(element_type)
    return inner.finish(inner.emit(op, (inner.parameter(0, shape), inner.parameter(1, shape))))
