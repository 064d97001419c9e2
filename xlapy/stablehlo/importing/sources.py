"""Import rules of constants and iotas, with CHLO's forms of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sources import IotaAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import describe, integer, required
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.types import element_type, known_shape, type_text


@rule("stablehlo.constant", "chlo.constant", "arith.constant", "sdy.constant", operands=0, on_storage_type=True)
def constant(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports a constant. A splat (`dense<0.0>`) becomes a scalar constant and a broadcast."""
    value = required(operation, "value")
    if isinstance(value, bool):
        return builder.scalar(value, PRED)
    if isinstance(value, ir.IntegerAttribute | ir.FloatAttribute):
        shape = known_shape(operation.results[0].type)
        if shape is None or not shape.is_scalar:
            raise ShapeError(
                codes.CONSTANT_ATTRIBUTE, f"{describe(value)} is not a value of {type_text(operation.results[0].type)}"
            )
        return builder.scalar(value.value, shape.element_type)
    if not isinstance(value, ir.ElementsAttribute):
        raise ShapeError(codes.CONSTANT_ATTRIBUTE, f"its value must be elements, but is {describe(value)}")
    shape = _shape_of(value)
    array = value.values
    if array.size > 1 and not any(array.strides):
        return builder.broadcast(builder.constant(np.array(array[(0,) * array.ndim])), shape)
    return builder.literal(builder.context.literal_of(value, shape))


def _shape_of(value: ir.ElementsAttribute) -> Shape:
    shape = known_shape(value.type)
    if shape is None:
        raise ShapeError(
            codes.CONSTANT_ATTRIBUTE, f"a constant must have a static shape, but its type is {type_text(value.type)}"
        )
    if value.values.dtype != shape.dtype:
        raise UnsupportedError(codes.HLO_TYPE, f"HLO has no constants of {type_text(value.type)}")
    return shape


@rule("stablehlo.iota", operands=0)
def iota(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return emit_iota(builder, builder.declared_shape(operation.results[0]), integer(operation, "iota_dimension"))


def emit_iota(builder: ComputationBuilder, shape: Shape, dimension: int) -> Instruction:
    """Emits an iota that counts up along a dimension."""
    return builder.emit(opcodes.IOTA, (), IotaAttributes.make(iota_dimension=dimension), shape=shape)


@rule("chlo.constant_like", operands=1)
def constant_like(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports a constant that is broadcast to the shape of the operand."""
    (operand,) = builder.operands(operation)
    value: Any = required(operation, "value")
    declared = operation.results[0].type
    if not isinstance(value, ir.IntegerAttribute | ir.FloatAttribute) or not isinstance(declared, ir.TensorType):
        raise ShapeError(codes.CONSTANT_ATTRIBUTE, f"its value must be a number, but is {describe(value)}")
    shape = operand.shape.with_element_type(element_type(declared.element))
    return builder.broadcast(builder.constant(np.array(value.value).astype(shape.dtype)), shape)
