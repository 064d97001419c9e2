"""One call of a native program: the memory of its results, the address table that it reads, its arena.

Responsible for the memory of calls, which may be concurrent and nested. Does not depend on users' arguments or on
devices.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

import numpy as np

from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.host_callbacks import HostCallbackHandler, run_ids
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.targets.call_frames import CustomCallTargets, FrameTargets
from xlapy.cpu.serialization.executable import LoadedProgram
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.runtime.engine import allocator, interruption
from xlapy.runtime.engine.allocator import ALIGNMENT
from xlapy.runtime.engine.counters import CounterTable
from xlapy.runtime.engine.memory import UNCHECKED_BYTES
from xlapy.runtime.engine.native_engine import engine
from xlapy.runtime.engine.python_host import NEVER_CANCELED, PythonHost
from xlapy.runtime.system_memory import available_bytes, format_bytes

_MAX_PACKED_RESULT_BYTES = 1 << 12
"""Results of up to this many bytes share one block, so that a small result that stays alive retains little memory."""

_POINTER = 8
_address_of = ctypes.addressof

Host = HostCallbackHandler | PythonHost
"""What serves the host callbacks of a run."""

_abandoned: list[Any] = []
"""Memory of failed runs in which an asynchronous custom call is still running."""


class _CallFrame:
    """The state of one call: the arena, and the address table, complete except for arguments and results."""

    __slots__ = ("address", "arena", "counters", "created_for", "table", "targets")

    def __init__(self, program: NativeProgram, constants: Mapping[int, int], targets: CustomCallTargets | None) -> None:
        """targets: the custom-call targets for which the frame is made."""
        self.arena = allocator.result_allocator().allocate(max(1, program.arena_size))
        self.table = (ctypes.c_void_p * program.table_size)()
        self.address = _address_of(self.table)
        self.table[0] = array_address(self.arena)
        for index, address in constants.items():
            self.table[index] = address
        self.counters = None if program.counters is None else CounterTable(program.counters)
        if self.counters is not None:
            self.table[program.counters_index] = self.counters.address
        self.table[program.poll_index] = interruption.poll_address()
        self.table[program.poll_index + 1] = interruption.poll_thread()
        self.created_for = targets
        self.targets = None if targets is None else targets.allocate_blocks(self.table)


class NativeCall:
    """A compiled program that can be called, by several threads at once and from within its own calls."""

    def __init__(self, compiled: Compiled | LoadedProgram, program_state: dict[Any, Any] | None = None) -> None:
        """program_state: state that custom-call targets keep between runs."""
        program = compiled.program
        self._program = program
        self._compiled = compiled
        self._code = compiled.code  # keeps the machine code alive
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(compiled.entry)
        self._constants = [_aligned_copy(slice_.data) for slice_ in program.constants if slice_.data is not None]
        self._pack = Struct(f"{len(program.arguments) + len(program.results)}Q").pack_into
        self._frames: list[_CallFrame] = []
        self._program_state = {} if program_state is None else program_state
        self.on_counted: Callable[[CounterTable, int], None] | None = None
        """Called at the end of each run of an instrumented program with its counters and the number of its device."""
        calls = any(thunk.calling_convention for thunk in program.host_calling_thunks)
        self._targets = CustomCallTargets(program, self._program_state) if calls else None
        self._lay_out_results(program)

    def _lay_out_results(self, program: NativeProgram) -> None:
        """Assigns offsets to small results in their common block; lists the numbers and sizes of large ones."""
        self._offsets: list[int] = []
        self._large: list[tuple[int, int]] = []
        size = 0
        for slice_ in program.results:
            self._offsets.append(size)
            if slice_.number in program.aliases:
                continue
            if slice_.size > _MAX_PACKED_RESULT_BYTES:
                self._large.append((slice_.number, slice_.size))
            else:
                size += max(ALIGNMENT, -(-slice_.size // ALIGNMENT) * ALIGNMENT)
        self._block = ctypes.c_char * (size + ALIGNMENT)
        self._has_one_small_result = len(self._offsets) == 1 and not self._large

    def __call__(self, *addresses: int, host: Host | None = None, memory: Any = None, device: int = 0) -> None:
        """Runs the program. `addresses` are those of the arguments, of the implicit arguments and of the results.

        A program that `needs_host` takes a host, whose errors are raised. memory: keeps the addresses valid, for
        programs with custom calls, whose targets may still write there after a failed run.
        """
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self._new_frame()
        try:
            self._pack(frame.table, _POINTER, *addresses)
            if frame.targets is not None:
                self._run_with_targets(frame, frame.targets, host, memory)
                return
            keep_alive = None if host is None else host.install(frame.table)
            if self._run(frame.address):
                raise _failure(host)
            del keep_alive  # native code calls these functions during the run
        finally:
            if frame.counters is not None and self.on_counted is not None:
                self.on_counted(frame.counters, device)
            if frame.created_for is self._targets:
                self._frames.append(frame)

    def _run_with_targets(self, frame: _CallFrame, targets: FrameTargets, host: Host | None, memory: Any) -> None:
        keep_alive = None
        if host is None:
            frame.table[self._program.shared_index] = _address_of(NEVER_CANCELED)
            targets.begin_run(next(run_ids), 0)
        else:
            keep_alive = host.install(frame.table, targets)
        try:
            if self._run(frame.address):
                raise targets.failure() or _failure(host)
        finally:
            targets.end_run()
            if targets.has_abandoned_call:
                frame.created_for = None
                _abandoned.append((frame, memory))
        del keep_alive  # native code calls these functions during the run

    def refresh_targets(self) -> None:
        """Makes later runs call the custom-call targets that are registered now."""
        if self._targets is not None and self._targets.is_outdated:
            self._targets = CustomCallTargets(self._program, self._program_state)
            self._frames.clear()

    @property
    def needs_host(self) -> bool:
        """Whether a run needs the host."""
        return bool(self._program.host_calling_thunks) and (self._targets is None or self._targets.needs_host)

    def results(self) -> tuple[list[Any], list[int]]:
        """Allocates memory for the results; returns it with its addresses. Results that reuse the memory of arguments
        get none."""
        block = self._block()
        base = (_address_of(block) + ALIGNMENT - 1) & -ALIGNMENT
        if self._has_one_small_result:
            return [block], [base]
        addresses = [base + offset for offset in self._offsets]
        memories: list[Any] = [block] * len(addresses)
        if self._large:
            for (number, _), large_block in zip(self._large, self._large_blocks(), strict=True):
                memories[number] = memory = allocator.as_ctypes(large_block)
                addresses[number] = _address_of(memory)
        return memories, addresses

    def counter_tables(self) -> list[CounterTable]:
        """The counters of an instrumented program, one table per concurrent call."""
        return [frame.counters for frame in self._frames if frame.counters is not None]

    def constants(self) -> dict[int, int]:
        """The entries of the address table that are the same in every run without a host: constants, and the shared
        memory.

        With no more than these, the program does not poll the host for interruption.
        """
        first = 1 + len(self._program.arguments) + len(self._program.results)
        constants = {first + number: array_address(constant) for number, constant in enumerate(self._constants)}
        if self._program.placement is not None:
            constants[self._program.processes_index] = self._program.placement.table_address
        return constants | {self._program.shared_index: _address_of(NEVER_CANCELED)}

    def trim(self) -> None:
        """Drops the arenas that no call uses."""
        self._frames.clear()

    def _large_blocks(self) -> list[allocator.Block]:
        """Allocates the large results, from cached blocks first. Only new memory counts against the available
        memory."""
        results = allocator.result_allocator()
        cached = [results.take_cached(size) for _, size in self._large]
        missing = sum(size for (_, size), block in zip(self._large, cached, strict=True) if block is None)
        if missing > UNCHECKED_BYTES:
            self._make_room(missing)
        return [
            results.allocate(size) if block is None else block
            for (_, size), block in zip(self._large, cached, strict=True)
        ]

    def _new_frame(self) -> _CallFrame:
        """Makes a frame on demand, so that a program that does not fit into memory can still be compiled."""
        if self._program.arena_size > UNCHECKED_BYTES:
            self._make_room(self._program.arena_size)
        return _CallFrame(self._program, self.constants(), self._targets)

    def require_memory(self) -> None:
        """Returns cached memory to the system if a run needs it; `ExecutionError` if the available memory is too
        small."""
        aliased = sum(self._program.results[number].size for number in self._program.aliases)
        self._make_room(self._required_bytes() - aliased)

    def _make_room(self, size: int) -> None:
        """Returns cached memory to the system if needed; `ExecutionError` if the available memory is still too
        small."""
        if size > available_bytes():
            allocator.result_allocator().trim()
            engine().trim()
        if size > (available := available_bytes()):
            raise ExecutionError(
                codes.OUT_OF_MEMORY,
                f"out of memory: {self._program.name} needs {format_bytes(self._required_bytes())} for temporaries and "
                f"results, {format_bytes(available)} are available; the largest: {self._largest()}",
            )

    def _required_bytes(self) -> int:
        return self._program.arena_size + sum(slice_.size for slice_ in self._program.results)

    def _largest(self) -> str:
        """Describes the largest results and temporaries, with their instructions."""
        slices = [*self._program.results, *self._program.temporaries]
        largest = sorted(slices, key=lambda slice_: -slice_.size)[:5]
        instructions = {instruction.name: instruction for instruction in self._compiled.module.instructions()}
        return ", ".join(_describe_slice(slice_, instructions.get(slice_.name)) for slice_ in largest)


def _failure(host: Host | None) -> BaseException:
    """The error for which native code returned early."""
    error = interruption.take_error()
    if error is not None:
        return error
    assert host is not None, "only operations of the host fail"
    return host.failure()


def _describe_slice(slice_: BufferSlice, instruction: Instruction | None) -> str:
    """Describes a slice. instruction: the one that writes it; None if it has no instruction, as scratch memory."""
    name = describe_instruction(instruction) if instruction else slice_.name or f"result {slice_.number}"
    return f"{name} {slice_.shape.to_text(layout=False)} {format_bytes(slice_.size)}"


def array_address(array: np.ndarray[Any, Any]) -> int:
    """The address of the first element of an array."""
    address: int = array.__array_interface__["data"][0]
    return address


def _aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = allocator.result_allocator().allocate(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
