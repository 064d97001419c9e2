"""What native code needs to run a program by itself: a record for each of its devices.

Owns: which programs are plain, the records of their parts. Must not know: how runs go.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlapy.base.shape import Shape
from xlapy.cpu.program.thunks import CollectiveThunk
from xlapy.cpu.program.wait_state import futex_offsets, shared_size
from xlapy.pjrt.c_api.loaded import native
from xlapy.pjrt.c_api.types import number_of
from xlapy.pjrt.objects.layouts import layout_handle, logical
from xlapy.pjrt.objects.records import SIZES, Record
from xlapy.runtime.backends.cpu import CpuProgram, is_dynamic

if TYPE_CHECKING:
    from xlapy.pjrt.objects.executable import Loaded

_ASKS_FROM = 1 << 24
"""Bytes of results and temporaries from which a run looks first whether there is memory."""


def is_plain(program: CpuProgram) -> bool:
    """Whether native code runs it alone: it asks for nothing but that its devices meet, and its arrays are static."""
    shape, native_program = program.shape, program.compiled.program
    results = shape.result.tuple_shapes if shape.result.is_tuple else (shape.result,)
    whole = all(one.is_array for one in (*shape.parameters, *results)) and not is_dynamic(shape)
    free = "rng-get-and-update-state" not in native_program.ids
    return (
        whole
        and free
        and all(isinstance(thunk, CollectiveThunk) and _is_met(thunk) for thunk in native_program.callbacks)
    )


def _is_met(thunk: CollectiveThunk) -> bool:
    """Whether every device has a door; who has none asks the host for the error."""
    return all(row.door >= 0 for row in thunk.rows)


def add_parts(loaded: Loaded, program: CpuProgram, results: Sequence[Shape]) -> None:
    """Fills in what native code needs to run the program on all of its devices."""
    record, native_program, devices = loaded.record, program.compiled.program, loaded.devices
    loaded.parts = [_part(loaded, program, results, number) for number in range(len(devices))]
    record["parts"] = loaded.row([part.address for part in loaded.parts])
    record["part_count"], record["donated_count"] = len(devices), len(loaded.executable.donated)
    record["meets"] = int(bool(native_program.callbacks))
    words = sorted(futex_offsets(native_program))
    record["words"], record["word_count"] = loaded.row(words), len(words)
    record["shared_bytes"] = shared_size(native_program)
    record["long"] = int(bool(native_program.callbacks) or loaded.traits.is_long)
    taken = len(devices) * (native_program.arena_size + sum(map(_bytes, results)))
    record["large"], record["fast"] = int(taken > _ASKS_FROM), 1


def _part(loaded: Loaded, program: CpuProgram, results: Sequence[Shape], number: int) -> Record:
    native_program, donated = program.compiled.program, loaded.executable.donated
    part = Record("part", number=number, worker=loaded.devices[number].worker)
    loaded.kept.append(part.address)
    table = _table(loaded, program, number)
    part["entry"] = program.compiled.entry
    part["table"], part["table_bytes"] = loaded.row(table), 8 * len(table)
    part["shared_index"] = native_program.shared_index
    part["arena_bytes"] = native_program.arena_size
    parameters = zip(loaded.executable.program_shape.parameters, loaded.parameter_orders, strict=True)
    rows = [(number_of(shape.element_type), _bytes(shape), layout_handle(order)) for shape, order in parameters]
    part["arguments"], part["argument_count"] = loaded.row([word for row in rows for word in row]), len(rows)
    part["donated"], part["donated_count"] = loaded.row([leaf.parameter for leaf in donated]), len(donated)
    outputs = [_template(loaded, number, place, shape) for place, shape in enumerate(results)]
    part["outputs"], part["result_count"] = loaded.row(outputs), len(outputs)
    part["aliases"] = loaded.row([native_program.aliases.get(place, -1) for place in range(len(results))])
    part["first_result"] = 1 + len(native_program.arguments)
    return part


def _table(loaded: Loaded, program: CpuProgram, number: int) -> list[int]:
    """What the table of addresses of a device begins as."""
    native_program = program.compiled.program
    table = [0] * native_program.table_size
    for place, address in program.fixed_addresses(*divmod(number, loaded.record["num_partitions"])).items():
        table[place] = address
    table[native_program.callback_index] = native().address("doubt")
    table[native_program.shared_index] = native().cancelled_word()
    table[native_program.device_index] = number
    return table


def _template(loaded: Loaded, device: int, result: int, shape: Shape) -> int:
    """The record that buffers of a result begin as."""
    size = SIZES["buffer"] + 8 * shape.rank
    address = loaded.keep((ctypes.c_char * size)())
    template = Record("buffer", address)
    template["on_device_size_in_bytes"], template["bytes"] = _bytes(shape), size
    template["device"] = loaded.devices[device].handle
    template["memory"] = loaded.devices[device].memories[loaded.kind(result)]
    template["type"], template["num_dims"] = number_of(shape.element_type), shape.rank
    template["is_on_cpu"], template["event"] = 1, native().ready()
    order = loaded.result_orders[result]
    template["layout"] = layout_handle(order)
    dims = (ctypes.c_int64 * shape.rank).from_address(address + SIZES["buffer"])
    dims[:] = list(logical(shape.dimensions, order))
    return address


def _bytes(shape: Shape) -> int:
    return shape.size * shape.element_type.byte_size
