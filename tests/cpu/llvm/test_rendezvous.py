"""Collectives in native code return the interpreter's bits in every form, without callbacks, over many rendezvous."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered
from tests.interpreter.runners.replica import module
from tests.raising import raises
from tests.threads import run_in_threads
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.communication import rendezvous_assignment
from xlapy.cpu.program.thunks import CallbackThunk, CollectiveThunk, walk_thunks
from xlapy.runtime import Client

REDUCERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
less_and_more { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] subtract(a, b) }
complex { a = c64[] parameter(0) b = c64[] parameter(1) ROOT c = c64[] multiply(a, b) }
either { a = pred[] parameter(0) b = pred[] parameter(1) ROOT c = pred[] or(a, b) }
nibbles { a = s4[] parameter(0) b = s4[] parameter(1) ROOT c = s4[] add(a, b) }
best { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GE v = f32[] select(g, a, b) k = s32[] select(g, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }
"""

FORMS = {
    "sum": "ROOT r = f32[3,37] all-reduce(p), to_apply=add",
    "scalar": """s = f32[1,1] slice(p), slice={[1:2],[5:6]} t = f32[] reshape(s) ROOT r = f32[]
      all-reduce(t), to_apply=add""",
    "order of the group": """ROOT r = f32[3,37] all-reduce(p), replica_groups={{2,0,3,1}}, to_apply=less_and_more""",
    "groups": "ROOT r = f32[3,37] all-reduce(p), replica_groups={{3,0},{1,2}}, to_apply=add",
    "channel": """ROOT r = f32[3,37] all-reduce(p), channel_id=1, use_global_device_ids=true,
      replica_groups=[2,2]<=[2,2]T(1,0), to_apply=add""",
    "another type inside": "b = bf16[3,37] convert(p) ROOT r = bf16[3,37] all-reduce(b), to_apply=add",
    "several": """b = f16[3,37] convert(p) n = f32[3,37] negate(p) ROOT r = (f32[3,37], f16[3,37],
      f32[3,37]) all-reduce(p, b, n), to_apply=add""",
    "all at once": "i = s32[3,37] convert(p) ROOT r = (f32[3,37], s32[3,37]) all-reduce(p, i), to_apply=best",
    "complex": """n = f32[3,37] negate(p) c = c64[3,37] complex(p, n) ROOT r = c64[3,37] all-reduce(c),
      to_apply=complex""",
    "pred": """z = f32[3,37] broadcast(zero), dimensions={} c = pred[3,37] compare(p, z), direction=GT
      ROOT r = pred[3,37] all-reduce(c), to_apply=either""",
    "s4": "c = s4[3,37] convert(p) ROOT r = s4[3,37] all-reduce(c), to_apply=nibbles",
    "started": "s = f32[3,37] all-reduce-start(p), to_apply=add ROOT r = f32[3,37] all-reduce-done(s)",
    "scatter rows": """q = f32[4,37] concatenate(p, one), dimensions={0} ROOT r = f32[1,37] reduce-scatter(q),
      dimensions={0}, to_apply=add""",
    "scatter columns": """q = f32[3,36] slice(p), slice={[0:3],[1:37]} ROOT r = f32[3,18] reduce-scatter(q),
      replica_groups={{1,0},{3,2}}, dimensions={1}, to_apply=add""",
    "scatter all at once": """q = f32[4,37] concatenate(p, one), dimensions={0} i = s32[4,37] convert(q)
      ROOT r = (f32[1,37], s32[1,37]) reduce-scatter(q, i), dimensions={0}, to_apply=best""",
    "at a root": """b = bf16[3,37] convert(p) ROOT r = (f32[3,37], bf16[3,37]) collective-reduce(p, b),
      replica_groups={{3,1},{0,2}}, to_apply=less_and_more""",
    "all at once at a root": """i = s32[3,37] convert(p) ROOT r = (f32[3,37], s32[3,37]) collective-reduce(p, i),
      replica_groups={{2,0,1,3}}, to_apply=best""",
    "gather": "ROOT r = f32[12,37] all-gather(p), dimensions={0}",
    "gather columns": "ROOT r = f32[3,148] all-gather(p), replica_groups={{3,1,2,0}}, dimensions={1}",
    "gather started": """s = (f32[3,37], f32[3,148]) all-gather-start(p), dimensions={1} ROOT r = f32[3,148]
      all-gather-done(s)""",
    "blocks": "q = f32[3,36] slice(p), slice={[0:3],[0:36]} ROOT r = f32[3,36] all-to-all(q), dimensions={1}",
    "blocks of groups": """q = f32[2,37] slice(p), slice={[0:2],[0:37]} ROOT r = f32[2,37] all-to-all(q),
      replica_groups={{2,1},{0,3}}, dimensions={0}""",
    "operands": """a = f32[3,37] negate(p) b = f32[3,37] abs(p) c = f32[3,37] add(p, p) ROOT r = (f32[3,37],
      f32[3,37], f32[3,37], f32[3,37]) all-to-all(p, a, b, c)""",
    "permute": """n = u16[3,37] convert(p) ROOT r = (f32[3,37], u16[3,37]) collective-permute(p, n),
      source_target_pairs={{0,3},{3,1},{2,2}}""",
    "permute started": """s = (f32[3,37], f32[3,37]) collective-permute-start(p), source_target_pairs={{0,1},{1,2}}
      ROOT r = f32[3,37] collective-permute-done(s)""",
    "permute all": "ROOT r = f32[3,37] collective-permute(p), source_target_pairs={{0,3},{3,1},{2,0},{1,2}}",
    "broadcast to all": "ROOT r = f32[3,37] collective-broadcast(p), replica_groups={{2,0,1,3}}",
    "broadcast": "ROOT r = f32[3,37] collective-broadcast(p), replica_groups={{2,0}}",
}
"""Each ends a computation of p, f32[3,37], zero, f32[], and one, f32[1,37]."""


def text_of(name: str) -> str:
    head = "p = f32[3,37] parameter(0) zero = f32[] constant(0) one = f32[1,37] slice(p), slice={[0:1],[0:37]} "
    return module(head + FORMS[name], 4, computations=REDUCERS)


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, tuple) else [np.asarray(value)]


def check_native(text: str, devices: int) -> None:
    """Checks that all collectives are native and return the interpreter's bits."""
    thunks = list(walk_thunks(compile_module(xla.parse_hlo(text), (), devices).program.thunks))
    assert any(isinstance(thunk, CollectiveThunk) for thunk in thunks)
    assert not any(isinstance(thunk, CallbackThunk) for thunk in thunks)
    random = np.random.default_rng(1)
    arguments = [[np.float32(3) * random.standard_normal((3, 37), np.float32)] for _ in range(devices)]
    expected, actual = (
        Client(platform, devices=devices).compile(text).execute_sharded(arguments)
        for platform in ("interpreter", "cpu")
    )
    for device, (theirs, ours) in enumerate(zip(expected, actual, strict=True)):
        for a, b in zip(leaves(theirs), leaves(ours), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert a.tobytes() == b.tobytes(), f"device {device}: {a} and {b}"


@pytest.mark.parametrize("name", FORMS)
def test_native_collectives_have_the_bits_of_the_interpreter(name: str) -> None:
    check_native(text_of(name), 4)


def rounds(devices: int, count: int) -> str:
    loop = f"""add {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }}
    less {{ s = (s32[], s32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
      ROOT r = pred[] compare(i, n), direction=LT }}
    step {{ s = (s32[], s32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0
      x = s32[5] get-tuple-element(s), index=1
      one = s32[] constant(1) j = s32[] add(i, one) y = s32[5] all-reduce(x), to_apply=add
      n = s32[] constant(1009) m = s32[5] broadcast(n), dimensions={{}} w = s32[5] remainder(y, m)
      id = u32[] replica-id() d = s32[] convert(id) e = s32[5] broadcast(d), dimensions={{}} v = s32[5] add(w, e)
      ROOT r = (s32[], s32[5]) tuple(j, v) }}"""
    entry = """i = s32[] constant(0) x = s32[5] parameter(0) s = (s32[], s32[5]) tuple(i, x)
      w = (s32[], s32[5]) while(s), condition=less, body=step ROOT r = s32[5] get-tuple-element(w), index=1"""
    return module(entry, devices, computations=loop)


def test_thousands_of_rendezvous_of_more_devices_than_processors() -> None:
    devices, count = 8, 3000
    values = np.arange(devices)
    for _ in range(count):
        values = values.sum() % 1009 + np.arange(devices)
    arguments = [[np.full(5, device, np.int32)] for device in range(devices)]
    results = Client("cpu", devices=devices).compile(rounds(devices, count)).execute_sharded(arguments)
    assert [np.asarray(result).tolist() for result in results] == [[value] * 5 for value in values]


@pytest.mark.parametrize("name", FORMS)
def test_members_that_see_each_others_operands_have_the_bits_of_the_interpreter(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous_assignment, "MAX_STAGED_BYTES", 0)
    thunks = list(walk_thunks(compile_module(xla.parse_hlo(text_of(name)), (), 4).program.thunks))
    assert {thunk.direct for thunk in thunks if isinstance(thunk, CollectiveThunk)} == {True}
    check_native(text_of(name), 4)


MANY = 20

FORMS_OF_MANY = {
    "sum": "ROOT r = f32[3,37] all-reduce(p), to_apply=less_and_more",
    "all at once": "i = s32[3,37] convert(p) ROOT r = (f32[3,37], s32[3,37]) all-reduce(p, i), to_apply=best",
    "gather": "ROOT r = f32[3,740] all-gather(p), dimensions={1}",
    "permute": "ROOT r = f32[3,37] collective-permute(p), source_target_pairs={{0,19},{19,3},{7,7}}",
    "scatter": """i = s32[3,37] convert(p) q = f32[60,37] broadcast(zero), dimensions={} w = f32[60,37] pad(p, zero),
      padding=57_0x0_0 j = s32[60,37] convert(w) ROOT r = (f32[3,37], s32[3,37]) reduce-scatter(w, j), dimensions={0},
      to_apply=best""",
}


@pytest.mark.parametrize("name", FORMS_OF_MANY)
@pytest.mark.parametrize("max_staged_bytes", [0, rendezvous_assignment.MAX_STAGED_BYTES])
def test_many_devices(name: str, max_staged_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous_assignment, "MAX_STAGED_BYTES", max_staged_bytes)
    head = "p = f32[3,37] parameter(0) zero = f32[] constant(0) "
    check_native(module(head + FORMS_OF_MANY[name], MANY, computations=REDUCERS), MANY)


def test_large_operands_are_summed_in_blocks_again_and_again() -> None:
    """The sum reuses the memory of its operand, so no device may write it before all have read the operand."""
    devices, count, size = 3, 20, 200_003
    loop = rounds(devices, count).replace("s32[5]", f"s32[{size}]")
    values = np.arange(size, dtype=np.int32)[None] * np.array([[1], [2], [3]], np.int32)
    expected = values
    for _ in range(count):
        total = np.sum(expected, 0, dtype=np.int32)
        expected = np.fmod(total, 1009)[None] + np.arange(devices, dtype=np.int32)[:, None]
    results = Client("cpu", devices=devices).compile(loop).execute_sharded([[row] for row in values])
    for result, row in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, row)


def test_large_operands_in_loaded_programs() -> None:
    text = module("p = f32[200000] parameter(0) ROOT r = f32[200000] all-reduce(p), to_apply=add", 3)
    client = Client("cpu", devices=3)
    executable = client.deserialize(client.compile(text).serialize())
    for result in executable.execute_sharded([[np.full(200000, device, np.float32)] for device in range(3)]):
        assert np.asarray(result).tolist() == [3] * 200000


def test_waiting_threads_wake_when_the_run_fails() -> None:
    """One of the waiting threads polls the host, and the others sleep without a timeout."""
    branches = """
    calls { p = f32[2] parameter(0) ROOT r = f32[2] custom-call(p), custom_call_target="target" }
    meets { p = f32[2] parameter(0) ROOT r = f32[2] all-reduce(p), replica_groups={}, to_apply=add }
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"""
    entry = """p = f32[2] parameter(0) i = u32[] replica-id() j = s32[] convert(i)
      c = f32[2] conditional(j, p, p, p, p), branch_computations={meets, meets, calls, meets}
      ROOT r = f32[2] all-reduce(c), replica_groups={}, to_apply=add"""

    def target(_: Any) -> Any:
        time.sleep(0.3)  # meanwhile the others wait
        raise ValueError("not now")

    with registered(target):
        executable = Client("cpu", devices=4).compile(module(entry, 4, computations=branches))
        (error,) = run_in_threads(1, lambda _: failure_of(executable))
    assert "raised ValueError: not now" in error


def failure_of(executable: xla.Executable) -> str:
    with raises(ExecutionError, codes.FAILED_TARGET) as caught:
        xla.block_until_ready(executable.execute_sharded([[np.ones(2, np.float32)]] * 4))
    return str(caught.value)
