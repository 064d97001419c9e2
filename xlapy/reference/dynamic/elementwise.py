"""Elementwise operations and map on dynamic dimensions."""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.shape import Shape
from xlapy.base.value import (
    DynamicArray,
    actual_array,
    array_of_bounds,
    sizes_of,
)
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import REGISTRY
from xlapy.reference.core import Device, Value, apply_definition
from xlapy.reference.dynamic.core import (
    Operands,
    at_actual_sizes,
    cropped,
    defines_dynamic,
)
from xlapy.reference.elements import array_of_shape


def elementwise_sizes(instruction: Instruction, operands: Operands) -> tuple[int, ...]:
    """Returns the sizes of an elementwise result: the dynamic ones, of several the smallest.

    A size of 1 gives way to a larger one, and a static size to a dynamic one. Scalars have no say.
    """
    rank = instruction.shape.rank
    pairs = [pair for pair in zip(operands, instruction.operand_shapes, strict=True) if pair[1].rank == rank]
    sizes = list(pairs[0][1].dimensions)
    for dimension in range(rank):
        dynamic = [sizes_of(value)[dimension] for value, shape in pairs if shape.dynamic_dimensions[dimension]]
        for count, size in enumerate(dynamic):
            low, high = sorted((sizes[dimension], size))
            sizes[dimension] = size if count == 0 else high if low == 1 else low
    return tuple(sizes)


@defines_dynamic(*(op for op in REGISTRY.values() if op.elementwise))
def elementwise(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Maps the whole arrays; a dynamic dimension of size 1 is repeated to the size of another operand's."""
    sizes = elementwise_sizes(instruction, operands)

    def repeated(operand: Value, shape: Shape) -> Array:
        array = array_of_bounds(operand)
        if not isinstance(operand, DynamicArray):
            return array
        is_one = [
            f and own == 1 < size for f, own, size in zip(shape.dynamic_dimensions, operand.sizes, sizes, strict=True)
        ]
        return array_of_shape(
            shape, lambda index: array[tuple(0 if one else i for i, one in zip(index, is_one, strict=True))]
        )

    arrays = [repeated(operand, shape) for operand, shape in zip(operands, instruction.operand_shapes, strict=True)]
    return DynamicArray(apply_definition(device, instruction, arrays), sizes)


@defines_dynamic(opcodes.BITCAST_CONVERT)
def bitcast_convert(device: Device, instruction: Instruction, operands: Operands) -> Value:
    result = apply_definition(device, instruction, [array_of_bounds(operands[0])])
    sizes = sizes_of(operands[0])[: result.ndim]
    return DynamicArray(result, (*sizes, *result.shape[len(sizes) :]))


@defines_dynamic(opcodes.MAP)
def map_(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Maps only the elements within the actual sizes: for others, the computation might not end."""
    sizes = elementwise_sizes(instruction, operands)
    arrays = [
        np.broadcast_to(cropped(operand, sizes), sizes) if shape.rank else actual_array(operand)
        for operand, shape in zip(operands, instruction.operand_shapes, strict=True)
    ]
    return at_actual_sizes(device, instruction, arrays)
