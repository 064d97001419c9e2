"""Checks that the shape rules of several families use.

Responsible for the compatibility of shapes, as XLA defines it for operands and parameters, and for checks of single
operands. Does not depend on any op.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.error_codes.operations import control as control_codes
from xlapy.base.error_codes.operations import operands as codes
from xlapy.base.errors import ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape


def compatible_ignoring_dynamic(a: Shape, b: Shape) -> bool:
    """Whether shapes are equal except for layouts and dynamic dimensions, as `f32[<=4]` and `f32[4]` are."""
    if a is b or a.compatible(b):
        return True
    if a.element_type is not b.element_type or a.dimensions != b.dimensions:
        return False
    if len(a.tuple_shapes) != len(b.tuple_shapes):
        return False
    if a.buffer_shape is not None:
        return b.buffer_shape is not None and compatible_ignoring_dynamic(a.buffer_shape, b.buffer_shape)
    return all(compatible_ignoring_dynamic(x, y) for x, y in zip(a.tuple_shapes, b.tuple_shapes, strict=True))


def dynamic_in_any(shapes: Sequence[Shape]) -> Shape:
    """The first of several compatible shapes; a dimension is dynamic if it is dynamic in any of them."""
    first = shapes[0]
    if all(shape.compatible(first) for shape in shapes):
        return first
    if first.is_tuple:
        return Shape.tuple(dynamic_in_any(parts) for parts in zip(*(s.tuple_shapes for s in shapes), strict=True))
    dynamic = [any(flags) for flags in zip(*(s.dynamic_dimensions for s in shapes), strict=True)]
    return Shape.array(first.element_type, first.dimensions, dynamic, first.layout)


def is_prefix(prefix: Shape, shape: Shape) -> bool:
    """Whether tuples in `prefix` contain the first elements of those in `shape`; an empty tuple is a prefix of any."""
    if compatible_ignoring_dynamic(prefix, shape) or (prefix.is_tuple and not prefix.tuple_shapes):
        return True
    if not (prefix.is_tuple and shape.is_tuple) or len(prefix.tuple_shapes) > len(shape.tuple_shapes):
        return False
    return all(is_prefix(p, s) for p, s in zip(prefix.tuple_shapes, shape.tuple_shapes, strict=False))


def same_layout(a: Shape, b: Shape) -> bool:
    """Whether two arrays have equal layouts, ignoring memory spaces; a missing layout equals any other."""
    if a.layout is None or b.layout is None:
        return True
    return a.layout == b.layout or a.layout.replace(memory_space=b.layout.memory_space) == b.layout


def same_size(a: int, b: int) -> bool:
    """Whether two dimension sizes may be equal: an unbounded size equals any other."""
    return a == b or a < 0 or b < 0


def require_array(name: str, operand: Shape, what: str = "operand") -> None:
    if not operand.is_array:
        raise ShapeError(codes.ARRAY_OPERAND, f"{name} takes arrays, {what} is {operand.to_text(layout=False)}")


def require_arrays(name: str, operands: Sequence[Shape]) -> None:
    for number, operand in enumerate(operands):
        require_array(name, operand, f"operand {number}")


def require_token(name: str, operands: Sequence[Shape], number: int) -> None:
    if not operands[number].is_token:
        raise ShapeError(
            codes.TOKEN_OPERAND,
            f"{name} takes a token as operand {number}, given {operands[number].to_text(layout=False)}",
        )


def require_shape(name: str, declared: Shape, expected: Shape) -> None:
    if not compatible_ignoring_dynamic(declared, expected):
        raise ShapeError(
            codes.RESULT_SHAPE,
            f"{name} has shape {expected.to_text(layout=False)}, declared {declared.to_text(layout=False)}",
        )


def require_dimension(name: str, what: str, dimension: int, operand: Shape) -> None:
    if not 0 <= dimension < operand.rank:
        raise ShapeError(
            codes.DIMENSION_NUMBER,
            f"{name}: {what} {dimension} is out of bounds for {operand.to_text(layout=False)} of rank {operand.rank}",
        )


def require_distinct(name: str, what: str, dimensions: Sequence[int]) -> None:
    if len(set(dimensions)) < len(dimensions):
        raise ShapeError(codes.DISTINCT_DIMENSIONS, f"{name}: {what} {list(dimensions)} repeat a dimension")


def require_programs(name: str, programs: Sequence[ProgramShape], count: int) -> None:
    if len(programs) != count:
        raise ShapeError(
            codes.CALLED_COMPUTATIONS,
            f"{name} calls {count} computation{'' if count == 1 else 's'}, given {len(programs)}",
        )


def elements_of(shape: Shape) -> tuple[Shape, ...]:
    """The elements of a tuple, or the shape itself if it is not a tuple. The inverse of `one_or_tuple`."""
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    """The result shape of an op with one result per operand: the shape itself for one operand, else a tuple."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)


def require_parameters(name: str, operands: Sequence[Shape], program: ProgramShape, *, spare: bool = False) -> None:
    """Requires one operand per parameter, of a compatible shape; additional operands are allowed if `spare`."""
    count = len(program.parameters)
    if len(operands) < count or (len(operands) > count and not spare):
        raise ShapeError(
            control_codes.PARAMETER_COUNT,
            f"{name} has {len(operands)} operands, but the called computation is {program.to_text()}",
        )
    for number, (operand, parameter) in enumerate(zip(operands, program.parameters, strict=False)):
        if not compatible_ignoring_dynamic(operand, parameter):
            raise ShapeError(
                control_codes.PARAMETER_SHAPE,
                f"{name}: parameter {number} of the called computation is {parameter.to_text(layout=False)}, "
                f"operand {number} is {operand.to_text(layout=False)}",
            )
