"""Locks and semaphores of native functions. Waiting threads sleep (futex).

The word of a held lock says in which process: how often the process has been forked. In the child of a fork, a lock
that a thread of the parent held is therefore free. That suits what is in order after each single store; other changes
must end before the fork, whose handlers acquire their locks.

Responsible for mutual exclusion and counting. Must not know what is guarded or counted.
"""

from __future__ import annotations

from xlapy.native.function import Function, Static, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE, SEQ_CST
from xlapy.native.records import Atomic, Record
from xlapy.native.values import Int32

SPINS = 40
"""The number of times that a thread looks at a lock before it sleeps: most critical sections take less than that."""

_FREE, _HELD, _CONTENDED = 0, 1, 2

_FORK = 4
"""What the count of forks grows by: its multiples leave the states of locks free."""


class LockWord(Record):
    """The word of a lock. state: free, or the count of forks plus held, or held while threads may sleep."""

    state: Atomic[Int32]


class Forks(Record):
    """count: `_FORK` times the number of forks that lead from the first process to this one."""

    count: Atomic[Int32]


FORKS = Static("forks", Forks)


@native
def note_fork(f: Function) -> None:
    """Notes that this process is the child of a fork. It has only one thread."""
    f.static(FORKS).count.fetch_add(_FORK, RELAXED)


@native
def fork_count(f: Function) -> Int32:
    """A number that differs in the child of a fork from that in its parent."""
    return f.static(FORKS).count.load(RELAXED)


@native
def initialize_lock(f: Function, lock: LockWord) -> None:
    """Makes a lock that no thread holds. No other thread can reach it."""
    lock.state.store(_FREE, RELAXED)


@native
def acquire_lock(f: Function, lock: LockWord) -> None:
    """Waits until no thread holds the lock, and takes it."""
    process = f.static(FORKS).count.load(RELAXED)
    with f.count(f.spins(SPINS)):
        _, is_taken = lock.state.compare_exchange(_FREE, process + _HELD, ACQUIRE, RELAXED)
        with f.when(is_taken):
            f.ret()
        f.pause()
    contended = process + _CONTENDED
    with f.loop():
        before = lock.state.exchange(contended, ACQUIRE)
        with f.when((before == _FREE) | ((before & -_FORK) != process)):
            f.ret()
        lock.state.wait(contended)


@native
def release_lock(f: Function, lock: LockWord) -> None:
    """Lets another thread take the lock."""
    before = lock.state.exchange(_FREE, RELEASE)
    with f.when((before & _CONTENDED) != 0):
        lock.state.wake(1)


class Semaphore(Record):
    """A number of permits. sleepers: threads that sleep, or are about to."""

    permits: Atomic[Int32]
    sleepers: Atomic[Int32]


@native
def initialize_semaphore(f: Function, semaphore: Semaphore, permits: Int32) -> None:
    """Sets the number of permits. No thread may wait; those that reach the semaphore later have synchronized with this
    one, which is why nothing is released here."""
    semaphore.sleepers.store(0, RELAXED)
    semaphore.permits.store(permits, RELAXED)


@native
def acquire_permit(f: Function, semaphore: Semaphore) -> None:
    """Waits until there is a permit, and takes it."""
    with f.loop():
        permits = semaphore.permits.load(RELAXED)  # the exchange acquires
        with f.when(permits != 0):
            _, is_taken = semaphore.permits.compare_exchange(permits, permits - 1, ACQUIRE, RELAXED)
            with f.when(is_taken):
                f.ret()
        with f.when(permits == 0):
            semaphore.sleepers.fetch_add(1, SEQ_CST)
            semaphore.permits.wait(0)
            semaphore.sleepers.fetch_sub(1, RELAXED)


@native
def release_permit(f: Function, semaphore: Semaphore) -> None:
    """Adds a permit, and wakes a thread that waits for one."""
    semaphore.permits.fetch_add(1, SEQ_CST)
    with f.when(semaphore.sleepers.load(SEQ_CST) != 0):
        semaphore.permits.wake(1)
