"""Caches whose values are computed once per key, however many threads ask at the same time.

`functools.cache` computes a value once per thread that asks before the first value is there, and keeps the last one:
the cache does not hold the others, although their users do not know. That is harmless for values that compare equal and
own nothing. It is not for machine code, records whose addresses native code keeps, classes, threads and libraries.

Responsible for who computes a value, and for waiting, errors and forks. Does not depend on what is cached.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakSet

_P = ParamSpec("_P")
_V = TypeVar("_V")


class _Flight:
    """A computation in progress. owner: the thread that computes; is_done: set at its end, with or without a value."""

    __slots__ = ("is_done", "owner", "reentries")

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.is_done = threading.Event()
        self.reentries = 0
        """How often its thread computes the value within this computation."""


MAX_REENTRIES = 8
"""Signal handlers and finalizers that may interrupt each other while they compute one value."""

_waiting: dict[int, _Flight] = {}
"""The computation that each waiting thread waits for, by the number of the thread."""


_MISSING = object()


class Flights:
    """The computations in progress of a cache: at most one per key, in whatever the values are stored.

    name: the cache in error messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._flights: dict[Hashable, _Flight] = {}
        _all_flights.add(self)

    def run(self, key: Hashable, find: Callable[[], _V], compute: Callable[[], _V]) -> _V:
        """Returns the stored value of a key, or computes it; other threads that ask for the key wait meanwhile.

        find: returns the stored value, `KeyError` if there is none. compute: computes the value and stores it; if it
        fails, this thread gets the exception, and one of the waiting threads computes. `RuntimeError` instead of
        waiting forever if a computation needs its own value, directly or through computations of other threads. A
        signal handler or finalizer that interrupts a computation and asks for its value computes it as well.
        """
        while True:
            # `setdefault` finds or adds an entry in one step: of several threads, one gets its own flight.
            own = _Flight()
            flight = self._flights.setdefault(key, own)
            if flight is own:
                return self._compute(key, own, find, compute)
            if flight.owner == threading.get_ident() and not flight.is_done.is_set():
                return self._compute_again(key, flight, find, compute)
            self._wait(flight, key)
            try:
                return find()
            except KeyError:
                continue  # it failed

    def _compute(self, key: Hashable, own: _Flight, find: Callable[[], _V], compute: Callable[[], _V]) -> _V:
        """Computes the value of a key, which no other thread computes now."""
        try:
            try:
                return find()  # another thread may have ended before this flight began
            except KeyError:
                pass
            return compute()
        finally:
            # The value is stored before the flight is removed, so no thread finds neither after a success.
            if self._flights.get(key) is own:
                del self._flights[key]
            own.is_done.set()

    def _compute_again(self, key: Hashable, own: _Flight, find: Callable[[], _V], compute: Callable[[], _V]) -> _V:
        """Computes a value within its own computation by the same thread, which cannot wait for itself.

        A signal handler or finalizer may have interrupted the computation. It computes the value for itself. A value
        that needs itself comes here again and again.
        """
        if own.reentries == MAX_REENTRIES:
            raise RuntimeError(f"{self._name}{key} needs its own value to be computed")
        own.reentries += 1
        try:
            return find()
        except KeyError:
            return compute()
        finally:
            own.reentries -= 1

    def _wait(self, flight: _Flight, key: Hashable) -> None:
        """Waits for the end of a flight."""
        me = threading.get_ident()
        before = _waiting.get(me)  # a signal handler may wait while its thread waits
        _waiting[me] = flight
        try:
            self._check_acyclic(flight, key, me)
            flight.is_done.wait()
        finally:
            if before is None:
                _waiting.pop(me, None)
            else:
                _waiting[me] = before

    def _check_acyclic(self, flight: _Flight, key: Hashable, me: int) -> None:
        # Each thread announces its wait before it looks at the others', so the last thread of a cycle sees all of it.
        following: _Flight | None = flight
        while following is not None and not following.is_done.is_set():
            if following.owner == me:
                raise RuntimeError(f"{self._name}{key} needs its own value to be computed")
            following = _waiting.get(following.owner)

    def after_fork_in_child(self, me: int) -> None:
        """Drops the flights of threads that the child does not have."""
        self._flights = {key: flight for key, flight in self._flights.items() if flight.owner == me}
        for flight in self._flights.values():
            flight.is_done = threading.Event()  # a thread of the parent may have held its lock


class SingleFlight(Generic[_P, _V]):
    """A function with a cache: it runs once per key, which is the tuple of its positional arguments.

    Threads that ask for a key that is being computed wait, as `Flights.run` describes. Errors are not cached; values
    are kept until `cache_clear`. In a forked child, a computation whose thread exists only in the parent starts anew
    when its value is needed.
    """

    def __init__(self, function: Callable[_P, _V]) -> None:
        self._function = function
        self._name: str = getattr(function, "__qualname__", repr(function))
        self._values: dict[Hashable, Any] = {}
        self._flights = Flights(self._name)
        update_wrapper(self, function)

    def __call__(self, *key: _P.args, **keywords: _P.kwargs) -> _V:
        if keywords:
            raise TypeError(f"{self._name} takes positional arguments only, given {', '.join(keywords)}")
        found = self._values.get(key, _MISSING)
        if found is not _MISSING:
            value: _V = found
            return value
        return self._flights.run(key, lambda: self._values[key], lambda: self._compute(key))

    def cache_clear(self) -> None:
        """Forgets the values. Computations in progress keep theirs."""
        self._values.clear()

    def _compute(self, key: tuple[Any, ...]) -> _V:
        function: Callable[..., _V] = self._function
        # A handler that interrupted the function may have stored a value, which has users.
        return self._values.setdefault(key, function(*key))


_all_flights: WeakSet[Flights] = WeakSet()


def _after_fork_in_child() -> None:
    me = threading.get_ident()
    _waiting.clear()
    for flights in list(_all_flights):
        flights.after_fork_in_child(me)


os.register_at_fork(after_in_child=_after_fork_in_child)
