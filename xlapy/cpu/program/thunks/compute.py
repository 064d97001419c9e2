"""Thunks that compute on the device: kernels, copies and library calls.

Responsible for these records. Does not depend on HLO operations or LLVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xlapy.analysis.cost.reference_machine import CACHED_BYTES_PER_CYCLE, MIN_PARALLEL_CYCLES
from xlapy.cpu.program.buffer_slices import (
    AccessedRange,
    BufferSlice,
    Replacements,
    StorageClass,
    join_slices,
    replaced,
)
from xlapy.cpu.program.thunks.emitter import ThunkEmitter
from xlapy.cpu.program.thunks.thunk import CALL_STATEMENTS, Thunk
from xlapy.loops import Buffer, Kernel, indexed_accesses
from xlapy.loops.cost import KernelCost
from xlapy.loops.in_place import may_overwrite
from xlapy.loops.statement_counts import unrolled_statement_count

_NON_TEMPORARY_STATEMENTS = 32
"""The number of statements that an argument or a result counts as in an unrolled kernel: LLVM compares each access to
such memory with all accesses around it, and keeps the addresses of all of it in registers or on the stack."""

MAX_SHORT_COPY_BYTES = 256
"""The largest copy that is as short as a reading of the clock: four vectors."""

_COPY_BYTES_PER_STATEMENT = 64
"""The bytes that a copy moves in the time of a statement: the widest vector."""


MAX_CYCLES_ON_ONE_THREAD = 2 * MIN_PARALLEL_CYCLES
"""A parallel loop that takes less time, of about two chunks, may run on one thread while other threads run others."""


@dataclass(eq=False, slots=True)
class KernelThunk(Thunk):
    """Runs a kernel on one slice per buffer.

    unrolled: whether the kernel is emitted inline, with all loops unrolled, into the function that contains the thunk.
    """

    kernel: Kernel
    slices: list[BufferSlice]
    op_name: str = ""
    """The name of the instruction that the kernel computes."""
    unrolled: bool = False
    _cost: int | None = None

    @property
    def reads(self) -> list[BufferSlice]:
        return [slice_ for buffer, slice_ in zip(self.kernel.buffers, self.slices, strict=True) if not buffer.written]

    @property
    def writes(self) -> list[BufferSlice]:
        return [slice_ for buffer, slice_ in zip(self.kernel.buffers, self.slices, strict=True) if buffer.written]

    def replace(self, mapping: Replacements) -> None:
        self.slices = replaced(self.slices, mapping)

    def may_compute_in(self, result: BufferSlice, target: BufferSlice) -> bool:
        pairs = list(zip(self.kernel.buffers, self.slices, strict=True))
        written = [buffer for buffer, slice_ in pairs if slice_ is result]
        read = {buffer for buffer, slice_ in pairs if slice_ is target}
        return len(written) == 1 and written[0].written and may_overwrite(self.kernel, written[0], read)

    def mark_may_alias(self, *slices: BufferSlice) -> None:
        for buffer, slice_ in zip(self.kernel.buffers, self.slices, strict=True):
            if slice_ in slices:
                buffer.exclusive = False

    def may_overlap(self, written: int, others: Sequence[int]) -> bool:
        buffers = sorted(self.kernel.buffers, key=lambda buffer: buffer.written)  # in the order of `accesses`
        target, read = buffers[written], frozenset(buffers[other] for other in others)
        is_exclusive = any(buffer.exclusive for buffer in (*read, target))
        return not is_exclusive and may_overwrite(self.kernel, target, read)

    @property
    def own_kernel(self) -> Kernel | None:
        return self.kernel

    @property
    def cost(self) -> int:
        if self._cost is None:
            self._cost = math.ceil(KernelCost(self.kernel).cycles)
        return self._cost

    @property
    def iterations(self) -> int:
        """The iterations of the parallel loop; 1 if there is none."""
        loop = self.kernel.parallel_loop
        return loop.extent if loop is not None and isinstance(loop.extent, int) else 1

    @property
    def runs_on_one_thread(self) -> bool:
        return self.iterations < 2 or self.cost < MAX_CYCLES_ON_ONE_THREAD

    @property
    def statements(self) -> int:
        return 1 + unrolled_statement_count(self.kernel.body)

    @property
    def shared_statements(self) -> int | None:
        return self.statements if self.unrolled else None

    @property
    def is_inline(self) -> bool:
        return self.unrolled

    @property
    def stores_by_index(self) -> set[BufferSlice]:
        return self._slices_of(indexed_accesses.buffers_stored_by_index(self.kernel)) if self.unrolled else set()

    @property
    def loads_vectors(self) -> set[BufferSlice]:
        return self._slices_of(indexed_accesses.buffers_loaded_in_vectors(self.kernel)) if self.unrolled else set()

    def _slices_of(self, buffers: set[Buffer]) -> set[BufferSlice]:
        return {slice_ for buffer, slice_ in zip(self.kernel.buffers, self.slices, strict=True) if buffer in buffers}

    def choose_unrolling(self, is_unrolled: Callable[[Kernel], bool]) -> None:
        self.unrolled = is_unrolled(self.kernel)

    def function_statements(self, count: Callable[[Kernel], int]) -> int:
        if not self.unrolled:
            return CALL_STATEMENTS
        others = sum(slice_.storage is not StorageClass.TEMPORARY for slice_ in self.slices)
        return count(self.kernel) + _NON_TEMPORARY_STATEMENTS * others

    @property
    def title(self) -> str:
        extent = ""
        if self.kernel.parallel_loop is not None:
            plural = "" if self.iterations == 1 else "s"
            each = math.ceil(self.cost / max(1, self.iterations))
            extent = f", {self.iterations} iteration{plural} of about {each} cycles"
        return f"kernel {self.op_name}({join_slices(self.slices)}){extent}"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.kernel(function, self)


@dataclass(eq=False, slots=True)
class CopyThunk(Thunk):
    """Copies the bytes of one slice to another. If a shared source has no address, the target is filled with zeros."""

    source: BufferSlice
    target: BufferSlice

    copies_bytes: ClassVar[bool] = True

    @property
    def reads(self) -> list[BufferSlice]:
        return [self.source]

    @property
    def writes(self) -> list[BufferSlice]:
        return [self.target]

    def replace(self, mapping: Replacements) -> None:
        self.source, self.target = replaced([self.source, self.target], mapping)

    def may_compute_in(self, result: BufferSlice, target: BufferSlice) -> bool:
        return self.target is result and self.source not in (result, target)

    def ranges(self) -> Iterator[AccessedRange]:
        yield AccessedRange(f"the copy to {self.target}", 0, self.source.size, self.target.size)

    @property
    def cost(self) -> int:
        return self.source.size // CACHED_BYTES_PER_CYCLE

    @property
    def runs_on_one_thread(self) -> bool:
        is_private = StorageClass.SHARED not in (self.source.storage, self.target.storage)
        return is_private and self.cost < MAX_CYCLES_ON_ONE_THREAD

    @property
    def statements(self) -> int:
        return 1 + self.source.size // _COPY_BYTES_PER_STATEMENT

    @property
    def shared_statements(self) -> int | None:
        return self.statements if self.source.size <= MAX_SHORT_COPY_BYTES else None

    @property
    def is_inline(self) -> bool:
        return True

    @property
    def loads_vectors(self) -> set[BufferSlice]:
        return {self.source}

    def function_statements(self, count: Callable[[Kernel], int]) -> int:
        others = sum(slice_.storage is not StorageClass.TEMPORARY for slice_ in (self.source, self.target))
        return self.statements + _NON_TEMPORARY_STATEMENTS * others

    @property
    def title(self) -> str:
        return f"copy {self.source} to {self.target}"

    @property
    def subject(self) -> str:
        return self.target.name or self.source.name or str(self.source)

    @property
    def label(self) -> str:
        return f"copy of {self.subject}"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.copy(function, self)


# -- library calls


@dataclass(frozen=True, slots=True)
class LibraryArray:
    """An argument of a library function: `size` bytes of a slice for each call of a batch."""

    slice_index: int
    size: int
    offset: int = 0
    """The number of bytes to skip at the start of the array."""


@dataclass(frozen=True, slots=True)
class LibraryScratch:
    """An argument of a library function: workspace, at an offset in bytes."""

    offset: int


@dataclass(eq=False, slots=True)
class LibraryCallThunk(Thunk):
    """Calls a library function once for each element of a batch. All arguments are pointers, as in Fortran."""

    symbol: str
    arguments: tuple[bytes | LibraryArray | LibraryScratch | None, ...]
    """What each pointer points to; bytes are compile-time constants."""
    character_arguments: int
    """The number of character arguments: Fortran passes their lengths after all other arguments."""
    slices: list[BufferSlice]
    """The slices that arguments refer to; the last one is the workspace."""
    written: frozenset[int]
    """The indices of the slices that the function writes."""
    zero_initialized: tuple[LibraryArray, ...]
    """The arrays that are filled with zeros before each call."""
    must_be_finite: LibraryArray | None
    """An array, of floats of `element_bytes` each, that is checked before each call. If it contains an infinity or a
    NaN, the function is not called and its last argument is set to -4."""
    element_bytes: int
    batch: int
    """The number of calls."""
    grain: int
    """The number of calls per parallel task."""
    scratch_size: int
    """The size in bytes of the workspace of one task."""
    call_cost: int
    """The estimated cycles of a call."""
    op_name: str = ""

    @property
    def reads(self) -> list[BufferSlice]:
        return [slice_ for n, slice_ in enumerate(self.slices[:-1]) if n not in self.written]

    @property
    def writes(self) -> list[BufferSlice]:
        return [*(self.slices[n] for n in sorted(self.written)), self.slices[-1]]

    def replace(self, mapping: Replacements) -> None:
        self.slices = replaced(self.slices, mapping)

    def ranges(self) -> Iterator[AccessedRange]:
        checked = (*self.arguments, *self.zero_initialized, self.must_be_finite)
        for array in (a for a in checked if isinstance(a, LibraryArray)):
            slice_ = self.slices[array.slice_index]
            last = array.offset + (self.batch - 1) * array.size
            yield AccessedRange(f"the first call's part of {slice_}", array.offset, array.size, slice_.size)
            yield AccessedRange(f"the last call's part of {slice_}", last, array.size - array.offset, slice_.size)
        workspace, tasks = self.slices[-1], -(-self.batch // self.grain)
        yield AccessedRange(f"the workspace {workspace}", 0, tasks * self.scratch_size, workspace.size)

    @property
    def cost(self) -> int:
        return self.batch * self.call_cost

    @property
    def runs_on_one_thread(self) -> bool:
        return self.grain >= self.batch or self.cost < MAX_CYCLES_ON_ONE_THREAD

    @property
    def title(self) -> str:
        calls = f", {self.batch} calls of about {self.call_cost} cycles" if self.batch > 1 else ""
        return f"{self.symbol} {self.op_name}({join_slices(self.slices)}){calls}"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.library_call(function, self)
