"""Locks across forks: free in both processes, however threads hold them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from xlapy.base.concurrency import forking
from xlapy.base.concurrency.forking import fork_safe_lock, register_lock

SECONDS = 20.0


def in_child(body: Callable[[], bool]) -> bool:
    child = os.fork()
    if not child:
        os._exit(0 if body() else 1)
    return os.waitpid(child, 0)[1] == 0


def test_a_fork_waits_for_the_end_of_a_change():
    lock, values = fork_safe_lock(), list[int]()
    is_changing, may_end = threading.Event(), threading.Event()

    def change() -> None:
        with lock:
            values.append(1)
            is_changing.set()
            may_end.wait(0.1)
            values.append(2)

    thread = threading.Thread(target=change)
    thread.start()
    assert is_changing.wait(SECONDS)
    assert in_child(lambda: lock.acquire(blocking=False) and values == [1, 2])
    thread.join()
    assert lock.acquire(blocking=False)


def test_threads_that_hold_several_locks_do_not_block_forks():
    first, second = fork_safe_lock(), fork_safe_lock()
    stop = threading.Event()

    def nest(outer: threading.RLock, inner: threading.RLock) -> None:
        while not stop.is_set():
            with outer:
                if inner.acquire(timeout=0.001):
                    inner.release()
            # a lock of Python that is taken again at once is hardly ever had by another thread
            time.sleep(0.0005)

    threads = [threading.Thread(target=nest, args=locks) for locks in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    children = [in_child(lambda: first.acquire(blocking=False) and second.acquire(blocking=False)) for _ in range(20)]
    stop.set()
    for thread in threads:
        thread.join()
    assert all(children)


def test_a_lock_that_is_not_released_in_time_is_new_in_the_child(monkeypatch):
    monkeypatch.setattr(forking, "MAX_WAIT_SECONDS", 0.05)
    lock, lost = threading.RLock(), list[str]()
    register_lock(lock, lambda: lost.append("lost"))
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            may_end.wait(SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(SECONDS)
    assert in_child(lambda: lock.acquire(blocking=False) and lost == ["lost"])
    assert lost == []
    may_end.set()
    thread.join()
    assert in_child(lambda: lost == [])


def test_a_thread_acquires_a_lock_again_that_its_finalizer_or_signal_handler_has_interrupted():
    lock = fork_safe_lock()
    with lock:
        assert lock.acquire(blocking=False)
        lock.release()
