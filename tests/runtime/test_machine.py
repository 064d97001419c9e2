"""The machine's roofline: the times that follow from it, and the file that caches it."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

from xlapy.base import flags
from xlapy.cpu.llvm.roofline_kernels import ARITHMETIC, BLOCK, CHAINS, SUM, roofline_kernels
from xlapy.runtime import machine
from xlapy.runtime.machine import Bandwidth, Roofline, machine_roofline

ROOFLINE = Roofline(2, {"f32": 100.0, "i32": 50.0}, (Bandwidth(1000, 40.0, 20.0), Bandwidth(10000, 4.0, 2.0)))


def test_types_without_measurement_count_as_f32():
    assert ROOFLINE.arithmetic_seconds({"f32": 200.0, "i32": 50.0, "f16": 100.0}) == 4.0


def test_working_sets_use_the_bandwidth_of_their_cache():
    assert ROOFLINE.memory_seconds(400, 400) == 30.0
    assert ROOFLINE.memory_seconds(40000, 0) == 10000.0
    assert ROOFLINE.memory_seconds(40000, 0, footprint=800) == 1000.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    chosen = flags.Flags({"cache_dir": str(tmp_path / "cache")})
    monkeypatch.setattr(flags, "current", lambda: chosen)
    monkeypatch.setattr(machine, "_MIN_SECONDS", 1e-5)
    monkeypatch.setattr(machine, "_MEASUREMENTS", 1)
    monkeypatch.setattr(machine, "MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(machine, "_MIN_MEMORY_PER_THREAD", 1 << 20)
    return tmp_path / "cache"


def test_the_roofline_is_measured_once(folder, monkeypatch):
    first = machine_roofline()
    (file,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(machine, "_measure", lambda: pytest.fail("measured again"))
    assert machine_roofline() == first
    assert json.loads(file.read_text())["processor"] == first.processor


@pytest.mark.parametrize(("name", "type"), ARITHMETIC.items())
def test_arithmetic_kernels_run_every_iteration_of_every_piece(name, type):
    block = (ctypes.c_int64 * BLOCK)(7)
    memory = np.frombuffer(block, np.int64)
    memory[1:SUM] = np.ones(8, type.dtype).view(np.int64)[0]
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(roofline_kernels().addresses[name])
    run(ctypes.addressof(block), 2, 5)
    each = 1
    for _ in range(3 * 7):
        each = each + 1 if type.is_float else (each + 1) ^ 1
    expected = np.full(64 // type.byte_size, CHAINS * each).astype(type.dtype)
    np.testing.assert_array_equal(memory[SUM:].view(type.dtype), expected)


def test_several_threads_are_at_least_as_fast_as_one(folder):
    found = machine_roofline()
    assert found.one.threads == 1
    assert all(found.all.operations[name] >= count > 1e6 for name, count in found.one.operations.items())
    for one, many in zip(found.one.bandwidths, found.all.bandwidths, strict=True):
        assert many.read >= one.read > 1e6 and many.write >= one.write > 1e6


@pytest.mark.parametrize("damage", ["", "[]", '{"processor": "p"}', "\xff"])
def test_a_damaged_file_is_replaced_by_a_new_measurement(folder, damage, monkeypatch):
    machine_roofline()
    (file,) = folder.iterdir()
    file.write_bytes(damage.encode("latin-1"))
    again = machine_roofline()
    assert json.loads(file.read_text())["one"]["operations"] == again.one.operations


def test_the_roofline_is_measured_anew_on_request(folder, monkeypatch):
    machine_roofline()
    other = machine.Machine("other", ROOFLINE, ROOFLINE)
    monkeypatch.setattr(machine, "_measure", lambda: other)
    assert machine_roofline(anew=True) == other and machine_roofline() == other


def test_without_a_directory_nothing_is_cached(folder):
    folder.write_text("a file, not a directory")
    assert machine_roofline().one.threads == 1
    assert folder.read_text() == "a file, not a directory"


def test_the_tick_counter_advances():
    first = machine.ticks()
    assert machine.ticks() > first
