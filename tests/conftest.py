"""Settings of the whole suite."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest


def keep_bytecode() -> None:
    """Makes this process and the hundreds that tests start keep bytecode in a folder of its own, also where the
    environment forbids it beside the sources. Without bytecode, a process compiles xlapy's sources for two seconds."""
    if not sys.dont_write_bytecode or sys.pycache_prefix is not None:
        return
    folder = Path(tempfile.gettempdir()) / f"xlapy-tests-bytecode-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid == os.getuid():  # what is in it is executed
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


keep_bytecode()


GARBAGE_THRESHOLD = 20_000
"""The new objects after which garbage is collected. JAX's callback makes each collection expensive."""


def pytest_configure(config: pytest.Config) -> None:
    """Restores Ctrl-C, which shells disable in background jobs: tests of interruption would wait forever. Makes cpu
    verify the memory of programs."""
    gc.set_threshold(GARBAGE_THRESHOLD, *gc.get_threshold()[1:])
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
