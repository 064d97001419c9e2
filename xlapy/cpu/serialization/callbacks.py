"""The callbacks and meetings of a program as JSON, and back.

    {"devices": [replicas, partitions], "shared": [places, bytes], "steps": [...]}

A step has the name of its instruction, which the optimised module holds, its slots as [kind, number, offset, shape,
name], and, if it is a meeting, what each device does there: [door, members, place, brings, takes, offsets]; a transfer
between devices has the queues and partners of each; a feed
its place and kind; any other step says whether it may be native code and whether it
draws random numbers.

Owns: this form. Must not know: where it is kept, what the host does with these steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy.base.shape import Shape
from xlapy.cpu.program.custom_calls import convention_of
from xlapy.cpu.program.thunks import (
    CallbackStep,
    FeedStep,
    MeetRow,
    MeetStep,
    NativeProgram,
    Slot,
    SlotKind,
    TransferStep,
)
from xlapy.hlo.module import Module


def describe_callbacks(program: NativeProgram) -> dict[str, Any]:
    """What `restore_callbacks` takes."""
    return {
        "devices": [program.replica_count, program.partition_count],
        "shared": [program.shared, program.shared_size],
        "steps": [_described(step) for step in program.callbacks],
    }


def _described(step: CallbackStep | MeetStep) -> dict[str, Any]:
    header = {"instruction": step.instruction.name, "operands": _slots(step.operands)}
    if isinstance(step, TransferStep):
        ends = {"queues": step.queues, "partners": step.partners, "claims": step.claims}
        return {**header, "results": _slots(step.results), **ends}
    if isinstance(step, FeedStep):
        return {**header, "results": _slots(step.results), "place": step.place, "kind": step.kind}
    if isinstance(step, CallbackStep):
        return {**header, "results": _slots(step.results), "native": step.convention is not None, "draws": step.draws}
    rows = [[row.door, row.members, row.place, row.brings, row.takes, row.offsets] for row in step.rows]
    return {
        **header,
        "shared": _slots(step.shared),
        "rows": rows,
        "stage_size": step.stage_size,
        "direct": step.direct,
    }


def _slots(slots: Sequence[Slot]) -> list[list[Any]]:
    return [[slot.kind.value, slot.number, slot.offset, slot.shape.to_text(), slot.name] for slot in slots]


def restore_callbacks(program: NativeProgram, described: Mapping[str, Any], optimised: Module) -> None:
    """Gives a program its callbacks again; `optimised` is the module that they are of, behind the passes.

    `KeyError`, `TypeError`, `ValueError` or `XlaError` for what `describe_callbacks` has not made of it.
    """
    program.replica_count, program.partition_count = map(int, described["devices"])
    program.shared, program.shared_size = map(int, described["shared"])
    instructions = {instruction.name: instruction for instruction in optimised.instructions()}
    for number, step in enumerate(described["steps"]):
        name = step["instruction"]
        program.callbacks.append(_step(number, name, instructions[name], step))


def _step(number: int, name: str, instruction: Any, described: Mapping[str, Any]) -> CallbackStep | MeetStep:
    operands = _restored(described["operands"])
    if "queues" in described:
        results, claims = _restored(described["results"]), bool(described["claims"])
        queues, partners = ([tuple(row) for row in described[what]] for what in ("queues", "partners"))
        return TransferStep(
            number, instruction, operands, results, name, queues=queues, partners=partners, claims=claims
        )
    if "kind" in described:
        results, place, kind = _restored(described["results"]), int(described["place"]), int(described["kind"])
        return FeedStep(number, instruction, operands, results, name, place=place, kind=kind)
    if "rows" not in described:
        results = _restored(described["results"])
        convention = convention_of(instruction) if described["native"] else None
        return CallbackStep(number, instruction, operands, results, name, convention, bool(described["draws"]))
    rows = [
        MeetRow(int(door), tuple(members), int(place), tuple(brings), tuple(takes), tuple(offsets))
        for door, members, place, brings, takes, offsets in described["rows"]
    ]
    shared = _restored(described["shared"])
    size, direct = int(described["stage_size"]), bool(described["direct"])
    return MeetStep(number, instruction, operands, shared, rows, size, name, direct)


def _restored(slots: Sequence[Sequence[Any]]) -> list[Slot]:
    return [
        Slot(Shape.parse(shape), SlotKind(kind), int(number), int(offset), name=name)
        for kind, number, offset, shape, name in slots
    ]
