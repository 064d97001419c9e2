"""Import rules: values out of nothing.

Owns: constant, iota, and their forms in CHLO. Must not know: other operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sources import IotaAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer, required, shown
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import element_type, known_shape, type_text


@rule("stablehlo.constant", "chlo.constant", "arith.constant", "sdy.constant", operands=0, stored=True)
def constant(scope: Scope, operation: ir.Operation) -> Instruction:
    """Elements as they are; a value without dimensions in them (`dense<0.0>`) is repeated by a broadcast."""
    value = required(operation, "value")
    if isinstance(value, bool):
        return scope.scalar(value, PRED)
    if isinstance(value, ir.IntegerAttribute | ir.FloatAttribute):
        shape = known_shape(operation.results[0].type)
        if shape is None or not shape.is_scalar:
            raise ShapeError(f"{shown(value)} is no value of {type_text(operation.results[0].type)}")
        return scope.scalar(value.value, shape.element_type)
    if not isinstance(value, ir.ElementsAttribute):
        raise ShapeError(f"its value must be elements, it is {shown(value)}")
    shape = _shape_of(value)
    array = value.values
    if array.size > 1 and not any(array.strides):
        return scope.broadcast(scope.constant(np.array(array[(0,) * array.ndim])), shape)
    return scope.constant(array, shape)


def _shape_of(value: ir.ElementsAttribute) -> Shape:
    shape = known_shape(value.type)
    if shape is None:
        raise ShapeError(f"a constant has a static shape, its type is {type_text(value.type)}")
    if value.values.dtype != shape.dtype:
        raise UnsupportedError(f"constants of {type_text(value.type)} have no form in HLO")
    return shape


@rule("stablehlo.iota", operands=0)
def iota(scope: Scope, operation: ir.Operation) -> Instruction:
    return emit_iota(scope, scope.declared(operation.results[0]), integer(operation, "iota_dimension"))


def emit_iota(scope: Scope, shape: Shape, dimension: int) -> Instruction:
    """Numbers that count up along a dimension."""
    return scope.emit(opcodes.IOTA, (), IotaAttributes.make(iota_dimension=dimension), shape=shape)


@rule("chlo.constant_like", operands=1)
def constant_like(scope: Scope, operation: ir.Operation) -> Instruction:
    """One value in the shape of the operand."""
    (operand,) = scope.operands(operation)
    value: Any = required(operation, "value")
    declared = operation.results[0].type
    if not isinstance(value, ir.IntegerAttribute | ir.FloatAttribute) or not isinstance(declared, ir.TensorType):
        raise ShapeError(f"its value must be a number, it is {shown(value)}")
    shape = operand.shape.with_element_type(element_type(declared.element))
    return scope.broadcast(scope.constant(np.array(value.value).astype(shape.dtype)), shape)
