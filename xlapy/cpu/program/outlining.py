"""Function outlining: divides the thunks of a program into functions that LLVM compiles in reasonable time.

Short kernels are unrolled in the function that contains them, so that every index is a constant. A small array that
only unrolled kernels of one function use is a stack slot: it lies on the stack of that function, from where LLVM
promotes it to registers. A loop of small kernels therefore runs without memory accesses and calls. If other code needs
the array too, the function loads it at its start and stores it at its end.

Responsible for the boundaries of functions, for which kernels are unrolled, and for stack slots. Does not depend on
HLO or machine code.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.liveness import LiveRanges
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import (
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    OutlinedThunk,
    Thunk,
    WhileThunk,
    nested_thunks,
    used_slices,
    written_slices,
)
from xlapy.loops import Buffer, For, Kernel, Store, Value
from xlapy.loops.ir import Block, Statement, inner_blocks

MAX_FUNCTION_STATEMENTS = 1500
"""The largest size of a function: LLVM's compile time grows faster than linearly with the length of a function."""

MAX_UNROLLED_IN_LOOP = 512
"""The largest unrolled size, in statements, of a kernel in a loop that works on stack slots only."""

MAX_UNROLLED_IN_LOOP_ON_ARRAYS = 160
"""The largest unrolled size, in statements, of any other kernel in a loop: unrolling gains little on large arrays."""

MAX_UNROLLED_ONCE = 24
"""The largest unrolled size, in statements, of a kernel outside of loops."""

MAX_STACK_SLOT_BYTES = 512
"""The largest array that becomes a stack slot."""

_CALL_STATEMENTS = 4
"""The number of statements that the call of a kernel or of an outlined function counts as."""

_NON_TEMPORARY_STATEMENTS = 8
"""The number of statements that an argument or a result counts as in an unrolled kernel: LLVM compares each access to
such memory with all accesses around it."""


def outline_functions(program: NativeProgram) -> None:
    """Divides the thunks of a program into outlined functions, and marks unrolled kernels and stack slots."""
    outliner = _Outliner()
    outliner.mark_unrolled(program.thunks, in_loop=False)
    program.thunks = outliner.outline(program.thunks)
    _assign_stack_slots(program)


class _Outliner:
    def __init__(self) -> None:
        self._kernel_counts: dict[Kernel, int] = {}

    def mark_unrolled(self, thunks: list[Thunk], *, in_loop: bool) -> None:
        """Decides for each kernel whether it is unrolled."""
        for thunk in thunks:
            if isinstance(thunk, KernelThunk):
                ignored_bytes = MAX_STACK_SLOT_BYTES if in_loop else 0
                count = self.kernel_count(thunk.kernel) + strided_access_count(thunk.kernel, ignored_bytes)
                thunk.unrolled = count <= _max_unrolled(thunk.kernel, in_loop)
            for nested in nested_thunks(thunk):
                self.mark_unrolled(nested, in_loop=in_loop or isinstance(thunk, WhileThunk))

    def kernel_count(self, kernel: Kernel) -> int:
        found = self._kernel_counts.get(kernel)
        if found is None:
            found = self._kernel_counts[kernel] = unrolled_statement_count(kernel.body)
        return found

    def sequence_count(self, thunks: list[Thunk]) -> int:
        """Estimates the number of statements of a thunk sequence as the body of one function."""
        return sum(map(self.thunk_count, thunks))

    def thunk_count(self, thunk: Thunk) -> int:
        if isinstance(thunk, KernelThunk):
            if not thunk.unrolled:
                return _CALL_STATEMENTS
            others = sum(slice_.storage is not StorageClass.TEMPORARY for slice_ in thunk.slices)
            return self.kernel_count(thunk.kernel) + _NON_TEMPORARY_STATEMENTS * others
        if isinstance(thunk, OutlinedThunk):
            return _CALL_STATEMENTS
        return 1 + sum(map(self.sequence_count, nested_thunks(thunk)))

    def outline(self, thunks: list[Thunk]) -> list[Thunk]:
        """Groups thunks, in their order, into outlined functions. A thunk that is too long is outlined inside."""
        functions: list[Thunk] = []
        room = 0
        for thunk in thunks:
            count = self.thunk_count(thunk)
            if count > MAX_FUNCTION_STATEMENTS:
                self.outline_nested(thunk)
                count = self.thunk_count(thunk)
            if count > room:
                functions.append(OutlinedThunk([]))
                room = MAX_FUNCTION_STATEMENTS
            last = functions[-1]
            assert isinstance(last, OutlinedThunk)
            last.thunks.append(thunk)
            room -= count
        return functions

    def outline_nested(self, thunk: Thunk) -> None:
        for nested in nested_thunks(thunk):
            if self.sequence_count(nested) > MAX_FUNCTION_STATEMENTS:
                nested[:] = self.outline(nested)


# -- the size of kernels


def _max_unrolled(kernel: Kernel, in_loop: bool) -> int:
    if not in_loop:
        return MAX_UNROLLED_ONCE
    return MAX_UNROLLED_IN_LOOP if all(map(_fits_stack_slot, kernel.buffers)) else MAX_UNROLLED_IN_LOOP_ON_ARRAYS


def _fits_stack_slot(buffer: Buffer) -> bool:
    return buffer.size * buffer.type.byte_size <= MAX_STACK_SLOT_BYTES


def unrolled_statement_count(block: Block) -> int:
    """Counts the statements of an unrolled block, a vector operation as one.

    If the extent of a loop is not known at compile time, the count exceeds every limit.
    """
    return sum(map(_statement_count, block.statements))


def strided_access_count(kernel: Kernel, ignored_bytes: int) -> int:
    """Counts the elements that vector loops load and store one by one, because they are not contiguous.

    Arrays of at most `ignored_bytes` do not count, as they may become registers.
    """
    found = 0
    for statement in kernel.statements():
        if isinstance(statement, For) and statement.width > 1 and isinstance(statement.extent, int):
            strided = [inner for inner in statement.body.statements if _is_strided(statement, inner, ignored_bytes)]
            found += statement.extent * len(strided)
    return found


def _is_strided(vector: For, statement: Statement, ignored_bytes: int) -> bool:
    """Whether a statement in a vector loop accesses elements that are not contiguous, in an array that counts."""
    if isinstance(statement, Store):
        place = statement.location
    elif isinstance(statement, Value) and statement.op == "load":
        place = statement.attribute[0]
    else:
        return False
    buffer, offset = place.buffer, place.offset
    if buffer.size * buffer.type.byte_size <= ignored_bytes:
        return False
    varies_otherwise = any(value is not vector.axis and value.block is vector.body for value, _ in offset.terms)
    return varies_otherwise or abs(offset.coefficient(vector.axis)) > 1


def _statement_count(statement: Statement) -> int:
    if isinstance(statement, Value):
        is_index = statement.op == "affine" or (statement.op in ("div", "mod") and statement.attribute is not None)
        return 0 if is_index else 1
    if isinstance(statement, For):
        if not isinstance(statement.extent, int):
            return MAX_FUNCTION_STATEMENTS + 1
        combined = 0 if statement.combine is None else statement.accumulators + statement.width.bit_length()
        iterations = -(-statement.extent // statement.width) + combined
        return iterations * unrolled_statement_count(statement.body)
    return 1 + sum(map(unrolled_statement_count, inner_blocks(statement)))


# -- stack slots


def _assign_stack_slots(program: NativeProgram) -> None:
    ranges = LiveRanges(program.thunks)
    users: dict[BufferSlice, list[OutlinedThunk]] = {}
    written: dict[OutlinedThunk, set[BufferSlice]] = {}
    for function in list(_outlined_functions(program.thunks)):
        inline, external = _used_slices(function)
        written[function] = {s for thunk in _own_thunks(function.thunks) for s in written_slices(thunk)}
        for slice_ in inline:
            is_small = 0 < slice_.size <= MAX_STACK_SLOT_BYTES
            if slice_ not in external and slice_.storage is not StorageClass.SHARED and is_small:
                users.setdefault(slice_, []).append(function)
    for slice_, functions in users.items():
        for function in functions:
            _add_stack_slot(function, slice_, ranges, is_written=slice_ in written[function])
        is_local = all(ranges.is_within(slice_, function) for function in functions)
        if slice_.storage is StorageClass.TEMPORARY and is_local:
            slice_.storage = StorageClass.STACK


def _add_stack_slot(function: OutlinedThunk, slice_: BufferSlice, ranges: LiveRanges, *, is_written: bool) -> None:
    """Notes whether a function has to load a stack slot at its start and to store it at its end."""
    begin, end = ranges.extents[function]
    is_input = slice_.storage in (StorageClass.ARGUMENT, StorageClass.CONSTANT)
    if is_input or ranges.first[slice_] < begin:
        function.loaded.append(slice_)
    if is_written and (slice_.storage is not StorageClass.TEMPORARY or ranges.last[slice_] > end):
        function.stored.append(slice_)


def _outlined_functions(thunks: list[Thunk]) -> Iterator[OutlinedThunk]:
    for thunk in thunks:
        if isinstance(thunk, OutlinedThunk):
            yield thunk
        for nested in nested_thunks(thunk):
            yield from _outlined_functions(nested)


def _own_thunks(thunks: list[Thunk]) -> Iterator[Thunk]:
    """Yields the thunks in the body of one function: the calls of nested functions, but not the thunks in them."""
    for thunk in thunks:
        yield thunk
        if not isinstance(thunk, OutlinedThunk):
            for nested in nested_thunks(thunk):
                yield from _own_thunks(nested)


def _used_slices(function: OutlinedThunk) -> tuple[dict[BufferSlice, None], set[BufferSlice]]:
    """Returns the slices that a function accesses in its own body, and those that the code that it calls accesses."""
    inline: dict[BufferSlice, None] = {}
    external: set[BufferSlice] = set()
    for thunk in _own_thunks(function.thunks):
        if isinstance(thunk, OutlinedThunk):
            for called in (thunk, *_outlined_functions(thunk.thunks)):
                external.update(slice_ for inner in _own_thunks(called.thunks) for slice_ in used_slices(inner))
        elif _is_emitted_inline(thunk):
            inline.update(dict.fromkeys(used_slices(thunk)))
        else:
            external.update(used_slices(thunk))
    return inline, external


def _is_emitted_inline(thunk: Thunk) -> bool:
    if isinstance(thunk, KernelThunk):
        return thunk.unrolled
    return isinstance(thunk, (CopyThunk, WhileThunk, ConditionalThunk))
