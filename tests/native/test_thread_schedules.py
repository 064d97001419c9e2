"""Numbers of threads under all schedules."""

from __future__ import annotations

from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, Static, external, native
from xlapy.native.ir import RELAXED
from xlapy.native.records import Owned, Record
from xlapy.native.threads import THREAD_NUMBERS, ThreadKey, initialize_thread_numbers, thread_number
from xlapy.native.values import Address, Int32, Nullable, Word

KEY = 3


class OwnWord(Record):
    """The word that the C library keeps for a thread."""

    value: Owned[Word]


WORDS = Static("words_of_threads", OwnWord, 8 * 2)


@external
def own_index(f: Function) -> Word:  # type: ignore[empty-body]
    """Which of the threads this is."""


@native
def own_word(f: Function, key: Int32) -> OwnWord:
    f.check(key == KEY, "the key is the one that was made")
    return f.static(WORDS).offset(own_index(f) * 8).cast(OwnWord)


@native
def pthread_key_create(f: Function, key: Address, destructor: Nullable[Address]) -> Int32:
    """In place of the C library's function."""
    key.cast(ThreadKey).key = f.constant(Int32, KEY)
    return f.constant(Int32, 0)


@native
def pthread_getspecific(f: Function, key: Int32) -> Word:
    return own_word(f, key).value


@native
def pthread_setspecific(f: Function, key: Int32, value: Word) -> Int32:
    own_word(f, key).value = value
    return f.constant(Int32, 0)


@native
def initialize_twice(f: Function) -> None:
    """As in the child of a fork."""
    initialize_thread_numbers(f)
    initialize_thread_numbers(f)


@native
def ask_twice(f: Function) -> None:
    number = thread_number(f)
    f.check(number != 0, "each thread has a number")
    f.check(thread_number(f) == number, "a thread keeps its number")


@native
def each_has_its_own(f: Function) -> None:
    f.check(f.static(THREAD_NUMBERS).last.load(RELAXED) == 2, "two numbers are used")


def test_each_thread_keeps_a_number_of_its_own() -> None:
    also = [pthread_key_create, pthread_getspecific, pthread_setspecific]
    models = {"own_index": lambda execution, arguments: execution.thread.actor.number}
    assert explore(initialize_twice, [ask_twice] * 2, each_has_its_own, also=also, models=models).ends >= 1
