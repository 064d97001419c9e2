"""Where an instrumented program reads the clock: which steps are timed together, and the table of what was counted.

Every step has a clock, but for parts (those of the steps in them count) and for short kernels that are written out one
after another: these have one together, as reading the clock takes as long as they do. A short condition of a loop has
none: its time is the loop's own. Where a whole turn of a loop is short, its steps are counted and not timed, as they
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
from xlapy.cpu.program.thunks import CopyStep, KernelStep, NativeProgram, PartStep, Step, WhileStep, inner_steps

TOGETHER: Final = 256
"""Statements of kernels written out from which on they are not timed together with what follows."""

HEADER: Final = 4
FIGURES: Final = 3
EVENT: Final = 4
MOST_EVENTS: Final = 1 << 18
MOST_IN_LOOPS: Final = MOST_EVENTS // 2
MOST_WITH_PIECES: Final = MOST_EVENTS // 4
"""Events from which on those of steps in loops, and of pieces, are left out: others find a place."""

_NAMED = 4
"""Instructions that are timed together, of which a title tells."""

_COPY = "copy of "


@dataclass(eq=False, slots=True)
class Clock:
    """A clock: the steps between its beginning and its end; a loop or branch has further ones for what it holds."""

    number: int
    steps: list[Step]
    in_loop: bool
    is_timed: bool = True
    """Whether more than its beginnings is counted."""
    inner: list[list[Clock]] = field(default_factory=list["list[Clock]"])
    """For each list of the steps of a loop (condition, body) or branch (one a branch)."""

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the table to the clock's figures."""
        return 8 * (HEADER + FIGURES * self.number)

    @property
    def names(self) -> list[str]:
        """What its steps compute: instructions of the optimised module, `copy of` one."""
        return list(dict.fromkeys(map(_name, self.steps)))

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
    """Those of steps that are in no loop or branch."""
    has_events: bool
    begins: dict[Step, Clock] = field(default_factory=dict["Step", Clock])
    ends: dict[Step, Clock] = field(default_factory=dict["Step", Clock])
    all: list[Clock] = field(default_factory=list[Clock])
    """By number."""

    @property
    def table_size(self) -> int:
        """How many i64 the table of a run has, events aside."""
        return HEADER + FIGURES * len(self.all)


def place_clocks(program: NativeProgram, *, has_events: bool = False) -> Clocks:
    """The clocks of a program whose steps are in parts."""
    clocks = Clocks([], has_events)
    clocks.outer = list(_placed(clocks, program.steps, in_loop=False))
    return clocks


def _placed(clocks: Clocks, steps: list[Step], *, in_loop: bool) -> Iterator[Clock]:
    together: list[Step] = []
    for step in steps:
        if together and (_length(step) is None or sum(_length(s) or 0 for s in together) >= TOGETHER):
            yield _made(clocks, together, in_loop)
            together = []
        if isinstance(step, PartStep):
            yield from _placed(clocks, step.steps, in_loop=in_loop)
        elif _length(step) is not None:
            together.append(step)
        else:
            clock = _made(clocks, [step], in_loop)
            clock.inner = [
                []
                if _is_short_condition(step, inner)
                else list(_placed(clocks, inner, in_loop=in_loop or _loops(step)))
                for inner in inner_steps(step)
            ]
            for one in _short_turn(clock):
                one.is_timed = False
            yield clock
    if together:
        yield _made(clocks, together, in_loop)


def _made(clocks: Clocks, steps: list[Step], in_loop: bool) -> Clock:
    clock = Clock(len(clocks.all), steps, in_loop)
    clocks.all.append(clock)
    clocks.begins[steps[0]] = clocks.ends[steps[-1]] = clock
    return clock


def _loops(step: Step) -> bool:
    return isinstance(step, WhileStep)


def _length(step: Step) -> int | None:
    """Statements of what is timed together with others; None for what is not."""
    if isinstance(step, KernelStep):
        return weight(step) if step.written_out else None
    return weight(step) if isinstance(step, CopyStep) and step.source.size <= TOGETHER else None


def weight(step: Step) -> int:
    """About how long a step takes beside others that are timed with it."""
    if isinstance(step, KernelStep):
        return 1 + straight_length(step.kernel.body)
    return 1 + step.source.size // 64 if isinstance(step, CopyStep) else 1


def _name(step: Step) -> str:
    if isinstance(step, CopyStep):
        return f"{_COPY}{step.target.name or step.source.name or step.source}"
    assert not isinstance(step, PartStep), "parts have no clocks"
    return step.origin


def _short_turn(clock: Clock) -> list[Clock]:
    """The clock of a loop's body, if all of its steps and the condition are short."""
    if not isinstance(clock.steps[0], WhileStep) or clock.inner[0] or len(clock.inner[1]) != 1:
        return []
    (body,) = clock.inner[1]
    return [body] if all(_length(step) is not None for step in body.steps) else []


def _is_short_condition(loop: Step, steps: list[Step]) -> bool:
    if not isinstance(loop, WhileStep) or steps is not loop.condition:
        return False
    lengths = [_length(step) for step in steps]
    return all(length is not None for length in lengths) and sum(filter(None, lengths)) < TOGETHER
