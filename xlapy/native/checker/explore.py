"""Exploring all schedules of a few threads.

    explore(setup, [writer, reader], finish)

runs the native function `setup` alone, then the threads in every order of their steps, then `finish` alone. Every
schedule must end: a state from which no end can be reached is a deadlock (threads sleep or wait for a lock) or endless
(threads run in circles). Blocks that are never freed are leaks. Threads that serve others for ever are services: they
may sleep at the end.

Responsible for the order of exploration and what is reported. Must not know what instructions do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import le
from typing import Any

from xlapy.native.checker.code import prepare
from xlapy.native.checker.machine import Machine
from xlapy.native.checker.memory import NOTHING_SEEN, Cell, Clock, Location, ScheduleError, View
from xlapy.native.checker.models import Model
from xlapy.native.checker.state import ASLEEP, FINISHED, RUNNING, Privacy, State
from xlapy.native.function import NativeFunction

MAX_STATES = 2_000_000


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was explored. ends: number of states in which all threads have finished."""

    states: int
    ends: int
    seconds: float


def explore(
    setup: NativeFunction[Any, Any] | None,
    threads: Sequence[NativeFunction[Any, Any]],
    finish: NativeFunction[Any, Any] | None = None,
    *,
    also: Sequence[NativeFunction[Any, Any]] = (),
    models: Mapping[str, Model] | None = None,
    exhausts_memory: bool = False,
    allows_leaks: bool = False,
    max_states: int = MAX_STATES,
    has_private_locations: bool = True,
    services: Sequence[NativeFunction[Any, Any]] = (),
    times_out: bool = True,
) -> Exploration:
    """Explores all schedules; `ScheduleError` with the steps that lead to the first broken rule.

    also: functions that are called by address only. models: what external functions do. exhausts_memory: whether each
    allocation of the threads may fail, too. has_private_locations: false if a location that one thread accesses may
    matter to others, because it forks. services: threads that need not end; each schedule goes on until they sleep.
    times_out: false if waits with a limit of time end only when they are woken: a wake-up that is lost, and that costs
    the rest of this time, is a deadlock then.
    """
    begin = time.perf_counter()
    all_threads = [*threads, *services]
    named = [one for one in (setup, *all_threads, finish) if one is not None]
    machine = Machine(prepare([*named, *also]), models or {}, exhausts_memory, times_out)
    names, ending = [one.name for one in all_threads], len(threads)
    run = _Run(machine, names, ending, finish.name if finish else "", allows_leaks)
    state = machine.initial_state(len(all_threads) + 1)
    if setup is not None:
        state = run.alone(state, setup.name)
        known = state.threads[-1].actor
        for thread in state.threads[:-1]:
            thread.actor.joins(known.released()[0], known.view)
    privacy = Privacy(has_private_locations)
    while True:
        shared = len(privacy.shared)
        states, ends = run.explore(state, privacy, max_states)
        if len(privacy.shared) == shared or not has_private_locations:
            return Exploration(states, ends, time.perf_counter() - begin)


class _Run:
    """The exploration of one initial state."""

    def __init__(self, machine: Machine, names: Sequence[str], ending: int, finish: str, allows_leaks: bool) -> None:
        """ending: how many of the threads must end, the first ones; the others may sleep."""
        self._machine, self._names, self._ending = machine, names, ending
        self._finish, self._allows_leaks = finish, allows_leaks
        self._summaries: dict[int, _Summary] = {}
        """By the identity of the cell, which the summary references so that no other takes its place."""
        self._numbers: dict[Any, int] = {}
        self._first_cells: Mapping[Location, Cell] = {}
        """What all threads know when they begin."""

    def alone(self, state: State, name: str) -> State:
        """Runs a function while no thread runs. Loads return the newest value."""
        number, privacy = len(self._names), self._machine.privacy
        self._machine.privacy = None
        state = self._machine.started(state, number, name, ())
        while state.threads[number].status != FINISHED:
            following = list(self._machine.steps(state, number))
            if not following:
                raise ScheduleError("deadlock", f"{name} waits, and no thread runs")
            made = following[-1][1]
            if isinstance(made, ScheduleError):
                raise made
            if made.threads[number].status == ASLEEP:
                raise ScheduleError("deadlock", f"{name} sleeps, and no thread runs")
            state = made
        self._machine.privacy = privacy
        return state

    def explore(self, first: State, privacy: Privacy, max_states: int) -> tuple[int, int]:
        """Explores all states that can be reached from one in which no thread has begun; returns how many there are,
        and how many of them are ends."""
        self._machine.privacy = privacy
        first = _known_by_all(first)
        self._first_cells = first.memory.cells
        for number, name in enumerate(self._names):
            first = self._machine.started(first, number, name, ())
        number_of: dict[Any, int] = {self._key(first): 0}
        reached_by: list[tuple[int, str]] = [(-1, "")]
        predecessors: list[list[int]] = [[]]
        ends: list[int] = []
        stuck: dict[int, str] = {}
        pending = [(0, first)]
        while pending:
            own, state = pending.pop()
            if self._has_ended(state):
                ends.append(own)
                self._end(state, reached_by, own)
                continue
            moved = False
            for thread in range(len(self._names)):
                for what, made in self._machine.steps(state, thread):
                    moved = True
                    text = f"thread {thread} ({self._names[thread]}): {what}"
                    if isinstance(made, ScheduleError):
                        raise self._with_trace(made, reached_by, own, text)
                    key = self._key(made)
                    found = number_of.get(key)
                    if found is None:
                        found = number_of[key] = len(reached_by)
                        if found >= max_states:
                            raise ScheduleError("limit", f"more than {max_states} states")
                        reached_by.append((own, text))
                        predecessors.append([])
                        pending.append((found, made))
                    predecessors[found].append(own)
            if not moved:
                stuck[own] = self._waiting(state)
        self._check_all_end(predecessors, ends, stuck, reached_by)
        return len(reached_by), len(ends)

    def _check_all_end(
        self,
        predecessors: Sequence[Sequence[int]],
        ends: Sequence[int],
        stuck: Mapping[int, str],
        reached_by: Sequence[tuple[int, str]],
    ) -> None:
        """Every state must lead to an end."""
        for state, waiting in stuck.items():
            raise self._with_trace(ScheduleError("deadlock", waiting), reached_by, state, "")
        good = set(ends)
        pending = list(ends)
        while pending:
            for before in predecessors[pending.pop()]:
                if before not in good:
                    good.add(before)
                    pending.append(before)
        for state in range(len(predecessors)):
            if state not in good:
                error = ScheduleError("endless", "from here on, the threads run for ever")
                raise self._with_trace(error, reached_by, state, "")

    def _has_ended(self, state: State) -> bool:
        """Whether all threads have finished, and services sleep."""
        statuses = [thread.status for thread in state.threads[:-1]]
        threads, services = statuses[: self._ending], statuses[self._ending :]
        return all(one == FINISHED for one in threads) and all(one != RUNNING for one in services)

    def _end(self, state: State, reached_by: Sequence[tuple[int, str]], own: int) -> None:
        """What must hold after all threads have finished."""
        try:
            made = state.copy(len(self._names))
            actor = made.threads[-1].actor
            for thread in state.threads[:-1]:
                actor.joins(thread.actor.clock, thread.actor.view)
            if self._finish:
                made = self.alone(made, self._finish)
            used = {pointer[0] for thread in state.threads for frame in thread.frames for pointer in frame.stack}
            kept = [name for name, block in made.blocks.items() if not block.is_freed and name not in used]
            leaks = [name for name in kept if name[0] != "static"]
            if leaks and not self._allows_leaks:
                raise ScheduleError("leak", f"{len(leaks)} blocks are never freed, such as block {leaks[0]}")
        except ScheduleError as error:
            raise self._with_trace(error, reached_by, own, "(all threads have finished)") from None

    def _waiting(self, state: State) -> str:
        waiting = []
        for name, thread in zip(self._names, state.threads, strict=False):
            if thread.status != FINISHED:
                frame = thread.frames[-1]
                what = "sleeps" if thread.status == ASLEEP else "waits for a lock"
                waiting.append(f"{name} {what} in {frame.name}")
        return ", ".join(waiting)

    def _with_trace(
        self, error: ScheduleError, reached_by: Sequence[tuple[int, str]], state: int, last: str
    ) -> ScheduleError:
        steps = [last] if last else []
        while state > 0:
            state, text = reached_by[state]
            steps.append(text)
        error.trace = steps[::-1]
        return error

    def _key(self, state: State) -> Any:
        """What distinguishes states: two with the same key have the same future. Views count from the oldest write that
        may still be read; epochs are replaced by their rank, because only their order matters.

        A location is settled if all running threads know everything about it, also what its newest write released: then
        only its value counts.
        """
        program = self._machine.program
        untouched = self._first_cells
        cells = [(at, cell) for at, cell in state.memory.cells.items() if untouched.get(at) is not cell]
        floors = _floors(state, cells)
        known = _known_to_all(state)
        settled, open_cells = set[int](), list[tuple[_Summary, int]]()
        for location, cell in cells:
            summary = self._summary(location, cell)
            if location not in floors and all(map(le, summary.latest, known)):
                if location not in untouched or self._summary(location, untouched[location]).settled != summary.settled:
                    settled.add(summary.settled)
            else:
                open_cells.append((summary, floors.get(location, cell.first + len(cell.writes) - 1) - cell.first))
        rank = _Ranks(state, known, [summary.epochs[oldest] for summary, oldest in open_cells])
        threads = tuple(
            (
                thread.status,
                thread.sleeps_on,
                thread.allocations,
                thread.held,
                rank(thread.actor.clock),
                _relative(thread.actor.view, floors),
                tuple(frame.key(program) for frame in thread.frames),
            )
            for thread in state.threads
        )
        contents = frozenset(
            (
                summary.contents[oldest],
                *map(rank.of, summary.epochs[oldest]),
                *(_relative(view, floors) for view in summary.views[oldest:] if floors),
            )
            for summary, oldest in open_cells
        )
        locks = frozenset(
            (location, lock.holder, rank(lock.clock), _relative(lock.view, floors))
            for location, lock in state.locks.items()
        )
        freed = frozenset(name for name, block in state.blocks.items() if block.is_freed)
        return threads, frozenset(settled), contents, locks, freed, _relative(state.memory.sc_view, floors)

    def _summary(self, location: Location, cell: Cell) -> _Summary:
        """The summary of a cell, which many states share."""
        found = self._summaries.get(id(cell))
        if found is None:
            found = self._summaries[id(cell)] = _summarize(location, cell, self._numbers)
        return found


@dataclass(frozen=True, slots=True)
class _Summary:
    """What the keys of states take from a cell. latest: the newest epoch of each thread that it mentions. settled: a
    number for its newest value. The others begin at each write that may be the oldest one read: a number for the
    writes without their epochs, and the threads and epochs that they mention. views: what each write released."""

    cell: Cell
    latest: Clock
    settled: int
    contents: list[int]
    epochs: list[list[tuple[int, int]]]
    views: list[View]


def _summarize(location: Location, cell: Cell, numbers: dict[Any, int]) -> _Summary:
    """numbers: of values, in the order in which they are seen."""
    accesses = [*enumerate(cell.plain_reads), *enumerate(cell.atomic_accesses)]
    of_writes = [
        [(one.writer, one.epoch), *(enumerate(one.clock) if one.clock is not None else ())] for one in cell.writes
    ]
    latest = [0] * len(cell.plain_reads)
    for thread, epoch in [*accesses, *(one for epochs in of_writes for one in epochs)]:
        latest[thread] = max(latest[thread], epoch)
    described = [(one.value, one.writer, one.is_plain, one.clock is None) for one in cell.writes]
    oldest = range(len(cell.writes))
    return _Summary(
        cell,
        tuple(latest),
        numbers.setdefault((location, cell.writes[-1].value), len(numbers)),
        [numbers.setdefault((location, *described[first:]), len(numbers)) for first in oldest],
        [[*accesses, *(one for epochs in of_writes[first:] for one in epochs)] for first in oldest],
        [one.view for one in cell.writes],
    )


def _floors(state: State, cells: Iterable[tuple[Location, Cell]]) -> dict[Location, int]:
    """The number of the oldest write that some thread may still read, of each location of which that is not the newest
    one. Of other locations, every thread sees the same write."""
    running = [thread.actor.view for thread in state.threads[:-1] if thread.status != FINISHED]
    floors: dict[Location, int] = {}
    for location, cell in cells:
        count = len(cell.writes)
        if count > 1 and running:
            oldest = max(cell.first, min(view.get(location, 0) for view in running))
            if oldest < cell.first + count - 1:
                floors[location] = oldest
    return floors


def _known_by_all(state: State) -> State:
    """A state in which all threads know everything, with nothing else that they could read, and no views of it."""
    made = state.copy(len(state.threads) - 1)
    nobody = (0,) * len(state.threads)
    for location, cell in state.memory.cells.items():
        newest = replace(cell.writes[-1], clock=None, view=NOTHING_SEEN)
        made.memory.cells[location] = Cell((newest,), 0, nobody, nobody)
    made.memory.sc_view = {}
    made.locks = {}
    for thread in made.threads:
        thread.actor.view = {}
    return made


def _known_to_all(state: State) -> Clock:
    """The newest epoch of each thread that all running threads know."""
    clocks = [thread.actor.clock for thread in state.threads[:-1] if thread.status != FINISHED]
    return tuple(map(min, zip(*(clocks or [state.threads[-1].actor.clock]), strict=True)))


class _Ranks:
    """The rank of each epoch of each thread among those that the state mentions. An epoch that all running threads know
    has the lowest rank."""

    def __init__(self, state: State, lowest: Clock, epochs: Sequence[Sequence[tuple[int, int]]]) -> None:
        """lowest: the newest epochs that all running threads know. epochs: those of cells, with their threads."""
        found = {one for thread in state.threads for one in enumerate(thread.actor.clock)}
        for lock in state.locks.values():
            found.update(enumerate(lock.clock or ()))
        found.update(*epochs)
        ranks: dict[tuple[int, int], int] = {}
        counts = [0] * len(lowest)
        for thread, epoch in sorted(found):
            if epoch > lowest[thread]:
                counts[thread] += 1
                ranks[thread, epoch] = counts[thread]
        self._ranks = ranks

    def of(self, epoch: tuple[int, int]) -> int:
        """The rank of an epoch of a thread."""
        return self._ranks.get(epoch, 0)

    def __call__(self, clock: Clock | None) -> Clock | None:
        return None if clock is None else tuple(map(self.of, enumerate(clock)))


def _relative(view: View, floors: Mapping[Location, int]) -> frozenset[tuple[Location, int]]:
    """A view without what holds for all threads, counted from the oldest write that may be read."""
    if not view or not floors:
        return frozenset()
    return frozenset(
        (location, view[location] - floor) for location, floor in floors.items() if view.get(location, 0) > floor
    )
