"""The timeline of one run, in the trace format of Chrome and Perfetto: one row per thread.

Responsible for the events and their format. Does not depend on how events are recorded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from xlapy.cpu.compiler import Compiled
from xlapy.cpu.program.counter_records import MAX_EVENTS_WITH_CHUNKS, ProfilingCounter
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.runtime.engine.counters import CounterTable
from xlapy.text.describe import framework_name_of, line_of


def timeline(compiled: Compiled, tables: Sequence[CounterTable], ticks_per_second: float) -> str:
    """Returns JSON of complete events, in microseconds from the first one. A trace process is a device."""
    clocks = compiled.program.counters
    assert clocks is not None, "the program is instrumented"
    instructions = {instruction.name: instruction for instruction in compiled.module.instructions()}
    described = [_described(clock, instructions) for clock in clocks.all]
    noted = [table.events for table in tables]
    begin = min((int(events[:, 3].min()) for events in noted if len(events)), default=0)
    found: list[dict[str, Any]] = []
    for device, events in enumerate(noted, 1):
        threads = _threads(events.tolist())
        found += [
            {"ph": "M", "name": "thread_name", "pid": device, "tid": number, "args": {"name": name}}
            for number, name in threads.values()
        ]
        for clock, is_piece, thread, start, end in events.tolist():
            name, about = described[clock]
            found.append({
                "name": name, "cat": "piece" if is_piece else "thunk", "ph": "X", "pid": device,
                "tid": threads[thread][0], "ts": round((start - begin) / ticks_per_second * 1e6, 3),
                "dur": round((end - start) / ticks_per_second * 1e6, 3), "args": about,
            })  # fmt: skip
    notes = {"lost": any(len(events) >= MAX_EVENTS_WITH_CHUNKS for events in noted)}
    return json.dumps({"displayTimeUnit": "ns", "otherData": notes, "traceEvents": found}) + "\n"


def _threads(events: Sequence[Sequence[int]]) -> dict[int, tuple[int, str]]:
    """Returns a number and a name per thread; the first is the thread on which thunks start and end."""
    order = dict.fromkeys([thread for _, is_piece, thread, *_ in events if not is_piece])
    order.update(dict.fromkeys(thread for _, _, thread, *_ in events))
    return {
        thread: (number, "caller" if number == 1 else f"worker {number - 1}") for number, thread in enumerate(order, 1)
    }


def _described(clock: ProfilingCounter, instructions: dict[str, Instruction]) -> tuple[str, dict[str, str]]:
    instruction = instructions.get(clock.names[0])
    about: dict[str, str] = {}
    if instruction is not None:
        about = {"instruction": line_of(instruction), "source": source_of(instruction)}
        about["framework"] = framework_name_of(instruction)
    return clock.title, {key: text for key, text in about.items() if text}
