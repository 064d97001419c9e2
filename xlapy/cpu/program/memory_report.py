"""What lives in memory while a program runs: the peak, and the bytes that are live at each thunk.

Responsible for these figures and their text. Does not depend on how temporaries get their offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.liveness import LiveRanges
from xlapy.cpu.program.native_program import NativeProgram

MAX_ROWS = 40
"""The largest number of rows of a timeline: each one stands for the position with the most bytes of a few."""

_BAR_WIDTH = 40


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The position in a program at which temporaries and results that have been computed take the most bytes."""

    position: int
    label: str
    """The thunk at that position."""
    bytes: int
    live: Sequence[BufferSlice]
    """What is live there, the largest first."""
    ranges: LiveRanges
    """The positions at which each slice is live."""


def program_bytes(program: NativeProgram) -> int:
    """Returns the bytes that a run needs: arguments, results that are not in arguments, and temporaries."""
    arguments = program.arguments[: len(program.arguments) - len(program.implicit_arguments)]
    owned = (result for result in program.results if result.number not in program.aliases)
    return sum(a.size for a in arguments) + sum(r.size for r in owned) + program.arena_size


def memory_peak(program: NativeProgram) -> MemoryPeak:
    """Returns the peak of a program."""
    ranges = LiveRanges(program.thunks)
    live = _live_bytes(ranges)
    position = max(range(len(live)), key=live.__getitem__)
    found = [s for s in ranges.first if _counts(s) and ranges.first[s] <= position <= _end(ranges, s, len(live))]
    found.sort(key=lambda slice_: (-slice_.size, ranges.first[slice_]))
    return MemoryPeak(position, position_names(ranges).get(position, ""), live[position], found, ranges)


def print_timeline(program: NativeProgram) -> str:
    """Returns the bytes that are live at each thunk as bars, and what is live at the peak."""
    peak = memory_peak(program)
    lines = [f"peak of {peak.bytes} bytes at position {peak.position}, {peak.label}", *timeline_lines(program)]
    lines.append("live at the peak:")
    for slice_ in peak.live[:MAX_ROWS]:
        kind = "" if slice_.storage is StorageClass.TEMPORARY else f", result {slice_.number}"
        lines.append(f"{slice_.size:>24}  {slice_.name} {slice_.shape.to_text(layout=False)}{kind}")
    rest = peak.live[MAX_ROWS:]
    if rest:
        lines.append(f"{sum(slice_.size for slice_ in rest):>24}  {len(rest)} smaller ones")
    return "\n".join(lines) + "\n"


def timeline_lines(program: NativeProgram) -> list[str]:
    """Returns the bytes of temporaries and results that are live at each thunk, as at most `MAX_ROWS` bars."""
    ranges = LiveRanges(program.thunks)
    live, names = _live_bytes(ranges), position_names(ranges)
    peak = max(range(len(live)), key=live.__getitem__)
    step = -(-len(live) // MAX_ROWS)
    lines: list[str] = []
    for begin in range(0, len(live), step):
        position = max(range(begin, min(begin + step, len(live))), key=live.__getitem__)
        bar = "#" * round(_BAR_WIDTH * live[position] / max(live[peak], 1))
        mark = "  <- peak" if position == peak else ""
        lines.append(
            f"{position:>8}  {live[position]:>14}  {bar:<{_BAR_WIDTH}}  {names.get(position, '')}{mark}".rstrip()
        )
    return lines


def position_names(ranges: LiveRanges) -> dict[int, str]:
    """Returns a text for each position: the thunk there, or the decision or the end of a loop."""
    names = {begin: thunk.label for thunk, (begin, _) in ranges.extents.items()}
    for loop, decision in ranges.decisions.items():
        _, end = ranges.extents[loop]
        names[decision] = f"the decision of {loop.op_name}"
        names[end] = f"the end of {loop.op_name}"
    return names


def _counts(slice_: BufferSlice) -> bool:
    return slice_.storage in (StorageClass.TEMPORARY, StorageClass.RESULT)


def _end(ranges: LiveRanges, slice_: BufferSlice, end: int) -> int:
    """The last position at which a slice is live; a result is live until the program ends."""
    return end if slice_.storage is StorageClass.RESULT else ranges.last[slice_]


def _live_bytes(ranges: LiveRanges) -> list[int]:
    """Returns the bytes of temporaries and results that are live at each position."""
    changes = [0] * (max((end for _, end in ranges.extents.values()), default=0) + 2)
    for slice_ in filter(_counts, ranges.first):
        changes[ranges.first[slice_]] += slice_.size
        if slice_.storage is StorageClass.TEMPORARY:
            changes[ranges.last[slice_] + 1] -= slice_.size
    live, found = 0, list[int]()
    for change in changes[:-1]:
        live += change
        found.append(live)
    return found
