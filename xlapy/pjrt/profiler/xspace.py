"""Writes a trace as a serialized XSpace, the profile format of XLA's profiler.

A device is a plane with the lines `XLA Modules` (launches of programs) and `XLA Ops` (their thunks; those of a loop's
body below the loop), and one line per thread that took part in parallel loops. If several threads run short programs on
one device at once, the overlapping launches get lines of their own: `XLA Ops (2)`.

Responsible for the format and for the names that other tools expect. Does not depend on how launches are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xlapy import opcodes
from xlapy.analysis.cost import Cost, instruction_costs
from xlapy.cpu.program.counter_records import ProfilingCounter
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.hlo.module import Module
from xlapy.opcodes.control import FusionAttributes
from xlapy.pjrt.objects.loaded_executable import InstrumentedExecutable
from xlapy.pjrt.platform_name import PLATFORM_NAME
from xlapy.pjrt.profiler.tracing import LaunchTrace, TracedLaunch
from xlapy.proto.messages import Message, encode, message_class
from xlapy.proto.write import module_message
from xlapy.text.describe import framework_name_of, line_of

DEVICE_PLANE = "/device:CUSTOM:{name}:{number}"
"""Name under which profile readers find a device that is neither GPU nor TPU."""

_MODULES_PLANE = "/host:metadata"

_THREADS = 1 << 16
"""Line number above all others, from which the lines of threads are numbered."""

Stat = str | int


def serialized_xspace(trace: LaunchTrace, devices: int, *, has_modules: bool) -> bytes:
    """Returns the serialized XSpace of a stopped trace. has_modules: whether it includes the HLO of all programs."""
    space = message_class("XSpace")()
    launches = trace.launches()
    for device in range(devices):
        plane = _Plane(space, device, DEVICE_PLANE.format(name=PLATFORM_NAME, number=device))
        plane.add_stats(plane.message, {"device_type_string": f"{PLATFORM_NAME} (CPU)"})
        if dropped := trace.dropped():
            plane.add_stats(plane.message, {"dropped": ", ".join(dropped)})
        _write_launches(plane, trace, [launch for launch in launches if launch.device == device])
    if has_modules:
        _add_modules(space, {launch.executable: None for launch in launches})
    return encode(space)


class _Plane:
    """A plane that is being written. Assigns the numbers of stats and events."""

    def __init__(self, space: Message, number: int, name: str) -> None:
        self.message = space.planes.add(id=number, name=name)
        self._stats: dict[str, int] = {}
        self._events = 0
        self._lines: dict[int, Message] = {}

    def line(self, number: int, name: str, nanoseconds: int) -> Message:
        """The line with a number; lines are sorted by number."""
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
        """Adds an event kind; returns its number."""
        self._events += 1
        kind = self.message.event_metadata[self._events]
        kind.id, kind.name = self._events, name
        self.add_stats(kind, stats)
        return self._events


def _write_launches(plane: _Plane, trace: LaunchTrace, launches: Sequence[TracedLaunch]) -> None:
    start = trace.clock.nanoseconds
    writers: dict[InstrumentedExecutable, _Writer] = {}
    threads: dict[int, int] = {}
    for number, (launch, row) in enumerate(zip(launches, _non_overlapping_rows(launches), strict=True), 1):
        more = f" ({row + 1})" if row else ""
        if launch.executable not in writers:
            writers[launch.executable] = _Writer(plane, launch.executable, trace.lost.get(launch.executable, 0))
        writer = writers[launch.executable]
        begin, end = trace.clock.picoseconds(np.array([launch.begin, launch.end])).tolist()
        event = plane.line(2 * row + 1, f"XLA Modules{more}", start).events.add(
            metadata_id=writer.module, offset_ps=begin, duration_ps=end - begin
        )
        plane.add_stats(event, {"run_id": number})
        if not launch.is_complete:
            plane.add_stats(event, {"unfinished": 1})
        columns = [*launch.thunk_events[:, :3].T, *trace.clock.picoseconds(launch.thunk_events[:, 3:]).T]
        templates: dict[int, Message] = {}
        for clock, is_piece, thread, begin, end in zip(*(column.tolist() for column in columns), strict=True):
            if is_piece:
                worker = threads.setdefault(thread, len(threads) + 1)
                line = plane.line(_THREADS + worker, f"thread {worker}", start)
            else:
                line = plane.line(2 * row + 2, f"XLA Ops{more}", start)
            if clock not in templates:
                templates[clock] = writer.thunk_event(clock, number)
            event = line.events.add()
            event.CopyFrom(templates[clock])  # several times faster than building it
            event.offset_ps, event.duration_ps = begin, end - begin
    plane.message.lines.sort(key=lambda line: line.id)


def _non_overlapping_rows(launches: Sequence[TracedLaunch]) -> Iterator[int]:
    """Yields a row for each launch so that launches in one row do not overlap. `launches` are sorted by begin."""
    ends: list[int] = []
    for launch in launches:
        row = next((row for row, end in enumerate(ends) if end <= launch.begin), len(ends))
        ends[row : row + 1] = [launch.end]
        yield row


class _Writer:
    """Writes the events of one program into a plane."""

    def __init__(self, plane: _Plane, executable: InstrumentedExecutable, lost: int) -> None:
        self._plane, self._executable = plane, executable
        self._instructions = {one.name: one for one in executable.module.instructions()}
        self._costs = instruction_costs(executable.module)
        self._event_kinds: dict[int, tuple[int, int]] = {}
        self._name = plane.stat(executable.name)
        self._hlo_op, self._hlo_module, self._run_id = map(plane.stat, ("hlo_op", "hlo_module", "run_id"))
        stats: dict[str, Stat] = {"program_id": executable.number}
        if lost:
            stats["dropped_ops"] = lost
        self.module = plane.event(executable.name, stats)
        """The number of the event kind of whole launches."""

    def thunk_event(self, clock: int, launch: int) -> Message:
        """Returns the event of a thunk, without its times."""
        if clock not in self._event_kinds:
            self._event_kinds[clock] = self._add_event_kind(clock)
        kind, name = self._event_kinds[clock]
        event = message_class("XEvent")(metadata_id=kind)
        event.stats.add(metadata_id=self._hlo_op, ref_value=name)
        event.stats.add(metadata_id=self._hlo_module, ref_value=self._name)
        event.stats.add(metadata_id=self._run_id, int64_value=launch)
        return event

    def _add_event_kind(self, number: int) -> tuple[int, int]:
        """Returns the number of the event kind of a thunk, and of the stat that names its instruction."""
        assert self._executable.clocks is not None, "it has recorded events"
        clock = self._executable.clocks.all[number]
        return self._plane.event(clock.title, self._stats(clock)), self._plane.stat(clock.instructions[0])

    def _stats(self, clock: ProfilingCounter) -> dict[str, Stat]:
        """The stats of a thunk under the names of XLA's own profiles."""
        instructions = [self._instructions[name] for name in clock.instructions if name in self._instructions]
        stats: dict[str, Stat] = {"program_id": self._executable.number}
        if instructions:
            optional = {
                "hlo_category": _category(instructions[0]),
                "tf_op": framework_name_of(instructions[0]),
                "source": source_of(instructions[0]),
                "long_name": line_of(instructions[0]),
            }
            stats |= {name: text for name, text in optional.items() if text}
        if not clock.nested:  # the costs of loops and branches are those of the thunks in them
            cost = sum((self._costs[one] for one in instructions), Cost())
            stats |= {"flops": cost.flops + cost.transcendentals, "bytes_accessed": cost.bytes_accessed}
        return stats


def _category(instruction: Instruction) -> str:
    """The category of an instruction: `dot`, `loop fusion`."""
    if instruction.op is not opcodes.FUSION:
        return instruction.op.name
    return f"{instruction.attributes_as(FusionAttributes).kind.name.lower()} fusion"


def _add_modules(space: Message, executables: Mapping[InstrumentedExecutable, None]) -> None:
    """Adds the optimized modules in the plane where graph viewers look for them."""
    plane = _Plane(space, 0, _MODULES_PLANE)
    stat = plane.stat("Hlo Proto")
    for executable in executables:
        kind = plane.message.event_metadata[executable.number]
        kind.id, kind.name = executable.number, f"{executable.name}({executable.number})"
        kind.stats.add(metadata_id=stat, bytes_value=_hlo_proto(executable.module))


def _hlo_proto(module: Module) -> bytes:
    proto = message_class("HloProto")()
    proto.hlo_module.CopyFrom(module_message(module))
    return encode(proto)
