"""What a simulation finds: events, the time of each instruction, and the critical path.

Responsible for these records and sums over them. Does not depend on how times are estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from xlapy.hlo.instruction import Instruction


class Stream(Enum):
    """What an event occupies: the device's kernels, its links, or nothing (a loop around other events)."""

    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    LOOP = "loop"


@dataclass(slots=True)
class Event:
    """An execution of an instruction, in seconds from the start of the step.

    times: the number of executions of which this is the first, in loops. cause: the number of the event whose end let
    this one start, or -1.
    """

    instruction: Instruction
    stream: Stream
    start: float
    end: float
    cause: int
    times: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(slots=True)
class Usage:
    """The time of an instruction over all its executions in a step, in seconds."""

    instruction: Instruction
    executions: float = 0.0
    busy: float = 0.0
    """How long its kernels run or its transfer takes."""
    exposed: float = 0.0
    """The part of the step's time in which the device runs its kernels or waits for its transfer."""
    critical: float = 0.0
    """The part of the critical path that it takes."""


@dataclass(frozen=True, slots=True)
class CollectiveUse:
    """The groups of a collective, `2 x 8` for two groups of eight devices, and the bytes of a device."""

    groups: str
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of a device in bytes. peak: arguments, and the most bytes of results and temporaries at once."""

    arguments: int
    results: int
    peak: int
    peak_at: Instruction | None


@dataclass(slots=True)
class Outcome:
    """A simulated step.

    The values of `exposed` of all usages and `launch` add up to `seconds`. Those of `critical` do, too, unless a
    transfer is under way from one iteration of a loop to the next.
    """

    seconds: float
    launch: float
    """The time before the program starts. Events count from its end."""
    devices: int
    events: list[Event]
    usages: dict[Instruction, Usage]
    collectives: dict[Instruction, CollectiveUse]
    memory: MemoryUse
    warnings: list[str] = field(default_factory=list[str])
    path: list[Event] = field(default_factory=list[Event])
    """The critical path."""

    @property
    def kernel_seconds(self) -> float:
        """The time in which the device runs kernels."""
        return sum(u.busy for u in self.usages.values() if u.instruction not in self.collectives)

    @property
    def communication_seconds(self) -> float:
        """The time of all collectives, whether computation runs meanwhile or not."""
        return sum(self.usages[one].busy for one in self.collectives if one in self.usages)

    @property
    def exposed_seconds(self) -> float:
        """The time in which the device only waits for collectives."""
        return sum(self.usages[one].exposed for one in self.collectives if one in self.usages)

    def by(self, key: Callable[[Instruction], str]) -> list[tuple[str, float]]:
        """Returns the seconds of the step by a property of the instructions, the largest first."""
        found: dict[str, float] = {}
        for usage in self.usages.values():
            name = key(usage.instruction)
            found[name] = found.get(name, 0.0) + usage.exposed
        return sorted(found.items(), key=lambda item: -item[1])


def critical_path(events: list[Event], last: int) -> list[Event]:
    """Returns the event with a number and those that it waited for, directly or indirectly, in the order of time."""
    path: list[Event] = []
    while last >= 0:
        path.append(events[last])
        last = events[last].cause
    return path[::-1]


def add_critical(usages: dict[Instruction, Usage], path: Iterable[Event]) -> None:
    """Adds the time of the events of the critical path to those of their instructions."""
    for event in path:
        usages[event.instruction].critical += event.seconds * event.times
