"""Runs a function in several threads at once and reports what goes wrong in any of them.

An exception in a plain thread ends only that thread: a test that collects mistakes in a list would pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_in_threads(count: int, work: Callable[[int], Any], timeout: float = 120.0) -> list[Any]:
    """Returns the results of `work(0)` to `work(count - 1)`, each in a thread of its own.

    All threads start together. Raises the first exception of a thread, and `TimeoutError` if one takes longer than
    `timeout` seconds.
    """
    start = threading.Barrier(count)

    def run(number: int) -> Any:
        start.wait(timeout)
        return work(number)

    pool = ThreadPoolExecutor(count)
    try:
        futures = [pool.submit(run, number) for number in range(count)]
        return [future.result(timeout) for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
