"""Results made in memory that is there already: slices updated in place, state of loops overwritten.

Owns: when a kernel may write where it reads, and the kernel of dynamic-update-slice. Must not know: which arrays die.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.elementwise import (
    CHUNK,
    Axes,
    Region,
    choose_axes,
    kernel_builder,
    loops,
    output,
    row_loops,
    source,
)
from xlapy.cpu.program.thunks import (
    BranchStep,
    CallbackStep,
    CopyStep,
    KernelStep,
    LibraryStep,
    MeetStep,
    Slot,
    SlotKind,
    Step,
    WhileStep,
    all_steps,
    slots_of,
)
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, Kernel, Store, Transpose, Value
from xlapy.loops.ir import Block
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.movement import starts_of


def update_kernel(instruction: Instruction) -> tuple[Kernel, int]:
    """Writes the update into the operand's memory. Buffers: update, starts, target."""
    operand, update, *starts = instruction.operands
    builder = kernel_builder(instruction.name)
    read = tuple(dict.fromkeys([update, *starts]))
    buffers = {o: source(builder, o, f"in{n}") for n, o in enumerate(instruction.operands[1:])}
    target = output(builder, operand.shape, "out0")
    lowering = Lowering(builder, buffers)
    axes = choose_axes(Region(instruction.name, update, read, ()), update.shape)
    with _window_loops(builder, axes, update.shape, operand.shape) as (index, work):
        sizes = zip(operand.shape.dimensions, update.shape.dimensions, strict=True)
        begins = starts_of(lowering, starts, [whole - size for whole, size in sizes])
        place = linear(tuple(p + begin for p, begin in zip(index, begins, strict=True)), operand.shape.dimensions)
        store_element(builder, target, place, lowering.element(update, index), update.shape.element_type)
    return builder.kernel, work


@contextmanager
def _window_loops(builder: Builder, axes: Axes, update: Shape, whole: Shape) -> Iterator[tuple[Index, int]]:
    """The loops over an update, row by row where its rows are apart in the whole and hold a vector: an index, and the
    elements of a parallel iteration."""
    sizes = update.dimensions
    last = max((d for d in range(1, update.rank) if sizes[d] != whole.dimensions[d]), default=0)
    outer, inner = sizes[:last], sizes[last:]
    if math.prod(outer) <= 1 or math.prod(inner) < axes.lanes:
        with loops(builder, axes, update) as index:
            yield index, axes.work
        return
    with row_loops(builder, math.prod(outer), math.prod(inner), axes.lanes) as (row, place):
        index = (*delinear(builder, row, outer), *delinear(builder, place, inner))
        yield index, min(CHUNK, math.prod(inner))


# -- writing where one reads


def make_in(steps: list[Step], source_slot: Slot, target: Slot) -> bool:
    """Makes the kernel that makes the source write to the target instead, where nothing notices; whether it does.

    Nothing may read or write the target from that kernel on; the kernel itself may read it where it writes it. What a
    callback makes, it makes in memory that it does not read.
    """
    if source_slot.kind is not SlotKind.TEMPORARY:
        return False
    naming = [n for n, step in enumerate(steps) if source_slot in _all_slots(step)]
    maker = steps[naming[0]] if naming else None
    if isinstance(maker, CallbackStep):
        if source_slot in maker.operands or target in slots_of(maker):
            return False
    elif not isinstance(maker, KernelStep) or not may_share(maker, source_slot, target):
        return False
    if any(target in _all_slots(step) for step in steps[naming[0] + 1 :]):
        return False
    if isinstance(maker, KernelStep):
        note_shared(maker, source_slot, target)
    for step in all_steps(steps[naming[0] :]):
        _replace(step, source_slot, target)
    return True


def note_shared(step: KernelStep, *slots: Slot) -> None:
    """Notes that some slots of a kernel may lie in the same memory."""
    for buffer, slot in zip(step.kernel.buffers, step.slots, strict=True):
        if slot in slots:
            buffer.exclusive = False


def _all_slots(step: Step) -> set[Slot]:
    return {slot for inner in all_steps([step]) for slot in slots_of(inner)}


def may_share(step: KernelStep, made: Slot, target: Slot) -> bool:
    """Whether the kernel writes the whole of the slot, and reads the target only where it writes at that moment."""
    pairs = list(zip(step.kernel.buffers, step.slots, strict=True))
    written = [buffer for buffer, slot in pairs if slot is made]
    read = {buffer for buffer, slot in pairs if slot is target}
    return len(written) == 1 and written[0].written and may_overwrite(step.kernel, written[0], read)


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
    return len(row.terms) < 2 and all(axis.op == "axis" and step >= length for axis, step in row.terms)


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


def _replace(step: Step, old: Slot, new: Slot) -> None:
    if isinstance(step, KernelStep | LibraryStep):
        step.slots = [new if slot is old else slot for slot in step.slots]
    elif isinstance(step, CopyStep):
        step.source, step.target = (new if slot is old else slot for slot in (step.source, step.target))
    elif isinstance(step, CallbackStep):
        step.operands = [new if slot is old else slot for slot in step.operands]
        step.results = [new if slot is old else slot for slot in step.results]
    elif isinstance(step, MeetStep):
        step.operands = [new if slot is old else slot for slot in step.operands]
    elif isinstance(step, WhileStep):
        step.decides = new if step.decides is old else step.decides
    elif isinstance(step, BranchStep):
        step.index = new if step.index is old else step.index
