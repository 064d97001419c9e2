"""How instructions that meet dynamic dimensions are evaluated: at the sizes that their operands actually have.

Owns: the evaluation of an instruction at actual sizes, agreement of sizes. Must not know: what any op means.

Most rules hand the ordinary rule the operands without their padding and an instruction of the shape that the op infers
for those sizes, and pad its result again (`at_actual_sizes`). Ops that only move or map elements, so that padding meets
padding, run on the arrays of the bounds as they are. Where the sizes of operands disagree, all take the smallest, as in
XLA.

Example: f32[<=4,3] dot f32[3,2] of an operand of 2 rows gives the ordinary rule arrays [2,3] and [3,2] and the result
shape f32[2,2]; its result is padded to f32[4,2], of the sizes (2,2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.dynamic_array import DynamicArray, actual, first, padded_to, sizes_of

Arrays = list[Array]


def ordinary(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The ordinary rule as it stands: it hands arrays on, or makes them of the bounds."""
    return RULES.find(instruction.op)(context, instruction, values)


def at_actual_sizes(context: Context, instruction: Instruction, values: Sequence[Value], **changes: Any) -> Value:
    """What the ordinary rule gives for the operands without padding; `changes` are to the attributes.

    `ShapeError` where the op cannot take those sizes.
    """
    arrays = [actual(value) for value in values]
    attributes = instruction.attributes.replace(**changes) if changes else instruction.attributes
    shapes = [Shape.array(o.shape.element_type, a.shape) for a, o in zip(arrays, instruction.operands, strict=True)]
    programs = [computation.program_shape for computation in instruction.computations]
    inferred = instruction.op.result_shape(shapes, attributes, programs)
    return evaluate_as(context, instruction, arrays, _with_types(inferred, instruction.shape), attributes)


def evaluate_as(
    context: Context, instruction: Instruction, arrays: Sequence[Array], shape: Shape, attributes: Any
) -> Value:
    """What the ordinary rule gives for an instruction of another shape and other attributes, padded to its own."""
    sized = Instruction(
        instruction.op,
        shape,
        instruction.operands,
        attributes,
        instruction.computations,
        instruction.name,
        instruction.metadata,
    )
    return padded_to(RULES.find(instruction.op)(context, sized, arrays), instruction.shape)


def _with_types(inferred: Shape, declared: Shape) -> Shape:
    """The inferred sizes with the declared element types, in which some ops have a freedom."""
    if inferred.is_tuple:
        return Shape.tuple(map(_with_types, inferred.tuple_shapes, declared.tuple_shapes))
    return Shape.array(declared.element_type, inferred.dimensions)


# -- sizes that agree


def checked_size(instruction: Instruction, size: int, dimension: int, bounds: Shape) -> int:
    """A size for a dimension; `ExecutionError` unless it is between 0 and the bound."""
    bound = bounds.dimensions[dimension]
    if 0 <= size <= bound:
        return size
    raise ExecutionError(
        f"{instruction.name} ({instruction.op.name}): size {size} of dimension {dimension} is not between 0 and "
        f"the bound {bound} ({bounds.brief})"
    )


def smallest(values: Iterable[Value]) -> tuple[int, ...]:
    """The smallest size in each dimension of arrays of one rank."""
    return tuple(map(min, zip(*map(sizes_of, values), strict=True)))


def cropped(value: Value, sizes: Sequence[int]) -> Array:
    """The first of the elements that are there, so many a dimension."""
    return first(actual(value), sizes)


def agreed(values: Sequence[Value]) -> Arrays:
    """Arrays of one rank without padding, all cropped to the smallest sizes."""
    sizes = smallest(values)
    return [cropped(value, sizes) for value in values]


def paired(left: Value, right: Value, pairs: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Two arrays without padding, cropped where dimensions that are paired have different sizes."""
    a, b = actual(left), actual(right)
    for i, j in pairs:
        size = min(a.shape[i], b.shape[j])
        a, b = a[(slice(None),) * i + (slice(size),)], b[(slice(None),) * j + (slice(size),)]
    return a, b


def broadcast_sizes(instruction: Instruction, values: Sequence[Value]) -> tuple[int, ...]:
    """The sizes of an elementwise result: of two dynamic sizes the smaller, or, where that is a 1, the larger.

    A static dimension beside a dynamic one has no say. Scalars beside arrays fit any size.
    """
    rank = instruction.shape.rank
    pairs = list(zip(values, instruction.operand_shapes, strict=True))
    wide = [(value, shape) for value, shape in pairs if shape.rank == rank]
    sizes = list(wide[0][1].dimensions)
    for dimension in range(rank):
        dynamic = [sizes_of(value)[dimension] for value, shape in wide if shape.dynamic_dimensions[dimension]]
        for number, size in enumerate(dynamic):
            sizes[dimension] = _met(sizes[dimension], size) if number else size
    return tuple(sizes)


def _met(first: int, second: int) -> int:
    low, high = min(first, second), max(first, second)
    return high if low == 1 else low


def repeats(value: Value, shape: Shape, sizes: Sequence[int]) -> list[int]:
    """The dimensions in which a dynamic operand of size 1 is repeated to a larger size."""
    if not isinstance(value, DynamicArray):
        return []
    return [d for d, flag in enumerate(shape.dynamic_dimensions) if flag and value.sizes[d] == 1 < sizes[d]]
