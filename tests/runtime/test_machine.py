"""The machine's roofline: the times that follow from it, and the file that caches it."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

from xlapy.base import flags
from xlapy.cpu.llvm.roofline_kernels import (
    ARITHMETIC,
    BLOCK,
    CHAINS,
    STREAM_STEP,
    STREAMS,
    SUM,
    Stream,
    roofline_kernels,
)
from xlapy.runtime import machine
from xlapy.runtime.machine import Bandwidth, Roofline, machine_roofline

ROOFLINE = Roofline(2, {"f32": 100.0, "i32": 50.0}, (Bandwidth(1000, 40.0, 20.0), Bandwidth(10000, 4.0, 2.0)))


def test_types_without_measurement_count_as_f32():
    assert ROOFLINE.arithmetic_seconds({"f32": 200.0, "i32": 50.0, "f16": 100.0}) == 4.0


def test_dot_instructions_take_as_long_as_multiply_adds():
    assert ROOFLINE.arithmetic_seconds({"dot bf16": 200.0, "dot u8s8": 400.0}) == 2.0


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
    monkeypatch.setattr(machine, "_CACHE_MULTIPLE", 0)
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


@pytest.mark.parametrize(("name", "stream"), STREAMS.items())
def test_streams_go_through_every_piece_as_often_as_they_say(name: str, stream: Stream):
    """Piece 2 and 3 of five pieces, twice; the first vector of each step counts the times it was reached."""
    size, times = 3 * STREAM_STEP, 2
    arrays = np.arange(3 * 5 * size // 4, dtype=np.int32).reshape(3, -1)
    memory = np.zeros(arrays.nbytes + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :][: arrays.nbytes].view(np.int32).reshape(arrays.shape)
    memory[:] = arrays
    starts = [row.ctypes.data for row in memory]
    block = (ctypes.c_int64 * 5)(*starts, size, times)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(roofline_kernels().addresses[name])
    run(ctypes.addressof(block), 2, 4)
    pieces = slice(2 * size // 4, 4 * size // 4)
    expected = arrays.copy()
    if name == "update":
        expected[0, pieces] = arrays[0, pieces]
    elif name == "accumulate":
        expected[0, pieces] += 2 * arrays[1, pieces]
    elif name == "write_at_once":
        expected[2, pieces] = 0x01010101
    elif stream.writes:
        expected[2, pieces] = arrays[: stream.reads, pieces].sum(0)
    difference = memory - expected
    counted = np.zeros_like(difference)
    if stream.writes and not stream.at_once:  # one lane holds the number of the time, counted from 0
        counted[0 if stream.in_place else 2, pieces].reshape(-1, 16)[:, 0] = 1
    np.testing.assert_array_equal(difference, counted)


@pytest.mark.parametrize(
    ("read", "written", "in_place", "seconds"),
    [
        (40, 0, 0, 40 / 8),
        (0, 40, 0, 40 / 4),
        (40, 40, 0, 80 / 5),
        (80, 40, 0, 120 / 6),
        (120, 40, 0, 120 / 6 + 40 / 8),
        (60, 40, 0, 60 / 6 + 40 / 5),
        (20, 40, 0, 40 / 5 + 20 / 4),
        (40, 40, 40, 80 / 10),
        (80, 40, 40, 120 / 12),
        (40, 40, 20, 40 / 5 + 40 / 10),
        (0, 40, 99, 80 / 10),
    ],
)
def test_mixtures_of_reads_and_writes_use_the_nearest_streams(read, written, in_place, seconds):
    bandwidth = Bandwidth(1, 8.0, 4.0, 5.0, 6.0, 10.0, 12.0)
    assert bandwidth.seconds(read, written, in_place) == pytest.approx(seconds)


def test_between_measured_working_sets_the_rate_changes_gradually():
    times = [ROOFLINE.memory_seconds(400, 0, footprint=size) for size in np.geomspace(100, 1e6, 50)]
    assert times == sorted(times) and times[0] == 10.0 and times[-1] == 100.0
    middle = ROOFLINE.memory_seconds(400, 0, footprint=2 * 2**0.5 * (1000 * 10000) ** 0.5)
    assert middle == pytest.approx((10.0 + 100.0) / 2)


def test_levels_of_memory():
    three = machine.Machine("p", ROOFLINE, ROOFLINE, caches=(1000, 10_000, 30_000))
    assert [three.level(size, 2) for size in (1, 2000, 2001, 20_000, 20_001, 30_000, 30_001)] == [
        "L1", "L1", "L2", "L2", "L3", "L3", "memory",
    ]  # fmt: skip
    assert [name for name, _ in three.levels(ROOFLINE)] == ["L2", "memory"]


def test_several_threads_are_at_least_as_fast_as_one(folder):
    found = machine_roofline()
    assert found.one.threads == 1
    assert all(found.all.operations[name] >= count > 1e6 for name, count in found.one.operations.items())
    for one, many in zip(found.one.bandwidths, found.all.bandwidths, strict=False):
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
