"""Operations along random dimensions of random arrays, over random meshes, equal the unpartitioned program."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.spmd.along_dimension.partitioned import check_partitioned
from tests.spmd.along_dimension.test_reductions import HEAD
from xlapy.spmd.along_dimension import sorting
from xlapy.spmd.along_dimension.sort_plan import (
    ExchangeRows,
    Gather,
    MergeTiles,
    SearchBoundaries,
    SortPlan,
    SplitRows,
)

ORDER = """by_value { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER }
by_second { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT e = pred[] compare(c, d), direction=LT, type=TOTALORDER }
"""


def tiles_of(generator: np.random.Generator, rank: int, devices: int) -> str:
    """Returns a sharding that splits each dimension over some of the devices, and leaves the rest replicated."""
    sizes, order = [1] * (rank + 1), list(range(rank + 1))
    for _ in range(int(math.log2(devices))):
        sizes[int(generator.choice(order))] *= 2
    assignment = ",".join(map(str, sizes))
    return f"{{devices=[{assignment}]<=[{devices}] last_tile_dim_replicate}}"


def body(generator: np.random.Generator, kind: str, dimensions: list[int], sharding: str) -> tuple[str, str]:
    """Returns the text of an operation on `y`, whose result is `r`, and the shape of the result."""
    rank = len(dimensions)
    dimension = int(generator.integers(rank))
    shape, integers = (f"{t}[{','.join(map(str, dimensions))}]" for t in ("f32", "s32"))
    left = ",".join(str(size) for d, size in enumerate(dimensions) if d != dimension)
    if kind == "sort":
        result = f"({integers}, {shape})"
        stable = f"dimensions={{{dimension}}}, is_stable=true, to_apply=by_second"
        return f"i = {integers} iota(), iota_dimension={dimension}\nr = {result} sort(i, y), {stable}", result
    if kind == "cumulative":
        size = dimensions[dimension]
        reducer, initial = (("sum", "0"), ("most", "-inf"))[generator.integers(2)]
        pad = f"{size - 1}_0" if generator.integers(2) else f"0_{size - 1}"
        sizes = "x".join(str(size) if d == dimension else "1" for d in range(rank))
        pads = "x".join(pad if d == dimension else "0_0" for d in range(rank))
        window = f"window={{size={sizes} pad={pads}}}, to_apply={reducer}, sharding={sharding}"
        return f"z = f32[] constant({initial})\nr = {shape} reduce-window(y, z), {window}", shape
    if kind == "argmax":
        result = f"(f32[{left}], s32[{left}])"
        text = f"""i = {integers} iota(), iota_dimension={dimension}
          z = f32[] constant(-inf)
          n = s32[] constant(0)
          r = {result} reduce(y, i, z, n), dimensions={{{dimension}}}, to_apply=first_most"""
        return text, result
    if kind == "top-k":
        k = int(generator.integers(1, dimensions[-1] + 1))
        sizes = ",".join(map(str, [*dimensions[:-1], k]))
        result = f"(f32[{sizes}], s32[{sizes}])"
        return f"r = {result} topk(y), k={k}, largest={('false', 'true')[generator.integers(2)]}", result
    count = int(generator.integers(1, min(rank, 3) + 1))
    doubles, spectrum = shape.replace("f32", "f64"), shape.replace("f32", "c128")
    lengths = ",".join(map(str, dimensions[-count:]))
    text = f"""w = {doubles} convert(y), sharding={sharding}
      z = {doubles} negate(w)
      c = {spectrum} complex(w, z), sharding={sharding}
      f = {spectrum} fft(c), fft_type={("FFT", "IFFT")[generator.integers(2)]}, fft_length={{{lengths}}},
        sharding={sharding}
      r = {doubles} real(f), sharding={sharding}"""
    return text, doubles


def check_random(kind: str, seed: int) -> None:
    generator = np.random.default_rng([seed, *kind.encode()])
    devices, rank = int(generator.choice([2, 4, 8])), int(generator.integers(1, 4))
    dimensions = [int(size) for size in generator.integers(2, 20, rank)]
    if generator.integers(2):
        dimensions = [size * devices for size in dimensions[:2]]
    sharding = tiles_of(generator, len(dimensions), devices)
    shape = f"f32[{','.join(map(str, dimensions))}]"
    operation, result = body(generator, kind, dimensions, sharding)
    text = f"""{HEAD}{ORDER}ENTRY e {{ x = {shape} parameter(0)
      y = {shape} copy(x), sharding={sharding}
      {operation}
      ROOT root = {result} {"copy" if result.startswith("f") else "opt-barrier"}(r) }}"""
    values = (generator.integers(-9, 9, dimensions) * 0.5).astype(np.float32)
    check_partitioned(text, devices, [values], tolerance=1e-9 if kind == "fft" else None)


KINDS = ("sort", "cumulative", "argmax", "top-k", "fft")


@pytest.fixture(autouse=True)
def short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are sorted by all algorithms, though gathering such short ones would be faster."""

    def plan(rows: SplitRows, is_ordered: bool, _: bool) -> SortPlan:
        if not is_ordered or rows.length % 3 == 0:
            return ExchangeRows() if rows.rows > 1 else Gather()
        return SearchBoundaries(3) if rows.rows == 1 and rows.length % 3 == 1 else MergeTiles()

    monkeypatch.setattr(sorting, "choose_sort_plan", plan)


@pytest.mark.parametrize(("kind", "seed"), list(itertools.product(KINDS, range(6))))
def test_random_operations(kind: str, seed: int) -> None:
    check_random(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_operations(kind: str) -> None:
    for seed in range(6, 120):
        check_random(kind, seed)
