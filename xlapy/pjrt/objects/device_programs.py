"""The records from which native code runs a program without Python: one `device_program` record per device.

Responsible for deciding which programs run natively, and for their records. Does not depend on how launches are queued
or run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from xlapy.base.shape import Shape
from xlapy.cpu.program.communication.wait_state import futex_offsets, shared_memory_size
from xlapy.cpu.program.thunks import CollectiveThunk
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.types import number_of
from xlapy.pjrt.objects.layouts import layout_handle, logical
from xlapy.pjrt.objects.loaded_executable import LoadedExecutable
from xlapy.pjrt.objects.records import SIZES, Record
from xlapy.runtime.backends.cpu import CpuProgram, is_dynamic
from xlapy.runtime.engine.memory import UNCHECKED_BYTES


def runs_natively(program: CpuProgram) -> bool:
    """Whether native code can run the program without Python.

    It can if all arrays are static, the program draws no random numbers, and its only callbacks are collectives for
    which every device has a rendezvous.
    """
    shape, native_program = program.shape, program.compiled.program
    results = shape.result.tuple_shapes if shape.result.is_tuple else (shape.result,)
    if not all(leaf.is_array for leaf in (*shape.parameters, *results)) or is_dynamic(shape):
        return False
    if "rng-get-and-update-state" in native_program.implicit_arguments:
        return False
    return all(
        isinstance(thunk, CollectiveThunk) and _is_complete(thunk) for thunk in native_program.host_calling_thunks
    )


def _is_complete(thunk: CollectiveThunk) -> bool:
    """Whether every device takes part. A device without a rendezvous asks the host for the error."""
    return all(row.rendezvous_offset >= 0 for row in thunk.participants)


def add_device_programs(loaded: LoadedExecutable, program: CpuProgram, results: Sequence[Shape]) -> None:
    """Fills in the records from which native code runs the program on all of its devices."""
    record, native_program, devices = loaded.record, program.compiled.program, loaded.devices
    loaded.device_programs = [_device_program(loaded, program, results, number) for number in range(len(devices))]
    record["device_programs"] = loaded.keep_words([one.address for one in loaded.device_programs])
    record["device_program_count"], record["donated_count"] = len(devices), len(loaded.executable.donated)
    record["has_collectives"] = int(bool(native_program.host_calling_thunks))
    words = sorted(futex_offsets(native_program))
    record["wait_words"], record["wait_word_count"] = loaded.keep_words(words), len(words)
    record["shared_bytes"] = shared_memory_size(native_program)
    record["is_asynchronous"] = int(bool(native_program.host_calling_thunks) or loaded.traits.is_long_running)
    needed = len(devices) * (native_program.arena_size + sum(map(_bytes, results)))
    record["checks_memory"], record["runs_natively"] = int(needed > UNCHECKED_BYTES), 1


def _device_program(loaded: LoadedExecutable, program: CpuProgram, results: Sequence[Shape], number: int) -> Record:
    native_program, donated = program.compiled.program, loaded.executable.donated
    record = Record(
        "device_program", number=number, stream=loaded.devices[number].stream, device=loaded.devices[number].handle
    )
    loaded.kept_addresses.append(record.address)
    table = _initial_table(loaded, program, number)
    record["entry"] = program.compiled.entry
    record["table"], record["table_bytes"] = loaded.keep_words(table), 8 * len(table)
    record["shared_index"] = native_program.shared_index
    record["arena_bytes"] = native_program.arena_size
    parameters = zip(loaded.executable.program_shape.parameters, loaded.parameter_orders, strict=True)
    overwritten = {leaf.parameter for leaf in donated}
    rows = [
        (number_of(shape.element_type), _bytes(shape), layout_handle(order), int(parameter in overwritten))
        for parameter, (shape, order) in enumerate(parameters)
    ]
    record["arguments"], record["argument_count"] = loaded.keep_words([word for row in rows for word in row]), len(rows)
    record["donated"], record["donated_count"] = loaded.keep_words([leaf.parameter for leaf in donated]), len(donated)
    outputs = [_result_template(loaded, number, result, shape) for result, shape in enumerate(results)]
    record["outputs"], record["result_count"] = loaded.keep_words(outputs), len(outputs)
    record["aliases"] = loaded.keep_words([native_program.aliases.get(result, -1) for result in range(len(results))])
    record["first_result"] = 1 + len(native_program.arguments)
    return record


def _initial_table(loaded: LoadedExecutable, program: CpuProgram, number: int) -> list[int]:
    """The initial contents of the address table of every launch on a device."""
    native_program = program.compiled.program
    table = [0] * native_program.table_size
    for index, address in program.fixed_addresses(*divmod(number, loaded.record["num_partitions"])).items():
        table[index] = address
    table[native_program.callback_index] = native().address("request_deadlock_check")
    table[native_program.shared_index] = native().canceled_word()
    table[native_program.device_index] = number
    return table


def _result_template(loaded: LoadedExecutable, device: int, result: int, shape: Shape) -> int:
    """The record of which the buffers of a result start as copies."""
    size = SIZES["buffer"] + 8 * shape.rank
    address = loaded.keep((ctypes.c_char * size)())
    template = Record("buffer", address)
    template["on_device_size_in_bytes"], template["record_bytes"] = _bytes(shape), size
    template["device"] = loaded.devices[device].handle
    template["memory"] = loaded.devices[device].memories[loaded.memory_kind(result)]
    template["type"], template["num_dims"] = number_of(shape.element_type), shape.rank
    template["is_on_cpu"], template["event"] = 1, native().ready_event_handle()
    order = loaded.result_orders[result]
    template["layout"] = layout_handle(order)
    dims = (ctypes.c_int64 * shape.rank).from_address(address + SIZES["buffer"])
    dims[:] = list(logical(shape.dimensions, order))
    return address


def _bytes(shape: Shape) -> int:
    return shape.size * shape.element_type.byte_size
