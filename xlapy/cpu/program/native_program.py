"""The native program of a module: its thunks, its arguments and results, and the layout of its address table.

Native code finds all memory through a table of addresses:

    arena, arguments, results, constants, host callback (3 entries), shared memory, device number, received slices,
    call blocks, poll function and state (4 entries), profiling counters (only if instrumented), process table (only if
    the program spans processes)

Responsible for that record and its textual dump. Does not depend on HLO operations or LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.cpu.program.bounds_records import BoundsChecks
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.counter_records import ProfilingCounters
from xlapy.cpu.program.shared_records import WAIT_RECORD_BYTES, round_to_cache_lines
from xlapy.cpu.program.thunks import HostThunk, Thunk
from xlapy.cpu.program.verification.value_records import ValueRecords


class Placement(Protocol):
    """The devices of a program in this and other processes; `communication.process_placement` implements it."""

    topology: ProcessTopology
    connection: Any
    """What connects the program to the other processes; None before it is connected."""

    @property
    def table_address(self) -> int:
        """The address of the process table."""
        ...

    @property
    def exchanges(self) -> bool:
        """Whether launches are known to the other processes."""
        ...

    @property
    def slot_offsets(self) -> list[int]:
        """The offsets in shared memory of the exchange slots that are used."""
        ...

    @property
    def shared_size(self) -> int:
        """The bytes of shared memory that are zeros before the first launch."""
        ...

    @property
    def memory_size(self) -> int:
        """The bytes of shared memory."""
        ...

    def connect(self, connection: Any) -> None:
        """Connects the program, before its first launch."""

    def missing_devices(
        self, thunk: HostThunk, device: int, missing: Sequence[int] | None, address: int
    ) -> tuple[int, ...] | None:
        """Returns the devices for which a device waits in a thunk, or has waited when the processes failed; None if it
        does not wait. missing: those that have not arrived in the shared memory at `address`; None if the wait has
        ended there."""
        ...


@dataclass(eq=False, slots=True)
class NativeProgram:
    """The thunks of a module and the slices of its arguments, results, constants and temporaries."""

    name: str
    arguments: list[BufferSlice] = field(default_factory=list[BufferSlice])
    """The leaves of the parameters, followed by the implicit arguments."""
    implicit_arguments: list[str] = field(default_factory=list[str])
    """The values that the device and the run provide: "replica-id", "partition-id", "rng-get-and-update-state"."""
    results: list[BufferSlice] = field(default_factory=list[BufferSlice])
    aliases: dict[int, int] = field(default_factory=dict[int, int])
    """For each result that lies in the memory of a donated argument, the number of that argument."""
    constants: list[BufferSlice] = field(default_factory=list[BufferSlice])
    thunks: list[Thunk] = field(default_factory=list[Thunk])
    host_calling_thunks: list[HostThunk] = field(default_factory=list[HostThunk])
    """The thunks that may call the host, by number: callbacks, and native collectives, transfers and feeds, which call
    the host while a device waits for long."""
    replica_count: int = 1
    partition_count: int = 1
    received_count: int = 0
    """The number of slices with storage class SHARED; each has an entry in the address table."""
    shared_size: int = 0
    """The size in bytes of the memory that the devices of a run share."""
    arena_size: int = 0
    temporaries: list[BufferSlice] = field(default_factory=list[BufferSlice])
    """The temporaries in the arena, the largest first."""
    spans_processes: bool = False
    """Whether other processes may run some of the devices. The code is the same for all topologies."""
    fingerprint: int = 0
    """Tells programs that span processes apart; equal in all processes."""
    placement: Placement | None = None
    """The processes of the devices, if this is a program as one of several processes runs it."""
    is_long_running: bool = False
    """Whether a run is likely to take so long that calls return before it has finished."""
    counters: ProfilingCounters | None = None
    """Where the program is timed, if it is instrumented."""
    bounds_checks: BoundsChecks | None = None
    """The accesses that are checked, if the flag `check_bounds` is set."""
    values: ValueRecords | None = None
    """What thunks are meant to read and write, if the flag `verify_buffers` is set."""

    def allocate_shared(self, size: int) -> int:
        """Reserves bytes in shared memory, after the wait records of the devices; returns their offset."""
        records = round_to_cache_lines(WAIT_RECORD_BYTES * (1 + self.replica_count * self.partition_count))
        offset = max(records, self.shared_size)
        self.shared_size = offset + round_to_cache_lines(size)
        return offset

    # -- the address table

    def table_index(self, slice_: BufferSlice) -> int:
        """The table entry with the base address of a slice: arena, argument, result, constant or received slice."""
        if slice_.storage is StorageClass.TEMPORARY:
            return 0 if slice_.number < 0 else 1 + len(self.arguments) + slice_.number
        if slice_.storage is StorageClass.ARGUMENT:
            return 1 + slice_.number
        if slice_.storage is StorageClass.RESULT:
            return 1 + len(self.arguments) + slice_.number
        if slice_.storage is StorageClass.SHARED:
            return self.device_index + 1 + slice_.number
        return 1 + len(self.arguments) + len(self.results) + slice_.number

    @property
    def implicit_arguments_index(self) -> int:
        """The first table entry of the implicit arguments, which are the last of the arguments."""
        return 1 + len(self.arguments) - len(self.implicit_arguments)

    @property
    def callback_index(self) -> int:
        """The table entry with the address of the host's callback function."""
        return 1 + len(self.arguments) + len(self.results) + len(self.constants)

    @property
    def python_index(self) -> int:
        """The first of two table entries of host callbacks that call Python: the function, and its status."""
        return self.callback_index + 1

    @property
    def shared_index(self) -> int:
        """The table entry with the address of the memory that the devices of a run share."""
        return self.python_index + 2

    @property
    def device_index(self) -> int:
        """The table entry with the number of the device; the entries of received slices follow it."""
        return self.shared_index + 1

    @property
    def call_blocks_index(self) -> int:
        """The first table entry of the call blocks; there is one entry per callback."""
        return self.device_index + 1 + self.received_count

    @property
    def poll_index(self) -> int:
        """The first of four table entries for safepoint polls.

        They hold the host's poll function, the identity of the one thread that calls it, the time of its last call, and
        whether that call asked to stop.
        """
        return self.call_blocks_index + len(self.host_calling_thunks)

    @property
    def counters_index(self) -> int:
        """The table entry with the address of the counter table of an instrumented program."""
        return self.poll_index + 4

    @property
    def processes_index(self) -> int:
        """The table entry with the address of the process table of a program that spans processes."""
        return self.counters_index + (self.counters is not None)

    @property
    def table_size(self) -> int:
        """The number of entries in the address table."""
        return self.processes_index + self.spans_processes


# -- the dump


def print_program(program: NativeProgram) -> str:
    """Returns the memory of a program and its thunks as text, one per line, with nested thunks indented."""
    lines = [f"program {program.name}: arena of {program.arena_size} bytes"]
    boundary = (("argument", program.arguments), ("result", program.results), ("constant", program.constants))
    for title, slices in boundary:
        lines += [
            f"  {title} {slice_.number}: {slice_.shape.to_text(layout=False)}, {slice_.size} bytes" for slice_ in slices
        ]
    lines += [f"  result {result} lies in argument {argument}" for result, argument in program.aliases.items()]
    return "\n".join([*lines, *_print_thunks(program.thunks, "  ")]) + "\n"


def _print_thunks(thunks: list[Thunk], indent: str) -> Iterator[str]:
    for thunk in thunks:
        yield indent + thunk.title
        for name, nested in zip(thunk.nested_titles, thunk.nested, strict=True):
            if name:
                yield f"{indent}  {name}"
            yield from _print_thunks(nested, indent + ("    " if name else "  "))
