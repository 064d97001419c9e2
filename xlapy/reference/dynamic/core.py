"""Applies definitions at the actual sizes of their operands, and reconciles sizes that disagree.

If sizes of operands disagree, all are cropped to the smallest. Also has the ops that pass values on with their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.errors import ExecutionError, ShapeError
from xlapy.base.shape import Shape
from xlapy.base.value import (
    actual_array,
    crop,
    pad_value_to_bounds,
    sizes_of,
)
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.registry import REGISTRY
from xlapy.reference.core import DYNAMIC_DEFINITIONS, Device, Value, apply_definition

Operands = Sequence[Any]

defines_dynamic = DYNAMIC_DEFINITIONS.rule


@defines_dynamic(
    opcodes.CHOLESKY,
    opcodes.FFT,
    opcodes.RAGGED_DOT,
    opcodes.REVERSE,
    opcodes.SCALED_DOT,
    opcodes.TRIANGULAR_SOLVE,
)
def at_actual_sizes(device: Device, instruction: Instruction, operands: Operands, **changes: Any) -> Value:
    """The result for the elements within the actual sizes, whose shape follows from these; `changes` are attributes."""
    arrays = [actual_array(operand) for operand in operands]
    attributes = instruction.attributes.replace(**changes) if changes else instruction.attributes
    types = (operand.shape.element_type for operand in instruction.operands)
    shapes = [Shape.array(t, array.shape) for t, array in zip(types, arrays, strict=True)]
    programs = [computation.program_shape for computation in instruction.computations]
    try:
        inferred = instruction.op.result_shape(shapes, attributes, programs)
    except ShapeError as error:
        raise ExecutionError(
            error.code, f"{describe_instruction(instruction)}, with the sizes at run time: {error.message}"
        ) from error
    return with_shape(device, instruction, arrays, _with_types(inferred, instruction.shape), attributes)


def with_shape(device: Device, instruction: Instruction, arrays: Operands, shape: Shape, attributes: Any) -> Value:
    """Returns the result of an instruction of another shape and with other attributes, padded to the bounds."""
    called = instruction.computations
    sized = Instruction(instruction.op, shape, instruction.operands, attributes, called, instruction.name)
    return pad_value_to_bounds(apply_definition(device, sized, arrays), instruction.shape)


def _with_types(inferred: Shape, declared: Shape) -> Shape:
    if inferred.is_tuple:
        return Shape.tuple(map(_with_types, inferred.tuple_shapes, declared.tuple_shapes))
    return Shape.array(declared.element_type, inferred.dimensions)


def smallest_sizes(operands: Iterable[Value]) -> tuple[int, ...]:
    """Returns the smallest size in each dimension of arrays of equal rank."""
    return tuple(map(min, zip(*map(sizes_of, operands), strict=True)))


def cropped(operand: Value, sizes: Sequence[int]) -> Array:
    """Returns the elements within the actual sizes and within the given ones."""
    return crop(actual_array(operand), sizes)


def cropped_to_smallest(operands: Operands) -> list[Array]:
    sizes = smallest_sizes(operands)
    return [cropped(operand, sizes) for operand in operands]


def cropped_pair(left: Value, right: Value, pairs: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Returns two arrays with each pair of dimensions cropped to the smaller size."""
    left_sizes, right_sizes = list(sizes_of(left)), list(sizes_of(right))
    for i, j in pairs:
        left_sizes[i] = right_sizes[j] = min(left_sizes[i], right_sizes[j])
    return cropped(left, left_sizes), cropped(right, right_sizes)


# -- values that are passed on, and arrays of full size


@defines_dynamic(
    opcodes.ADD_DEPENDENCY,
    opcodes.AFTER_ALL,
    opcodes.ASYNC_DONE,
    opcodes.ASYNC_START,
    opcodes.ASYNC_UPDATE,
    opcodes.CALL,
    opcodes.CONDITIONAL,
    opcodes.CONSTANT,
    opcodes.COPY,
    opcodes.COPY_DONE,
    opcodes.COPY_START,
    opcodes.CUSTOM_CALL,
    opcodes.DOMAIN,
    opcodes.FUSION,
    opcodes.GET_TUPLE_ELEMENT,
    opcodes.INFEED,
    opcodes.IOTA,
    opcodes.OPT_BARRIER,
    opcodes.OUTFEED,
    opcodes.PARAMETER,
    opcodes.RECV,
    opcodes.RECV_DONE,
    opcodes.RNG,
    opcodes.RNG_BIT_GENERATOR,
    opcodes.RNG_GET_AND_UPDATE_STATE,
    opcodes.SEND,
    opcodes.SEND_DONE,
    opcodes.TUPLE,
    opcodes.WHILE,
)
def unchanged(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Values are passed on with their sizes; arrays that are created have their bounds as sizes."""
    return apply_definition(device, instruction, operands)


_IDS = (opcodes.PARTITION_ID, opcodes.REPLICA_ID)
DYNAMIC_DEFINITIONS.refuse("a scalar has no dimensions", *_IDS)
DYNAMIC_DEFINITIONS.refuse("its body takes slices of the sizes of the bounds", opcodes.SCAN)
DYNAMIC_DEFINITIONS.refuse(
    "devices may have different sizes, and XLA does not propagate sizes through collectives either",
    *(op for op in REGISTRY.values() if op.family == "collectives" and op not in _IDS),
)
