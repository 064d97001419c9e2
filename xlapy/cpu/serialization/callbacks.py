"""Serializes the thunks of a native program that may call the host as JSON, and restores them.

    {"devices": [replicas, partitions], "shared": [received slices, bytes], "thunks": [...], "fingerprint": number}

Only programs that span processes have a fingerprint.

Each thunk has its kind (a key of `HOST_THUNKS`), the name of its instruction in the optimized module, whether a native
target may be called, its operands and results as [storage class, number, offset, shape, name], and the fields of its
class.

Responsible for this format. Does not depend on where it is stored or on what the host does with the thunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy.base.shape import Shape
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.custom_calls import calling_convention_of
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import HOST_THUNKS, HostThunk
from xlapy.hlo.module import Module


def callbacks_to_json(program: NativeProgram) -> dict[str, Any]:
    """Returns the `host_calling_thunks` of a program in the form that `restore_callbacks` reads."""
    data: dict[str, Any] = {
        "devices": [program.replica_count, program.partition_count],
        "shared": [program.received_count, program.shared_size],
        "thunks": [_to_json(thunk) for thunk in program.host_calling_thunks],
    }
    return data | ({"fingerprint": program.fingerprint} if program.spans_processes else {})


def _to_json(thunk: HostThunk) -> dict[str, Any]:
    header = {"kind": thunk.kind, "instruction": thunk.instruction.name, "native": thunk.calling_convention is not None}
    slices = {"operands": _slices_to_json(thunk.operands), "results": _slices_to_json(thunk.results)}
    return {**header, **slices, **thunk.fields_to_json()}


def _slices_to_json(slices: Sequence[BufferSlice]) -> list[list[Any]]:
    return [[s.storage.value, s.number, s.offset, s.shape.to_text(), s.name] for s in slices]


def restore_callbacks(program: NativeProgram, data: Mapping[str, Any], optimized: Module | None) -> None:
    """Adds the `host_calling_thunks` to a program.

    optimized: the module after optimization, which holds the instructions of these thunks; None if there are none.

    Raises `KeyError`, `TypeError`, `ValueError` or `XlaError` if `callbacks_to_json` has not produced the data.
    """
    program.replica_count, program.partition_count = map(int, data["devices"])
    program.received_count, program.shared_size = map(int, data["shared"])
    program.spans_processes, program.fingerprint = "fingerprint" in data, int(data.get("fingerprint", 0))
    instructions = {instruction.name: instruction for instruction in (optimized.instructions() if optimized else ())}
    for number, thunk in enumerate(data["thunks"]):
        program.host_calling_thunks.append(_thunk_from_json(number, instructions[thunk["instruction"]], thunk))


def _thunk_from_json(number: int, instruction: Any, data: Mapping[str, Any]) -> HostThunk:
    made: type[HostThunk] = HOST_THUNKS[data["kind"]]
    fields = made.fields_from_json(data)
    if data["native"]:
        fields["calling_convention"] = calling_convention_of(instruction)
    operands, results = (_slices_from_json(data[key]) for key in ("operands", "results"))
    return made(number, instruction, operands, results, instruction.name, **fields)


def _slices_from_json(slices: Sequence[Sequence[Any]]) -> list[BufferSlice]:
    return [
        BufferSlice(Shape.parse(shape), StorageClass(storage), int(number), int(offset), name=name)
        for storage, number, offset, shape, name in slices
    ]
