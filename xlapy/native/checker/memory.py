"""The memory model of the checker: release / acquire as a machine with views.

A location keeps its atomic writes in order. A thread's view says, for each location, which is the oldest write that it
may still read: an atomic load may return any write that is not older. A release store leaves the thread's view with the
value; an acquire load that reads the value joins it. Vector clocks say which accesses happen before which: two accesses
of one location of which one is plain and one is a write, and of which none happens before the other, are a race.

Clocks and views are tuples and dictionaries of numbers; all of them are immutable by convention, because states share
them.

Responsible for what a load may return, and for races. Must not know instructions or schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from xlapy.native.ir import Ordering

Pointer: TypeAlias = tuple[Any, int]
"""An object and an offset in bytes."""

Location: TypeAlias = Pointer
Clock: TypeAlias = tuple[int, ...]
View: TypeAlias = Mapping[Location, int]

NOTHING_SEEN: View = MappingProxyType({})

UNINITIALIZED = "uninitialized"


class ScheduleError(Exception):
    """A schedule breaks a rule. kind: `race`, `deadlock`, `endless`, `assertion`, `use after free`, `leak`,
    `uninitialized`, `bounds`, `limit`. trace: the steps that lead there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message
        self.trace: list[str] = []

    def __str__(self) -> str:
        return "\n".join([f"{self.kind}: {self.message}", *(f"  {step}" for step in self.trace)])


@dataclass(frozen=True, slots=True)
class Write:
    """A value of a location. clock, view: what a load that acquires the value learns; None if nothing was released."""

    value: Any
    writer: int
    epoch: int
    is_plain: bool
    clock: Clock | None
    view: View
    place: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A location. first: the number of the oldest write that is kept. plain_reads, atomic_accesses: each thread's epoch
    at its last plain read and its last atomic access."""

    writes: tuple[Write, ...]
    first: int
    plain_reads: Clock
    atomic_accesses: Clock
    reader: str = ""


@dataclass(slots=True)
class Actor:
    """What a thread knows. epoch: its own component of the clock, which counts its releases."""

    number: int
    clock: Clock
    view: dict[Location, int]

    def joins(self, clock: Clock | None, view: View) -> None:
        if clock is not None:
            self.clock = tuple(map(max, self.clock, clock))
        _join(self.view, view)

    def released(self) -> tuple[Clock, View]:
        """What the thread knows, for those who acquire it; begins a new epoch."""
        known = self.clock, dict(self.view)
        own = self.number
        self.clock = (*self.clock[:own], self.clock[own] + 1, *self.clock[own + 1 :])
        return known

    @property
    def epoch(self) -> int:
        return self.clock[self.number]


class Memory:
    """All locations. sc_view: of each location, the newest write that a sequentially consistent access has seen or
    made. Those that follow see no older one; as in C++, they order nothing else: they are not fences."""

    def __init__(self, thread_count: int) -> None:
        self.thread_count = thread_count
        self.cells: dict[Location, Cell] = {}
        self.sc_view: dict[Location, int] = {}

    def copy(self) -> Memory:
        made = Memory(self.thread_count)
        made.cells, made.sc_view = dict(self.cells), dict(self.sc_view)
        return made

    def cell(self, location: Location, initial: Any) -> Cell:
        """The cell of a location, with its initial value if nothing was written."""
        found = self.cells.get(location)
        if found is None:
            nobody = (0,) * self.thread_count
            write = Write(initial, self.thread_count - 1, 0, True, None, NOTHING_SEEN, "initial value")
            found = Cell((write,), 0, nobody, nobody)
        return found

    # --- plain accesses

    def read(self, actor: Actor, location: Location, initial: Any, place: str, copies: bool = False) -> Any:
        """A plain read. copies: whether the value is only copied, so that it may be uninitialized."""
        cell = self.cell(location, initial)
        newest = cell.writes[-1]
        for write in cell.writes:
            _check_happens_before(actor, write.writer, write.epoch, write.place, f"plain read of {place}")
        reads = _at(cell.plain_reads, actor)
        if reads != cell.plain_reads:
            self.cells[location] = replace(cell, plain_reads=reads, reader=place)
        if newest.value is UNINITIALIZED and not copies:
            raise ScheduleError("uninitialized", f"read of {place}, which was never written")
        return newest.value

    def write(self, actor: Actor, location: Location, initial: Any, value: Any, place: str) -> None:
        cell = self.cell(location, initial)
        self._check_exclusive(actor, cell, f"plain write of {place}")
        nobody = (0,) * self.thread_count
        number = cell.first + len(cell.writes)
        made = Write(value, actor.number, actor.epoch, True, None, NOTHING_SEEN, f"plain write of {place}")
        self.cells[location] = Cell((made,), number, nobody, nobody)
        actor.view[location] = number

    def check_free(self, actor: Actor, location: Location, place: str) -> None:
        """Freeing conflicts with every access that does not happen before it."""
        if location in self.cells:
            self._check_exclusive(actor, self.cells[location], place)

    # --- atomic accesses

    def choices(self, actor: Actor, location: Location, initial: Any, ordering: Ordering) -> range:
        """The numbers of the writes that a load may return."""
        cell = self.cell(location, initial)
        known = actor.view.get(location, 0)
        if ordering is Ordering.SEQ_CST:
            known = max(known, self.sc_view.get(location, 0))
        last = cell.first + len(cell.writes)
        return range(max(known, cell.first), last)

    def load(self, actor: Actor, location: Location, initial: Any, ordering: Ordering, number: int, place: str) -> Any:
        cell = self._atomic(actor, location, initial, place, is_write=False)
        write = cell.writes[number - cell.first]
        actor.view[location] = max(number, actor.view.get(location, 0))
        if ordering.acquires and write.clock is not None:
            actor.joins(write.clock, write.view)
        if ordering is Ordering.SEQ_CST:
            self.publish(actor, location)
        if write.value is UNINITIALIZED:
            raise ScheduleError("uninitialized", f"load of {place}, which was never written")
        return write.value

    def publish(self, actor: Actor, location: Location) -> None:
        """Sequentially consistent loads of a location see from now on what a thread has seen of it."""
        _join(self.sc_view, {location: actor.view.get(location, 0)})

    def show(self, actor: Actor, other: Actor, location: Location) -> None:
        """Another thread sees from now on what a thread has seen of a location."""
        _join(other.view, {location: actor.view.get(location, 0)})

    def value(self, location: Location, initial: Any, number: int) -> Any:
        """The value of a write, which nobody reads by this."""
        cell = self.cell(location, initial)
        return cell.writes[number - cell.first].value

    def store(
        self,
        actor: Actor,
        location: Location,
        initial: Any,
        ordering: Ordering,
        value: Any,
        place: str,
        read: Write | None = None,
    ) -> None:
        """Appends a write. read: the write that a read-modify-write read; what it released stays visible."""
        cell = self._atomic(actor, location, initial, place, is_write=True)
        number = cell.first + len(cell.writes)
        actor.view[location] = number
        if ordering is Ordering.SEQ_CST:
            self.publish(actor, location)
        epoch = actor.epoch
        clock: Clock | None = None
        view: View = NOTHING_SEEN
        if read is not None and read.clock is not None:
            clock, view = read.clock, read.view
        if ordering.releases:
            own_clock, own_view = actor.released()
            clock = own_clock if clock is None else tuple(map(max, clock, own_clock))
            merged = dict(view)
            _join(merged, own_view)
            view = merged
        made = Write(value, actor.number, epoch, False, clock, view, f"atomic write of {place}")
        self.cells[location] = replace(cell, writes=(*cell.writes, made))

    def modify(
        self, actor: Actor, location: Location, initial: Any, ordering: Ordering, place: str
    ) -> tuple[Any, Write]:
        """The newest value, which a read-modify-write replaces next."""
        cell = self.cell(location, initial)
        number = cell.first + len(cell.writes) - 1
        value = self.load(actor, location, initial, ordering, number, place)
        return value, cell.writes[-1]

    def _atomic(self, actor: Actor, location: Location, initial: Any, place: str, is_write: bool) -> Cell:
        cell = self.cell(location, initial)
        what = f"atomic {'write' if is_write else 'load'} of {place}"
        for write in cell.writes:
            if write.is_plain:
                _check_happens_before(actor, write.writer, write.epoch, write.place, what)
        if is_write:
            _check_reads(actor, cell.plain_reads, cell.reader, what)
        accesses = _at(cell.atomic_accesses, actor)
        if accesses != cell.atomic_accesses or location not in self.cells:
            cell = replace(cell, atomic_accesses=accesses)
            self.cells[location] = cell
        return cell

    def _check_exclusive(self, actor: Actor, cell: Cell, what: str) -> None:
        for write in cell.writes:
            _check_happens_before(actor, write.writer, write.epoch, write.place, what)
        _check_reads(actor, cell.plain_reads, cell.reader, what)
        for thread, epoch in enumerate(cell.atomic_accesses):
            _check_happens_before(actor, thread, epoch, "an atomic access", what)


def _check_reads(actor: Actor, reads: Clock, reader: str, what: str) -> None:
    for thread, epoch in enumerate(reads):
        _check_happens_before(actor, thread, epoch, f"plain read of {reader}", what)


def _check_happens_before(actor: Actor, thread: int, epoch: int, first: str, second: str) -> None:
    if thread != actor.number and epoch > actor.clock[thread]:
        raise ScheduleError(
            "race", f"{second} by {{thread {actor.number}}} is not ordered after {first} by {{thread {thread}}}"
        )


def _at(clock: Clock, actor: Actor) -> Clock:
    number = actor.number
    return clock if clock[number] == actor.epoch else (*clock[:number], actor.epoch, *clock[number + 1 :])


def _join(view: dict[Location, int], other: Mapping[Location, int]) -> None:
    for location, number in other.items():
        if number > view.get(location, 0):
            view[location] = number
