"""Import rules of quantized tensors, which HLO holds as integers of their storage type.

Responsible for uniform_quantize and uniform_dequantize, and for every other operation on quantized operands: the
operands are dequantized, the operation works on the expressed values, and its results are quantized again.

Source: "Quantization" in the StableHLO specification: expressed = (stored - zero_point) * scale. Quantization computes
expressed / scale + zero_point, clamps it to the range of the storage type and rounds it to nearest, ties to even.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32, S64, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_operations as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import Results, RuleFunction, rule
from xlapy.stablehlo.importing.core.types import is_quantized, quantized_element_type

_DATA_MOVEMENT = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast", "broadcast_in_dim", "concatenate", "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad",
        "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather", "pad", "real_dynamic_slice", "reshape",
        "reverse", "select", "slice", "transpose",
    )
)  # fmt: skip
"""Operations that only move elements. They work on the storage integers if all types are the same per-tensor type."""


def on_expressed_values(function: RuleFunction, operation: ir.Operation) -> RuleFunction:
    """Wraps a rule function so that it dequantizes the operands and quantizes the results.

    Returns the function itself if neither operands nor results of the operation are quantized.
    """
    types = [value.type for value in (*operation.operands, *operation.results)]
    if not any(map(is_quantized, types)):
        return function
    if operation.name in _DATA_MOVEMENT and _have_same_per_tensor_type(types):
        return function

    def with_dequantized_operands(builder: ComputationBuilder, quantized: ir.Operation) -> Results:
        return _apply_on_expressed_values(function, builder, quantized)

    return with_dequantized_operands


def _have_same_per_tensor_type(types: Sequence[ir.Type]) -> bool:
    distinct = {quantized_element_type(each) for each in types if is_quantized(each)}
    return len(distinct) == 1 and not next(iter(distinct)).axes


def _apply_on_expressed_values(
    function: RuleFunction, builder: ComputationBuilder, operation: ir.Operation
) -> list[Instruction]:
    expressed = dataclasses.replace(
        operation,
        operands=[_expressed_operand(builder, value) for value in operation.operands],
        results=[ir.Value(_expressed_type(value.type), operation, value.index) for value in operation.results],
    )
    results = function(builder, expressed)
    instructions = [results] if isinstance(results, Instruction) else results
    return [
        quantize(builder, result, quantized_element_type(value.type)) if is_quantized(value.type) else result
        for result, value in zip(instructions, operation.results, strict=True)
    ]


def _expressed_type(type_: ir.Type) -> ir.Type:
    """Returns the type with the expressed element type if it is quantized, else the type itself."""
    if not is_quantized(type_) or not isinstance(type_, ir.TensorType):
        return type_
    return dataclasses.replace(type_, element=quantized_element_type(type_).expressed)


def _expressed_operand(builder: ComputationBuilder, value: ir.Value) -> ir.Value:
    """Returns a value that is bound to the dequantized operand; the value itself if it is not quantized."""
    if not is_quantized(value.type):
        return value
    expressed = ir.Value(_expressed_type(value.type), value.owner, value.index)
    builder.values[expressed] = dequantize(builder, builder.value(value), quantized_element_type(value.type))
    return expressed


@rule("stablehlo.uniform_quantize", operands=1, on_storage_type=True)
def uniform_quantize(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Quantizes a floating-point tensor, or converts a quantized tensor to another quantized type."""
    (operand,) = builder.operands(operation)
    source, target = operation.operands[0].type, quantized_element_type(operation.results[0].type)
    if is_quantized(source):
        operand = dequantize(builder, operand, quantized_element_type(source))
    return quantize(builder, operand, target)


@rule("stablehlo.uniform_dequantize", operands=1, on_storage_type=True)
def uniform_dequantize(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    return dequantize(builder, operand, quantized_element_type(operation.operands[0].type))


def quantize(builder: ComputationBuilder, numbers: Instruction, type_: ir.QuantizedType) -> Instruction:
    """Converts expressed values to storage integers."""
    numbers = builder.convert(numbers, type_.expressed)
    shape = numbers.shape
    scaled = builder.emit(opcodes.DIVIDE, (numbers, _broadcast_parameters(builder, type_.scales, type_, shape)))
    zero_points = _broadcast_parameters(builder, type_.zero_points, type_, shape)
    shifted = builder.emit(opcodes.ADD, (scaled, zero_points))
    low, high = builder.full(type_.storage_min, shape), builder.full(type_.storage_max, shape)
    clamped = builder.emit(opcodes.CLAMP, (low, shifted, high))
    rounded = builder.emit(opcodes.ROUND_NEAREST_EVEN, (clamped,))
    return builder.convert(rounded, type_.storage)


def dequantize(builder: ComputationBuilder, stored: Instruction, type_: ir.QuantizedType) -> Instruction:
    """Converts storage integers to expressed values. Zero points are subtracted in a wider type to avoid overflow."""
    wide = S32 if type_.storage.bits < S32.bits else S64
    shifted = builder.convert(stored, wide)
    if any(type_.zero_points):
        zero_points = _broadcast_parameters(builder, type_.zero_points, type_, shifted.shape)
        shifted = builder.emit(opcodes.SUBTRACT, (shifted, zero_points))
    numbers = builder.convert(shifted, type_.expressed)
    scales = _broadcast_parameters(builder, type_.scales, type_, numbers.shape)
    return builder.emit(opcodes.MULTIPLY, (numbers, scales))


def _broadcast_parameters(
    builder: ComputationBuilder, values: Sequence[float], type_: ir.QuantizedType, shape: Shape
) -> Instruction:
    """Broadcasts scales or zero points to a shape: one per tensor, one per index of an axis, or one per block."""
    if len(values) == 1:
        return builder.full(values[0], shape)
    if type_.block_sizes:
        return _broadcast_blocks(builder, values, type_, shape)
    if len(type_.axes) != 1 or not 0 <= type_.axes[0] < shape.rank or shape.dimensions[type_.axes[0]] != len(values):
        raise ShapeError(
            codes.QUANTIZED_SHAPE,
            f"{len(values)} scales or zero points along {list(type_.axes)} do not fit {shape.to_text(layout=False)}",
        )
    return builder.broadcast(builder.constant(_array(values, shape.element_type)), shape, type_.axes)


def _broadcast_blocks(
    builder: ComputationBuilder, values: Sequence[float], type_: ir.QuantizedType, shape: Shape
) -> Instruction:
    """Repeats each value of a grid over a block of elements.

    Example: f32[2,1] becomes f32[4,3] by a broadcast to f32[2,2,1,3] and a reshape.
    """
    grid = type_.scales_shape
    fits = len(grid) == shape.rank and math.prod(grid) == len(values)
    if not fits or any(not count or size % count for size, count in zip(shape.dimensions, grid, strict=True)):
        raise ShapeError(
            codes.QUANTIZED_SHAPE,
            f"blocks {list(grid)} of scales or zero points do not fit {shape.to_text(layout=False)}",
        )
    sizes = [part for size, count in zip(shape.dimensions, grid, strict=True) for part in (count, size // count)]
    values_of_grid = builder.constant(_array(values, shape.element_type).reshape(grid))
    repeated = builder.broadcast(values_of_grid, Shape.array(shape.element_type, sizes), range(0, 2 * shape.rank, 2))
    return builder.reshape(repeated, shape.dimensions)


def _array(values: Sequence[float], element_type: PrimitiveType) -> Any:
    return np.array(values, np.float64 if element_type.is_floating else np.int64).astype(element_type.dtype)
