"""Fourier transforms of split dimensions, against the transform of the whole array."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.along_dimension.partitioned import check_partitioned, collectives
from xlapy.hlo.module import Module
from xlapy.spmd.along_dimension.real_fourier import RealPlan, RealRows


def all_to_alls(module: Module) -> int:
    return sum(i.op.name == "all-to-all" for i in module.instructions())


TRANSFORMS = {
    "one row": ("c64[512]", "c64[512]", "FFT", (512,), (8,), 3),
    "one row, inverse": ("c64[256]", "c64[256]", "IFFT", (256,), (8,), 3),
    "one row of a size that is not a power of two": ("c128[432]", "c128[432]", "FFT", (432,), (6,), 3),
    "few rows": ("c64[3,128]", "c64[3,128]", "FFT", (128,), (1, 8), 3),
    "many rows": ("c64[16,24]", "c64[16,24]", "IFFT", (24,), (1, 8), 2),
    "rows that are not a multiple of the devices": ("c64[13,24]", "c64[13,24]", "FFT", (24,), (1, 8), 2),
    "two dimensions, split rows": ("c64[16,12]", "c64[16,12]", "FFT", (16, 12), (8, 1), 2),
    "two dimensions, split columns": ("c64[10,16]", "c64[10,16]", "IFFT", (10, 16), (1, 8), 2),
    "two dimensions, both split": ("c64[8,16]", "c64[8,16]", "FFT", (8, 16), (2, 4), 4),
    "three dimensions as pencils": ("c64[4,8,6]", "c64[4,8,6]", "FFT", (4, 8, 6), (2, 4, 1), 4),
    "three dimensions, split in the middle": ("c64[4,8,6]", "c64[4,8,6]", "FFT", (4, 8, 6), (1, 8, 1), 2),
    "real numbers": ("f32[8,10]", "c64[8,6]", "RFFT", (8, 10), (8, 1), 2),
    "to real numbers": ("c64[8,6]", "f32[8,10]", "IRFFT", (8, 10), (4, 1), 2),
    "one row whose tiles are not a multiple of the devices": ("c128[136]", "c128[136]", "IFFT", (136,), (8,), 3),
    "batch and split dimension": ("c64[4,8,16]", "c64[4,8,16]", "FFT", (16,), (2, 1, 4), 2),
}


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str, platform: str) -> None:
    given, result, kind, lengths, tiles, count = TRANSFORMS[name]
    devices = int(np.prod(tiles))
    sharding = f"{{devices=[{','.join(map(str, tiles))}]<=[{devices}]}}"
    length = ",".join(map(str, lengths))
    text = f"""HloModule m
      ENTRY e {{ x = {given} parameter(0), sharding={sharding}
        ROOT r = {result} fft(x), fft_type={kind}, fft_length={{{length}}}, sharding={sharding} }}"""
    shape, generator = xla.Shape.parse(given), np.random.default_rng(0)
    values = generator.standard_normal((2, *shape.dimensions)) @ np.eye(shape.dimensions[-1])
    operand = (values[0] + 1j * values[1]).astype(shape.dtype) if kind != "RFFT" else values[0].astype(shape.dtype)
    if kind == "IRFFT":
        operand = np.fft.rfft2(np.fft.irfft2(operand, lengths)).astype(shape.dtype)
    module = check_partitioned(text, devices, [operand], platform, 2e-5)
    assert set(collectives(module)) - {"collective-permute"} == {"all-to-all"}
    assert all_to_alls(module) == count


REAL_TRANSFORMS = {
    "one row": ((1, 96), 1, (1, 6), RealPlan.PACK),
    "one row in two tiles": ((20,), 1, (2,), RealPlan.PACK),
    "tiles that are not a multiple of the devices": ((2, 80), 1, (1, 8), RealPlan.PACK),
    "as few elements as devices": ((16,), 1, (8,), RealPlan.PACK),
    "many rows": ((9, 24), 1, (1, 8), RealPlan.EXCHANGE),
    "an odd length": ((5, 21), 1, (1, 3), RealPlan.EXCHANGE),
    "both dimensions split": ((6, 16), 2, (2, 4), RealPlan.EXCHANGE),
    "three dimensions, the last one split": ((4, 3, 40), 3, (1, 1, 4), RealPlan.PACK),
    "batch and last dimension split": ((4, 3, 36), 2, (2, 1, 3), RealPlan.PACK),
}


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
@pytest.mark.parametrize("name", REAL_TRANSFORMS)
def test_real_transforms_of_a_split_last_dimension(
    name: str, kind: str, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, transformed, tiles, plan = REAL_TRANSFORMS[name]
    monkeypatch.setattr(RealRows, "plan", lambda _: plan)
    half, devices = (*sizes[:-1], sizes[-1] // 2 + 1), int(np.prod(tiles))
    is_inverse, is_double = kind == "IRFFT", len(sizes) == 2
    types = ("f64", "c128") if is_double else ("f32", "c64")
    real, spectrum = [f"{t}[{','.join(map(str, d))}]" for t, d in zip(types, (sizes, half), strict=True)]
    given, result = (spectrum, real) if is_inverse else (real, spectrum)
    sharding = f"{{devices=[{','.join(map(str, tiles))}]<=[{devices}]}}"
    text = f"""HloModule m
      ENTRY e {{ x = {given} parameter(0)
        y = {given} copy(x), sharding={sharding}
        f = {result} fft(y), fft_type={kind}, fft_length={{{",".join(map(str, sizes[-transformed:]))}}},
          sharding={sharding}
        ROOT r = {result} copy(f) }}"""
    shape, generator = xla.Shape.parse(given), np.random.default_rng(0)
    parts = generator.standard_normal((2, *shape.dimensions))
    operand = (parts[0] + 1j * parts[1] if is_inverse else parts[0]).astype(shape.dtype)
    module = check_partitioned(text, devices, [operand], platform, 1e-12 if is_double else 2e-5)
    assert "all-to-all" in collectives(module)
    results = [i for i in module.instructions() if i.op.name == "all-gather"]
    assert [i.shape.element_type.name.lower() for i in results] == [types[0 if is_inverse else 1]] * len(results)


def test_a_long_real_row_is_packed_and_a_short_one_gathered() -> None:
    assert RealRows(1, 1 << 20, 8, False, 4).plan() is RealPlan.PACK
    assert RealRows(1, 1 << 20, 8, True, 4).plan() is RealPlan.PACK
    assert RealRows(1, 64, 8, False, 4).plan() is RealPlan.GATHER
    assert RealRows(1, (1 << 20) + 8, 16, False, 4).plan() is RealPlan.GATHER  # no tiles of pairs
    assert RealRows(64, 1 << 12, 8, False, 4).plan() is RealPlan.EXCHANGE
    assert RealRows(1, 1 << 14, 8, False, 4, needs_whole=True).plan() is RealPlan.GATHER


@pytest.mark.parametrize(
    ("given", "result", "kind", "length"),
    [("c64[24]", "c64[24]", "FFT", 24), ("f32[4,16]", "c64[4,9]", "RFFT", 16)],
    ids=["tiles that do not divide by the devices", "split real numbers"],
)
def test_transforms_without_an_algorithm_are_gathered(given: str, result: str, kind: str, length: int) -> None:
    tiles = "8" if "," not in given else "1,8"
    text = f"""HloModule m
      ENTRY e {{ x = {given} parameter(0), sharding={{devices=[{tiles}]<=[8]}}
        ROOT r = {result} fft(x), fft_type={kind}, fft_length={{{length}}} }}"""
    shape = xla.Shape.parse(given)
    values = np.random.default_rng(0).standard_normal(shape.dimensions).astype(shape.dtype)
    assert collectives(check_partitioned(text, 8, [values], tolerance=2e-5)) == ["all-gather"]
