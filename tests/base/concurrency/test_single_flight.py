"""`SingleFlight`: one computation per key, whatever threads, errors and forks do meanwhile."""

from __future__ import annotations

import functools
import gc
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from xlapy.base.concurrency.single_flight import SingleFlight

SECONDS = 20.0


def interleaved(decorate: Callable[[Callable[[str], object]], Callable[[str], object]]) -> tuple[list[object], int]:
    """Lets a second thread ask for a value while the first computes it; returns what each got, and the number of
    computations. The computation ends when the second thread computes too, or else waits."""
    is_computing, second_asked = threading.Event(), threading.Event()
    computed: list[object] = []

    def compute(key: str) -> object:
        value = object()
        computed.append(value)
        if len(computed) == 1:
            is_computing.set()
            second_asked.wait(0.2)
        else:
            second_asked.set()
        return value

    cached = decorate(compute)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(cached, "key")
        assert is_computing.wait(SECONDS)
        second = threads.submit(cached, "key")
        return [first.result(SECONDS), second.result(SECONDS)], len(computed)


def test_a_second_thread_waits_for_the_first():
    values, computations = interleaved(SingleFlight)
    assert (values[0] is values[1], computations) == (True, 1)


def test_the_interleaving_makes_functools_compute_twice():
    """The schedule of the test above is one that matters: a thread keeps a value that the cache has dropped."""
    values, computations = interleaved(functools.cache)
    assert (values[0] is values[1], computations) == (False, 2)


def test_many_threads_compute_each_key_once():
    counts: dict[int, int] = {}

    @SingleFlight
    def square(key: int) -> int:
        counts[key] = counts.get(key, 0) + 1
        return key * key

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(square, [n % 50 for n in range(2000)])) == [(n % 50) ** 2 for n in range(2000)]
    assert counts == dict.fromkeys(range(50), 1)


def test_keys_are_computed_concurrently():
    both = threading.Barrier(2)
    cached = SingleFlight(lambda key: both.wait(SECONDS) >= 0 and key)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(cached, [1, 2])) == [1, 2]


def test_errors_are_not_cached():
    results = iter([ValueError("first"), 7])

    @SingleFlight
    def compute() -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    with pytest.raises(ValueError, match="first"):
        compute()
    assert (compute(), compute()) == (7, 7)


def test_a_waiting_thread_computes_when_the_first_fails():
    is_computing, may_fail = threading.Event(), threading.Event()
    attempts: list[int] = []

    @SingleFlight
    def compute() -> str:
        attempts.append(threading.get_ident())
        if len(attempts) == 1:
            is_computing.set()
            assert may_fail.wait(SECONDS)
            raise KeyboardInterrupt
        return "value"

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(compute)
        assert is_computing.wait(SECONDS)
        second = threads.submit(compute)
        may_fail.set()
        with pytest.raises(KeyboardInterrupt):
            first.result(SECONDS)
        assert second.result(SECONDS) == "value"
    assert len(set(attempts)) == 2


def test_a_value_that_needs_itself_is_an_error():
    @SingleFlight
    def compute(key: int) -> int:
        return compute(1 - key)

    with pytest.raises(RuntimeError, match=r"compute\(0,\) needs its own value"):
        compute(0)


def test_a_signal_handler_computes_the_value_that_it_interrupts():
    found: list[object] = []

    @SingleFlight
    def compute(key: int) -> object:
        if not found:
            found.append(None)
            signal.raise_signal(signal.SIGUSR1)
        return object()

    before = signal.signal(signal.SIGUSR1, lambda *_: found.append(compute(0)))
    try:
        value = compute(0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found == [None, value]
    assert compute(0) is value


def test_a_finalizer_computes_the_value_that_it_interrupts():
    found: list[object] = []

    class Cycle:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            found.append(compute(0))

    @SingleFlight
    def compute(key: int) -> object:
        if not found:
            Cycle()
            gc.collect()
        return object()

    value = compute(0)
    assert found == [value]
    assert compute(0) is value


def test_values_that_need_each_other_in_two_threads_are_an_error():
    both, started = threading.Barrier(2), set[int]()

    @SingleFlight
    def compute(key: int) -> int:
        if key in started:
            return key
        started.add(key)
        both.wait(SECONDS)
        return compute(1 - key)

    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(compute, key) for key in range(2)]
        errors = [future.exception(SECONDS) for future in futures]
    assert any("needs its own value" in str(error) for error in errors)


def test_clear_forgets_values():
    values = iter(range(10))
    cached = SingleFlight(lambda: next(values))
    assert (cached(), cached()) == (0, 0)
    cached.cache_clear()
    assert cached() == 1


def test_keywords_are_refused():
    cached: Any = SingleFlight(lambda key: key)
    with pytest.raises(TypeError, match="given key"):
        cached(key=1)


def test_a_forked_child_computes_what_another_thread_was_computing():
    is_computing, may_end = threading.Event(), threading.Event()
    parent = os.getpid()

    @SingleFlight
    def compute() -> int:
        if os.getpid() == parent:
            is_computing.set()
            assert may_end.wait(SECONDS)
        return os.getpid()

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(compute)
        assert is_computing.wait(SECONDS)
        child = os.fork()
        if not child:
            os._exit(0 if compute() == os.getpid() else 1)
        assert os.waitpid(child, 0)[1] == 0
        may_end.set()
        assert first.result(SECONDS) == parent


def test_a_computation_that_forks_goes_on_in_the_child():
    @SingleFlight
    def compute() -> int:
        return os.fork()

    child = compute()
    if not child:
        os._exit(0 if compute() == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
