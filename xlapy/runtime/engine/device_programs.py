"""The records from which the engine runs a program without Python: one `device_program` record per device.

Responsible for deciding which programs run natively, and for their records. Does not depend on how launches are queued
or run, or on the front end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from xlapy.base.shape import Shape
from xlapy.cpu.llvm.shared_code import PYTHON_CALLBACK, shared_function
from xlapy.cpu.program.communication.wait_state import cleared_memory_size, futex_offsets, shared_memory_size
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.targets.python_callbacks import PythonCallbacks, calls_only_python
from xlapy.runtime.collectives.device_names import device_names
from xlapy.runtime.collectives.remote_processes import check_connected
from xlapy.runtime.engine.memory import UNCHECKED_BYTES
from xlapy.runtime.engine.native_engine import engine
from xlapy.runtime.engine.records import WORD, KeptObjects, Record


class HostRunner(Protocol):
    """Runs launches of a program that calls the host."""

    def run(self, frame: Record, program: Record, launch: Record) -> None:
        """Runs the frame of one device of a launch, whose records are given; raises the error of the launch."""
        ...


@dataclass(frozen=True)
class NativeSource:
    """What the engine runs.

    entry: address of the machine code. fixed_addresses: from replica and partition to the entries of the address table
    that are the same in every run. parameters, results: their arrays and tokens. donated: the numbers of the parameters
    whose memory the program may overwrite. counts: numbers of replicas and partitions. is_long_running: whether calls
    return before the program has run. host: runs launches, if the program calls the host.
    """

    program: NativeProgram
    entry: int
    fixed_addresses: Callable[[int, int], dict[int, int]]
    parameters: Sequence[Shape]
    results: Sequence[Shape]
    donated: Sequence[int]
    counts: tuple[int, int]
    is_long_running: bool
    python_callbacks: PythonCallbacks | None = None
    host: HostRunner | None = None


@dataclass(frozen=True)
class DevicePlace:
    """A device of a program: its handle, the record of its stream, and the handle of the memory of each result."""

    handle: int
    stream: int
    result_memories: Sequence[int]


@dataclass(frozen=True)
class ArrayForm:
    """How the buffer of an argument or result is described: its logical dimensions, and the handle of its layout. A
    token is described as an array without elements."""

    dimensions: tuple[int, ...]
    layout: int


@dataclass(eq=False)
class RunnableProgram:
    """A program with the records from which the engine runs it. counts: numbers of replicas and partitions. record: the
    executable.

    Programs are registered in the process until they are removed. A registered program therefore does not refer to its
    source, through which users could reach what removes it.
    """

    program: NativeProgram
    counts: tuple[int, int]
    record: Record
    device_programs: list[Record]
    host: HostRunner | None = None

    @property
    def is_running(self) -> bool:
        """Whether a launch has not finished on all of its devices."""
        return any(engine().pending_launches(program.address) for program in self.device_programs)


_runnable: dict[int, RunnableProgram] = {}


def runnable_at(record: int) -> RunnableProgram | None:
    """The program of an executable record; None if it was removed."""
    return _runnable.get(record)


def remove_runnable(record: int) -> None:
    """Forgets the program of an executable, whose records are about to be freed."""
    _runnable.pop(record, None)


def runs_natively(program: NativeProgram, leaves: Iterable[Shape]) -> bool:
    """Whether native code can run the program without Python.

    It can if the parameters and results are static arrays and tokens, the program draws no random numbers, and its only
    callbacks are collectives for which every device has a rendezvous. leaves: shapes of the parameters and results.
    """
    if not _has_plain_boundary(program, leaves):
        return False
    return all(thunk.runs_without_python and thunk.is_complete for thunk in program.host_calling_thunks)


def runs_on_host(program: NativeProgram, leaves: Iterable[Shape]) -> bool:
    """Whether a stream can run the program, which calls the host.

    It can if the shapes of all results are known before the program has run, and if there is a result: errors travel
    with results. Programs whose values are checked run in the threads of their callers, which raise the errors.
    leaves: shapes of the parameters and results.
    """
    is_checked = program.bounds_checks is not None or program.counters is not None
    is_static = all(leaf.is_token or (leaf.is_array and not leaf.is_dynamic) for leaf in leaves)
    return bool(program.host_calling_thunks) and is_static and not is_checked


def calls_python_natively(program: NativeProgram, leaves: Iterable[Shape]) -> bool:
    """Whether native code can run the program in the threads of its callers, from where it calls Python functions."""
    return _has_plain_boundary(program, leaves) and calls_only_python(program)


def _has_plain_boundary(program: NativeProgram, leaves: Iterable[Shape]) -> bool:
    """Whether launches need no more than the addresses of arrays, and tokens to be ready."""
    if not all(leaf.is_token or (leaf.is_array and not leaf.is_dynamic) for leaf in leaves):
        return False
    return "rng-get-and-update-state" not in program.implicit_arguments


def add_device_programs(
    record: Record,
    kept: KeptObjects,
    source: NativeSource,
    places: Sequence[DevicePlace],
    arguments: Sequence[ArrayForm],
    results: Sequence[ArrayForm],
) -> RunnableProgram:
    """Fills in the fields of an executable's record from which the engine runs the program on all of its devices in
    this process.

    places: of these devices, in the order of their logical numbers. kept: what the records point to, which must live
    until `remove_runnable`.
    """
    program = source.program
    numbers = range(len(places)) if program.placement is None else program.placement.topology.local_devices
    programs = [
        _device_program(kept, source, place, arguments, results, (row, number))
        for row, (place, number) in enumerate(zip(places, numbers, strict=True))
    ]
    record["device_programs"] = kept.words([one.address for one in programs])
    record["device_program_count"], record["donated_count"] = len(places), len(source.donated)
    record["argument_count"] = len(source.parameters)
    kept.hold(source.python_callbacks)
    calls_python = source.python_callbacks is not None
    has_collectives = bool(program.host_calling_thunks) and not calls_python
    record["calls_python"], record["has_collectives"] = int(calls_python), int(has_collectives)
    record["calls_host"] = int(source.host is not None)
    words = sorted(futex_offsets(program))
    record["wait_words"], record["wait_word_count"] = kept.words(words), len(words)
    record["shared_bytes"], record["cleared_bytes"] = shared_memory_size(program), cleared_memory_size(program)
    if program.placement is not None and program.placement.exchanges:
        check_connected(program)
        slots = program.placement.slot_offsets
        record["processes"] = program.placement.table_address
        record["exchange_slots"], record["exchange_slot_count"] = kept.words(slots), len(slots)
        kept.hold(program.placement)
    record["is_asynchronous"] = int(not calls_python and (has_collectives or source.is_long_running))
    needed = len(places) * (program.arena_size + sum(_bytes(shape) for shape in source.results))
    record["checks_memory"] = int(needed > UNCHECKED_BYTES)
    engine().allow_native_calls(record.address, 1)
    made = RunnableProgram(program, source.counts, record, programs, source.host)
    _runnable[record.address] = made
    return made


def _device_program(
    kept: KeptObjects,
    source: NativeSource,
    place: DevicePlace,
    arguments: Sequence[ArrayForm],
    results: Sequence[ArrayForm],
    numbers: tuple[int, int],
) -> Record:
    """numbers: the row of the device in launches, and its logical number."""
    program, (row, number) = source.program, numbers
    record = kept.record("device_program", number=row, stream=place.stream, device=place.handle)
    table = _initial_table(source, number)
    record["entry"] = source.entry
    record["table"], record["table_bytes"] = kept.words(table), WORD * len(table)
    record["shared_index"], record["arena_bytes"] = program.shared_index, program.arena_size
    argument_entries, result_entries, aliases = _table_entries(source)
    rows = [
        (type_number(shape), _bytes(shape), form.layout, int(parameter in source.donated), int(shape.is_token), entry)
        for parameter, (shape, form, entry) in enumerate(
            zip(source.parameters, arguments, argument_entries, strict=True)
        )
    ]
    record["arguments"], record["argument_count"] = kept.words([word for row in rows for word in row]), len(rows)
    record["donated"], record["donated_count"] = kept.words(source.donated), len(source.donated)
    outputs = [
        buffer_template(kept, shape, form, place.handle, memory)
        for shape, form, memory in zip(source.results, results, place.result_memories, strict=True)
    ]
    record["outputs"], record["result_count"] = kept.words(outputs), len(outputs)
    record["aliases"], record["result_entries"] = kept.words(aliases), kept.words(result_entries)
    if source.host is None:  # the host names the device itself
        topology = None if program.placement is None else program.placement.topology
        failure = f"{device_names(*source.counts, topology)[number]} failed: "
        record["failure"], record["failure_size"] = kept.text(failure)
    return record


def _table_entries(source: NativeSource) -> tuple[list[int], list[int], list[int]]:
    """Returns the entries of the address table of the parameters and of the results, and for each result the parameter
    whose memory it reuses, or -1.

    The program counts arrays only. The address of a token, which nobody reads, is stored behind its table.
    """
    program = source.program
    parameters = [number for number, shape in enumerate(source.parameters) if not shape.is_token]
    results = [number for number, shape in enumerate(source.results) if not shape.is_token]
    argument_entries = [program.table_size] * len(source.parameters)
    result_entries = [program.table_size] * len(source.results)
    aliases = [-1] * len(source.results)
    for index, number in enumerate(parameters):
        argument_entries[number] = 1 + index
    for index, number in enumerate(results):
        result_entries[number] = 1 + len(program.arguments) + index
        if index in program.aliases:
            aliases[number] = parameters[program.aliases[index]]
            result_entries[number] = argument_entries[aliases[number]]
    return argument_entries, result_entries, aliases


def _initial_table(source: NativeSource, number: int) -> list[int]:
    """The initial contents of the address table of every launch on a device, with the entry of tokens behind it."""
    program = source.program
    table = [0] * (program.table_size + 1)
    for index, address in source.fixed_addresses(*divmod(number, source.counts[1])).items():
        table[index] = address
    callbacks = source.python_callbacks
    if callbacks is None:
        table[program.callback_index] = engine().addresses["request_deadlock_check"]
    else:
        table[program.callback_index] = shared_function(PYTHON_CALLBACK).address
        table[program.python_index] = callbacks.address
        for index, address in callbacks.fixed_addresses.items():
            table[index] = address
    table[program.device_index] = number
    return table


def buffer_template(kept: KeptObjects, shape: Shape, form: ArrayForm, device: int, memory: int) -> int:
    """A record of which buffers of a shape start as copies. device, memory: handles."""
    rank = len(form.dimensions)
    size = Record.sizes["buffer"] + WORD * rank
    address = kept.keep((ctypes.c_char * size)())
    template = Record("buffer", address)
    template["on_device_size_in_bytes"], template["record_bytes"] = _bytes(shape), size
    template["device"], template["memory"] = device, memory
    template["type"], template["num_dims"] = type_number(shape), rank
    template["dims"] = address + Record.sizes["buffer"]
    template["is_on_cpu"], template["event"] = 1, engine().ready_event_handle()
    template["layout"] = form.layout
    dims = (ctypes.c_int64 * rank).from_address(address + Record.sizes["buffer"])
    dims[:] = list(form.dimensions)
    return address


def type_number(shape: Shape) -> int:
    """The number of an array's element type, or of tokens, as PJRT counts them."""
    number = shape.element_type.protocol_numbers.pjrt
    assert number is not None, f"arrays have no elements of type {shape.element_type}"
    return number


def _bytes(shape: Shape) -> int:
    return 0 if shape.is_token else shape.size * shape.element_type.byte_size
