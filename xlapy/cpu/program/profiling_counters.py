"""Where an instrumented program reads the clock: which thunks are timed together, and the table of what was counted.

Every thunk has a clock, but for parts (those of the thunks in them count) and for short kernels that are written out one
after another: these have one together, as reading the clock takes as long as they do. A short condition of a loop has
none: its time is the loop's own. Where a whole turn of a loop is short, its thunks are counted and not timed, as they
overlap with those of the next turn: the loop's time is theirs.

The table of a run is an array of i64: a header (the places for events, how many were noted, where they lie), then for
each clock the ticks between its beginnings and its ends, how often it began, and the ticks that threads spent in pieces
of its parallel loop. An event is four: the address of the clock's first figure (of its third, if it is a piece), the
thread, the ticks at the beginning and at the end.

Owns: that choice, the layout of the table. Must not know: LLVM, what is done with the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from xlapy.cpu.program.outlining import straight_length
from xlapy.cpu.program.thunks import (
    CopyThunk,
    KernelThunk,
    NativeProgram,
    OutlinedThunk,
    Thunk,
    WhileThunk,
    nested_thunks,
)

TOGETHER: Final = 256
"""Statements of kernels written out from which on they are not timed together with what follows."""

HEADER: Final = 4
FIGURES: Final = 3
EVENT: Final = 4
MOST_EVENTS: Final = 1 << 18
MOST_IN_LOOPS: Final = MOST_EVENTS // 2
MOST_WITH_PIECES: Final = MOST_EVENTS // 4
"""Events from which on those of thunks in loops, and of pieces, are left out: others find a place."""

_NAMED = 4
"""Instructions that are timed together, of which a title tells."""

_COPY = "copy of "


@dataclass(eq=False, slots=True)
class Clock:
    """A clock: the thunks between its beginning and its end; a loop or branch has further ones for what it holds."""

    number: int
    thunks: list[Thunk]
    in_loop: bool
    is_timed: bool = True
    """Whether more than its beginnings is counted."""
    inner: list[list[Clock]] = field(default_factory=list["list[Clock]"])
    """For each list of the thunks of a loop (condition, body) or branch (one a branch)."""

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the table to the clock's figures."""
        return 8 * (HEADER + FIGURES * self.number)

    @property
    def names(self) -> list[str]:
        """What its thunks compute: instructions of the optimised module, `copy of` one."""
        return list(dict.fromkeys(map(_name, self.thunks)))

    @property
    def instructions(self) -> list[str]:
        """The names of these instructions."""
        return list(dict.fromkeys(name.removeprefix(_COPY) for name in self.names))

    @property
    def title(self) -> str:
        """The first of them, and how many more there are."""
        names = self.names
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more


@dataclass(slots=True)
class Clocks:
    """All clocks of a program. has_events: whether beginnings and ends are noted too, as far as there is room."""

    outer: list[Clock]
    """Those of thunks that are in no loop or branch."""
    has_events: bool
    begins: dict[Thunk, Clock] = field(default_factory=dict["Thunk", Clock])
    ends: dict[Thunk, Clock] = field(default_factory=dict["Thunk", Clock])
    all: list[Clock] = field(default_factory=list[Clock])
    """By number."""

    @property
    def table_size(self) -> int:
        """How many i64 the table of a run has, events aside."""
        return HEADER + FIGURES * len(self.all)


def place_counters(program: NativeProgram, *, has_events: bool = False) -> Clocks:
    """The clocks of a program whose thunks are in parts."""
    clocks = Clocks([], has_events)
    clocks.outer = list(_placed(clocks, program.thunks, in_loop=False))
    return clocks


def _placed(clocks: Clocks, thunks: list[Thunk], *, in_loop: bool) -> Iterator[Clock]:
    together: list[Thunk] = []
    for thunk in thunks:
        if together and (_length(thunk) is None or sum(_length(s) or 0 for s in together) >= TOGETHER):
            yield _made(clocks, together, in_loop)
            together = []
        if isinstance(thunk, OutlinedThunk):
            yield from _placed(clocks, thunk.thunks, in_loop=in_loop)
        elif _length(thunk) is not None:
            together.append(thunk)
        else:
            clock = _made(clocks, [thunk], in_loop)
            clock.inner = [
                []
                if _is_short_condition(thunk, inner)
                else list(_placed(clocks, inner, in_loop=in_loop or _loops(thunk)))
                for inner in nested_thunks(thunk)
            ]
            for one in _short_turn(clock):
                one.is_timed = False
            yield clock
    if together:
        yield _made(clocks, together, in_loop)


def _made(clocks: Clocks, thunks: list[Thunk], in_loop: bool) -> Clock:
    clock = Clock(len(clocks.all), thunks, in_loop)
    clocks.all.append(clock)
    clocks.begins[thunks[0]] = clocks.ends[thunks[-1]] = clock
    return clock


def _loops(thunk: Thunk) -> bool:
    return isinstance(thunk, WhileThunk)


def _length(thunk: Thunk) -> int | None:
    """Statements of what is timed together with others; None for what is not."""
    if isinstance(thunk, KernelThunk):
        return weight(thunk) if thunk.unrolled else None
    return weight(thunk) if isinstance(thunk, CopyThunk) and thunk.source.size <= TOGETHER else None


def weight(thunk: Thunk) -> int:
    """About how long a thunk takes beside others that are timed with it."""
    if isinstance(thunk, KernelThunk):
        return 1 + straight_length(thunk.kernel.body)
    return 1 + thunk.source.size // 64 if isinstance(thunk, CopyThunk) else 1


def _name(thunk: Thunk) -> str:
    if isinstance(thunk, CopyThunk):
        return f"{_COPY}{thunk.target.name or thunk.source.name or thunk.source}"
    assert not isinstance(thunk, OutlinedThunk), "parts have no clocks"
    return thunk.origin


def _short_turn(clock: Clock) -> list[Clock]:
    """The clock of a loop's body, if all of its thunks and the condition are short."""
    if not isinstance(clock.thunks[0], WhileThunk) or clock.inner[0] or len(clock.inner[1]) != 1:
        return []
    (body,) = clock.inner[1]
    return [body] if all(_length(thunk) is not None for thunk in body.thunks) else []


def _is_short_condition(loop: Thunk, thunks: list[Thunk]) -> bool:
    if not isinstance(loop, WhileThunk) or thunks is not loop.condition:
        return False
    lengths = [_length(thunk) for thunk in thunks]
    return all(length is not None for length in lengths) and sum(filter(None, lengths)) < TOGETHER
