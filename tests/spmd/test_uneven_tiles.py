"""Dimensions that do not divide evenly are split inside of a program; elements that fill up tiles change no result."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.spmd.sharded_runs import collectives_of, run_sharded
from tests.spmd.uneven_programs import random_uneven_program
from xlapy.spmd import resharding

EIGHT_ROWS = "{devices=[8,1]<=[8]}"


@pytest.fixture(autouse=True)
def _nan_filling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills up tiles with NaN, which any operation would spread."""
    monkeypatch.setattr(resharding, "FILLING_VALUE", float("nan"))


def _run_random(seeds: range) -> None:
    for seed in seeds:
        program = random_uneven_program(random.Random(seed))
        run_sharded(program.text, program.devices, program.arguments)


def test_random_programs() -> None:
    _run_random(range(40))


@pytest.mark.slow
def test_many_random_programs() -> None:
    _run_random(range(100, 500))


def _rows(count: int, columns: int = 3) -> np.ndarray:  # type: ignore[type-arg]
    return np.arange(1, count * columns + 1, dtype=np.float32).reshape(count, columns)


def test_ten_rows_over_eight_devices() -> None:
    """Tiles have two rows; three devices have none of the array."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[10,3] parameter(0)
        y = f32[10,3] negate(x), sharding={EIGHT_ROWS}
        ROOT r = f32[10,3] add(y, y), sharding={{replicated}} }}"""
    module, _ = run_sharded(text, 8, [_rows(10)])
    assert {str(i.shape.dimensions) for i in module.instructions() if i.op.name in ("negate", "add")} == {"(2, 3)"}
    assert collectives_of(module) == {"all-gather"}


SUMS = {
    "reduce": "y = f32[10,3] negate(x), sharding={s}\nROOT r = f32[3] reduce(y, z), dimensions={0}, to_apply=sum",
    "mean of logarithms": "y = f32[10,3] log(x), sharding={s}\nl = f32[10,3] floor(y)\n"
                          "ROOT r = f32[3] reduce(l, z), dimensions={0}, to_apply=sum",
    "greatest": "y = f32[10,3] negate(x), sharding={s}\nROOT r = f32[3] reduce(y, low), dimensions={0}, to_apply=most",
    "dot": "y = f32[10,3] negate(x), sharding={s}\n"
           "ROOT r = f32[3,3] dot(y, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_reductions_leave_out_what_fills_up_tiles(name: str) -> None:
    text = f"""HloModule m
      sum {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b) }}
      most {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] maximum(a, b) }}
      ENTRY e {{ x = f32[10,3] parameter(0)
        z = f32[] constant(0)
        low = f32[] constant(-inf)
        {SUMS[name].replace("{s}", EIGHT_ROWS)}, sharding={{replicated}} }}"""
    module, _ = run_sharded(text, 8, [_rows(10)])
    assert collectives_of(module) == {"all-reduce"}


def test_differences_of_neighbors_stay_split() -> None:
    """The 15 rows of the slices and of their difference have tiles of two rows."""
    text = """HloModule m
      ENTRY e { x = f32[16,3] parameter(0), sharding={devices=[8,1]<=[8]}
        a = f32[15,3] slice(x), slice={[1:16],[0:3]}
        b = f32[15,3] slice(x), slice={[0:15],[0:3]}
        d = f32[15,3] subtract(a, b)
        z = f32[] constant(0)
        ROOT r = f32[16,3] pad(d, z), padding=0_1x0_0, sharding={devices=[8,1]<=[8]} }"""
    module, _ = run_sharded(text, 8, [_rows(16)])
    sent = [i.shape.to_text(layout=False) for i in module.instructions() if i.op.name == "collective-permute"]
    assert collectives_of(module) == {"collective-permute"}
    assert sent == ["f32[1,3]"]


def test_convolutions_without_padding_stay_split() -> None:
    text = """HloModule m
      ENTRY e { x = f32[1,32,2] parameter(0), sharding={devices=[1,8,1]<=[8]}
        k = f32[3,2,2] parameter(1)
        c = f32[1,30,2] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f
        d = f32[1,28,2] convolution(c, k), window={size=3}, dim_labels=b0f_0io->b0f
        z = f32[] constant(0)
        ROOT r = f32[1,32,2] pad(d, z), padding=0_0x2_2x0_0, sharding={devices=[1,8,1]<=[8]} }"""
    arguments = [np.arange(64, dtype=np.float32).reshape(1, 32, 2) % 5, np.ones((3, 2, 2), np.float32)]
    module, _ = run_sharded(text, 8, arguments)
    assert collectives_of(module) == {"collective-permute"}
    sizes = [i.operands[0].shape.dimensions[1] for i in module.instructions() if i.op.name == "collective-permute"]
    assert sizes == [2, 2, 2]


def test_loops_have_uneven_state() -> None:
    text = f"""HloModule m
      body {{ s = (f32[10,3], s32[]) parameter(0)
        x = f32[10,3] get-tuple-element(s), index=0
        i = s32[] get-tuple-element(s), index=1
        one = s32[] constant(1)
        j = s32[] add(i, one)
        y = f32[10,3] negate(x), sharding={EIGHT_ROWS}
        ROOT t = (f32[10,3], s32[]) tuple(y, j) }}
      condition {{ s = (f32[10,3], s32[]) parameter(0)
        i = s32[] get-tuple-element(s), index=1
        three = s32[] constant(3)
        ROOT p = pred[] compare(i, three), direction=LT }}
      ENTRY e {{ x = f32[10,3] parameter(0)
        i = s32[] constant(0)
        t = (f32[10,3], s32[]) tuple(x, i)
        w = (f32[10,3], s32[]) while(t), body=body, condition=condition, sharding={{{EIGHT_ROWS}, {{replicated}}}}
        ROOT y = f32[10,3] get-tuple-element(w), index=0, sharding={{replicated}} }}"""
    module, _ = run_sharded(text, 8, [_rows(10)])
    assert collectives_of(module) == {"all-gather"}
    assert "f32[2,3]" in next(i for i in module.instructions() if i.op.name == "while").shape.to_text(layout=False)
