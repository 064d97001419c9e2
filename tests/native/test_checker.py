"""The checker of interleavings, on small protocols whose verdict is known."""

from __future__ import annotations

import pytest

from xlapy.native.checker.explore import explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, Static, free, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE, SEQ_CST, LoadOrdering, Ordering, StoreOrdering
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Address, Int32, Nullable, Word


class Mailbox(Record):
    """A value that one thread writes and others wait for."""

    state: Atomic[Int32]
    sleepers: Atomic[Int32]
    value: Owned[Word]
    other: Atomic[Word]
    block: Atomic[Nullable[Cell]]
    seen: Atomic[Word]


class Cell(Record):
    """A block with a value."""

    value: Owned[Word]


MAILBOX = Static("mailbox", Mailbox)


def writer(ordering: StoreOrdering = RELEASE, wakes: bool = True):
    @native
    def write(f: Function) -> None:
        box = f.static(MAILBOX)
        box.value = 7
        box.state.store(1, ordering)
        if wakes:
            box.state.wake()

    return write


def reader(ordering: LoadOrdering = ACQUIRE):
    @native
    def read(f: Function) -> None:
        box = f.static(MAILBOX)
        with f.loop() as loop:
            with f.when(box.state.load(ordering) == 1):
                loop.leave()
            box.state.wait(0)
        f.check(box.value == 7, "the value is 7")

    return read


def broken(kind: str, *threads, finish=None, **options) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        explore(None, threads, finish, **options)
    assert caught.value.kind == kind, str(caught.value)
    return caught.value


def test_a_release_store_and_acquire_loads_pass_a_value_on():
    result = explore(None, [writer(), *[reader()] * 2])
    assert result.ends >= 1
    assert 20 < result.states < 1000


def test_a_relaxed_store_is_a_race():
    error = broken("race", writer(RELAXED), reader())
    assert "plain read of Mailbox.value" in error.message
    assert any("store Mailbox.state (relaxed)" in step for step in error.trace)


def test_a_relaxed_load_is_a_race():
    broken("race", writer(), reader(RELAXED))


def test_a_missing_wake_is_a_deadlock():
    assert "read sleeps in read" in broken("deadlock", writer(wakes=False), reader()).message


def store_and_load(first: str, second: str, ordering: Ordering):
    def run(f: Function) -> None:
        box = f.static(MAILBOX)
        getattr(box, first).store(1, ordering)
        with f.when(getattr(box, second).load(ordering) == 0):
            box.seen.fetch_add(1, RELAXED)

    run.__name__ = f"store_{first}"
    return native(run)


@native
def at_most_one_saw_zero(f: Function) -> None:
    f.check(f.static(MAILBOX).seen.load(RELAXED) <= 1, "one of two threads sees the store of the other")


def test_two_threads_that_store_and_load_need_sequential_consistency():
    threads = [store_and_load("state", "other", SEQ_CST), store_and_load("other", "state", SEQ_CST)]
    explore(None, threads, at_most_one_saw_zero)


@pytest.mark.parametrize(("store", "load"), [(RELEASE, SEQ_CST), (SEQ_CST, ACQUIRE)])
def test_accesses_in_the_total_order_are_not_fences(store: StoreOrdering, load: LoadOrdering):
    """The store and the load of both threads must be in the total order."""

    @native
    def left(f: Function) -> None:
        box = f.static(MAILBOX)
        box.state.store(1, store)
        with f.when(box.other.load(load) == 0):
            box.seen.fetch_add(1, RELAXED)

    broken("assertion", left, store_and_load("other", "state", SEQ_CST), finish=at_most_one_saw_zero)


@native
def sleep_counted(f: Function) -> None:
    box = f.static(MAILBOX)
    box.sleepers.fetch_add(1, SEQ_CST)
    box.state.wait(0)


def wake_sleepers(store: StoreOrdering, load: LoadOrdering):
    """Wakes the other thread if it is counted."""

    @native
    def wake(f: Function) -> None:
        box = f.static(MAILBOX)
        box.state.store(1, store)
        with f.when(box.sleepers.load(load) != 0):
            box.state.wake()

    return wake


@pytest.mark.parametrize(("store", "load"), [(RELEASE, SEQ_CST), (SEQ_CST, ACQUIRE)])
def test_a_wake_up_that_is_spared_without_order_is_found(store: StoreOrdering, load: LoadOrdering):
    """The kernel may read the word before the other processor's store, whose thread finds nobody asleep."""
    explore(None, [sleep_counted, wake_sleepers(SEQ_CST, SEQ_CST)])
    assert "sleeps in sleep_counted" in broken("deadlock", sleep_counted, wake_sleepers(store, load)).message


def test_a_wait_that_only_its_time_limit_ends():
    @native
    def wait(f: Function) -> None:
        box = f.static(MAILBOX)
        with f.loop() as loop:
            with f.when(box.state.load(ACQUIRE) == 1):
                loop.leave()
            box.state.wait(0, f.constant(Word, 1000))

    explore(None, [writer(wakes=False), wait])
    explore(None, [writer(), wait], times_out=False)
    broken("deadlock", writer(wakes=False), wait, times_out=False)


@pytest.mark.parametrize("load", [ACQUIRE, RELAXED])
def test_a_load_may_return_an_older_value(load):
    @native
    def left(f: Function) -> None:
        box = f.static(MAILBOX)
        box.state.store(1, RELEASE)
        with f.when(box.other.load(load) == 0):
            box.seen.fetch_add(1, RELAXED)

    @native
    def right(f: Function) -> None:
        box = f.static(MAILBOX)
        box.other.store(1, RELEASE)
        with f.when(box.state.load(load) == 0):
            box.seen.fetch_add(1, RELAXED)

    broken("assertion", left, right, finish=at_most_one_saw_zero)


@pytest.mark.parametrize(("ordering", "is_found"), [(RELAXED, True), (ACQUIRE, False)])
def test_a_compare_exchange_may_fail_because_of_an_older_value(ordering, is_found):
    @native
    def open_box(f: Function) -> None:
        box = f.static(MAILBOX)
        box.other.store(5, RELAXED)
        box.state.store(1, RELEASE)

    @native
    def take(f: Function) -> None:
        box = f.static(MAILBOX)
        with f.when(box.state.load(ordering) == 1):
            _, is_taken = box.other.compare_exchange(5, 6, RELAXED, RELAXED)
            f.check(is_taken, "the box that is open holds 5")

    if is_found:
        broken("assertion", open_box, take)
    else:
        explore(None, [open_box, take])


def test_read_modify_writes_lose_nothing():
    @native
    def increment(f: Function) -> None:
        f.static(MAILBOX).other.fetch_add(1, RELAXED)

    @native
    def total(f: Function) -> None:
        f.check(f.static(MAILBOX).other.load(RELAXED) == 3, "three increments")

    explore(None, [increment] * 3, total)


def test_a_load_and_a_store_lose_an_increment():
    @native
    def increment(f: Function) -> None:
        box = f.static(MAILBOX)
        box.other.store(box.other.load(ACQUIRE) + 1, RELEASE)

    @native
    def total(f: Function) -> None:
        f.check(f.static(MAILBOX).other.load(RELAXED) == 2, "two increments")

    broken("assertion", increment, increment, finish=total)


@native
def publish(f: Function) -> None:
    """Allocates a block with the value 5, owned by two threads."""
    box = f.static(MAILBOX)
    made = f.allocate(Cell)
    with f.when(made.is_null()):
        f.ret()
    cell = made.value
    cell.value = 5
    box.other.store(2, RELAXED)
    box.block.store(made, RELEASE)


def owner(ordering: Ordering, reads_late: bool = False):
    @native
    def use(f: Function) -> None:
        box = f.static(MAILBOX)
        block = box.block.load(ACQUIRE)
        with f.when(block.is_null()):
            f.ret()
        cell = block.value
        if not reads_late:
            f.check(cell.value == 5, "the value is 5")
        before = box.other.fetch_sub(1, ordering)
        if reads_late:
            f.check(cell.value == 5, "the value is 5")
        with f.when(before == 1):
            free(f, f.exclusive_access(cell, "the last owner").cast(Address).maybe())

    return use


def test_the_last_owner_frees():
    explore(publish, [owner(ACQ_REL)] * 2)


def test_a_relaxed_count_of_owners_is_a_race():
    with pytest.raises(ScheduleError, match="free of its block"):
        explore(publish, [owner(RELAXED)] * 2)


def test_an_access_after_giving_up_ownership_is_found():
    with pytest.raises(ScheduleError) as caught:
        explore(publish, [owner(ACQ_REL, reads_late=True)] * 2)
    assert caught.value.kind in ("use after free", "race")


def test_memory_that_is_not_freed_is_a_leak():
    with pytest.raises(ScheduleError) as caught:
        explore(publish, [owner(ACQ_REL)])
    assert caught.value.kind == "leak"


def test_stack_memory_ends_with_its_call():
    @native
    def stack_address(f: Function) -> Address:
        """The address of memory of this call."""
        made = f.stack(8).cast(Cell)
        made.value = 5
        return made

    @native
    def read(f: Function) -> None:
        f.check(stack_address(f).cast(Cell).value == 5, "the value is 5")

    @native
    def return_only(f: Function) -> None:
        stack_address(f)

    broken("use after free", read)
    explore(None, [return_only])


def test_a_loop_without_progress_is_reported():
    @native
    def spin(f: Function) -> None:
        box = f.static(MAILBOX)
        with f.loop() as loop, f.when(box.state.load(ACQUIRE) == 1):
            loop.leave()

    broken("endless", spin)
    explore(None, [spin, writer()])


def service(wakes: bool = True):
    """A thread that answers requests for ever, and one that requests."""

    @native
    def serve(f: Function) -> None:
        box = f.static(MAILBOX)
        memory = f.stack(8).cast(Cell)
        with f.loop():
            with f.when(box.state.exchange(0, ACQUIRE) != 0):
                memory.value = box.value
                box.seen.store(memory.value, RELEASE)
            box.state.wait(0)

    return [serve], [writer(RELEASE, wakes)]


@native
def is_answered(f: Function) -> None:
    f.check(f.static(MAILBOX).seen.load(RELAXED) == 7, "the request is answered")


def test_a_service_may_sleep_at_the_end():
    services, threads = service()
    assert explore(None, threads, is_answered, services=services).ends >= 1


def test_a_service_that_is_not_woken_is_found_by_what_it_left_undone():
    services, threads = service(wakes=False)
    assert broken("assertion", *threads, finish=is_answered, services=services).message.endswith("answered")


def test_a_service_that_never_sleeps_is_endless():
    @native
    def poll(f: Function) -> None:
        with f.loop():
            f.static(MAILBOX).state.load(ACQUIRE)

    broken("endless", writer(), services=[poll])


def test_a_thread_that_waits_for_a_service_that_sleeps_is_a_deadlock():
    services, _ = service()
    broken("deadlock", reader(), services=services)


def test_memory_that_was_never_written_is_reported():
    @native
    def read(f: Function) -> None:
        made = f.allocate(Cell)
        with f.when(made.is_null()):
            f.ret()
        f.check(made.value.value == 0, "zero")

    broken("uninitialized", read)


def test_exhausted_memory_is_a_schedule():
    @native
    def use(f: Function) -> None:
        made = f.allocate(Cell)
        with f.when(made.is_null()):
            f.static(MAILBOX).seen.store(1, RELAXED)
            f.ret()
        free(f, made.value.cast(Address).maybe())

    @native
    def never(f: Function) -> None:
        f.check(f.static(MAILBOX).seen.load(RELAXED) == 0, "memory suffices")

    explore(None, [use], never)
    broken("assertion", use, finish=never, exhausts_memory=True)
