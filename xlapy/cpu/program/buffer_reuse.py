"""Buffer reuse: computes results in memory that already exists, such as that of an operand or of a loop's state.

Responsible for deciding whether a kernel may write to memory that it reads, and for the in-place kernel of
dynamic-update-slice. Does not decide which arrays are no longer needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, LoopNest, choose_loop_nest, element_loops, row_loops
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.thunks import (
    CallbackThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    LibraryCallThunk,
    Thunk,
    WhileThunk,
    used_slices,
    walk_thunks,
)
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, Kernel, Store, TransposeStatement, Value
from xlapy.loops.ir import Block, Statement
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.movement import clamped_starts


def update_kernel(instruction: Instruction) -> tuple[Kernel, int]:
    """Returns the kernel that writes the update of a dynamic-update-slice into the operand's memory, and its work.

    Buffers of the kernel: the update, the start indices, the operand.
    """
    operand, update, *starts = instruction.operands
    builder = kernel_builder(instruction.name, host_target())
    read = tuple(dict.fromkeys([update, *starts]))
    buffers = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(instruction.operands[1:])}
    target = result_buffer(builder, operand.shape, "out0")
    lowering = Lowering(builder, buffers)
    axes = choose_loop_nest(Region(instruction.name, update, read, (), host_target()), update.shape)
    with _window_loops(builder, axes, update.shape, operand.shape) as (index, work):
        sizes = zip(operand.shape.dimensions, update.shape.dimensions, strict=True)
        begins = clamped_starts(lowering, starts, [whole - size for whole, size in sizes])
        place = linear(tuple(p + begin for p, begin in zip(index, begins, strict=True)), operand.shape.dimensions)
        store_element(builder, target, place, lowering.element(update, index), update.shape.element_type)
    return builder.kernel, work


@contextmanager
def _window_loops(builder: Builder, axes: LoopNest, update: Shape, whole: Shape) -> Iterator[tuple[Index, int]]:
    """Opens the loops over the update; yields the index of an element and the elements per parallel iteration.

    If the update has rows that are not contiguous in the operand and hold at least one vector, the loops go row by row.
    """
    sizes = update.dimensions
    last = max((d for d in range(1, update.rank) if sizes[d] != whole.dimensions[d]), default=0)
    outer, inner = sizes[:last], sizes[last:]
    if math.prod(outer) <= 1 or math.prod(inner) < axes.lanes:
        with element_loops(builder, axes, update) as index:
            yield index, axes.work
        return
    with row_loops(builder, math.prod(outer), math.prod(inner), axes.lanes) as (row, place):
        index = (*delinear(builder, row, outer), *delinear(builder, place, inner))
        yield index, min(TASK_ELEMENTS, math.prod(inner))


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
        producer = self._thunks[first]
        if isinstance(producer, CallbackThunk):
            if old in producer.operands or new in used_slices(producer):
                return False
        elif isinstance(producer, CopyThunk):
            if producer.target is not old or producer.source in (old, new):
                return False
        elif not isinstance(producer, KernelThunk) or not may_share_memory(producer, old, new):
            return False
        return self._last.get(new, -1) <= first

    def redirect(self, old: BufferSlice, new: BufferSlice) -> bool:
        """Replaces a temporary by another slice in all thunks, if that is safe; returns whether it is."""
        if not self.may_redirect(old, new):
            return False
        first, last = self._first.pop(old), self._last.pop(old)
        producer = self._thunks[first]
        if isinstance(producer, KernelThunk):
            mark_may_alias(producer, old, new)
        for thunk in walk_thunks(self._thunks[first : last + 1]):
            _replace_slice(thunk, old, new)
        self._first.setdefault(new, first)
        self._last[new] = last
        return True


def mark_may_alias(thunk: KernelThunk, *slices: BufferSlice) -> None:
    """Records that the buffers of some slices of a kernel may overlap."""
    for buffer, slice_ in zip(thunk.kernel.buffers, thunk.slices, strict=True):
        if slice_ in slices:
            buffer.exclusive = False


def _all_slices(thunk: Thunk) -> Iterator[BufferSlice]:
    """Yields the slices that a thunk and those in it use, and those in which a conditional leaves its results."""
    for nested in walk_thunks([thunk]):
        yield from used_slices(nested)
        if isinstance(nested, WhileThunk):
            yield from nested.state
        if isinstance(nested, ConditionalThunk):
            yield from nested.results


def may_share_memory(thunk: KernelThunk, result: BufferSlice, operand: BufferSlice) -> bool:
    """Whether a kernel may compute a result in the memory of an operand."""
    pairs = list(zip(thunk.kernel.buffers, thunk.slices, strict=True))
    written = [buffer for buffer, slice_ in pairs if slice_ is result]
    read = {buffer for buffer, slice_ in pairs if slice_ is operand}
    return len(written) == 1 and written[0].written and may_overwrite(thunk.kernel, written[0], read)


def may_overwrite(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> bool:
    """Whether a kernel may write a result to memory that it also reads as the buffers `read`.

    It may if it reads each element, or each row, for the last time before it writes it.
    """
    if any(buffer.written for buffer in read):
        return False
    if any((buffer.size, buffer.type.byte_size) != (written.size, written.type.byte_size) for buffer in read):
        return False
    if not read:
        return True
    return (
        not _transposes(kernel, read)
        and _accesses_same_row(_offsets(kernel, written, read))
        and _reads_before_writing(kernel, written, read)
    )


def _reads_before_writing(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> bool:
    """Whether no load from `read` follows a store to `written` in the text of the kernel.

    A kernel with several results may compute one after it has stored another.
    """
    stored = False
    for statement in kernel.statements():
        if isinstance(statement, Store):
            stored |= statement.location.buffer is written
        elif stored and _is_load(statement, read):
            return False
    return True


def _is_load(statement: Statement, buffers: Collection[Buffer]) -> bool:
    return isinstance(statement, Value) and statement.op == "load" and statement.attribute[0].buffer in buffers


def _transposes(kernel: Kernel, read: Collection[Buffer]) -> bool:
    """Whether the kernel reads one of the buffers in tiles to transpose them."""
    return any(isinstance(s, TransposeStatement) and s.source.buffer in read for s in kernel.statements())


def _offsets(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> set[Affine]:
    """Returns the offsets at which the kernel writes `written` or reads the other buffers."""
    offsets: set[Affine] = set()
    for statement in kernel.statements():
        if isinstance(statement, Store) and statement.location.buffer is written:
            offsets.add(statement.location.offset)
        elif isinstance(statement, Value) and _is_load(statement, read):
            offsets.add(statement.attribute[0].offset)
        elif isinstance(statement, TransposeStatement) and statement.source.buffer in read:
            offsets.add(statement.source.offset)
    return offsets


def _accesses_same_row(offsets: set[Affine]) -> bool:
    """Whether all offsets are equal, or consecutive (not nested) loops go through the same row of their own."""
    if len(offsets) == 1:
        return True
    axes = [_innermost_axis(offset) for offset in offsets]
    if any(axis is None or axis.range is None for axis in axes):
        return False
    known = [axis for axis in axes if axis is not None]
    rows = {offset.without(axis) for offset, axis in zip(offsets, known, strict=True)}
    length = 1 + max(axis.range[1] for axis in known if axis.range is not None)
    if len(rows) > 1 or any(_is_inside(a.block, b.block) for a in known for b in known if a is not b):
        return False
    (row,) = rows
    return len(row.terms) < 2 and all(axis.op == "axis" and stride >= length for axis, stride in row.terms)


def _innermost_axis(offset: Affine) -> Value | None:
    """Returns the axis of the innermost loop that an offset depends on, if each iteration adds one element."""
    value, coefficient = max(offset.terms, key=lambda term: term[0].block.depth, default=(None, 0))
    return value if value is not None and value.op == "axis" and coefficient == 1 else None


def _is_inside(block: Block, outer: Block) -> bool:
    """Whether a block is `outer` or nested in it."""
    at: Block | None = block
    while at is not None and at is not outer:
        at = at.parent
    return at is outer


def _replace_slice(thunk: Thunk, old: BufferSlice, new: BufferSlice) -> None:
    def replaced(slices: list[BufferSlice]) -> list[BufferSlice]:
        return [new if slice_ is old else slice_ for slice_ in slices]

    if isinstance(thunk, KernelThunk | LibraryCallThunk):
        thunk.slices = replaced(thunk.slices)
    elif isinstance(thunk, CopyThunk):
        thunk.source, thunk.target = replaced([thunk.source, thunk.target])
    elif isinstance(thunk, CallbackThunk):
        thunk.operands, thunk.results = replaced(thunk.operands), replaced(thunk.results)
    elif isinstance(thunk, CollectiveThunk):
        thunk.operands = replaced(thunk.operands)
    elif isinstance(thunk, WhileThunk):
        (thunk.predicate,) = replaced([thunk.predicate])
        thunk.state = replaced(thunk.state)
    elif isinstance(thunk, ConditionalThunk):
        (thunk.index,) = replaced([thunk.index])
        thunk.results = replaced(thunk.results)
