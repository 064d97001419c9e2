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
from xlapy.cpu.program.thunks import OutlinedThunk, Thunk, walk_thunks
from xlapy.loops import Buffer, Kernel
from xlapy.loops.statement_counts import strided_access_count, unrolled_statement_count

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

MAX_VECTOR_BYTES = 64
"""The largest array that is one vector, although elements with a computed index are stored to it."""


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

        def is_unrolled(kernel: Kernel) -> bool:
            ignored_bytes = MAX_STACK_SLOT_BYTES if in_loop else 0
            room = _max_unrolled(kernel, in_loop) - self.kernel_count(kernel)
            return room >= 0 and strided_access_count(kernel, ignored_bytes) <= room

        for thunk in thunks:
            thunk.choose_unrolling(is_unrolled)
            for nested in thunk.nested:
                self.mark_unrolled(nested, in_loop=in_loop or thunk.is_loop)

    def kernel_count(self, kernel: Kernel) -> int:
        found = self._kernel_counts.get(kernel)
        if found is None:
            found = self._kernel_counts[kernel] = unrolled_statement_count(kernel.body)
        return found

    def outline(self, thunks: list[Thunk]) -> list[Thunk]:
        """Groups thunks, in their order, into outlined functions. A thunk that is too long is outlined inside."""
        functions: list[OutlinedThunk] = []
        room = 0
        for thunk in thunks:
            count = thunk.function_statements(self.kernel_count)
            if count > MAX_FUNCTION_STATEMENTS:
                self.outline_nested(thunk)
                count = thunk.function_statements(self.kernel_count)
            if count > room:
                functions.append(OutlinedThunk([]))
                room = MAX_FUNCTION_STATEMENTS
            functions[-1].thunks.append(thunk)
            room -= count
        return list(functions)

    def outline_nested(self, thunk: Thunk) -> None:
        for nested in thunk.nested:
            count = sum(inner.function_statements(self.kernel_count) for inner in nested)
            if count > MAX_FUNCTION_STATEMENTS:
                nested[:] = self.outline(nested)


# -- the size of kernels


def _max_unrolled(kernel: Kernel, in_loop: bool) -> int:
    if not in_loop:
        return MAX_UNROLLED_ONCE
    return MAX_UNROLLED_IN_LOOP if all(map(_fits_stack_slot, kernel.buffers)) else MAX_UNROLLED_IN_LOOP_ON_ARRAYS


def _fits_stack_slot(buffer: Buffer) -> bool:
    return buffer.size * buffer.type.byte_size <= MAX_STACK_SLOT_BYTES


# -- stack slots


def _assign_stack_slots(program: NativeProgram) -> None:
    ranges = LiveRanges(program.thunks, in_order=True)
    users: dict[BufferSlice, list[OutlinedThunk]] = {}
    written: dict[OutlinedThunk, set[BufferSlice]] = {}
    vectors: dict[OutlinedThunk, set[BufferSlice]] = {}
    for function in list(_outlined_functions(program.thunks)):
        inline, external = _used_slices(function)
        vectors[function] = _updated_vectors(function)
        written[function] = {s for thunk in _own_thunks(function.thunks) for s in thunk.writes}
        for slice_ in inline:
            is_small = 0 < slice_.size <= MAX_STACK_SLOT_BYTES
            if slice_ not in external and slice_.storage is not StorageClass.SHARED and is_small:
                users.setdefault(slice_, []).append(function)
    for slice_, functions in users.items():
        for function in functions:
            if slice_ in vectors[function]:
                function.vectors.append(slice_)
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


def _updated_vectors(function: OutlinedThunk) -> set[BufferSlice]:
    """The arrays to which a function stores single elements with a computed index, and that it reads as vectors, too.

    In memory, a vector that is loaded soon after one of its elements was stored waits until that store has left the
    store buffer, for some twenty cycles.
    """
    thunks = list(_own_thunks(function.thunks))
    stored = {slice_ for thunk in thunks for slice_ in thunk.stores_by_index if slice_.size <= MAX_VECTOR_BYTES}
    return stored and stored & {slice_ for thunk in thunks for slice_ in thunk.loads_vectors}


def _outlined_functions(thunks: list[Thunk]) -> Iterator[OutlinedThunk]:
    for thunk in walk_thunks(thunks):
        if thunk.function is not None:
            yield thunk.function


def _own_thunks(thunks: list[Thunk]) -> Iterator[Thunk]:
    """Yields the thunks in the body of one function: the calls of nested functions, but not the thunks in them."""
    for thunk in thunks:
        yield thunk
        if thunk.function is None:
            for nested in thunk.nested:
                yield from _own_thunks(nested)


def _used_slices(function: OutlinedThunk) -> tuple[dict[BufferSlice, None], set[BufferSlice]]:
    """Returns the slices that a function accesses in its own body, and those that the code that it calls accesses."""
    inline: dict[BufferSlice, None] = {}
    external: set[BufferSlice] = set()
    for thunk in _own_thunks(function.thunks):
        if thunk.function is not None:
            external.update(slice_ for inner in walk_thunks([thunk]) for slice_ in inner.accesses)
        elif thunk.is_inline:
            inline.update(dict.fromkeys(thunk.accesses))
        else:
            external.update(thunk.accesses)
    return inline, external
