"""Threads: starting those that run until the process ends, and numbers that tell all threads apart.

The C library gives the address of a thread that has ended, and its number in the system, to later ones. The numbers
here are never used again.

Responsible for starting and numbering threads. Must not know what they do.
"""

from __future__ import annotations

from xlapy.native.function import Function, Static, external, native
from xlapy.native.ir import RELAXED
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Address, Bool, Int32, Nullable, Word


class ThreadId(Record):
    """Where the C library stores the number of a thread."""

    number: Owned[Word]


@external
def pthread_create(  # type: ignore[empty-body]
    f: Function, thread: Address, attributes: Nullable[Address], function: Address, argument: Address
) -> Int32:
    """Starts a thread; returns 0, or why that is not possible."""


@external
def pthread_detach(f: Function, thread: Word) -> Int32:  # type: ignore[empty-body]
    """Nobody will wait for the end of the thread."""


@native
def start_thread(f: Function, function: Address, argument: Address) -> Bool:
    """Starts a thread that runs until the process ends; false if that is not possible."""
    thread = f.stack(ThreadId.byte_size()).cast(ThreadId)
    with f.when(pthread_create(f, thread, f.null(Address), function, argument) != 0):
        f.ret(False)
    pthread_detach(f, thread.number)
    return f.constant(Bool, True)


class ThreadNumbers(Record):
    """key: of the words that threads keep their numbers in, plus one; 0 if there is none. last: the last number."""

    key: Atomic[Int32]
    last: Atomic[Word]


class ThreadKey(Record):
    """Where the C library stores a key."""

    key: Owned[Int32]


THREAD_NUMBERS = Static("thread_numbers", ThreadNumbers)


@external
def pthread_key_create(f: Function, key: Address, destructor: Nullable[Address]) -> Int32:  # type: ignore[empty-body]
    """Makes a key; returns 0, or why that is not possible."""


@external
def pthread_getspecific(f: Function, key: Int32) -> Word:  # type: ignore[empty-body]
    """The word of this thread; 0 if it has not set it."""


@external
def pthread_setspecific(f: Function, key: Int32, value: Word) -> Int32:  # type: ignore[empty-body]
    """Sets the word of this thread."""


@native
def initialize_thread_numbers(f: Function) -> None:
    """Makes the key, once. No other thread asks for its number."""
    numbers = f.static(THREAD_NUMBERS)
    with f.when(numbers.key.load(RELAXED) == 0):
        made = f.stack(ThreadKey.byte_size()).cast(ThreadKey)
        with f.when(pthread_key_create(f, made, f.null(Address)) == 0):
            numbers.key.store(made.key + 1, RELAXED)


@native
def thread_number(f: Function) -> Word:
    """The number of this thread, from 1 on. If the C library has no keys left, each call returns another number."""
    numbers = f.static(THREAD_NUMBERS)
    key = numbers.key.load(RELAXED)
    with f.when(key != 0):
        known = pthread_getspecific(f, key - 1)
        with f.when(known != 0):
            f.ret(known)
    made = numbers.last.fetch_add(1, RELAXED) + 1
    with f.when(key != 0):
        pthread_setspecific(f, key - 1, made)
    return made
