"""One call of a native program: where its results lie, the table of addresses that it reads, its arena.

Owns: memory of calls, many at once and inside each other. Must not know: what users pass, devices.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

import numpy as np

from xlapy.base.errors import ExecutionError
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.program.call_frames import FrameTargets, Targets
from xlapy.cpu.program.host_callbacks import Host, run_ids
from xlapy.cpu.program.thunks import BufferSlice, CallbackThunk, NativeProgram
from xlapy.cpu.serialization.executable import LoadedProgram
from xlapy.runtime.engine import allocator
from xlapy.runtime.engine.allocator import ALIGNMENT
from xlapy.runtime.engine.counters import CounterTable
from xlapy.runtime.engine.interruption import Interruption
from xlapy.runtime.engine.memory import available_bytes, format_bytes

_SMALL = 1 << 12
"""Bytes up to which the results of a call lie in one block: a small one that is kept keeps few others."""

_UNASKED = 1 << 24
"""Bytes that are there without asking."""

_POINTER = 8
_address_of = ctypes.addressof

_UNSHARED = (ctypes.c_int64 * 1)()
"""What a run shares that has no host: nobody cancels it."""

_abandoned: list[Any] = []
"""Memory of runs in which a target goes on, though nobody waits for it any more."""


class _Place:
    """What one run has for itself: the arena, and the table of addresses, ready but for arguments and results."""

    __slots__ = ("address", "arena", "counts", "interruption", "made_with", "table", "targets")

    def __init__(self, program: NativeProgram, constants: Mapping[int, int], targets: Targets | None) -> None:
        self.arena = allocator.result_allocator().allocate(max(1, program.arena_size))
        self.table = (ctypes.c_void_p * program.table_size)()
        self.address = _address_of(self.table)
        self.table[0] = array_address(self.arena)
        for place, address in constants.items():
            self.table[place] = address
        self.counts = None if program.clocks is None else CounterTable(program.clocks)
        if self.counts is not None:
            self.table[program.counters_index] = self.counts.address
        self.interruption = Interruption()
        self.table[program.poll_index] = self.interruption.function
        self.table[program.poll_index + 1] = self.interruption.thread
        self.made_with = targets
        self.targets = None if targets is None else targets.place(self.table)


class NativeCall:
    """A compiled program ready to be called, by several threads at once and from inside of its own calls."""

    def __init__(self, compiled: Compiled | LoadedProgram, kept: dict[Any, Any] | None = None) -> None:
        """kept: what targets of custom calls keep from run to run."""
        program = compiled.program
        self._program = program
        self._code = compiled.code  # keeps the machine code
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(compiled.entry)
        self._constants = [_aligned(slice_.data) for slice_ in program.constants if slice_.data is not None]
        self._pack = Struct(f"{len(program.arguments) + len(program.results)}Q").pack_into
        self._places: list[_Place] = []
        self._kept = {} if kept is None else kept
        self.on_counted: Callable[[CounterTable, int], None] | None = None
        """Told at the end of each run of an instrumented program: what it counted, the number of its device."""
        calls = any(isinstance(thunk, CallbackThunk) and thunk.convention for thunk in program.callbacks)
        self._targets = Targets(program, self._kept) if calls else None
        self._lay_out(program)

    def _lay_out(self, program: NativeProgram) -> None:
        """Offsets of small results in their block; numbers and sizes of large ones."""
        self._offsets: list[int] = []
        self._large: list[tuple[int, int]] = []
        size = 0
        for slice_ in program.results:
            self._offsets.append(size)
            if slice_.number in program.aliases:
                continue
            if slice_.size > _SMALL:
                self._large.append((slice_.number, slice_.size))
            else:
                size += max(ALIGNMENT, -(-slice_.size // ALIGNMENT) * ALIGNMENT)
        self._block = ctypes.c_char * (size + ALIGNMENT)
        self._is_one_small = len(self._offsets) == 1 and not self._large

    def __call__(self, *addresses: int, host: Host | None = None, memory: Any = None, device: int = 0) -> None:
        """Runs it: `addresses` are those of the arguments (the numbers of the device behind them) and the results.

        A program that `needs_host` takes one, whose errors are raised. memory: what keeps the addresses valid, for
        programs with custom calls: a target that goes on after a failed run may write there.
        """
        try:
            place = self._places.pop()
        except IndexError:
            place = self._new_place()
        try:
            self._pack(place.table, _POINTER, *addresses)
            if place.targets is not None:
                self._run_with_targets(place, place.targets, host, memory)
                return
            kept = None if host is None else host.serve(place.table)
            if self._run(place.address):
                raise _failure(place, host)
            del kept  # what native code calls must live until here
        finally:
            if place.counts is not None and self.on_counted is not None:
                self.on_counted(place.counts, device)
            if place.made_with is self._targets:
                self._places.append(place)

    def _run_with_targets(self, place: _Place, targets: FrameTargets, host: Host | None, memory: Any) -> None:
        kept = None
        if host is None:
            place.table[self._program.shared_index] = _address_of(_UNSHARED)
            targets.begin(next(run_ids), 0)
        else:
            kept = host.serve(place.table, targets)
        try:
            if self._run(place.address):
                raise targets.failure() or _failure(place, host)
        finally:
            targets.end()
            if targets.abandoned:
                place.made_with = None
                _abandoned.append((place, memory))
        del kept  # what native code calls must live until here

    def renew_targets(self) -> None:
        """Has the next runs call custom-call targets as they are registered now."""
        if self._targets is not None and self._targets.outdated:
            self._targets = Targets(self._program, self._kept)
            self._places.clear()

    @property
    def needs_host(self) -> bool:
        """Whether a run needs the host."""
        return bool(self._program.callbacks) and (self._targets is None or self._targets.needs_host)

    def results(self) -> tuple[list[Any], list[int]]:
        """Memory for the results, and their addresses. Results in the memory of arguments have none of their own."""
        block = self._block()
        base = (_address_of(block) + ALIGNMENT - 1) & -ALIGNMENT
        if self._is_one_small:
            return [block], [base]
        addresses = [base + offset for offset in self._offsets]
        memories: list[Any] = [block] * len(addresses)
        if self._large:
            for (number, _), found in zip(self._large, self._large_blocks(), strict=True):
                memories[number] = memory = allocator.as_ctypes(found)
                addresses[number] = _address_of(memory)
        return memories, addresses

    def counter_tables(self) -> list[CounterTable]:
        """Where the runs of an instrumented program have on_counted: a table for each of those at the same time."""
        return [place.counts for place in self._places if place.counts is not None]

    def constants(self) -> dict[int, int]:
        """Where the table has the same in every run, and what: constants, what a run without a host shares.

        With no more than these, no thread asks the host whether to go on.
        """
        first = 1 + len(self._program.arguments) + len(self._program.results)
        found = {first + number: array_address(constant) for number, constant in enumerate(self._constants)}
        return found | {self._program.shared_index: _address_of(_UNSHARED)}

    def trim(self) -> None:
        """Forgets the arenas that no call is using."""
        self._places.clear()

    def _large_blocks(self) -> list[allocator.Block]:
        """Kept memory where there is some: only new memory can be more than there is."""
        kept = allocator.result_allocator()
        found = [kept.take_cached(size) for _, size in self._large]
        missing = sum(size for (_, size), block in zip(self._large, found, strict=True) if block is None)
        if missing > _UNASKED:
            self._make_room(missing)
        return [
            kept.allocate(size) if block is None else block for (_, size), block in zip(self._large, found, strict=True)
        ]

    def _new_place(self) -> _Place:
        """Made when it is needed: a program that does not fit into memory compiles."""
        if self._program.arena_size > _UNASKED:
            self._make_room(self._program.arena_size)
        return _Place(self._program, self.constants(), self._targets)

    def _make_room(self, size: int) -> None:
        """Gives kept memory back where it is needed; `ExecutionError` if that is not enough."""
        if size > available_bytes():
            allocator.result_allocator().trim()
        if size > (available := available_bytes()):
            raise ExecutionError(
                f"out of memory: {self._program.name} needs {format_bytes(self._demand())} for temporaries and "
                f"results, {format_bytes(available)} are available; the largest: {self._largest()}"
            )

    def _demand(self) -> int:
        return self._program.arena_size + sum(slice_.size for slice_ in self._program.results)

    def _largest(self) -> str:
        """The largest buffers, results and temporaries, with the instructions that they are for."""
        slices = [*self._program.results, *self._program.temporaries]
        largest = sorted(slices, key=lambda slice_: -slice_.size)[:5]
        return ", ".join(map(_described, largest))


def _failure(place: _Place, host: Host | None) -> BaseException:
    """Why native code has ended early."""
    error = place.interruption.taken()
    if error is not None:
        return error
    assert host is not None, "only what the host carries out fails"
    return host.failure()


def _described(slice_: BufferSlice) -> str:
    name = slice_.name or f"result {slice_.number}"
    return f"{name} {slice_.shape.to_text(layout=False)} {format_bytes(slice_.size)}"


def array_address(array: np.ndarray[Any, Any]) -> int:
    """Where the elements of an array begin."""
    address: int = array.__array_interface__["data"][0]
    return address


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = allocator.result_allocator().allocate(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
