"""The garbage collector is disabled while a program is compiled, and restored afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

import xlapy as xla
from xlapy.base.garbage_collection import gc_paused, when_collected


def test_the_collector_is_disabled_inside():
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled():
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_compiling_restores_the_collector_even_if_it_fails(monkeypatch: pytest.MonkeyPatch):
    seen: list[bool] = []
    monkeypatch.setattr("xlapy.runtime.client.verify", lambda module: seen.append(gc.isenabled()))
    xla.Client("cpu").compile("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")
    assert seen == [False] and gc.isenabled()
    with pytest.raises(xla.XlaError):
        xla.Client("cpu").compile("HloModule m ENTRY e { ROOT x = f32[ }")
    assert gc.isenabled()


class _Equal:
    """Objects that are equal to each other."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_functions_are_called_once_an_object_is_collected() -> None:
    called: list[int] = []
    first, second = _Equal(), _Equal()
    when_collected(first, called.append, 1)
    when_collected(second, called.append, 2)
    when_collected(first, called.append, 3)
    assert called == []
    del second
    assert called == [2]
    del first
    assert sorted(called) == [1, 2, 3]


def test_objects_that_are_collected_while_the_interpreter_exits_count() -> None:
    program = """
import atexit
from xlapy.base.garbage_collection import when_collected

class Target: pass

targets = [Target()]
atexit.register(print, "exit")
atexit.register(targets.clear)
when_collected(targets[0], print, "collected")
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (finished.stdout.split(), finished.stderr) == (["collected", "exit"], "")
