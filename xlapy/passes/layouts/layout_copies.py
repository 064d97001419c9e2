"""Helpers for layouts of whole shapes, and copies of values in other layouts.

Does not depend on why a layout is required.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.passes.rewrite import Writer


class LayoutCopies:
    """The copies of values in other layouts in one computation, one for each value and layout."""

    def __init__(self) -> None:
        self._found: dict[tuple[Instruction, Shape], Instruction] = {}

    @property
    def made_any(self) -> bool:
        """Whether any copy was made."""
        return bool(self._found)

    def in_layout(self, value: Instruction, shape: Shape) -> Instruction:
        """Returns a value in the layouts of a shape: itself, or a copy; a tuple is copied element by element."""
        if same_order(value.shape, shape):
            return value
        found = self._found.get((value, shape))
        if found is None:
            write = Writer(value)
            if value.shape.is_tuple:
                copies = [
                    self.in_layout(*each)
                    for each in zip(_tuple_elements(write, value), shape.tuple_shapes, strict=True)
                ]
                found = write.add(opcodes.TUPLE, *copies)
            else:
                found = write.add(opcodes.COPY, value, shape=with_dimension_order(value.shape, minor_to_major(shape)))
            self._found[value, shape] = found
        return found


def _tuple_elements(write: Writer, value: Instruction) -> Sequence[Instruction]:
    """Returns the elements of a tuple."""
    if value.op is opcodes.TUPLE:
        return value.operands
    return [write.get_tuple_element(value, index) for index in range(len(value.shape.tuple_shapes))]


def entry_signature(computation: Computation) -> tuple[Sequence[Shape], Shape] | None:
    """Returns the shapes with layouts that the module declares for the entry's parameters and result, if it does."""
    module = computation.module
    layout = module.config.entry_computation_layout if module is not None else None
    return (layout.parameters, layout.result) if computation.is_entry and layout is not None else None


def minor_to_major(shape: Shape) -> tuple[int, ...]:
    """Returns the dimensions from the fastest-varying on; row-major for a shape without layout."""
    return tuple(reversed(range(shape.rank))) if shape.layout is None else shape.layout.minor_to_major


def with_dimension_order(shape: Shape, order: Sequence[int]) -> Shape:
    """Returns an array shape with another minor-to-major order; tiles, which depend on the order, are dropped."""
    if shape.layout is not None and shape.layout.minor_to_major == tuple(order):
        return shape
    layout = Layout(order) if shape.layout is None else shape.layout.replace(minor_to_major=order, tiles=())
    return shape.with_layout(layout)


def row_major(shape: Shape) -> Shape:
    """Returns a shape with all of its arrays row-major."""
    if shape.is_tuple:
        return Shape.tuple(row_major(element) for element in shape.tuple_shapes)
    return with_dimension_order(shape, tuple(reversed(range(shape.rank)))) if shape.is_array else shape


def same_order(a: Shape, b: Shape) -> bool:
    """Returns whether the arrays of two compatible shapes have the same minor-to-major orders."""
    if a.is_tuple:
        return all(same_order(*each) for each in zip(a.tuple_shapes, b.tuple_shapes, strict=True))
    return not a.is_array or minor_to_major(a) == minor_to_major(b)
