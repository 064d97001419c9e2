"""Collectives that send less, or synchronize less often, with the same results."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.spmd import partition
from xlapy.spmd.collectives.combiner import MAX_COMBINED_BYTES, combine_collectives
from xlapy.spmd.collectives.rewrites import rewrite_collectives

DEVICES = 4
SUM = "sum { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b) }\n"
ALL = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"
PAIRS = "channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true"


def collectives(module: Module) -> list[str]:
    return sorted(i.op.name for i in module.instructions() if i.op.family == "collectives" and i.operands)


def run(platform: str, module: Module, arguments: list[list[Any]]) -> list[list[Any]]:
    results = xla.Client(platform, devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(arguments)
    return [[np.asarray(one) for one in (result if isinstance(result, tuple) else [result])] for result in results]


def check(text: str, expected: str, *shapes: tuple[int, ...]) -> Module:
    """Checks the collectives after the rewrites, and that each device has the same result as before."""
    before, after = xla.parse_hlo(text), xla.parse_hlo(text)
    for computation in after.computations:
        rewrite_collectives(computation, DEVICES)
        combine_collectives(computation)
    verify(after)
    assert " ".join(collectives(after)) == expected
    generator = np.random.default_rng(0)
    given = [[generator.integers(-9, 9, s).astype(np.float32) for s in shapes] for _ in range(DEVICES)]
    wanted = run("interpreter", before, given)
    for platform in ("interpreter", "cpu"):
        for one, other in zip(run(platform, after, given), wanted, strict=True):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_array_equal(left, right)
    return after


STARTS = {
    "all devices": (ALL, "i = u32[] partition-id()\n n = u32[] constant(2)\n k = u32[] multiply(i, n)", True),
    "a table": (ALL, "t = s32[4] constant({0,2,4,6})\n i = u32[] partition-id()\n"
                     "q = s32[1] dynamic-slice(t, i), dynamic_slice_sizes={1}\n k = s32[] reshape(q)", True),
    "a table in another order": (ALL, "t = s32[4] constant({2,0,4,6})\n i = u32[] partition-id()\n"
                     "q = s32[1] dynamic-slice(t, i), dynamic_slice_sizes={1}\n k = s32[] reshape(q)", False),
    "an index that may count from the end":
        (ALL, "i = u32[] partition-id()\n n = s32[] constant(2)\n j = s32[] convert(i)\n l = s32[] multiply(j, n)\n"
              "w = s32[] constant(8)\n m = s32[] add(l, w)\n o = s32[] constant(0)\n"
              "d = pred[] compare(l, o), direction=LT\n k = s32[] select(d, m, l)", True),
    "the same part on all devices": (ALL, "k = u32[] constant(2)", False),
    "a part that a parameter names":
        (ALL, "k = s32[] convert(f)", False),
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_all_reduce_and_slice_of_the_own_part(name: str) -> None:
    groups, start, is_own = STARTS[name]
    text = f"""HloModule m
      {SUM}ENTRY e {{ x = f32[8,3] parameter(0)
        f = f32[] parameter(1)
        {start}
        s = f32[8,3] all-reduce(x), {groups}, to_apply=sum
        z = {start.rsplit("k = ", 1)[1].split("[")[0]}[] constant(0)
        ROOT r = f32[2,3] dynamic-slice(s, k, z), dynamic_slice_sizes={{2,3}} }}"""
    check(text, "reduce-scatter" if is_own else "all-reduce", (8, 3), ())


@pytest.mark.parametrize("divisor", [1, 2])
def test_parts_within_groups(divisor: int) -> None:
    """The part is the position in the group of two: the device number modulo 2, not divided by 2."""
    digit = "k = s32[] remainder(j, two)" if divisor == 1 else "k = s32[] divide(j, two)"
    text = f"""HloModule m
      {SUM}ENTRY e {{ x = f32[3,8] parameter(0)
        i = u32[] partition-id()
        j = s32[] convert(i)
        two = s32[] constant(2)
        {digit}
        four = s32[] constant(4)
        l = s32[] multiply(k, four)
        z = s32[] constant(0)
        s = f32[3,8] all-reduce(x), {PAIRS}, to_apply=sum
        ROOT r = f32[3,4] dynamic-slice(s, z, l), dynamic_slice_sizes={{3,4}} }}"""
    check(text, "reduce-scatter" if divisor == 1 else "all-reduce", (3, 8))


def test_a_sum_that_is_used_elsewhere_stays() -> None:
    text = f"""HloModule m
      {SUM}ENTRY e {{ x = f32[8] parameter(0)
        i = u32[] partition-id()
        n = u32[] constant(2)
        k = u32[] multiply(i, n)
        s = f32[8] all-reduce(x), {ALL}, to_apply=sum
        p = f32[2] dynamic-slice(s, k), dynamic_slice_sizes={{2}}
        ROOT r = (f32[2], f32[8]) tuple(p, s) }}"""
    check(text, "all-reduce", (8,))


@pytest.mark.parametrize(("given", "wanted", "is_moved"), [("f32", "bf16", True), ("f32", "f64", False)])
def test_conversions_to_fewer_bits_come_before_data_is_moved(given: str, wanted: str, is_moved: bool) -> None:
    text = f"""HloModule m
      ENTRY e {{ x = {given}[2,8] parameter(0)
        g = {given}[8,8] all-gather(x), {ALL}, dimensions={{0}}
        c = {wanted}[8,8] convert(g)
        p = {wanted}[8,8] collective-permute(c), channel_id=2, source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}
        ROOT r = f32[8,8] convert(p) }}"""
    module = check(text, "all-gather collective-permute", (2, 8))
    gathered = next(i for i in module.instructions() if i.op.name == "all-gather")
    assert str(gathered.shape.element_type) == (wanted if is_moved else given)


def test_independent_all_gathers_and_reduce_scatters_are_combined() -> None:
    text = f"""HloModule m
      {SUM}ENTRY e {{ x = f32[2,8] parameter(0)
        y = f32[3] parameter(1)
        a = f32[8,8] all-gather(x), {ALL}, dimensions={{0}}
        b = f32[12] all-gather(y), {ALL.replace("=1,", "=2,")}, dimensions={{0}}
        c = f32[8,32] all-gather(a), {ALL.replace("=1,", "=3,")}, dimensions={{1}}
        d = f32[8,8] reduce-scatter(c), {ALL.replace("=1,", "=4,")}, dimensions={{1}}, to_apply=sum
        f = f32[8,32] all-gather(d), {ALL.replace("=1,", "=5,")}, dimensions={{1}}
        ROOT r = (f32[12], f32[8,32]) tuple(b, f) }}"""
    module = check(text, "all-gather all-gather all-gather reduce-scatter", (2, 8), (3,))
    counts = sorted(len(i.operands) for i in module.instructions() if i.op.name == "all-gather")
    assert counts == [1, 1, 2]


def test_two_reduce_scatters_become_one() -> None:
    text = f"""HloModule m
      {SUM}ENTRY e {{ x = f32[8,4] parameter(0)
        y = f32[4] parameter(1)
        a = f32[2,4] reduce-scatter(x), {ALL}, dimensions={{0}}, to_apply=sum
        b = f32[1] reduce-scatter(y), {ALL.replace("=1,", "=2,")}, dimensions={{0}}, to_apply=sum
        ROOT r = (f32[2,4], f32[1]) tuple(a, b) }}"""
    check(text, "reduce-scatter", (8, 4), (4,))


SHIFT, BACK = (f"source_target_pairs={{{pairs}}}" for pairs in ("{0,1},{1,2},{2,3}", "{1,0},{2,1},{3,2}"))


def test_independent_permutes_of_equal_pairs_are_combined() -> None:
    """The types differ, the third one has other pairs, the fourth one depends on the first, the fifth is the first."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[2,8] parameter(0)
        y = f32[3] parameter(1)
        n = s8[3] convert(y)
        a = f32[2,8] collective-permute(x), channel_id=1, {SHIFT}
        b = s8[3] collective-permute(n), channel_id=2, {SHIFT}
        c = f32[3] collective-permute(y), channel_id=3, {BACK}
        d = f32[2,8] collective-permute(a), channel_id=4, {SHIFT}
        f = f32[2,8] collective-permute(x), channel_id=5, {SHIFT}
        g = f32[2,8] subtract(d, f)
        h = f32[3] convert(b)
        ROOT r = (f32[3], f32[3], f32[2,8]) tuple(h, c, g) }}"""
    module = check(text, "collective-permute collective-permute collective-permute", (2, 8), (3,))
    assert sorted(len(i.operands) for i in module.instructions() if i.op.name == "collective-permute") == [1, 1, 2]


def test_equal_sums_are_computed_once() -> None:
    text = f"""HloModule m
      {SUM}ENTRY e {{ x = f32[8] parameter(0)
        a = f32[8] all-reduce(x), {ALL}, to_apply=sum
        b = f32[8] all-reduce(x), {ALL.replace("=1,", "=2,")}, to_apply=sum
        ROOT r = (f32[8], f32[8]) tuple(a, b) }}"""
    module = check(text, "all-reduce", (8,))
    assert len(next(i for i in module.instructions() if i.op.name == "all-reduce").operands) == 1


def test_windows_of_the_same_array_share_its_halo() -> None:
    """Two windows of three rows need the same two rows of the neighbors, which travel once."""
    rows = "{devices=[4,1]<=[4]}"
    text = f"""HloModule m
      {SUM}ENTRY e {{ x = f32[16,8] parameter(0), sharding={rows}
        z = f32[] constant(0)
        a = f32[16,8] reduce-window(x, z), window={{size=3x1 pad=1_1x0_0}}, to_apply=sum, sharding={rows}
        b = f32[8,8] reduce-window(x, z), window={{size=3x1 stride=2x1 pad=1_0x0_0}}, to_apply=sum, sharding={rows}
        ROOT r = (f32[16,8], f32[8,8]) tuple(a, b), sharding={{{rows}, {rows}}} }}"""
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    assert [len(i.operands) for i in module.instructions() if i.op.name == "collective-permute"] == [1, 1]


def test_combined_collectives_are_bounded() -> None:
    """Of three all-gathers of a third of the limit and a little more, two are combined."""
    elements = MAX_COMBINED_BYTES[xla.parse_hlo(_gathers(1, 4)).entry_computation.root_instruction.operands[0].op] // 12
    module = xla.parse_hlo(_gathers(3, elements // 4 * 4 + 4))
    combine_collectives(module.entry_computation)
    counts = sorted(len(i.operands) for i in module.instructions() if i.op.name == "all-gather")
    assert counts == [1, 2]


def _gathers(count: int, elements: int) -> str:
    lines = itertools.chain.from_iterable(
        (
            f"x_{n} = f32[{elements // 4}] parameter({n})",
            f"g_{n} = f32[{elements}] all-gather(x_{n}), {ALL.replace('=1,', f'={n + 1},')}, dimensions={{0}}",
        )
        for n in range(count)
    )
    shapes = ", ".join([f"f32[{elements}]"] * count)
    names = ", ".join(f"g_{n}" for n in range(count))
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + f"\nROOT r = ({shapes}) tuple({names}) }}"


def test_weights_that_are_gathered_are_gathered_together() -> None:
    rows = "{devices=[4,1]<=[4]}"
    text = f"""HloModule m
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={rows}
        v = f32[8,8] parameter(1), sharding={rows}
        w = f32[8,8] parameter(2), sharding={rows}
        a = f32[8,8] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={rows}
        ROOT b = f32[8,8] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={rows} }}"""
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    assert [len(i.operands) for i in module.instructions() if i.op.name == "all-gather"] == [2]
