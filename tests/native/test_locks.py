"""Locks and semaphores under all schedules, and as machine code."""

from __future__ import annotations

import ctypes
import threading

import pytest

from tests.native.fork_model import MODELS, fork
from xlapy.cpu.llvm.jit import compile_unoptimized
from xlapy.native.checker.explore import explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE
from xlapy.native.llvm import library_text
from xlapy.native.locks import (
    LockWord,
    Semaphore,
    acquire_lock,
    acquire_permit,
    initialize_lock,
    initialize_semaphore,
    note_fork,
    release_lock,
    release_permit,
)
from xlapy.native.records import Atomic, Guarded, Lock, Owned, Record
from xlapy.native.values import Int32, Word


class Shared(Record, lock="lock"):
    """What threads share in these tests."""

    state: Atomic[Int32]
    sleepers: Atomic[Int32]
    lock: Lock
    total: Guarded[Word]
    unguarded: Owned[Word]
    inside: Atomic[Word]


SHARED = Static("shared", Shared)


@native
def add_one(f: Function) -> None:
    """Adds 1 while it holds the lock that the functions under test implement."""
    shared = f.static(SHARED)
    acquire_lock(f, shared.cast(LockWord))
    shared.unguarded = shared.unguarded + 1
    release_lock(f, shared.cast(LockWord))


def total_is(expected: int):
    @native
    def finish(f: Function) -> None:
        shared = f.static(SHARED)
        f.check(shared.unguarded == expected, f"the total is {expected}")
        f.check(shared.state.load(RELAXED) == 0, "the lock is free")

    return finish


def test_a_lock_excludes_other_threads_under_all_schedules():
    result = explore(None, [add_one] * 2, total_is(2))
    assert result.ends >= 1
    explore(None, [add_one] * 3, total_is(3))


@native
def be_a_child(f: Function) -> None:
    """The states of locks differ in the child of a fork."""
    note_fork(f)
    note_fork(f)


def test_a_lock_excludes_other_threads_in_the_child_of_a_fork():
    assert explore(be_a_child, [add_one] * 2, total_is(2)).ends >= 1
    assert explore(be_a_child, [add_one] * 3, total_is(3)).ends >= 1


def test_a_lock_that_is_initialized_is_free():
    @native
    def initialize_and_add(f: Function) -> None:
        f.static(SHARED).state.store(1, RELAXED)
        initialize_lock(f, f.static(SHARED).cast(LockWord))
        add_one(f)

    assert explore(None, [initialize_and_add], total_is(1)).ends == 1


def test_a_lock_that_does_not_wake_is_a_deadlock():
    @native
    def release_without_waking(f: Function, lock: LockWord) -> None:
        lock.state.store(0, RELEASE)

    @native
    def add_and_leave(f: Function) -> None:
        shared = f.static(SHARED)
        acquire_lock(f, shared.cast(LockWord))
        shared.unguarded = shared.unguarded + 1
        release_without_waking(f, shared.cast(LockWord))

    with pytest.raises(ScheduleError) as caught:
        explore(None, [add_and_leave] * 2)
    assert caught.value.kind == "deadlock"


def test_a_lock_that_is_released_relaxed_is_a_race():
    @native
    def release_relaxed(f: Function, lock: LockWord) -> None:
        before = lock.state.exchange(0, RELAXED)
        with f.when(before == 2):
            lock.state.wake(1)

    @native
    def add_and_release_relaxed(f: Function) -> None:
        shared = f.static(SHARED)
        acquire_lock(f, shared.cast(LockWord))
        shared.unguarded = shared.unguarded + 1
        release_relaxed(f, shared.cast(LockWord))

    with pytest.raises(ScheduleError) as caught:
        explore(None, [add_and_release_relaxed] * 2)
    assert caught.value.kind == "race"


@native
def open_with_one_permit(f: Function) -> None:
    initialize_semaphore(f, f.static(SHARED).cast(Semaphore), f.constant(Int32, 1))


@native
def enter_and_leave(f: Function) -> None:
    shared = f.static(SHARED)
    acquire_permit(f, shared.cast(Semaphore))
    shared.unguarded = shared.unguarded + 1
    release_permit(f, shared.cast(Semaphore))


def test_a_semaphore_with_one_permit_excludes_other_threads():
    explore(open_with_one_permit, [enter_and_leave] * 2)


def test_a_semaphore_that_is_initialized_again_has_no_sleepers():
    """As in the child of a fork, whose parent had threads that slept: a release would call the kernel in vain."""

    @native
    def sleep_and_initialize(f: Function) -> None:
        f.static(SHARED).sleepers.store(1, RELAXED)
        open_with_one_permit(f)

    @native
    def nobody_sleeps(f: Function) -> None:
        f.check(f.static(SHARED).state.load(RELAXED) == 1, "there is one permit")
        f.check(f.static(SHARED).sleepers.load(RELAXED) == 0, "nobody sleeps")

    assert explore(None, [sleep_and_initialize], nobody_sleeps).ends == 1


def test_a_permit_wakes_a_thread_that_waits():
    @native
    def wait(f: Function) -> None:
        acquire_permit(f, f.static(SHARED).cast(Semaphore))

    @native
    def post(f: Function) -> None:
        release_permit(f, f.static(SHARED).cast(Semaphore))

    @native
    def nobody_sleeps(f: Function) -> None:
        f.check(f.static(SHARED).sleepers.load(RELAXED) == 0, "nobody counts as asleep")

    explore(None, [wait, post], nobody_sleeps)
    with pytest.raises(ScheduleError) as caught:
        explore(None, [wait, wait, post])
    assert caught.value.kind == "deadlock"


def test_a_semaphore_that_counts_sleepers_relaxed_may_sleep_for_ever():
    @native
    def wait(f: Function) -> None:
        semaphore = f.static(SHARED).cast(Semaphore)
        with f.loop() as loop:
            permits = semaphore.permits.load(ACQUIRE)
            with f.when(permits != 0):
                loop.leave()
            semaphore.sleepers.store(1, RELAXED)
            semaphore.permits.wait(0)

    @native
    def post(f: Function) -> None:
        semaphore = f.static(SHARED).cast(Semaphore)
        semaphore.permits.store(1, RELEASE)
        with f.when(semaphore.sleepers.load(RELAXED) != 0):
            semaphore.permits.wake(1)

    with pytest.raises(ScheduleError) as caught:
        explore(None, [wait, post])
    assert caught.value.kind == "deadlock"


def test_machine_code_of_a_lock_and_a_semaphore():
    @native
    def add_many(f: Function, lock: LockWord, total: Shared, times: Word) -> None:
        with f.count(times):
            acquire_lock(f, lock)
            total.unguarded = total.unguarded + 1
            release_lock(f, lock)

    functions = [add_many, initialize_semaphore, acquire_permit, release_permit]
    names = [one.name for one in functions]
    code = compile_unoptimized(library_text(functions, names), names, {})
    memory = (ctypes.c_int64 * 16)()
    address = ctypes.addressof(memory)
    add = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.addresses["add_many"])
    threads = [threading.Thread(target=add, args=(address, address, 20_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert memory[Shared.offsets()["unguarded"] // 8] == 80_000
    assert memory[0] == 0

    semaphore = ctypes.addressof(memory) + 64
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(code.addresses["initialize_semaphore"])(semaphore, 0)
    acquire = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["acquire_permit"])
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["release_permit"])
    waiting = [threading.Thread(target=acquire, args=(semaphore,)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    for _ in waiting:
        release(semaphore)
    for thread in waiting:
        thread.join(60)
    assert not any(thread.is_alive() for thread in waiting)
    assert memory[8] == 0


# --- forks


def forking(notes: bool) -> NativeFunction[[], None]:
    """A thread that forks, and whose child uses the lock."""

    def fork_and_add(f: Function) -> None:
        f.static(SHARED).inside.load(RELAXED)  # the fork comes at any time: after any step of the other threads
        fork(f)
        if notes:
            note_fork(f)
        for _ in range(2):
            add_one(f)

    fork_and_add.__name__ = f"fork_and_add{int(notes)}"
    return native(fork_and_add)


def test_a_lock_that_a_lost_thread_held_is_free_in_the_child():
    """Whatever the other threads have done when the process forks, the child gets the lock, and excludes its own
    threads with it."""

    @native
    def the_lock_is_free(f: Function) -> None:
        f.check(f.static(SHARED).state.load(RELAXED) == 0, "the lock is free")

    threads = [add_one, add_one, forking(notes=True)]
    assert explore(None, threads, the_lock_is_free, models=MODELS, has_private_locations=False).ends >= 1


def test_a_child_that_does_not_know_of_the_fork_is_found():
    with pytest.raises(ScheduleError) as caught:
        explore(None, [add_one, forking(notes=False)], None, models=MODELS, has_private_locations=False)
    assert caught.value.kind == "deadlock"
