"""Callbacks of native programs: their order, errors in them, and programs that run inside them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import xlapy as xla
from tests.interpreter.runners.custom import entry, registered
from tests.raising import raises
from tests.threads import run_in_threads
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, UnsupportedError

CPU = xla.Client("cpu")

LOOP = """less { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4)
  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[3] get-tuple-element(s), index=1
  y = f32[3] add(x, x) z = f32[3] custom-call(y, i), custom_call_target="target"
  one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], f32[3]) tuple(j, z) }"""
IN_LOOP = entry(
    """x = f32[3] parameter(0) i = s32[] constant(0) s = (s32[], f32[3]) tuple(i, x)
    w = (s32[], f32[3]) while(s), condition=less, body=step ROOT r = f32[3] get-tuple-element(w), index=1""",
    LOOP,
)
X = np.ones(3, np.float32)


def test_a_target_is_called_in_each_round_of_a_loop() -> None:
    met: list[int] = []

    def target(y: Any, i: Any) -> Any:
        met.append(int(i))
        return y + np.float32(1)

    with registered(target):
        assert np.asarray(CPU.compile(IN_LOOP)(X)).tolist() == [31, 31, 31]
    assert met == [0, 1, 2, 3]


def test_a_failure_ends_the_program_and_the_next_run_is_correct() -> None:
    calls = 0

    def target(y: Any, i: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ValueError("not now")
        return y

    with registered(target):
        executable = CPU.compile(IN_LOOP)
        with raises(ExecutionError, codes.FAILED_TARGET, "z (custom-call): target 'target' raised ValueError: not now"):
            xla.block_until_ready(executable(X))
        assert calls == 2
        assert np.asarray(executable(X)).tolist() == [16, 16, 16]


def test_a_branch_that_is_not_taken_calls_nothing() -> None:
    text = entry(
        """c = pred[] parameter(0) x = f32[3] parameter(1)
        ROOT r = f32[3] conditional(c, x, x), true_computation=call, false_computation=leave""",
        """call { p = f32[3] parameter(0) ROOT r = f32[3] custom-call(p), custom_call_target="target" }
        leave { p = f32[3] parameter(0) ROOT r = f32[3] negate(p) }""",
    )
    with registered(lambda x: x * np.float32(3)):
        executable = CPU.compile(text)
        assert np.asarray(executable(True, X)).tolist() == [3, 3, 3]
    assert np.asarray(executable(False, X)).tolist() == [-1, -1, -1]  # without the target, it fails


def test_control_edges_and_the_order_of_the_text_hold() -> None:
    met: list[str] = []

    def target(*operands: Any, opaque: str) -> Any:
        met.append(opaque)
        return X

    def call(name: str, more: str = "") -> str:
        return f'{name} = f32[3] custom-call(), custom_call_target="target", backend_config="{name}"{more}\n'

    text = entry(
        f"""{call("b")} {call("c", ", control-predecessors={b}")} {call("a", ", control-predecessors={c}")}
        s = f32[3] add(a, c) ROOT r = f32[3] add(s, b)"""
    )
    with registered(target):
        xla.block_until_ready(CPU.compile(text)())
    assert met == ["b", "c", "a"]


def test_arrays_that_a_target_keeps_do_not_change() -> None:
    kept: list[Any] = []

    def target(y: Any, i: Any) -> Any:
        kept.append(y)
        return y

    with registered(target):
        xla.block_until_ready(CPU.compile(IN_LOOP)(X))
    assert [array.tolist() for array in kept] == [[n] * 3 for n in (2, 4, 8, 16)]


def test_a_target_may_run_the_program_that_calls_it() -> None:
    def target(y: Any, i: Any) -> Any:
        if y[0] < 100 and int(i) == 0:
            return np.asarray(executable(y * np.float32(10)))
        return y

    with registered(target):
        executable = CPU.compile(IN_LOOP)
        # 2, then the program of 20: 40, then that of 400: 800 and three times its double, doubled three times each
        assert np.asarray(executable(X)).tolist() == [800 * 8 * 8 * 8] * 3


def test_devices_have_their_own_runs() -> None:
    """Catches callbacks that get the operands of another thread's run: all four devices are inside the host at once."""
    inside = threading.Barrier(4)

    def target(y: Any, i: Any) -> Any:
        if int(i) == 1:
            inside.wait(60)
        return y + np.float32(0)

    with registered(target):
        executable = xla.Client("cpu", devices=4).compile(
            "HloModule m, replica_count=4" + IN_LOOP.removeprefix("HloModule m")
        )
        arguments = [[np.full(3, number, np.float32)] for number in range(4)]
        results = [np.asarray(result).tolist() for result in executable.execute_sharded(arguments)]
    assert results == [[16 * number] * 3 for number in range(4)]


def test_runs_of_several_threads_take_turns_on_a_device() -> None:
    """Catches callbacks that get the operands of another thread's run."""
    with registered(lambda y, i: y + np.float32(0)):
        executable = CPU.compile(IN_LOOP)
        results = run_in_threads(6, lambda number: np.asarray(executable(np.full(3, number, np.float32))).tolist())
    assert results == [[16 * number] * 3 for number in range(6)]


def test_a_target_computes_with_denormals() -> None:
    text = entry('x = f32[1] parameter(0)\nROOT r = f32[1] custom-call(x), custom_call_target="target"')
    with registered(lambda x: (np.float32(1e-20) * np.float32(1e-20) > 0) * np.ones(1, np.float32)):
        assert np.asarray(CPU.compile(text)(X[:1])).tolist() == [1]


def test_targets_of_one_platform() -> None:
    text = entry('x = f32[3] parameter(0)\nROOT r = f32[3] custom-call(x), custom_call_target="target"')
    with registered(np.negative, platform="cpu"):
        assert np.asarray(CPU.compile(text)(X)).tolist() == [-1, -1, -1]
        with raises(UnsupportedError, codes.TARGET_REGISTERED, "'target'"):
            xla.Client("interpreter").compile(text)
