"""The callbacks and meetings of a program as JSON, and back.

    {"devices": [replicas, partitions], "shared": [places, bytes], "thunks": [...]}

A thunk has the name of its instruction, which the optimised module holds, its slices as [kind, number, offset, shape,
name], and, if it is a meeting, what each device does there: [door, members, place, brings, takes, offsets]; a transfer
between devices has the queues and partners of each; a feed
its place and kind; any other thunk says whether it may be native code and whether it
draws random numbers.

Owns: this form. Must not know: where it is kept, what the host does with these thunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy.base.shape import Shape
from xlapy.cpu.program.custom_calls import convention_of
from xlapy.cpu.program.thunks import (
    BufferSlice,
    CallbackThunk,
    CollectiveThunk,
    FeedThunk,
    NativeProgram,
    RendezvousParticipant,
    StorageClass,
    TransferThunk,
)
from xlapy.hlo.module import Module


def describe_callbacks(program: NativeProgram) -> dict[str, Any]:
    """What `restore_callbacks` takes."""
    return {
        "devices": [program.replica_count, program.partition_count],
        "shared": [program.shared, program.shared_size],
        "thunks": [_described(thunk) for thunk in program.callbacks],
    }


def _described(thunk: CallbackThunk | CollectiveThunk) -> dict[str, Any]:
    header = {"instruction": thunk.instruction.name, "operands": _slots(thunk.operands)}
    if isinstance(thunk, TransferThunk):
        ends = {"queues": thunk.queues, "partners": thunk.partners, "claims": thunk.claims}
        return {**header, "results": _slots(thunk.results), **ends}
    if isinstance(thunk, FeedThunk):
        return {**header, "results": _slots(thunk.results), "place": thunk.place, "kind": thunk.kind}
    if isinstance(thunk, CallbackThunk):
        return {
            **header,
            "results": _slots(thunk.results),
            "native": thunk.convention is not None,
            "draws": thunk.draws,
        }
    rows = [[row.door, row.members, row.place, row.brings, row.takes, row.offsets] for row in thunk.rows]
    return {
        **header,
        "shared": _slots(thunk.shared),
        "rows": rows,
        "stage_size": thunk.stage_size,
        "direct": thunk.direct,
    }


def _slots(slices: Sequence[BufferSlice]) -> list[list[Any]]:
    return [[slice_.kind.value, slice_.number, slice_.offset, slice_.shape.to_text(), slice_.name] for slice_ in slices]


def restore_callbacks(program: NativeProgram, described: Mapping[str, Any], optimised: Module) -> None:
    """Gives a program its callbacks again; `optimised` is the module that they are of, behind the passes.

    `KeyError`, `TypeError`, `ValueError` or `XlaError` for what `describe_callbacks` has not made of it.
    """
    program.replica_count, program.partition_count = map(int, described["devices"])
    program.shared, program.shared_size = map(int, described["shared"])
    instructions = {instruction.name: instruction for instruction in optimised.instructions()}
    for number, thunk in enumerate(described["thunks"]):
        name = thunk["instruction"]
        program.callbacks.append(_thunk(number, name, instructions[name], thunk))


def _thunk(number: int, name: str, instruction: Any, described: Mapping[str, Any]) -> CallbackThunk | CollectiveThunk:
    operands = _restored(described["operands"])
    if "queues" in described:
        results, claims = _restored(described["results"]), bool(described["claims"])
        queues, partners = ([tuple(row) for row in described[what]] for what in ("queues", "partners"))
        return TransferThunk(
            number, instruction, operands, results, name, queues=queues, partners=partners, claims=claims
        )
    if "kind" in described:
        results, place, kind = _restored(described["results"]), int(described["place"]), int(described["kind"])
        return FeedThunk(number, instruction, operands, results, name, place=place, kind=kind)
    if "rows" not in described:
        results = _restored(described["results"])
        convention = convention_of(instruction) if described["native"] else None
        return CallbackThunk(number, instruction, operands, results, name, convention, bool(described["draws"]))
    rows = [
        RendezvousParticipant(int(door), tuple(members), int(place), tuple(brings), tuple(takes), tuple(offsets))
        for door, members, place, brings, takes, offsets in described["rows"]
    ]
    shared = _restored(described["shared"])
    size, direct = int(described["stage_size"]), bool(described["direct"])
    return CollectiveThunk(number, instruction, operands, shared, rows, size, name, direct)


def _restored(slices: Sequence[Sequence[Any]]) -> list[BufferSlice]:
    return [
        BufferSlice(Shape.parse(shape), StorageClass(kind), int(number), int(offset), name=name)
        for kind, number, offset, shape, name in slices
    ]
