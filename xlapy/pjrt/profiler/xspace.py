"""What a trace noted, as a serialized XSpace: the form in which XLA's profiler keeps profiles.

A device is a plane with the lines `XLA Modules` (runs of programs) and `XLA Ops` (their steps, those of a loop's body
below the loop), and a line for each thread that took part in parallel loops. Runs at the same time on one device, as
of several threads that call short programs, go on lines of their own: `XLA Ops (2)`.

Owns: this form, the names that other tools know. Must not know: how runs are noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xlapy import opcodes
from xlapy.analysis.cost import Cost, instruction_costs
from xlapy.cpu.program.profiling_counters import Clock
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.pjrt.objects.platform import NAME
from xlapy.pjrt.profiler.instrumented import Twin
from xlapy.pjrt.profiler.tracing import Run, Trace
from xlapy.proto.messages import Message, encode, message_class
from xlapy.proto.write import module_message
from xlapy.text.describe import framework_name_of, line_of, source_of

DEVICE_PLANE = "/device:CUSTOM:{name}:{number}"
"""Planes of devices that are neither GPU nor TPU, for those who read profiles."""

_MODULES_PLANE = "/host:metadata"

_THREADS = 1 << 16
"""Lines of threads are below all others."""

Stat = str | int


def space_of(trace: Trace, devices: int, *, has_modules: bool) -> bytes:
    """The serialized XSpace of a trace that has ended. has_modules: whether the HLO of all programs is in it."""
    space = message_class("XSpace")()
    runs = trace.runs()
    for device in range(devices):
        plane = _Plane(space, device, DEVICE_PLANE.format(name=NAME, number=device))
        plane.add_stats(plane.message, {"device_type_string": f"{NAME} (CPU)"})
        if dropped := trace.dropped():
            plane.add_stats(plane.message, {"dropped": ", ".join(dropped)})
        _fill(plane, trace, [run for run in runs if run.device == device])
    if has_modules:
        _add_modules(space, {run.twin: None for run in runs})
    return encode(space)


class _Plane:
    """A plane that is being written. Numbers of stats and events are given as they come."""

    def __init__(self, space: Message, number: int, name: str) -> None:
        self.message = space.planes.add(id=number, name=name)
        self._stats: dict[str, int] = {}
        self._events = 0
        self._lines: dict[int, Message] = {}

    def line(self, number: int, name: str, nanoseconds: int) -> Message:
        """A line, by the number that says which is above which."""
        if number not in self._lines:
            self._lines[number] = self.message.lines.add(id=number, name=name, timestamp_ns=nanoseconds)
        return self._lines[number]

    def add_stats(self, target: Message, stats: Mapping[str, Stat]) -> None:
        for name, value in stats.items():
            stat = target.stats.add(metadata_id=self.stat(name))
            if isinstance(value, str):
                stat.str_value = value
            else:
                stat.int64_value = value

    def stat(self, name: str) -> int:
        if name not in self._stats:
            self._stats[name] = number = len(self._stats) + 1
            self.message.stat_metadata[number].id = number
            self.message.stat_metadata[number].name = name
        return self._stats[name]

    def event(self, name: str, stats: Mapping[str, Stat]) -> int:
        """The number of a new kind of events."""
        self._events += 1
        kind = self.message.event_metadata[self._events]
        kind.id, kind.name = self._events, name
        self.add_stats(kind, stats)
        return self._events


def _fill(plane: _Plane, trace: Trace, runs: Sequence[Run]) -> None:
    start = trace.clock.nanoseconds
    writers: dict[Twin, _Writer] = {}
    threads: dict[int, int] = {}
    for number, (run, lane) in enumerate(zip(runs, _lanes(runs), strict=True), 1):
        more = f" ({lane + 1})" if lane else ""
        if run.twin not in writers:
            writers[run.twin] = _Writer(plane, run.twin, trace.lost.get(run.twin, 0))
        writer = writers[run.twin]
        begin, end = trace.clock.picoseconds(np.array([run.begin, run.end])).tolist()
        event = plane.line(2 * lane + 1, f"XLA Modules{more}", start).events.add(
            metadata_id=writer.module, offset_ps=begin, duration_ps=end - begin
        )
        plane.add_stats(event, {"run_id": number})
        if not run.is_whole:
            plane.add_stats(event, {"unfinished": 1})
        columns = [*run.steps[:, :3].T, *trace.clock.picoseconds(run.steps[:, 3:]).T]
        templates: dict[int, Message] = {}
        for clock, is_piece, thread, begin, end in zip(*(column.tolist() for column in columns), strict=True):
            if is_piece:
                worker = threads.setdefault(thread, len(threads) + 1)
                line = plane.line(_THREADS + worker, f"thread {worker}", start)
            else:
                line = plane.line(2 * lane + 2, f"XLA Ops{more}", start)
            if clock not in templates:
                templates[clock] = writer.step(clock, number)
            event = line.events.add()
            event.CopyFrom(templates[clock])  # several times as fast as building it
            event.offset_ps, event.duration_ps = begin, end - begin
    plane.message.lines.sort(key=lambda line: line.id)


def _lanes(runs: Sequence[Run]) -> Iterator[int]:
    """A lane for each run, in which no two are at the same time."""
    ends: list[int] = []
    for run in runs:
        lane = next((lane for lane, end in enumerate(ends) if end <= run.begin), len(ends))
        ends[lane : lane + 1] = [run.end]
        yield lane


class _Writer:
    """The kinds of events of one program in one plane."""

    def __init__(self, plane: _Plane, twin: Twin, lost: int) -> None:
        self._plane, self._twin = plane, twin
        self._instructions = {one.name: one for one in twin.module.instructions()}
        self._costs = instruction_costs(twin.module)
        self._steps: dict[int, tuple[int, int]] = {}
        self._name = plane.stat(twin.name)
        self._hlo_op, self._hlo_module, self._run_id = map(plane.stat, ("hlo_op", "hlo_module", "run_id"))
        stats: dict[str, Stat] = {"program_id": twin.number}
        if lost:
            stats["dropped_ops"] = lost
        self.module = plane.event(twin.name, stats)
        """The number of the events of whole runs."""

    def step(self, clock: int, run: int) -> Message:
        """An event of a step, but for its time."""
        if clock not in self._steps:
            self._steps[clock] = self._step(clock)
        kind, name = self._steps[clock]
        event = message_class("XEvent")(metadata_id=kind)
        event.stats.add(metadata_id=self._hlo_op, ref_value=name)
        event.stats.add(metadata_id=self._hlo_module, ref_value=self._name)
        event.stats.add(metadata_id=self._run_id, int64_value=run)
        return event

    def _step(self, number: int) -> tuple[int, int]:
        """The number of a kind of events, and that of its instruction's name."""
        assert self._twin.clocks is not None, "it has noted steps"
        clock = self._twin.clocks.all[number]
        return self._plane.event(clock.title, self._stats(clock)), self._plane.stat(clock.instructions[0])

    def _stats(self, clock: Clock) -> dict[str, Stat]:
        """Under the names that XLA's own profiles have."""
        found = [self._instructions[name] for name in clock.instructions if name in self._instructions]
        stats: dict[str, Stat] = {"program_id": self._twin.number}
        if found:
            told = {
                "hlo_category": _category(found[0]),
                "tf_op": framework_name_of(found[0]),
                "source": source_of(found[0]),
                "long_name": line_of(found[0]),
            }
            stats |= {name: text for name, text in told.items() if text}
        if not clock.inner:  # of loops and branches, what is in them counts
            cost = sum((self._costs[one] for one in found), Cost())
            stats |= {"flops": cost.flops + cost.transcendentals, "bytes_accessed": cost.bytes_accessed}
        return stats


def _category(instruction: Instruction) -> str:
    """`dot`, `loop fusion`."""
    if instruction.op is not opcodes.FUSION:
        return instruction.op.name
    return f"{instruction.attributes.kind.name.lower()} fusion"


def _add_modules(space: Message, twins: Mapping[Twin, None]) -> None:
    """The optimised modules, where tools that show graphs look for them."""
    plane = _Plane(space, 0, _MODULES_PLANE)
    stat = plane.stat("Hlo Proto")
    for twin in twins:
        kind = plane.message.event_metadata[twin.number]
        kind.id, kind.name = twin.number, f"{twin.name}({twin.number})"
        kind.stats.add(metadata_id=stat, bytes_value=_hlo_proto(twin.module))


def _hlo_proto(module: Module) -> bytes:
    proto = message_class("HloProto")()
    proto.hlo_module.CopyFrom(module_message(module))
    return encode(proto)
