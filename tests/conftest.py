"""Settings of the whole suite."""

from __future__ import annotations

import gc
import os
import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Restores Ctrl-C, which shells disable in background jobs: tests of interruption would wait forever. Makes cpu
    verify the memory of programs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    verify_buffers()


def pytest_collection_finish() -> None:
    """Excludes imported modules and test items from garbage collection: each full collection would traverse them."""
    gc.collect()
    gc.freeze()


def verify_buffers() -> None:
    """Makes cpu verify the memory of every program that the tests compile, in other processes too."""
    others = os.environ.get("XLAPY_FLAGS", "")
    if "verify_buffers" not in others:
        os.environ["XLAPY_FLAGS"] = f"--verify_buffers {others}".strip()
