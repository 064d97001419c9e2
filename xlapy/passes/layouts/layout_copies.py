"""Orders of dimensions in memory, and the copies that stand between two of them.

Owns: layouts of whole shapes, one copy for each value and layout. Must not know: who demands which layout.
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
    """The copies that were made in one computation."""

    def __init__(self) -> None:
        self._found: dict[tuple[Instruction, Shape], Instruction] = {}

    @property
    def made_any(self) -> bool:
        return bool(self._found)

    def laid(self, value: Instruction, shape: Shape) -> Instruction:
        """The value in the layouts of a shape: itself, or a copy; a tuple is copied element by element."""
        if same_order(value.shape, shape):
            return value
        found = self._found.get((value, shape))
        if found is None:
            write = Writer(value)
            if value.shape.is_tuple:
                laid = [self.laid(*each) for each in zip(_parts(write, value), shape.tuple_shapes, strict=True)]
                found = write.add(opcodes.TUPLE, *laid)
            else:
                found = write.add(opcodes.COPY, value, shape=laid_out(value.shape, order_of(shape)))
            self._found[value, shape] = found
        return found


def _parts(write: Writer, value: Instruction) -> Sequence[Instruction]:
    """The elements of a tuple."""
    if value.op is opcodes.TUPLE:
        return value.operands
    return [write.get_tuple_element(value, index) for index in range(len(value.shape.tuple_shapes))]


def entry_signature(computation: Computation) -> tuple[Sequence[Shape], Shape] | None:
    """The shapes, layouts included, that parameters and result of the entry must have, if they are declared."""
    module = computation.module
    layout = module.config.entry_computation_layout if module is not None else None
    return (layout.parameters, layout.result) if computation.is_entry and layout is not None else None


def order_of(shape: Shape) -> tuple[int, ...]:
    """The dimensions from the fastest-varying on; row-major if no layout was chosen."""
    return tuple(reversed(range(shape.rank))) if shape.layout is None else shape.layout.minor_to_major


def laid_out(shape: Shape, order: Sequence[int]) -> Shape:
    """An array shape with its dimensions in another order; tiles, which belong to an order, go with the old one."""
    if shape.layout is not None and shape.layout.minor_to_major == tuple(order):
        return shape
    layout = Layout(order) if shape.layout is None else shape.layout.replace(minor_to_major=order, tiles=())
    return shape.with_layout(layout)


def row_major(shape: Shape) -> Shape:
    """A shape with all arrays in it row-major."""
    if shape.is_tuple:
        return Shape.tuple(row_major(element) for element in shape.tuple_shapes)
    return laid_out(shape, tuple(reversed(range(shape.rank)))) if shape.is_array else shape


def same_order(a: Shape, b: Shape) -> bool:
    """Whether all arrays in two compatible shapes have their dimensions in the same order."""
    if a.is_tuple:
        return all(same_order(*each) for each in zip(a.tuple_shapes, b.tuple_shapes, strict=True))
    return not a.is_array or order_of(a) == order_of(b)
