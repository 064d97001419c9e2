"""Evaluates instructions with dynamic dimensions at the sizes that their operands have at run time.

Responsible for the evaluation of an instruction at actual sizes, and for the rule by which differing sizes of operands
are reconciled. Does not depend on what any op means.

Most rules remove the padding of the operands, apply the op's ordinary rule to an instruction of the shape that the op
infers for those sizes, and pad the result again (`apply_at_actual_sizes`). Ops that only move or map elements run on
the padded arrays, because padding then only meets padding. Where sizes of operands differ, all operands are cropped to
the smallest, as in XLA.

Example: f32[<=4,3] dot f32[3,2] with an operand of 2 rows applies the ordinary rule to arrays [2,3] and [3,2] and the
result shape f32[2,2]; the result is padded to f32[4,2] and has the sizes (2,2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.base.value import DynamicArray, actual_array, crop, pad_value_to_bounds, sizes_of
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import RULES, Array, Context, Value

Arrays = list[Array]


def apply_ordinary_rule(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Applies the ordinary rule unchanged: for ops that pass values on, or that create arrays of the bounds."""
    return RULES.find(instruction.op)(context, instruction, values)


def apply_at_actual_sizes(context: Context, instruction: Instruction, values: Sequence[Value], **changes: Any) -> Value:
    """Applies the ordinary rule to the operands without padding, and pads the result; `changes` replace attributes.

    Raises `ShapeError` if the op does not accept those sizes.
    """
    arrays = [actual_array(value) for value in values]
    attributes = instruction.attributes.replace(**changes) if changes else instruction.attributes
    shapes = [Shape.array(o.shape.element_type, a.shape) for a, o in zip(arrays, instruction.operands, strict=True)]
    programs = [computation.program_shape for computation in instruction.computations]
    inferred = instruction.op.result_shape(shapes, attributes, programs)
    return apply_with_shape(context, instruction, arrays, _with_types(inferred, instruction.shape), attributes)


def apply_with_shape(
    context: Context, instruction: Instruction, arrays: Sequence[Array], shape: Shape, attributes: Any
) -> Value:
    """Applies the ordinary rule with another shape and other attributes, and pads the result to the original shape."""
    sized = Instruction(
        instruction.op,
        shape,
        instruction.operands,
        attributes,
        instruction.computations,
        instruction.name,
        instruction.metadata,
    )
    return pad_value_to_bounds(RULES.find(instruction.op)(context, sized, arrays), instruction.shape)


def _with_types(inferred: Shape, declared: Shape) -> Shape:
    """Returns the inferred sizes with the declared element types, which some ops let the user choose."""
    if inferred.is_tuple:
        return Shape.tuple(map(_with_types, inferred.tuple_shapes, declared.tuple_shapes))
    return Shape.array(declared.element_type, inferred.dimensions)


# -- reconciling sizes


def check_size(instruction: Instruction, size: int, dimension: int, bounds: Shape) -> int:
    """Returns the size given for a dimension; raises `ExecutionError` unless it is between 0 and the bound."""
    bound = bounds.dimensions[dimension]
    if 0 <= size <= bound:
        return size
    raise ExecutionError(
        codes.DYNAMIC_SIZE,
        f"{describe_instruction(instruction)}: size {size} of dimension {dimension} is not between 0 and "
        f"the bound {bound} ({bounds.to_text(layout=False)})",
    )


def smallest_sizes(values: Iterable[Value]) -> tuple[int, ...]:
    """Returns the smallest size in each dimension of arrays of equal rank."""
    return tuple(map(min, zip(*map(sizes_of, values), strict=True)))


def crop_value(value: Value, sizes: Sequence[int]) -> Array:
    """Removes the padding and returns the first `sizes[d]` elements in each dimension."""
    return crop(actual_array(value), sizes)


def crop_to_smallest_sizes(values: Sequence[Value]) -> Arrays:
    """Removes the padding of arrays of equal rank and crops all of them to the smallest sizes."""
    sizes = smallest_sizes(values)
    return [crop_value(value, sizes) for value in values]


def crop_paired_dimensions(left: Value, right: Value, pairs: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Removes the padding of two arrays and crops each pair (left dimension, right dimension) to the smaller size."""
    a, b = actual_array(left), actual_array(right)
    for i, j in pairs:
        size = min(a.shape[i], b.shape[j])
        a, b = a[(slice(None),) * i + (slice(size),)], b[(slice(None),) * j + (slice(size),)]
    return a, b


def broadcast_sizes(instruction: Instruction, values: Sequence[Value]) -> tuple[int, ...]:
    """Returns the sizes of an elementwise result.

    Of two dynamic sizes, the smaller one applies, or the larger one if the smaller is 1. Where one operand's dimension
    is dynamic, static ones are ignored. A scalar operand fits any size.
    """
    rank = instruction.shape.rank
    pairs = list(zip(values, instruction.operand_shapes, strict=True))
    wide = [(value, shape) for value, shape in pairs if shape.rank == rank]
    sizes = list(wide[0][1].dimensions)
    for dimension in range(rank):
        dynamic = [sizes_of(value)[dimension] for value, shape in wide if shape.dynamic_dimensions[dimension]]
        for number, size in enumerate(dynamic):
            sizes[dimension] = _broadcast_size(sizes[dimension], size) if number else size
    return tuple(sizes)


def _broadcast_size(crop: int, second: int) -> int:
    low, high = min(crop, second), max(crop, second)
    return high if low == 1 else low


def repeated_dimensions(value: Value, shape: Shape, sizes: Sequence[int]) -> list[int]:
    """Returns the dimensions in which a dynamic operand of size 1 is repeated to a larger size."""
    if not isinstance(value, DynamicArray):
        return []
    return [d for d, flag in enumerate(shape.dynamic_dimensions) if flag and value.sizes[d] == 1 < sizes[d]]
