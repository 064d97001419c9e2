"""A simulated step as a timeline in the trace format of Chrome and Perfetto: a row for kernels, one for collectives and
one for loops.

Responsible for that format. Does not depend on how times are estimated.
"""

from __future__ import annotations

import json
from typing import Any

from xlapy.analysis.simulation.outcome import Event, Outcome, Stream
from xlapy.hlo.instruction import source_of
from xlapy.text.describe import framework_name_of, line_of
from xlapy.tools.simulate.report import what_of

_MAX_LINE = 300
_ROWS = {Stream.LOOP: 1, Stream.COMPUTATION: 2, Stream.COMMUNICATION: 3}


def trace_text(outcome: Outcome) -> str:
    """Returns JSON of complete events in microseconds. Of the iterations of a loop, those that are simulated are
    shown; the event of the loop has its whole time."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": stream.value}}
        for stream, number in _ROWS.items()
    ]
    found.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "each device"}})
    on_path = {id(event) for event in outcome.path}
    found += [_event(event, outcome, is_critical=id(event) in on_path) for event in outcome.events]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": found}) + "\n"


def _event(event: Event, outcome: Outcome, *, is_critical: bool) -> dict[str, Any]:
    one = event.instruction
    about: dict[str, Any] = {
        "instruction": line_of(one)[:_MAX_LINE], "source": source_of(one), "framework": framework_name_of(one),
        "executions": event.times, "critical": is_critical,
    }  # fmt: skip
    use = outcome.collectives.get(one)
    if use is not None:
        about |= {"groups": use.groups, "bytes": use.bytes}
    return {
        "name": f"{one.name}: {what_of(one)}", "cat": one.op.name, "ph": "X", "pid": 1, "tid": _ROWS[event.stream],
        "ts": round(event.start * 1e6, 3), "dur": round(event.seconds * 1e6, 3),
        "args": {key: value for key, value in about.items() if value != ""},
    }  # fmt: skip
