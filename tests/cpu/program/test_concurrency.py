"""Independent chains of small kernels run at the same time, with the same bits at any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import VerificationError
from xlapy.cpu.compiler import Compiled, compile_module
from xlapy.cpu.program import concurrency
from xlapy.cpu.program.liveness import LiveRanges
from xlapy.cpu.program.profiling_counters import place_counters
from xlapy.cpu.program.thunks import ConcurrentThunk, walk_thunks
from xlapy.testing.random_arguments import random_arguments

DOT = "f32[48,64] dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
WEIGHTS = "\n".join(f"  w{n} = f32[64,64] parameter({n + 1})" for n in range(6))


def layer(name: str, operand: str, weights: str) -> str:
    return f"  {name}.d = {DOT.format(operand, weights)}\n  {name} = f32[48,64] tanh({name}.d)\n"


TOWERS = (
    "HloModule towers\nENTRY main {\n  x = f32[48,64] parameter(0)\n"
    + WEIGHTS
    + "\n"
    + layer("a", "x", "w0")
    + layer("b", "a", "w1")
    + layer("c", "b", "w2")
    + layer("d", "x", "w3")
    + layer("e", "d", "w4")
    + layer("f", "e", "w5")
    + "  ROOT r = f32[48,64] subtract(c, f)\n}"
)

DIAMOND = (
    "HloModule diamond\nENTRY main {\n  x = f32[48,64] parameter(0)\n"
    + WEIGHTS
    + "\n"
    + layer("a", "x", "w0")
    + layer("b", "a", "w1")
    + layer("c", "a", "w2")
    + layer("d", "a", "w3")
    + "  s = f32[48,64] add(b, c)\n"
    + layer("e", "s", "w4")
    + layer("f", "d", "w5")
    + "  ROOT r = (f32[48,64], f32[48,64], f32[48,64]) tuple(e, f, a)\n}"
)

LOOP = (  # six layers in each iteration
    """HloModule loop
below { s = (s32[], f32[48,64]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
next { s = (s32[], f32[48,64]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[48,64] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  w = f32[64,64] constant({...})
"""
    + layer("a", "x", "w")
    + layer("b", "a", "w")
    + "  y = f32[48,64] negate(x)\n"
    + layer("c", "y", "w")
    + layer("d", "c", "w")
    + layer("e", "b", "w")
    + layer("f", "d", "w")
    + """  z = f32[48,64] subtract(e, f)
  ROOT r = (s32[], f32[48,64]) tuple(j, z) }
ENTRY main { x = f32[48,64] parameter(0)  zero = s32[] constant(0)  t = (s32[], f32[48,64]) tuple(zero, x)
  u = (s32[], f32[48,64]) while(t), condition=below, body=next  ROOT r = f32[48,64] get-tuple-element(u), index=1 }"""
).replace("w = f32[64,64] constant({...})", "k = f32[] constant(0.11)  w = f32[64,64] broadcast(k), dimensions={}")

PROGRAMS = {"towers": TOWERS, "diamond": DIAMOND, "loop": LOOP}


@pytest.fixture(autouse=True)
def verifying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"verify_buffers": True}))


def compiled(text: str) -> Compiled:
    return compile_module(xla.parse_hlo(text, verify=True))


def concurrent(text: str) -> list[ConcurrentThunk]:
    return [t for t in walk_thunks(compiled(text).program.thunks) if isinstance(t, ConcurrentThunk)]


def arguments_of(module: Any) -> list[Any]:
    return random_arguments([p.shape for p in module.entry_computation.parameters], 1)


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(one) for one in (value if isinstance(value, tuple | list) else [value])]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_interpreter(name: str) -> None:
    module = xla.parse_hlo(PROGRAMS[name])
    arguments = arguments_of(module)
    found = leaves(xla.Client("cpu").compile(module)(*arguments))
    expected = leaves(xla.Client("interpreter").compile(module)(*arguments))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_two_towers_are_tasks_that_the_sum_waits_for() -> None:
    (thunk,) = concurrent(TOWERS)
    assert [len(task.thunks) for task in thunk.tasks] == [3, 2, 1]  # the last layer of a tower subtracts
    assert thunk.waits == [(), (), (0, 1)]


def test_a_shared_layer_is_a_task_of_its_own() -> None:
    (thunk,) = concurrent(DIAMOND)
    assert thunk.waits[0] == ()
    assert sum(waits == (0,) for waits in thunk.waits) == 2
    assert all(other < number for number, waits in enumerate(thunk.waits) for other in waits)


def test_a_loop_runs_tasks_in_each_iteration() -> None:
    (thunk,) = concurrent(LOOP)
    assert len(thunk.tasks) >= 2


def test_short_kernels_are_not_tasks() -> None:
    assert not concurrent(TOWERS.replace("48,", "2,").replace("64,64", "8,8").replace("2,64", "2,8"))


def test_kernels_that_fill_all_threads_are_not_tasks() -> None:
    assert not concurrent(TOWERS.replace("48,", "960,"))


def test_temporaries_of_tasks_that_share_memory_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveRanges, "concurrent", lambda self, thunk: self.sequence(thunk.tasks))
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT):
        compiled(DIAMOND)


def test_a_task_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks_of = concurrency._tasks_of

    def without_waits(*arguments: Any) -> Any:
        found = tasks_of(*arguments)
        for thunk in found:
            if isinstance(thunk, ConcurrentThunk):
                thunk.waits = [()] * len(thunk.waits)
        return found

    monkeypatch.setattr(concurrency, "_tasks_of", without_waits)
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT):
        compiled(DIAMOND)


def test_each_thunk_of_a_task_has_a_counter() -> None:
    program = compiled(TOWERS).program
    counters = place_counters(program)
    (thunk,) = (t for t in walk_thunks(program.thunks) if isinstance(t, ConcurrentThunk))
    assert {inner for task in thunk.tasks for inner in task.thunks} <= counters.starts.keys()


BITS = """
import hashlib, sys
import numpy as np
import xlapy as xla
from tests.cpu.program.test_concurrency import PROGRAMS, arguments_of, leaves
for text in PROGRAMS.values():
    module = xla.parse_hlo(text)
    executable, arguments = xla.Client("cpu").compile(module), arguments_of(module)
    found = {b"".join(leaf.tobytes() for leaf in leaves(executable(*arguments))) for _ in range(100)}
    print(len(found), hashlib.sha256(found.pop()).hexdigest())
"""


def test_results_have_the_same_bits_at_any_number_of_threads() -> None:
    found = set()
    for count in (1, 2, 3, 8):
        environment = {**os.environ, "XLAPY_FLAGS": f"--num_threads={count}"}
        run = subprocess.run([sys.executable, "-c", BITS], capture_output=True, check=True, env=environment, text=True)
        assert all(line.startswith("1 ") for line in run.stdout.splitlines())
        found.add(run.stdout)
    assert len(found) == 1 and len(found.pop().splitlines()) == len(PROGRAMS)
