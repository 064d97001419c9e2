"""Steps in parts: a part is one function of the machine code, short enough to be compiled in little time.

Short kernels are written out, all loops unrolled, in the function of their part; every position in memory is then a
number. Small arrays that only such kernels of one part use are held: they lie on the stack of that function, from where
LLVM takes them to registers. So a loop of small kernels runs without memory and without calls. What a part holds
but others need as well is loaded when the part begins and stored when it ends.

Owns: where parts begin and end, which kernels are written out, what a part holds. Must not know: HLO, machine code.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy.cpu.program.liveness import Lives
from xlapy.cpu.program.thunks import (  # fmt: skip
    BranchStep,
    CopyStep,
    KernelStep,
    NativeProgram,
    PartStep,
    Slot,
    SlotKind,
    Step,
    WhileStep,
    inner_steps,
    slots_of,
    written_slots,
)
from xlapy.loops import Buffer, For, Kernel, Store, Value
from xlapy.loops.ir import Block, Statement, inner_blocks

PART = 1500
"""Statements in one function: LLVM's time grows faster than the length of a function."""

IN_LOOPS, ON_ARRAYS, ONCE = 512, 160, 24
"""Statements of a kernel that is written out: one that runs again and again, one that does so on arrays which no part
holds, where there is little to win, and any other."""

HELD = 512
"""Bytes of an array that a part may hold."""

_CALL = 4
"""Statements that the call of a kernel or a part counts for."""

_OUTSIDE = 8
"""Statements that an argument or a result of the program counts for in a kernel that is written out: LLVM compares an
access of memory with all around it."""


def cut(program: NativeProgram) -> None:
    """Puts the steps of a program into parts, marks the kernels to be written out, and says what each part holds."""
    cutter = _Cutter()
    cutter.mark(program.steps, in_loop=False)
    program.steps = cutter.pieces(program.steps)
    _hold(program)


class _Cutter:
    def __init__(self) -> None:
        self._lengths: dict[Kernel, int] = {}

    def mark(self, steps: list[Step], *, in_loop: bool) -> None:
        """Decides for each kernel whether it is written out."""
        for step in steps:
            if isinstance(step, KernelStep):
                length = self.kernel_length(step.kernel) + lone_accesses(step.kernel, HELD if in_loop else 0)
                step.written_out = length <= _limit(step.kernel, in_loop)
            for inner in inner_steps(step):
                self.mark(inner, in_loop=in_loop or isinstance(step, WhileStep))

    def kernel_length(self, kernel: Kernel) -> int:
        found = self._lengths.get(kernel)
        if found is None:
            found = self._lengths[kernel] = straight_length(kernel.body)
        return found

    def length(self, steps: list[Step]) -> int:
        """About how many statements steps are, as the body of one function."""
        return sum(map(self.step_length, steps))

    def step_length(self, step: Step) -> int:
        if isinstance(step, KernelStep):
            outside = sum(slot.kind is not SlotKind.TEMPORARY for slot in step.slots)
            return self.kernel_length(step.kernel) + _OUTSIDE * outside if step.written_out else _CALL
        if isinstance(step, PartStep):
            return _CALL
        return 1 + sum(map(self.length, inner_steps(step)))

    def pieces(self, steps: list[Step]) -> list[Step]:
        """The steps as parts, in their order; what is too long for a part has parts inside."""
        made: list[Step] = []
        room = 0
        for step in steps:
            length = self.step_length(step)
            if length > PART:
                self.cut_inside(step)
                length = self.step_length(step)
            if length > room:
                made.append(PartStep([]))
                room = PART
            last = made[-1]
            assert isinstance(last, PartStep)
            last.steps.append(step)
            room -= length
        return made

    def cut_inside(self, step: Step) -> None:
        for inner in inner_steps(step):
            if self.length(inner) > PART:
                inner[:] = self.pieces(inner)


def _limit(kernel: Kernel, in_loop: bool) -> int:
    if not in_loop:
        return ONCE
    return IN_LOOPS if all(map(_is_small, kernel.buffers)) else ON_ARRAYS


def _is_small(buffer: Buffer) -> bool:
    return buffer.size * buffer.type.byte_size <= HELD


def straight_length(block: Block) -> int:
    """Statements of a block written out, a vector counted as one; more than any limit where an extent is not known."""
    return sum(map(_statement_length, block.statements))


def lone_accesses(kernel: Kernel, small: int) -> int:
    """Elements that vectors load and store one by one, as they are no neighbours.

    small: bytes of the largest arrays that do not count, as they may become registers.
    """
    found = 0
    for statement in kernel.statements():
        if isinstance(statement, For) and statement.width > 1 and isinstance(statement.extent, int):
            apart = [inner for inner in statement.body.statements if _is_apart(statement, inner, small)]
            found += statement.extent * len(apart)
    return found


def _is_apart(vector: For, statement: Statement, small: int) -> bool:
    """Whether an access in the body of a vector axis is to elements that are no neighbours, of an array not small."""
    if isinstance(statement, Store):
        place = statement.place
    elif isinstance(statement, Value) and statement.op == "load":
        place = statement.attribute[0]
    else:
        return False
    buffer, offset = place.buffer, place.offset
    if buffer.size * buffer.type.byte_size <= small:
        return False
    others = any(value is not vector.axis and value.block is vector.body for value, _ in offset.terms)
    return others or abs(offset.coefficient(vector.axis)) > 1


def _statement_length(statement: Statement) -> int:
    if isinstance(statement, Value):
        is_position = statement.op == "affine" or (statement.op in ("div", "mod") and statement.attribute is not None)
        return 0 if is_position else 1
    if isinstance(statement, For):
        if not isinstance(statement.extent, int):
            return PART + 1
        combined = 0 if statement.combine is None else statement.accumulators + statement.width.bit_length()
        rounds = -(-statement.extent // statement.width) + combined
        return rounds * straight_length(statement.body)
    return 1 + sum(map(straight_length, inner_blocks(statement)))


# -- what parts hold


def _hold(program: NativeProgram) -> None:
    lives = Lives(program.steps)
    owners: dict[Slot, list[PartStep]] = {}
    parts = list(_parts(program.steps))
    for part in parts:
        inside, outside = _used(part)
        for slot in inside:
            if slot not in outside and slot.kind is not SlotKind.SHARED and 0 < slot.size <= HELD:
                owners.setdefault(slot, []).append(part)
    for slot, holders in owners.items():
        for part in holders:
            _hold_in(part, slot, lives)
        if slot.kind is SlotKind.TEMPORARY and all(lives.within(slot, part) for part in holders):
            slot.kind = SlotKind.HELD


def _hold_in(part: PartStep, slot: Slot, lives: Lives) -> None:
    begin, end = lives.extents[part]
    if slot.kind in (SlotKind.ARGUMENT, SlotKind.CONSTANT) or lives.first[slot] < begin:
        part.loaded.append(slot)
    is_written = any(slot in written_slots(step) for step in _own_steps(part.steps))
    if is_written and (slot.kind is not SlotKind.TEMPORARY or lives.last[slot] > end):
        part.stored.append(slot)


def _parts(steps: list[Step]) -> Iterator[PartStep]:
    for step in steps:
        if isinstance(step, PartStep):
            yield step
        for inner in inner_steps(step):
            yield from _parts(inner)


def _own_steps(steps: list[Step]) -> Iterator[Step]:
    """The steps of a part's function; those of parts inside are not, only what calls them."""
    for step in steps:
        yield step
        if not isinstance(step, PartStep):
            for inner in inner_steps(step):
                yield from _own_steps(inner)


def _used(part: PartStep) -> tuple[dict[Slot, None], set[Slot]]:
    """The slots that the function of a part reads and writes itself, and those that what it calls does."""
    inside: dict[Slot, None] = {}
    outside: set[Slot] = set()
    for step in _own_steps(part.steps):
        if isinstance(step, PartStep):
            for called in (step, *_parts(step.steps)):
                outside.update(slot for s in _own_steps(called.steps) for slot in slots_of(s))
        elif _is_own_code(step):
            inside.update(dict.fromkeys(slots_of(step)))
        else:
            outside.update(slots_of(step))
    return inside, outside


def _is_own_code(step: Step) -> bool:
    return step.written_out if isinstance(step, KernelStep) else isinstance(step, (CopyStep, WhileStep, BranchStep))
