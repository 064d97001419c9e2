"""The collector is off while programs are compiled, and afterwards as it was."""

from __future__ import annotations

import gc

import pytest

import xlapy as xla
from xlapy.base.collecting import collecting_later


def test_nothing_is_collected_inside():
    assert gc.isenabled()
    with collecting_later():
        assert not gc.isenabled()
        with collecting_later():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_it_off_keeps_it_off():
    gc.disable()
    try:
        with collecting_later():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_compiling_leaves_it_on_even_if_it_fails(monkeypatch: pytest.MonkeyPatch):
    seen: list[bool] = []
    monkeypatch.setattr("xlapy.runtime.client.verify", lambda module: seen.append(gc.isenabled()))
    xla.Client("cpu").compile("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")
    assert seen == [False] and gc.isenabled()
    with pytest.raises(xla.XlaError):
        xla.Client("cpu").compile("HloModule m ENTRY e { ROOT x = f32[ }")
    assert gc.isenabled()
