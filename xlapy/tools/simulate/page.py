"""A simulated step as an HTML page: summary, a timeline as a drawing, and tables. The page runs no scripts.

Responsible for the page. Does not depend on how times are estimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from xlapy.analysis.simulation.outcome import Stream
from xlapy.text.describe import byte_text
from xlapy.tools.simulate.report import Report, share_text, time_text, what_of

MAX_ROWS = 200
"""The rows of a table that the page has."""

MAX_DRAWN = 4000
"""The events that the drawing has: the longest."""

_WIDTH = 1200
_ROW_HEIGHT = 26
_LANES = {Stream.LOOP: 0, Stream.COMPUTATION: 1, Stream.COMMUNICATION: 2}
_COLORS = {Stream.LOOP: "#d0d4da", Stream.COMPUTATION: "#2f7fd1", Stream.COMMUNICATION: "#d9534f"}

_STYLE = """
body { margin: 0 auto; max-width: 1280px; padding: 12px 16px 60px; color: #1c2330;
  font: 13px/1.45 system-ui, sans-serif; }
h1 { font-size: 17px; } h2 { font-size: 14px; margin: 22px 0 4px; }
svg { width: 100%; border: 1px solid #d0d4da; } svg rect:hover { stroke: #000; }
table { border-collapse: collapse; } td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #eef0f3; }
td:first-child, th:first-child { text-align: left; font-family: ui-monospace, monospace; max-width: 560px;
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.key { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px; }
"""


def simulation_page(report: Report) -> str:
    """Returns one self-contained ASCII HTML file."""
    seconds = report.outcome.seconds
    title, *lines = report.summary
    parts = [
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(report.name)}: simulation'
        f'</title>\n<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        f"'unsafe-inline'\">\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in lines),
        "<h2>Timeline of a device</h2>",
        _legend(),
        _drawing(report),
        _table("Time by operation", ("operation", "time", "share"), (
            (name, time_text(one), share_text(one, seconds)) for name, one in report.by_opcode
        )),
        _table("Collectives", ("instruction", "groups", "bytes", "times", "busy", "waiting", "share"), (
            (
                usage.instruction.name, groups, byte_text(size), f"{usage.executions:.0f}", time_text(usage.busy),
                time_text(usage.exposed), share_text(usage.exposed, seconds),
            )
            for usage, groups, size in report.collectives
        )),
        _table("Critical path", ("instruction", "what", "times", "time", "share"), (
            (
                usage.instruction.name, what_of(usage.instruction), f"{usage.executions:.0f}",
                time_text(usage.critical), share_text(usage.critical, seconds),
            )
            for usage in report.critical
        )),
        _table("Time by source line", ("line", "time", "share"), (
            (name, time_text(one), share_text(one, seconds)) for name, one in report.by_source
        )),
        "</body>\n</html>\n",
    ]  # fmt: skip
    return "\n".join(parts).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _legend() -> str:
    keys = (f'<span class="key" style="background: {_COLORS[s]}"></span>{s.value}' for s in _LANES)
    return f"<p>{''.join(keys)}. A loop shows the iterations that are simulated, and then their repetition.</p>"


def _drawing(report: Report) -> str:
    seconds = report.outcome.seconds or 1.0
    longest = sorted(report.outcome.events, key=lambda event: -event.seconds)[:MAX_DRAWN]
    rects: list[str] = []
    for event in sorted(longest, key=lambda event: event.start):
        text = f"{event.instruction.name}: {what_of(event.instruction)}, {time_text(event.seconds)}"
        if event.times > 1:
            text += f", {event.times:.0f} times"
        rects.append(
            f'<rect x="{event.start / seconds * _WIDTH:.2f}" y="{_LANES[event.stream] * _ROW_HEIGHT + 3}" '
            f'width="{max(0.2, event.seconds / seconds * _WIDTH):.2f}" height="{_ROW_HEIGHT - 6}" '
            f'fill="{_COLORS[event.stream]}"><title>{escape(text)}</title></rect>'
        )
    height = _ROW_HEIGHT * len(_LANES)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="timeline">\n' + "\n".join(rects) + "\n</svg>"


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    listed = list(rows)
    if not listed:
        return ""
    cells = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in listed[:MAX_ROWS]]
    if len(listed) > MAX_ROWS:
        cells.append(f'<tr><td colspan="{len(head)}">{len(listed) - MAX_ROWS} others</td></tr>')
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<h2>{escape(title)}</h2>\n<table>\n<tr>{names}</tr>\n" + "\n".join(cells) + "\n</table>"
