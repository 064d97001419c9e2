"""Serializes the thunks of a native program that may call the host as JSON, and restores them.

    {"devices": [replicas, partitions], "shared": [received slices, bytes], "thunks": [...]}

Each thunk has the name of its instruction in the optimized module, and its slices as [storage class, number, offset,
shape, name]. A collective also has the participants as [rendezvous offset, members, rank, send offsets, receive
offsets, peer offsets]; a transfer has the queues and partners of each device; a feed has its queue offset and shape
number. Any other thunk says whether a native target may be called and whether it draws random numbers.

Responsible for this format. Does not depend on where it is stored or on what the host does with the thunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy.base.shape import Shape
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.custom_calls import calling_convention_of
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import CallbackThunk, CollectiveThunk, FeedThunk, RendezvousParticipant, TransferThunk
from xlapy.hlo.module import Module


def callbacks_to_json(program: NativeProgram) -> dict[str, Any]:
    """Returns the `host_calling_thunks` of a program in the form that `restore_callbacks` reads."""
    return {
        "devices": [program.replica_count, program.partition_count],
        "shared": [program.received_count, program.shared_size],
        "thunks": [_to_json(thunk) for thunk in program.host_calling_thunks],
    }


def _to_json(thunk: CallbackThunk | CollectiveThunk) -> dict[str, Any]:
    header = {"instruction": thunk.instruction.name, "operands": _slices_to_json(thunk.operands)}
    if isinstance(thunk, CollectiveThunk):
        participants = [
            [p.rendezvous_offset, p.members, p.rank, p.send_offsets, p.receive_offsets, p.peer_offsets]
            for p in thunk.participants
        ]
        received = _slices_to_json(thunk.received)
        size, direct = thunk.staging_size, thunk.direct
        return {**header, "received": received, "participants": participants, "staging_size": size, "direct": direct}
    header["results"] = _slices_to_json(thunk.results)
    if isinstance(thunk, TransferThunk):
        return {**header, "queues": thunk.queues, "partners": thunk.partners, "claims_end": thunk.claims_end}
    if isinstance(thunk, FeedThunk):
        return {**header, "queue_offset": thunk.queue_offset, "shape_number": thunk.shape_number}
    return {**header, "native": thunk.calling_convention is not None, "draws_random": thunk.draws_random}


def _slices_to_json(slices: Sequence[BufferSlice]) -> list[list[Any]]:
    return [[s.storage.value, s.number, s.offset, s.shape.to_text(), s.name] for s in slices]


def restore_callbacks(program: NativeProgram, data: Mapping[str, Any], optimized: Module) -> None:
    """Adds the `host_calling_thunks` to a program.

    optimized: the module after optimization, which holds the instructions of these thunks.

    Raises `KeyError`, `TypeError`, `ValueError` or `XlaError` if `callbacks_to_json` has not produced the data.
    """
    program.replica_count, program.partition_count = map(int, data["devices"])
    program.received_count, program.shared_size = map(int, data["shared"])
    instructions = {instruction.name: instruction for instruction in optimized.instructions()}
    for number, thunk in enumerate(data["thunks"]):
        name = thunk["instruction"]
        program.host_calling_thunks.append(_thunk_from_json(number, name, instructions[name], thunk))


def _thunk_from_json(
    number: int, name: str, instruction: Any, data: Mapping[str, Any]
) -> CallbackThunk | CollectiveThunk:
    operands = _slices_from_json(data["operands"])
    if "participants" in data:
        participants = [
            RendezvousParticipant(int(offset), tuple(members), int(rank), tuple(send), tuple(receive), tuple(peer))
            for offset, members, rank, send, receive, peer in data["participants"]
        ]
        received = _slices_from_json(data["received"])
        size, direct = int(data["staging_size"]), bool(data["direct"])
        return CollectiveThunk(number, instruction, operands, received, participants, size, name, direct)
    results = _slices_from_json(data["results"])
    if "queues" in data:
        queues, partners = ([tuple(row) for row in data[key]] for key in ("queues", "partners"))
        claims_end = bool(data["claims_end"])
        return TransferThunk(
            number, instruction, operands, results, name, queues=queues, partners=partners, claims_end=claims_end
        )
    if "shape_number" in data:
        offset, shape_number = int(data["queue_offset"]), int(data["shape_number"])
        return FeedThunk(number, instruction, operands, results, name, queue_offset=offset, shape_number=shape_number)
    convention = calling_convention_of(instruction) if data["native"] else None
    return CallbackThunk(number, instruction, operands, results, name, convention, bool(data["draws_random"]))


def _slices_from_json(slices: Sequence[Sequence[Any]]) -> list[BufferSlice]:
    return [
        BufferSlice(Shape.parse(shape), StorageClass(storage), int(number), int(offset), name=name)
        for storage, number, offset, shape, name in slices
    ]
