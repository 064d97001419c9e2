"""Instructions that must not run on every device by itself, and decisions that must not read partial sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered
from xlapy.hlo.verify import verify
from xlapy.spmd import EntryShardings, partition
from xlapy.spmd.array_sharding import array_sharding_of, tile_count

DEVICES = 4
ROWS, WHOLE = "{devices=[4]<=[4]}", "{replicated}"
MESH = "mesh['x'=2,'y'=2]"
HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
sum_integers { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""
DRAW = "zero = f32[] constant(0)\none = f32[] constant(1)\n"


def local_array(array: Any, sharding: Any, shape: xla.Shape, device: int) -> Any:
    for dimension, tiling in enumerate(array_sharding_of(sharding, shape, DEVICES).tilings):
        if tiling is not None:
            array = np.split(array, tile_count(tiling), dimension)[tiling.tile_of(device)]
    return array


def run_partitioned(platform: str, text: str, arguments: list[Any]) -> tuple[list[list[Any]], EntryShardings]:
    """Returns the results of each device, and how the arguments and results are distributed."""
    module = xla.parse_hlo(text)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    shardings = partition(module, DEVICES)
    verify(module)
    per_device = [
        [local_array(a, s, shape, device) for a, s, shape in zip(arguments, shardings.parameters, shapes, strict=True)]
        for device in range(DEVICES)
    ]
    results = xla.Client(platform, devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(per_device)
    return [[np.asarray(one) for one in _list(result)] for result in results], shardings


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def check(platform: str, text: str, *arguments: Any) -> None:
    """Checks that the devices return tiles of the results of the whole program, which one device runs."""
    found, shardings = run_partitioned(platform, text, list(arguments))
    whole = xla.parse_hlo(text)
    leaves = [leaf for _, leaf in whole.entry_computation.root_instruction.shape.leaves()]
    expected = _list(xla.Client(platform).compile(whole)(*arguments))
    for device in range(DEVICES):
        for got, want, sharding, leaf in zip(found[device], expected, shardings.results, leaves, strict=True):
            tile = local_array(np.asarray(want), sharding, leaf, device)
            np.testing.assert_array_equal(got, tile, f"device {device}")


# -- random draws

DRAWS = {
    "several draws": f"""ENTRY e {{ {DRAW}
        a = f32[8] rng(zero, one), distribution=rng_uniform
        b = f32[8] rng(zero, one), distribution=rng_normal
        c = s32[8] convert(b)
        ROOT r = (f32[8], f32[8], s32[8]) tuple(b, a, c), sharding={{{WHOLE}, {ROWS}, {WHOLE}}} }}""",
    "a draw that is split": f"""ENTRY e {{ {DRAW}
        a = f32[8] rng(zero, one), distribution=rng_uniform, sharding={ROWS}
        s = f32[8] sort(a), dimensions={{0}}, to_apply=less
        ROOT r = (f32[8], f32[8]) tuple(a, s), sharding={{{ROWS}, {WHOLE}}} }}""",
    "the state of a run": f"""ENTRY e {{
        a = u64[2] rng-get-and-update-state(), delta=3
        b = u64[2] rng-get-and-update-state(), delta=3, control-predecessors={{a}}
        ROOT r = (u64[2], u64[2]) tuple(a, b), sharding={{{WHOLE}, {WHOLE}}} }}""",
    "draws in a loop": f"""
      body {{ s = (s32[], f32[8]) parameter(0)
        {DRAW} i = s32[] get-tuple-element(s), index=0
        x = f32[8] get-tuple-element(s), index=1
        a = f32[8] rng(zero, one), distribution=rng_uniform
        y = f32[8] add(x, a)
        next = s32[] constant(1)
        j = s32[] add(i, next)
        ROOT t = (s32[], f32[8]) tuple(j, y) }}
      condition {{ s = (s32[], f32[8]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        three = s32[] constant(3)
        ROOT p = pred[] compare(i, three), direction=LT }}
      ENTRY e {{ i = s32[] constant(0)
        z = f32[] constant(0)
        x = f32[8] broadcast(z), dimensions={{}}
        t = (s32[], f32[8]) tuple(i, x)
        w = (s32[], f32[8]) while(t), body=body, condition=condition, sharding={{{WHOLE}, {ROWS}}}
        ROOT r = f32[8] get-tuple-element(w), index=1, sharding={ROWS} }}""",
    "a loop until a draw is large": f"""
      body {{ s = s32[] parameter(0)
        next = s32[] constant(1)
        ROOT j = s32[] add(s, next) }}
      condition {{ s = s32[] parameter(0)
        {DRAW} limit = f32[] constant(0.8)
        a = f32[] rng(zero, one), distribution=rng_uniform
        ROOT p = pred[] compare(a, limit), direction=LT }}
      ENTRY e {{ i = s32[] constant(0)
        ROOT w = s32[] while(i), body=body, condition=condition, sharding={WHOLE} }}""",
    "a draw in a branch": f"""
      drawn {{ x = f32[8] parameter(0)
        {DRAW} a = f32[8] rng(zero, one), distribution=rng_uniform
        ROOT y = f32[8] add(x, a) }}
      kept {{ ROOT x = f32[8] parameter(0) }}
      ENTRY e {{ z = f32[] constant(0)
        x = f32[8] broadcast(z), dimensions={{}}
        p = pred[] constant(true)
        ROOT r = f32[8] conditional(p, x, x), true_computation=drawn, false_computation=kept, sharding={ROWS} }}""",
    "draws in a map": f"""
      drawn {{ x = f32[] parameter(0)
        {DRAW} a = f32[] rng(zero, one), distribution=rng_uniform
        ROOT y = f32[] add(x, a) }}
      ENTRY e {{ z = f32[] constant(0)
        x = f32[8] broadcast(z), dimensions={{}}, sharding={ROWS}
        ROOT r = f32[8] map(x), dimensions={{0}}, to_apply=drawn, sharding={ROWS} }}""",
}


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", DRAWS)
def test_devices_share_random_draws(name: str, platform: str) -> None:
    check(platform, HEAD + DRAWS[name])


def in_manual_region(inside: str, outside: str, size: int, whole_size: int) -> str:
    return f"""{HEAD}ENTRY e {{ {DRAW}
        a = f32[{size}] rng(zero, one), distribution=rng_uniform
        m = f32[{size}] custom-call(a), custom_call_target="Sharding", sharding={inside}
        ROOT r = f32[{whole_size}] custom-call(m), custom_call_target="SPMDShardToFullShape", sharding={outside} }}"""


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_in_a_manual_region_each_device_draws_its_own_numbers(platform: str) -> None:
    found, _ = run_partitioned(platform, in_manual_region("{manual}", ROWS, 2, 8), [])
    assert len({tuple(result.tolist()) for (result,) in found}) == DEVICES


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_devices_of_equal_manual_coordinates_share_random_draws(platform: str) -> None:
    inside, outside = f"{{{MESH}, [{{}}], manual={{'x'}}}}", f"{{{MESH}, [{{'x'}}]}}"
    found, _ = run_partitioned(platform, in_manual_region(inside, outside, 4, 8), [])
    first, second, third, fourth = (result for (result,) in found)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(third, fourth)
    assert (first != third).all()


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("start", ["a constant", "an array of the region"])
def test_draws_in_a_loop_of_a_manual_region(start: str, platform: str) -> None:
    """Devices with equal coordinates along the manual axis draw the same numbers in each iteration, others do not."""
    inside, outside = f"{{{MESH}, [{{}}], manual={{'x'}}}}", f"{{{MESH}, [{{'x'}}]}}"
    given = "f32[4] broadcast(zero), dimensions={}"
    if start == "an array of the region":
        given = f'f32[4] custom-call(v), custom_call_target="SPMDFullToShardShape", sharding={inside}'
    text = f"""{HEAD}
      body {{ s = (s32[], f32[4]) parameter(0)
        {DRAW} i = s32[] get-tuple-element(s), index=0
        x = f32[4] get-tuple-element(s), index=1
        a = f32[4] rng(zero, one), distribution=rng_uniform
        y = f32[4] add(x, a)
        next = s32[] constant(1)
        j = s32[] add(i, next)
        ROOT t = (s32[], f32[4]) tuple(j, y) }}
      condition {{ s = (s32[], f32[4]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        three = s32[] constant(3)
        ROOT p = pred[] compare(i, three), direction=LT }}
      ENTRY e {{ zero = f32[] constant(0)
        u = f32[8] broadcast(zero), dimensions={{}}, sharding={outside}
        v = f32[8] custom-call(u), custom_call_target="Sharding", sharding={outside}
        i = s32[] constant(0)
        x = {given}
        t = (s32[], f32[4]) tuple(i, x)
        w = (s32[], f32[4]) while(t), body=body, condition=condition
        y = f32[4] get-tuple-element(w), index=1
        m = f32[4] custom-call(y), custom_call_target="Sharding", sharding={inside}
        ROOT r = f32[8] custom-call(m), custom_call_target="SPMDShardToFullShape", sharding={outside} }}"""
    found, _ = run_partitioned(platform, text, [])
    first, second, third, fourth = (result for (result,) in found)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(third, fourth)
    assert (first != third).all()


def test_a_call_with_side_effects_runs_once_without_a_sharding() -> None:
    seen: list[Any] = []

    def target(x: Any) -> Any:
        seen.append(x.tolist())
        return np.float32(len(seen)) + x

    text = f"""{HEAD}ENTRY e {{ x = f32[8] parameter(0), sharding={ROWS}
        y = f32[8] custom-call(x), custom_call_target="target", custom_call_has_side_effect=true
        ROOT r = f32[8] negate(y), sharding={ROWS} }}"""
    x = np.arange(8, dtype=np.float32)
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    with registered(target):
        executable = xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES)
        found = executable.execute_sharded([[part] for part in np.split(x, DEVICES)])
    assert seen == [x.tolist()]
    np.testing.assert_array_equal(np.concatenate([np.asarray(one) for one in found]), -(x + 1))


# -- decisions

BRANCHES = """
b0 { x = f32[8] parameter(0)
  ROOT y = f32[8] negate(x) }
b1 { x = f32[8] parameter(0)
  ROOT y = f32[8] add(x, x) }
b2 { x = f32[8] parameter(0)
  ROOT y = f32[8] multiply(x, x) }
"""


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("index", ["s", "n"])
def test_the_index_of_a_conditional_is_a_whole_sum(index: str, platform: str) -> None:
    text = f"""{HEAD}{BRANCHES}ENTRY e {{ x = f32[8] parameter(0), sharding={ROWS}
        v = s32[4] parameter(1), sharding={ROWS}
        z = s32[] constant(0)
        s = s32[] reduce(v, z), dimensions={{0}}, to_apply=sum_integers
        i = s32[] negate(s)
        n = s32[] negate(i)
        ROOT r = f32[8] conditional({index}, x, x, x), branch_computations={{b0, b1, b2}}, sharding={ROWS} }}"""
    for values in ([1, 0, 0, 1], [0, 1, 0, 0], [2, -2, 1, -1]):
        check(platform, text, np.arange(8, dtype=np.float32), np.array(values, np.int32))


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_the_index_of_a_conditional_in_a_loop_is_a_whole_sum(platform: str) -> None:
    text = f"""{HEAD}{BRANCHES}
      body {{ t = (s32[], f32[8], s32[4]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[8] get-tuple-element(t), index=1
        v = s32[4] get-tuple-element(t), index=2
        z = s32[] constant(0)
        s = s32[] reduce(v, z), dimensions={{0}}, to_apply=sum_integers
        y = f32[8] conditional(s, x, x, x), branch_computations={{b0, b1, b2}}
        one = s32[] constant(1)
        j = s32[] add(i, one)
        ones = s32[4] iota(), iota_dimension=0
        first = s32[4] broadcast(z), dimensions={{}}
        is_first = pred[4] compare(ones, first), direction=EQ
        more = s32[4] convert(is_first)
        w = s32[4] add(v, more)
        ROOT r = (s32[], f32[8], s32[4]) tuple(j, y, w) }}
      condition {{ t = (s32[], f32[8], s32[4]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        three = s32[] constant(3)
        ROOT p = pred[] compare(i, three), direction=LT }}
      ENTRY e {{ x = f32[8] parameter(0), sharding={ROWS}
        v = s32[4] parameter(1), sharding={ROWS}
        i = s32[] constant(0)
        t = (s32[], f32[8], s32[4]) tuple(i, x, v)
        w = (s32[], f32[8], s32[4]) while(t), body=body, condition=condition,
          sharding={{{WHOLE}, {ROWS}, {ROWS}}}
        ROOT r = f32[8] get-tuple-element(w), index=1, sharding={ROWS} }}"""
    check(platform, text, np.arange(8, dtype=np.float32), np.array([2, -1, 0, -1], np.int32))


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_the_index_of_a_conditional_in_a_manual_region_is_whole_along_other_axes(platform: str) -> None:
    """Devices 0 and 1 are at x = 0 and hold half of 4 integers each, which add up to 1; devices 2 and 3 to 2."""
    outside, inside = f"{{{MESH}, [{{'x', 'y'}}]}}", f"{{{MESH}, [{{'y'}}], manual={{'x'}}}}"
    text = f"""{HEAD}{BRANCHES}ENTRY e {{ a = f32[16] parameter(0), sharding={outside}
        b = s32[8] parameter(1), sharding={outside}
        c = f32[16] custom-call(a), custom_call_target="Sharding", sharding={outside}
        d = s32[8] custom-call(b), custom_call_target="Sharding", sharding={outside}
        x = f32[8] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={inside}
        v = s32[4] custom-call(d), custom_call_target="SPMDFullToShardShape", sharding={inside}
        z = s32[] constant(0)
        s = s32[] reduce(v, z), dimensions={{0}}, to_apply=sum_integers
        y = f32[8] conditional(s, x, x, x), branch_computations={{b0, b1, b2}}, sharding={inside}
        m = f32[8] custom-call(y), custom_call_target="Sharding", sharding={inside}
        ROOT r = f32[16] custom-call(m), custom_call_target="SPMDShardToFullShape", sharding={outside} }}"""
    x = np.arange(16, dtype=np.float32)
    found, _ = run_partitioned(platform, text, [x, np.array([1, -1, 0, 1, 2, 1, -2, 1], np.int32)])
    expected = np.concatenate([x[:8] + x[:8], x[8:] * x[8:]])
    np.testing.assert_array_equal(np.concatenate([result for (result,) in found]), expected)


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_the_condition_of_a_loop_is_a_whole_sum(platform: str) -> None:
    text = f"""{HEAD}
      body {{ s = (f32[4], s32[]) parameter(0)
        x = f32[4] get-tuple-element(s), index=0
        i = s32[] get-tuple-element(s), index=1
        one = s32[] constant(1)
        j = s32[] add(i, one)
        y = f32[4] add(x, x)
        ROOT t = (f32[4], s32[]) tuple(y, j) }}
      condition {{ s = (f32[4], s32[]) parameter(0)
        x = f32[4] get-tuple-element(s), index=0
        z = f32[] constant(0)
        a = f32[] reduce(x, z), dimensions={{0}}, to_apply=sum
        limit = f32[] constant(100)
        ROOT p = pred[] compare(a, limit), direction=LT }}
      ENTRY e {{ x = f32[4] parameter(0), sharding={ROWS}
        i = s32[] constant(0)
        t = (f32[4], s32[]) tuple(x, i)
        ROOT w = (f32[4], s32[]) while(t), body=body, condition=condition, sharding={{{ROWS}, {WHOLE}}} }}"""
    check(platform, text, np.array([1, 5, 0, 3], np.float32))
