"""The memory that the devices of a launch share, and the states of devices, under all schedules of launches and the
watchdog."""

from __future__ import annotations

from tests.runtime.engine.core import executable_model as model
from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, Static, native
from xlapy.native.ir import RELAXED
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Nullable, Word
from xlapy.runtime.engine.core.events import canceled_error
from xlapy.runtime.engine.core.launch_records import FINISHED, NOT_STARTED, Launch, Numbers
from xlapy.runtime.engine.core.launches import (
    LaunchPointers,
    active_launches,
    close_launch,
    device_states,
    fail_launch,
    is_launch_canceled,
    new_launch,
    release_launch,
    set_device_state,
)
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, release

DEVICES = 2


class Board(Record):
    """What the threads share."""

    launch: Atomic[Nullable[Launch]]


BOARD = Static("shared_memory_board", Board)
ROW = Static("row_of_launches", LaunchPointers, 8)
STATES = Static("copied_states", Numbers, 8)


class Element(Record):
    """A word of the shared memory that devices access one after the other."""

    value: Owned[Word]


class Arrival(Record):
    """A word of the shared memory with which a device tells others that it has come."""

    has_come: Atomic[Word]


@native
def use_shared_memory(f: Function) -> None:
    """A launch from its begin to its end, whose program writes to the shared memory; nothing if memory is exhausted."""
    made = new_launch(f, f.static(model.EXECUTABLE))
    with f.when(made.is_present()):
        launch = made.value
        element = launch.shared.offset(STORAGE_BYTES + 8).cast(Element)
        element.value = element.value + 1
        close_launch(f, launch)
        release_launch(f, launch)


def test_shared_memory_passes_from_launch_to_launch() -> None:
    """Two launches at once have memory of their own; otherwise the second one takes that of the first one, and gives
    it back if it finds no more."""

    @native
    def end(f: Function) -> None:
        model.destroy_arguments(f)
        model.nothing_is_left(f)

    threads = [use_shared_memory] * 2
    assert explore(model.build(collectives=True), threads, end, exhausts_memory=True).ends >= 2


@native
def end_of_model(f: Function) -> None:
    model.destroy_arguments(f)
    model.nothing_is_left(f)


def test_shared_memory_of_a_canceled_launch_is_not_used_again() -> None:
    @native
    def cancel_and_launch_again(f: Function) -> None:
        executable = f.static(model.EXECUTABLE)
        for is_canceled in (True, False):
            launch = new_launch(f, executable).known("memory suffices")
            f.check(~is_launch_canceled(f, launch), "a new launch is not canceled")
            if is_canceled:
                fail_launch(f, launch, canceled_error(f).maybe())
            close_launch(f, launch)
            release_launch(f, launch)
            is_kept = executable.spare_shared.load(RELAXED).is_present()
            f.check(~is_kept if is_canceled else is_kept, "clean memory is kept")

    threads = [cancel_and_launch_again]
    assert explore(model.build(collectives=True), threads, end_of_model).ends == 1


def test_the_watchdog_sees_launches_that_are_complete() -> None:
    """As soon as a launch is active, its fields are set. The row of the watchdog has room for one launch."""

    @native
    def launch_two(f: Function) -> None:
        launches = [new_launch(f, f.static(model.EXECUTABLE)).known("memory suffices") for _ in range(2)]
        for launch in launches:
            close_launch(f, launch)
            release_launch(f, launch)

    @native
    def inspect(f: Function) -> None:
        row, states = f.static(ROW), f.static(STATES)
        count = active_launches(f, row, f.constant(Word, 1))
        f.check(count <= 1, "the row has room for one launch")
        with f.when(count == 1):
            launch = row.items[0]
            device_states(f, launch, states)
            f.check(states.items[0] == NOT_STARTED, "no device has started")
            release(f, launch.shared)
            release_launch(f, launch)

    assert explore(model.build(collectives=True), [launch_two, inspect], end_of_model).ends >= 1


# --- the states of devices


def the_launch(f: Function) -> Launch:
    return f.static(BOARD).launch.load(RELAXED).known("prepared")


def arrival(launch: Launch) -> Arrival:
    return launch.shared.offset(STORAGE_BYTES + 8).cast(Arrival)


@native
def begin_launch(f: Function) -> None:
    """A launch that a device owns, the watchdog, and the test."""
    model.build(DEVICES, collectives=True)(f)
    launch = new_launch(f, f.static(model.EXECUTABLE)).known("memory suffices")
    launch.owners.store(3, RELAXED)
    f.static(BOARD).launch.store(launch.maybe(), RELAXED)


@native
def arrive_and_finish(f: Function) -> None:
    launch = the_launch(f)
    arrival(launch).has_come.store(1, RELAXED)
    set_device_state(f, launch, f.constant(Word, 0), f.constant(Word, FINISHED))
    release_launch(f, launch)


def states_of(f: Function, launch: Launch) -> tuple[Word, Word]:
    memory = f.stack(8 * DEVICES).cast(Numbers)
    device_states(f, launch, memory)
    return memory.items[0], memory.items[1]


@native
def watch(f: Function) -> None:
    """What the watchdog reads of an active launch: the states, then what devices wait for."""
    launch = the_launch(f)
    first, second = states_of(f, launch)
    f.check((first == NOT_STARTED) | (first == FINISHED), "the state is the one before or the one after")
    f.check(second == NOT_STARTED, "the other device has not started")
    with f.when(first == FINISHED):
        f.check(arrival(launch).has_come.load(RELAXED) == 1, "what a device that has finished did is seen")
    release_launch(f, launch)


@native
def end_launch(f: Function) -> None:
    launch = the_launch(f)
    first, second = states_of(f, launch)
    f.check((first == FINISHED) & (second == NOT_STARTED), "one of the devices has finished")
    close_launch(f, launch)
    release_launch(f, launch)
    model.destroy_arguments(f, DEVICES)
    model.nothing_is_left(f, DEVICES)


def test_whoever_sees_that_a_device_has_finished_sees_what_it_did() -> None:
    """Otherwise the watchdog would take a device that has come for one that never will."""
    assert explore(begin_launch, [arrive_and_finish, watch], end_launch).ends >= 2
