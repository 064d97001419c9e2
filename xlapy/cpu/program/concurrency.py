"""Lets small kernels that do not depend on each other run at the same time, each on one thread.

A kernel of a few microseconds is too short to be divided among threads. Where a sequence of thunks has several such
kernels that do not need each other's results, as two towers of small layers or the gates of a cell have, the sequence
becomes tasks of a `ConcurrentThunk`: chains of thunks, and for each task the tasks for which it waits. Thunks depend on
each other if they access the same slice and one of them writes it. The tasks are in an order in which each comes after
those that it waits for, the one that a list scheduler gives them that starts the longest remaining chain first. Which
thread runs a task is decided when the program runs, and changes no result: the thunks of a task are the same on every
machine.

Responsible for which thunks become tasks, and for their order. Does not depend on what thunks compute, on where slices
lie, or on threads.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND, MIN_PARALLEL_CYCLES
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import ConcurrentThunk, OutlinedThunk, Thunk

MIN_SAVED_CYCLES: Final = MIN_PARALLEL_CYCLES // 2
"""The smallest time that tasks must save, by the estimate: less is lost when the other threads start late."""

MIN_SAVED_CYCLES_IN_LOOP: Final = MIN_PARALLEL_CYCLES
"""The same in a loop, where arrays move from the cache of one thread to that of another in each iteration."""

SHORT_TASK_CYCLES: Final = CYCLES_PER_MICROSECOND // 2
"""A thunk that takes less time never begins a task: handing it out would take as long as it does."""

TASK_CYCLES: Final = 250
"""The time that it takes to hand out a task."""

WORKERS: Final = 2
"""The number of threads for which tasks are put in order, and for which the saved time is estimated."""

MAX_THUNKS: Final = 256
"""The largest number of thunks whose tasks are considered together."""

MAX_TEMPORARY_BYTES: Final = 1 << 20
"""The bytes of temporaries, at most, that thunks considered together write: none of them shares memory with another,
and all should stay in the cache."""


def run_concurrently(program: NativeProgram) -> None:
    """Replaces sequences of thunks by `ConcurrentThunk`s where that saves time. Functions are not outlined yet."""
    program.thunks = _scheduled(program.thunks, MIN_SAVED_CYCLES)


def _scheduled(thunks: Sequence[Thunk], min_saved: int) -> list[Thunk]:
    found: list[Thunk] = []
    window: list[Thunk] = []
    written: set[BufferSlice] = set()

    def flush() -> None:
        found.extend(_tasks_of(window, min_saved))
        window.clear()
        written.clear()

    for thunk in thunks:
        for nested in thunk.nested:
            nested[:] = _scheduled(nested, MIN_SAVED_CYCLES_IN_LOOP if thunk.is_loop else min_saved)
        if not thunk.runs_on_one_thread:
            flush()
            found.append(thunk)
            continue
        new = {slice_ for slice_ in thunk.writes if slice_.storage is StorageClass.TEMPORARY}
        if len(window) >= MAX_THUNKS or sum(slice_.size for slice_ in written | new) > MAX_TEMPORARY_BYTES:
            flush()
        written |= new
        window.append(thunk)
    flush()
    return found


def _time_of(thunk: Thunk) -> int:
    """The time that a thunk takes when it runs by itself: if it is long enough, threads share it."""
    return thunk.cost if thunk.cost < MIN_PARALLEL_CYCLES else -(-thunk.cost // WORKERS)


@dataclass(slots=True)
class _Task:
    thunks: list[Thunk] = field(default_factory=list["Thunk"])
    last: int = -1
    """The number of its last thunk."""
    waits: set[int] = field(default_factory=set[int])
    """The numbers of the tasks that it waits for."""
    before: set[int] = field(default_factory=set[int])
    """The numbers of all tasks that have run when it starts."""

    @property
    def cost(self) -> int:
        return TASK_CYCLES + sum(thunk.cost for thunk in self.thunks)


def _tasks_of(thunks: Sequence[Thunk], min_saved: int) -> list[Thunk]:
    """Returns the thunks, or a thunk that runs them as tasks, after short ones that depend on none of them."""
    total = sum(_time_of(thunk) for thunk in thunks)
    if total - total // WORKERS < min_saved:
        return list(thunks)
    first, tasks = _chains(thunks)
    order, makespan = _order(tasks)
    if len(tasks) < 2 or total - makespan < min_saved:
        return list(thunks)
    places = {number: place for place, number in enumerate(order)}
    functions = [OutlinedThunk(tasks[number].thunks) for number in order]
    waits = [tuple(sorted(places[other] for other in tasks[number].waits)) for number in order]
    return [*first, ConcurrentThunk(functions, waits)]


def _chains(thunks: Sequence[Thunk]) -> tuple[list[Thunk], list[_Task]]:
    """Divides thunks into tasks. Returns the thunks to run before, and the tasks, each after those it waits for.

    A thunk continues the task whose last thunk it depends on, unless others depend on that, too.
    """
    dependencies = _dependencies(thunks)
    user_counts = [0] * len(thunks)
    for found in dependencies:
        for number in found:
            user_counts[number] += 1
    first: list[Thunk] = []
    tasks: list[_Task] = []
    task_of: dict[int, int] = {}
    for number, thunk in enumerate(thunks):
        needed = {task_of[other] for other in dependencies[number] if other in task_of}
        needed -= {other for task in needed for other in tasks[task].before}
        is_short = thunk.cost < SHORT_TASK_CYCLES
        if not needed and is_short:
            first.append(thunk)
            continue
        task = max(needed, default=-1)
        continues = len(needed) == 1 and (
            is_short or (tasks[task].last in dependencies[number] and user_counts[tasks[task].last] == 1)
        )
        if not continues:
            before = needed.union(*(tasks[other].before for other in needed))
            task = len(tasks)
            tasks.append(_Task(waits=needed, before=before))
        tasks[task].thunks.append(thunk)
        tasks[task].last = number
        task_of[number] = task
    return first, tasks


def _dependencies(thunks: Sequence[Thunk]) -> list[set[int]]:
    """Returns for each thunk the numbers of the earlier ones that must have run."""
    writers: dict[BufferSlice, int] = {}
    readers: dict[BufferSlice, list[int]] = {}
    found: list[set[int]] = []
    for number, thunk in enumerate(thunks):
        needed = {writers[slice_] for slice_ in thunk.accesses if slice_ in writers}
        for slice_ in thunk.reads:
            readers.setdefault(slice_, []).append(number)
        for slice_ in thunk.writes:
            needed.update(readers.pop(slice_, ()))
            writers[slice_] = number
        found.append(needed - {number})
    return found


def _order(tasks: Sequence[_Task]) -> tuple[list[int], int]:
    """Returns the tasks in the order in which a list scheduler starts them, and when the last one ends, in cycles."""
    remaining = [task.cost for task in tasks]
    users: list[list[int]] = [[] for _ in tasks]
    for number in reversed(range(len(tasks))):
        remaining[number] += max((remaining[user] for user in users[number]), default=0)
        for other in tasks[number].waits:
            users[other].append(number)
    missing = [len(task.waits) for task in tasks]
    ready = [(-remaining[number], number) for number, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    running: list[tuple[int, int]] = []
    order: list[int] = []
    now = 0
    while ready or running:
        while ready and len(running) < WORKERS:
            _, number = heapq.heappop(ready)
            order.append(number)
            heapq.heappush(running, (now + tasks[number].cost, number))
        now, number = heapq.heappop(running)
        for user in users[number]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (-remaining[user], user))
    return order, now
