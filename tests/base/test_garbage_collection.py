"""The garbage collector is disabled while a program is compiled, and restored afterwards."""

from __future__ import annotations

import gc

import pytest

import xlapy as xla
from xlapy.base.garbage_collection import gc_paused


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
