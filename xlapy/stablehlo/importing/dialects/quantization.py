"""Import rules: quantized tensors, which HLO holds as the integers that are stored.

Owns: uniform_quantize, uniform_dequantize, and what any other operation means for quantized operands: it is done with
the numbers that they stand for, and its result is quantized again. Must not know: particular other operations.
Source: "Quantization" in the specification of StableHLO: number = (stored - zero_point) * scale; quantizing clamps
number / scale + zero_point to the type's range and rounds to the nearest, ties to even.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32, S64, PrimitiveType
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.rules import Results, Rule, rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import is_quantized, quantized

_MOVING = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast", "broadcast_in_dim", "concatenate", "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad",
        "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather", "pad", "real_dynamic_slice", "reshape",
        "reverse", "select", "slice", "transpose",
    )
)  # fmt: skip
"""Operations that only move elements: the stored integers do as well, if all are of one quantized type."""


def meaning(given: Rule, operation: ir.Operation) -> Rule:
    """The rule for an operation that may have quantized operands or results: the given one if it has none."""
    types = [value.type for value in (*operation.operands, *operation.results)]
    if not any(map(is_quantized, types)) or (operation.name in _MOVING and _is_one_type(types)):
        return given

    def through_numbers(scope: Scope, of: ir.Operation) -> Results:
        return _through_numbers(given, scope, of)

    return through_numbers


def _is_one_type(types: Sequence[ir.Type]) -> bool:
    found = {quantized(each) for each in types if is_quantized(each)}
    return len(found) == 1 and not next(iter(found)).axes


def _through_numbers(given: Rule, scope: Scope, operation: ir.Operation) -> list[Instruction]:
    stand_in = dataclasses.replace(
        operation,
        operands=[_number_operand(scope, value) for value in operation.operands],
        results=[ir.Value(_number_type(value.type), operation, value.index) for value in operation.results],
    )
    results = given(scope, stand_in)
    numbers = [results] if isinstance(results, Instruction) else results
    return [
        quantize(scope, number, quantized(value.type)) if is_quantized(value.type) else number
        for number, value in zip(numbers, operation.results, strict=True)
    ]


def _number_type(type_: ir.Type) -> ir.Type:
    if not is_quantized(type_) or not isinstance(type_, ir.TensorType):
        return type_
    return dataclasses.replace(type_, element=quantized(type_).expressed)


def _number_operand(scope: Scope, value: ir.Value) -> ir.Value:
    if not is_quantized(value.type):
        return value
    stand_in = ir.Value(_number_type(value.type), value.owner, value.index)
    scope.values[stand_in] = dequantize(scope, scope.value(value), quantized(value.type))
    return stand_in


@rule("stablehlo.uniform_quantize", operands=1, stored=True)
def uniform_quantize(scope: Scope, operation: ir.Operation) -> Instruction:
    """Of numbers, or of a quantized tensor into another quantized type."""
    (operand,) = scope.operands(operation)
    given, wanted = operation.operands[0].type, quantized(operation.results[0].type)
    if is_quantized(given):
        operand = dequantize(scope, operand, quantized(given))
    return quantize(scope, operand, wanted)


@rule("stablehlo.uniform_dequantize", operands=1, stored=True)
def uniform_dequantize(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    return dequantize(scope, operand, quantized(operation.operands[0].type))


def quantize(scope: Scope, numbers: Instruction, type_: ir.QuantizedType) -> Instruction:
    """The integers that stand for numbers."""
    kind = type_.expressed
    numbers = scope.convert(numbers, kind)
    shape = numbers.shape
    scaled = scope.emit(opcodes.DIVIDE, (numbers, _along(scope, type_.scales, type_, shape)))
    shifted = scope.emit(opcodes.ADD, (scaled, _along(scope, type_.zero_points, type_, shape)))
    low, high = scope.full(type_.storage_min, shape), scope.full(type_.storage_max, shape)
    clamped = scope.emit(opcodes.CLAMP, (low, shifted, high))
    rounded = scope.emit(opcodes.ROUND_NEAREST_EVEN, (clamped,))
    return scope.convert(rounded, type_.storage)


def dequantize(scope: Scope, stored: Instruction, type_: ir.QuantizedType) -> Instruction:
    """The numbers that integers stand for. They are shifted in a wider type, which cannot overflow."""
    wide = S32 if type_.storage.bits < S32.bits else S64
    shifted = scope.convert(stored, wide)
    if any(type_.zero_points):
        points = _along(scope, type_.zero_points, type_, shifted.shape)
        shifted = scope.emit(opcodes.SUBTRACT, (shifted, points))
    numbers = scope.convert(shifted, type_.expressed)
    return scope.emit(opcodes.MULTIPLY, (numbers, _along(scope, type_.scales, type_, numbers.shape)))


def _along(scope: Scope, values: Sequence[float], type_: ir.QuantizedType, shape: Shape) -> Instruction:
    """Scales or zero points in a shape: one for all, or one for each place on the axes, or for each block of them."""
    if len(values) == 1:
        return scope.full(values[0], shape)
    if type_.block_sizes:
        return _in_blocks(scope, values, type_, shape)
    if len(type_.axes) != 1 or not 0 <= type_.axes[0] < shape.rank or shape.dimensions[type_.axes[0]] != len(values):
        raise ShapeError(
            f"{len(values)} scales or zero points along {list(type_.axes)} do not fit {shape.to_text(layout=False)}"
        )
    return scope.broadcast(scope.constant(_array(values, shape.element_type)), shape, type_.axes)


def _in_blocks(scope: Scope, values: Sequence[float], type_: ir.QuantizedType, shape: Shape) -> Instruction:
    """Values of a grid, each for a block of elements: f32[2,1] in f32[4,3] is broadcast to f32[2,2,1,3] first."""
    grid = type_.scales_shape
    fits = len(grid) == shape.rank and math.prod(grid) == len(values)
    if not fits or any(not count or size % count for size, count in zip(shape.dimensions, grid, strict=True)):
        raise ShapeError(f"blocks {list(grid)} of scales or zero points do not fit {shape.to_text(layout=False)}")
    blocks = [part for size, count in zip(shape.dimensions, grid, strict=True) for part in (count, size // count)]
    small = scope.constant(_array(values, shape.element_type).reshape(grid))
    whole = scope.broadcast(small, Shape.array(shape.element_type, blocks), range(0, 2 * shape.rank, 2))
    return scope.reshape(whole, shape.dimensions)


def _array(values: Sequence[float], element_type: PrimitiveType) -> Any:
    return np.array(values, np.float64 if element_type.is_floating else np.int64).astype(element_type.dtype)
