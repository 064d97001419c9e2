"""Buffer reuse: computes results in memory that already exists, such as that of an operand or of a loop's state.

Responsible for deciding whether a kernel may write to memory that it reads, and for the in-place kernel of
dynamic-update-slice. Does not decide which arrays are no longer needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import LoopNest, choose_loop_nest, element_loops, row_loops
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.thunks import Thunk, walk_thunks
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Builder, Kernel
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.movement import clamped_starts


def update_kernel(instruction: Instruction) -> Kernel:
    """Returns the kernel that writes the update of a dynamic-update-slice into the operand's memory.

    Buffers of the kernel: the update, the start indices, the operand.
    """
    operand, update, *starts = instruction.operands
    builder = kernel_builder(instruction.name, host_target())
    read = tuple(dict.fromkeys([update, *starts]))
    buffers = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(instruction.operands[1:])}
    target = result_buffer(builder, operand.shape, "out0")
    lowering = Lowering(builder, buffers)
    axes = choose_loop_nest(Region(instruction.name, update, read, (), host_target()), update.shape)
    with _window_loops(builder, axes, update.shape, operand.shape) as index:
        sizes = zip(operand.shape.dimensions, update.shape.dimensions, strict=True)
        begins = clamped_starts(lowering, starts, [whole - size for whole, size in sizes])
        place = linear(tuple(p + begin for p, begin in zip(index, begins, strict=True)), operand.shape.dimensions)
        store_element(builder, target, place, lowering.element(update, index), update.shape.element_type)
    return builder.kernel


@contextmanager
def _window_loops(builder: Builder, axes: LoopNest, update: Shape, whole: Shape) -> Iterator[Index]:
    """Opens the loops over the update; yields the index of an element.

    If the update has rows that are not contiguous in the operand and hold at least one vector, the loops go row by row.
    """
    sizes = update.dimensions
    last = max((d for d in range(1, update.rank) if sizes[d] != whole.dimensions[d]), default=0)
    outer, inner = sizes[:last], sizes[last:]
    if math.prod(outer) <= 1 or math.prod(inner) < axes.lanes:
        with element_loops(builder, axes, update) as index:
            yield index
        return
    with row_loops(builder, math.prod(outer), math.prod(inner), axes.lanes) as (row, place):
        index = (*delinear(builder, row, outer), *delinear(builder, place, inner))
        yield index


# -- kernels that write to memory that they read


class ThunkSequence:
    """The thunks of a sequence, with the first and the last of them that use each slice, inside of loops and branches
    too."""

    def __init__(self, thunks: list[Thunk]) -> None:
        self._thunks = thunks
        self._first: dict[BufferSlice, int] = {}
        self._last: dict[BufferSlice, int] = {}
        for number, thunk in enumerate(thunks):
            for slice_ in _all_slices(thunk):
                self._first.setdefault(slice_, number)
                self._last[slice_] = number

    def may_redirect(self, old: BufferSlice, new: BufferSlice) -> bool:
        """Whether a temporary may be replaced by another slice in all thunks.

        It may if a kernel, a copy or a callback writes the temporary and nothing uses the new slice from there on. A
        kernel may read the new slice at the element that it writes. Others must not read or write it at all.
        """
        if old.storage is not StorageClass.TEMPORARY or old not in self._first:
            return False
        first = self._first[old]
        return self._thunks[first].may_compute_in(old, new) and self._last.get(new, -1) <= first

    def redirect(self, old: BufferSlice, new: BufferSlice) -> bool:
        """Replaces a temporary by another slice in all thunks, if that is safe; returns whether it is."""
        if not self.may_redirect(old, new):
            return False
        first, last = self._first.pop(old), self._last.pop(old)
        self._thunks[first].mark_may_alias(old, new)
        for thunk in walk_thunks(self._thunks[first : last + 1]):
            thunk.replace({old: new})
        self._first.setdefault(new, first)
        self._last[new] = last
        return True


def _all_slices(thunk: Thunk) -> Iterator[BufferSlice]:
    """Yields the slices that a thunk and those in it use, and those in which they leave their results."""
    for nested in walk_thunks([thunk]):
        yield from nested.accesses
        yield from nested.carried
