"""Results made in memory that is there already: slices updated in place, state of loops overwritten.

Owns: when a kernel may write where it reads, and the kernel of dynamic-update-slice. Must not know: which arrays die.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, LoopNest, choose_loop_nest, element_loops, row_loops
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.cpu.program.thunks import (
    BufferSlice,
    CallbackThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    LibraryCallThunk,
    StorageClass,
    Thunk,
    WhileThunk,
    used_slices,
    walk_thunks,
)
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, Kernel, Store, Transpose, Value
from xlapy.loops.ir import Block
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.movement import starts_of


def update_kernel(instruction: Instruction) -> tuple[Kernel, int]:
    """Writes the update into the operand's memory. Buffers: update, starts, target."""
    operand, update, *starts = instruction.operands
    builder = kernel_builder(instruction.name, host_target())
    read = tuple(dict.fromkeys([update, *starts]))
    buffers = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(instruction.operands[1:])}
    target = result_buffer(builder, operand.shape, "out0")
    lowering = Lowering(builder, buffers)
    axes = choose_loop_nest(Region(instruction.name, update, read, (), host_target()), update.shape)
    with _window_loops(builder, axes, update.shape, operand.shape) as (index, work):
        sizes = zip(operand.shape.dimensions, update.shape.dimensions, strict=True)
        begins = starts_of(lowering, starts, [whole - size for whole, size in sizes])
        place = linear(tuple(p + begin for p, begin in zip(index, begins, strict=True)), operand.shape.dimensions)
        store_element(builder, target, place, lowering.element(update, index), update.shape.element_type)
    return builder.kernel, work


@contextmanager
def _window_loops(builder: Builder, axes: LoopNest, update: Shape, whole: Shape) -> Iterator[tuple[Index, int]]:
    """The loops over an update, row by row where its rows are apart in the whole and hold a vector: an index, and the
    elements of a parallel iteration."""
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


# -- writing where one reads


def make_in(thunks: list[Thunk], source_slot: BufferSlice, target: BufferSlice) -> bool:
    """Makes the kernel that makes the source write to the target instead, where nothing notices; whether it does.

    Nothing may read or write the target from that kernel on; the kernel itself may read it where it writes it. What a
    callback makes, it makes in memory that it does not read.
    """
    if source_slot.kind is not StorageClass.TEMPORARY:
        return False
    naming = [n for n, thunk in enumerate(thunks) if source_slot in _all_slots(thunk)]
    maker = thunks[naming[0]] if naming else None
    if isinstance(maker, CallbackThunk):
        if source_slot in maker.operands or target in used_slices(maker):
            return False
    elif not isinstance(maker, KernelThunk) or not may_share(maker, source_slot, target):
        return False
    if any(target in _all_slots(thunk) for thunk in thunks[naming[0] + 1 :]):
        return False
    if isinstance(maker, KernelThunk):
        note_shared(maker, source_slot, target)
    for thunk in walk_thunks(thunks[naming[0] :]):
        _replace(thunk, source_slot, target)
    return True


def note_shared(thunk: KernelThunk, *slices: BufferSlice) -> None:
    """Notes that some slices of a kernel may lie in the same memory."""
    for buffer, slice_ in zip(thunk.kernel.buffers, thunk.slices, strict=True):
        if slice_ in slices:
            buffer.exclusive = False


def _all_slots(thunk: Thunk) -> set[BufferSlice]:
    return {slice_ for inner in walk_thunks([thunk]) for slice_ in used_slices(inner)}


def may_share(thunk: KernelThunk, made: BufferSlice, target: BufferSlice) -> bool:
    """Whether the kernel writes the whole of the slice_, and reads the target only where it writes at that moment."""
    pairs = list(zip(thunk.kernel.buffers, thunk.slices, strict=True))
    written = [buffer for buffer, slice_ in pairs if slice_ is made]
    read = {buffer for buffer, slice_ in pairs if slice_ is target}
    return len(written) == 1 and written[0].written and may_overwrite(thunk.kernel, written[0], read)


def may_overwrite(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> bool:
    """Whether a kernel may write a result to memory that it reads: element by element, or row by row, each after its
    last use."""
    if any(buffer.written for buffer in read):
        return False
    if any((buffer.size, buffer.type.byte_size) != (written.size, written.type.byte_size) for buffer in read):
        return False
    if not read:
        return True
    return (
        not _transposes(kernel, read) and _in_rows(_places(kernel, written, read)) and _in_order(kernel, written, read)
    )


def _in_order(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> bool:
    """Whether the kernel reads nothing of the buffers behind the first time that it writes: a kernel with several
    results may compute one when it has stored another."""
    stored = False
    for statement in kernel.statements():
        if isinstance(statement, Store):
            stored |= statement.place.buffer is written
        elif (
            stored and isinstance(statement, Value) and statement.op == "load" and statement.attribute[0].buffer in read
        ):
            return False
    return True


def _transposes(kernel: Kernel, read: Collection[Buffer]) -> bool:
    """Whether the kernel reads one of the buffers tile by tile."""
    return any(isinstance(s, Transpose) and s.source.buffer in read for s in kernel.statements())


def _places(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> set[Affine]:
    """The offsets at which the kernel writes one buffer or reads the others."""
    places: set[Affine] = set()
    for statement in kernel.statements():
        if isinstance(statement, Store) and statement.place.buffer is written:
            places.add(statement.place.offset)
        elif isinstance(statement, Value) and statement.op == "load" and statement.attribute[0].buffer in read:
            places.add(statement.attribute[0].offset)
        elif isinstance(statement, Transpose) and statement.source.buffer in read:
            places.add(statement.source.offset)
    return places


def _in_rows(places: set[Affine]) -> bool:
    """Whether all are one place, or lie in the same row of its own: loops one behind the other go through it."""
    if len(places) == 1:
        return True
    axes = [_innermost(place) for place in places]
    if any(axis is None or axis.range is None for axis in axes):
        return False
    known = [axis for axis in axes if axis is not None]
    rows = {place.without(axis) for place, axis in zip(places, known, strict=True)}
    length = 1 + max(axis.range[1] for axis in known if axis.range is not None)
    if len(rows) > 1 or any(_is_inside(a.block, b.block) for a in known for b in known if a is not b):
        return False
    (row,) = rows
    return len(row.terms) < 2 and all(axis.op == "axis" and stride >= length for axis, stride in row.terms)


def _innermost(place: Affine) -> Value | None:
    """The axis of the innermost loop that a place depends on, if it goes on by one element in every turn."""
    value, coefficient = max(place.terms, key=lambda term: term[0].block.depth, default=(None, 0))
    return value if value is not None and value.op == "axis" and coefficient == 1 else None


def _is_inside(block: Block, outer: Block) -> bool:
    """Whether a block stands in another one, or is that."""
    at: Block | None = block
    while at is not None and at is not outer:
        at = at.parent
    return at is outer


def _replace(thunk: Thunk, old: BufferSlice, new: BufferSlice) -> None:
    if isinstance(thunk, KernelThunk | LibraryCallThunk):
        thunk.slices = [new if slice_ is old else slice_ for slice_ in thunk.slices]
    elif isinstance(thunk, CopyThunk):
        thunk.source, thunk.target = (new if slice_ is old else slice_ for slice_ in (thunk.source, thunk.target))
    elif isinstance(thunk, CallbackThunk):
        thunk.operands = [new if slice_ is old else slice_ for slice_ in thunk.operands]
        thunk.results = [new if slice_ is old else slice_ for slice_ in thunk.results]
    elif isinstance(thunk, CollectiveThunk):
        thunk.operands = [new if slice_ is old else slice_ for slice_ in thunk.operands]
    elif isinstance(thunk, WhileThunk):
        thunk.decides = new if thunk.decides is old else thunk.decides
    elif isinstance(thunk, ConditionalThunk):
        thunk.index = new if thunk.index is old else thunk.index
