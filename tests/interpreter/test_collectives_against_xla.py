"""Collectives on four devices return the same bits as on XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.replica import REDUCERS, floats, module, run_on_devices
from tests.xla_reference_devices import Case
from tests.xla_reference_devices import run_on_devices as run_on_xla
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import random_array
from xlapy.text import parse_hlo

_FORMS = {
    "all-reduce of groups": (4, 1, "a = f32[4,8] all-reduce(p), replica_groups={{3,0},{1,2}}, to_apply=add"),
    "all-reduce of all": (4, 1, "a = f32[4,8] all-reduce(p), replica_groups={}, to_apply=add"),
    "all-reduce of iota": (4, 1, "a = f32[4,8] all-reduce(p), replica_groups=[2,2]<=[2,2]T(1,0), to_apply=add"),
    "all-reduce within partitions": (2, 2, "a = f32[4,8] all-reduce(p), replica_groups={{0,1}}, to_apply=add MANUAL"),
    "all-reduce of both": (
        2, 2, "a = f32[4,8] all-reduce(p), channel_id=1, replica_groups={{0},{1}}, to_apply=add MANUAL",
    ),
    "all-reduce of devices": (
        2, 2,
        "a = f32[4,8] all-reduce(p), channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true, "
        "to_apply=add MANUAL",
    ),
    "all-gather first": (4, 1, "a = f32[8,8] all-gather(p), replica_groups={{3,1},{0,2}}, dimensions={0}"),
    "all-gather last": (4, 1, "a = f32[4,32] all-gather(p), replica_groups={{3,1,0,2}}, dimensions={1}"),
    "all-gather of both": (
        2, 2, "a = f32[16,8] all-gather(p), channel_id=1, replica_groups={{1,0}}, dimensions={0} MANUAL",
    ),
    "all-gather of devices": (
        1, 4,
        "a = f32[16,8] all-gather(p), channel_id=1, replica_groups={{3,1,0,2}}, dimensions={0}, "
        "use_global_device_ids=true MANUAL",
    ),
    "reduce-scatter": (
        4, 1, "a = f32[4,4] reduce-scatter(p), replica_groups={{3,1},{0,2}}, dimensions={1}, to_apply=add",
    ),
    "reduce-scatter of devices": (
        2, 2,
        "a = f32[1,8] reduce-scatter(p), channel_id=1, replica_groups={{2,1,3,0}}, dimensions={0}, "
        "use_global_device_ids=true, to_apply=add MANUAL",
    ),
    "all-to-all": (4, 1, "a = f32[4,8] all-to-all(p), replica_groups={{3,1},{0,2}}, dimensions={1}"),
    "all-to-all of partitions": (
        1, 4, "a = f32[4,8] all-to-all(p), channel_id=1, replica_groups={{3,1,0,2}}, dimensions={0} MANUAL",
    ),
    "collective-permute": (4, 1, "a = f32[4,8] collective-permute(p), source_target_pairs={{0,3},{3,1},{2,2}}"),
    "collective-permute of replicas": (
        2, 2, "a = f32[4,8] collective-permute(p), source_target_pairs={{0,1}} MANUAL",
    ),
    "collective-permute of partitions": (
        2, 2, "a = f32[4,8] collective-permute(p), channel_id=1, source_target_pairs={{0,1}} MANUAL",
    ),
}  # fmt: skip

_TYPES = ("pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "bf16", "f16", "f32", "f64", "c64", "c128")


def case_of_form(replicas: int, partitions: int, instruction: str) -> Case:
    text = module(f"p = f32[4,8] parameter(0) MANUAL ROOT {instruction}", replicas, partitions)
    rng = np.random.default_rng(7)
    return Case(text, [[rng.standard_normal((4, 8)).astype(np.float32)] for _ in range(4)], replicas, partitions)


def case_of_type(name: str) -> Case:
    """Returns a module with every collective that moves data, for one element type."""
    add = REDUCERS.replace("f32", name) if name != "pred" else REDUCERS.replace("f32", name).replace("] add", "] or")
    add = add[: add.index("subtract")]
    text = module(
        f"""p = {name}[4,3] parameter(0)
        a = {name}[8,3] all-gather(p), replica_groups={{{{0,1}}}}, dimensions={{0}}
        b = {name}[4,3] all-reduce(p), replica_groups={{{{0,1}}}}, to_apply=add
        c = {name}[2,3] reduce-scatter(p), replica_groups={{{{0,1}}}}, dimensions={{0}}, to_apply=add
        d = {name}[4,3] all-to-all(p), replica_groups={{{{0,1}}}}, dimensions={{0}}
        e = {name}[4,3] collective-permute(p), source_target_pairs={{{{0,1}},{{1,0}}}}
        ROOT t = ({name}[8,3], {name}[4,3], {name}[2,3], {name}[4,3], {name}[4,3]) tuple(a, b, c, d, e)""",
        2,
        computations=add,
    )
    dtype = parse_hlo(text).entry_computation.parameters[0].shape.dtype
    rng = np.random.default_rng(11)
    return Case(text, [[random_array((4, 3), dtype, rng, False)] for _ in range(2)], 2)


def cases() -> dict[str, Case]:
    loop = """
      less { s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
        ROOT r = pred[] compare(i, n), direction=LT }
      step { s = (s32[], f32[]) parameter(0)
        i = s32[] get-tuple-element(s), index=0 x = f32[] get-tuple-element(s), index=1
        one = s32[] constant(1) j = s32[] add(i, one)
        y = f32[] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
        z = f32[] all-reduce(y), replica_groups={{0,1},{2,3}}, to_apply=add ROOT r = (s32[], f32[]) tuple(j, z) }
    """
    entry = """i = s32[] constant(0) x = f32[] parameter(0) s = (s32[], f32[]) tuple(i, x)
      w = (s32[], f32[]) while(s), condition=less, body=step ROOT r = f32[] get-tuple-element(w), index=1"""
    found = {name: case_of_form(*form) for name, form in _FORMS.items()}
    found |= {name: case_of_type(name) for name in _TYPES}
    found["in a loop"] = Case(module(entry, 4, computations=REDUCERS + loop), [floats(d + 1) for d in range(4)], 4)
    return found


CASES = cases()


@pytest.fixture(scope="module")
def xla_result() -> dict[str, Any]:
    """Runs all cases in one process, because starting it takes most of the time."""
    return dict(zip(CASES, run_on_xla(list(CASES.values())), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_it_agrees_with_xla(name: str, xla_result: dict[str, Any]) -> None:
    expected = xla_result[name]
    assert isinstance(expected, list), expected
    results = run_on_devices(CASES[name].text, CASES[name].arguments)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        pairs = zip(result, wanted, strict=True) if isinstance(wanted, tuple) else [(result, wanted)]
        for ours, theirs in pairs:
            ours = np.asarray(ours)
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            assert_close(ours, theirs, rule="exact")
