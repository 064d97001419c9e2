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
    BufferSlice,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    NativeProgram,
    OutlinedThunk,
    StorageClass,
    Thunk,
    WhileThunk,
    nested_thunks,
    used_slices,
    written_slices,
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
    """Puts the thunks of a program into parts, marks the kernels to be written out, and says what each part holds."""
    cutter = _Cutter()
    cutter.mark(program.thunks, in_loop=False)
    program.thunks = cutter.pieces(program.thunks)
    _hold(program)


class _Cutter:
    def __init__(self) -> None:
        self._lengths: dict[Kernel, int] = {}

    def mark(self, thunks: list[Thunk], *, in_loop: bool) -> None:
        """Decides for each kernel whether it is written out."""
        for thunk in thunks:
            if isinstance(thunk, KernelThunk):
                length = self.kernel_length(thunk.kernel) + lone_accesses(thunk.kernel, HELD if in_loop else 0)
                thunk.unrolled = length <= _limit(thunk.kernel, in_loop)
            for inner in nested_thunks(thunk):
                self.mark(inner, in_loop=in_loop or isinstance(thunk, WhileThunk))

    def kernel_length(self, kernel: Kernel) -> int:
        found = self._lengths.get(kernel)
        if found is None:
            found = self._lengths[kernel] = straight_length(kernel.body)
        return found

    def length(self, thunks: list[Thunk]) -> int:
        """About how many statements thunks are, as the body of one function."""
        return sum(map(self.step_length, thunks))

    def step_length(self, thunk: Thunk) -> int:
        if isinstance(thunk, KernelThunk):
            outside = sum(slice_.kind is not StorageClass.TEMPORARY for slice_ in thunk.slices)
            return self.kernel_length(thunk.kernel) + _OUTSIDE * outside if thunk.unrolled else _CALL
        if isinstance(thunk, OutlinedThunk):
            return _CALL
        return 1 + sum(map(self.length, nested_thunks(thunk)))

    def pieces(self, thunks: list[Thunk]) -> list[Thunk]:
        """The thunks as parts, in their order; what is too long for a part has parts inside."""
        made: list[Thunk] = []
        room = 0
        for thunk in thunks:
            length = self.step_length(thunk)
            if length > PART:
                self.cut_inside(thunk)
                length = self.step_length(thunk)
            if length > room:
                made.append(OutlinedThunk([]))
                room = PART
            last = made[-1]
            assert isinstance(last, OutlinedThunk)
            last.thunks.append(thunk)
            room -= length
        return made

    def cut_inside(self, thunk: Thunk) -> None:
        for inner in nested_thunks(thunk):
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
    lives = Lives(program.thunks)
    owners: dict[BufferSlice, list[OutlinedThunk]] = {}
    parts = list(_parts(program.thunks))
    for part in parts:
        inside, outside = _used(part)
        for slice_ in inside:
            if slice_ not in outside and slice_.kind is not StorageClass.SHARED and 0 < slice_.size <= HELD:
                owners.setdefault(slice_, []).append(part)
    for slice_, holders in owners.items():
        for part in holders:
            _hold_in(part, slice_, lives)
        if slice_.kind is StorageClass.TEMPORARY and all(lives.within(slice_, part) for part in holders):
            slice_.kind = StorageClass.HELD


def _hold_in(part: OutlinedThunk, slice_: BufferSlice, lives: Lives) -> None:
    begin, end = lives.extents[part]
    if slice_.kind in (StorageClass.ARGUMENT, StorageClass.CONSTANT) or lives.first[slice_] < begin:
        part.loaded.append(slice_)
    is_written = any(slice_ in written_slices(thunk) for thunk in _own_thunks(part.thunks))
    if is_written and (slice_.kind is not StorageClass.TEMPORARY or lives.last[slice_] > end):
        part.stored.append(slice_)


def _parts(thunks: list[Thunk]) -> Iterator[OutlinedThunk]:
    for thunk in thunks:
        if isinstance(thunk, OutlinedThunk):
            yield thunk
        for inner in nested_thunks(thunk):
            yield from _parts(inner)


def _own_thunks(thunks: list[Thunk]) -> Iterator[Thunk]:
    """The thunks of a part's function; those of parts inside are not, only what calls them."""
    for thunk in thunks:
        yield thunk
        if not isinstance(thunk, OutlinedThunk):
            for inner in nested_thunks(thunk):
                yield from _own_thunks(inner)


def _used(part: OutlinedThunk) -> tuple[dict[BufferSlice, None], set[BufferSlice]]:
    """The slices that the function of a part reads and writes itself, and those that what it calls does."""
    inside: dict[BufferSlice, None] = {}
    outside: set[BufferSlice] = set()
    for thunk in _own_thunks(part.thunks):
        if isinstance(thunk, OutlinedThunk):
            for called in (thunk, *_parts(thunk.thunks)):
                outside.update(slice_ for s in _own_thunks(called.thunks) for slice_ in used_slices(s))
        elif _is_own_code(thunk):
            inside.update(dict.fromkeys(used_slices(thunk)))
        else:
            outside.update(used_slices(thunk))
    return inside, outside


def _is_own_code(thunk: Thunk) -> bool:
    return (
        thunk.unrolled
        if isinstance(thunk, KernelThunk)
        else isinstance(thunk, (CopyThunk, WhileThunk, ConditionalThunk))
    )
