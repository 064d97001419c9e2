"""remove-identity-calls: which custom calls are removed, and what stays."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.passes.runner import assert_unchanged, program, rewritten
from xlapy.custom_calls.registry import register_custom_call_target, unregister_custom_call_target
from xlapy.interpreter.custom import IDENTITY_TARGETS, SHARDING_GROUP_TARGET
from xlapy.passes import parse_passes
from xlapy.text import parse_hlo

PASS = "remove-identity-calls"


def _marked(target: str, shape: str = "f32[2,3]") -> str:
    return program(
        "x = f32[2,3] parameter(0)",
        f'c = {shape} custom-call(x), custom_call_target="{target}", custom_call_has_side_effect=true',
        f"ROOT r = {shape} abs(c)",
    )


@pytest.mark.parametrize("target", [target for target in IDENTITY_TARGETS if target != SHARDING_GROUP_TARGET])
def test_annotations_are_removed(target):
    assert rewritten(_marked(target), PASS) == "x = f32[2,3] parameter(0)\nROOT r = f32[2,3] abs(x)"


def test_annotations_of_several_values_become_a_tuple():
    text = program(
        "x = f32[2] parameter(0)",
        "y = s32[] parameter(1)",
        'ROOT c = (f32[2], s32[]) custom-call(x, y), custom_call_target="xla.sdy.GlobalToLocalShape"',
    )
    assert rewritten(text, PASS).splitlines()[2:] == ["ROOT tuple = (f32[2], s32[]) tuple(x, y)"]
    for platform in ("cpu", "interpreter"):
        x, y = xla.Client(platform).compile(text)(np.array([1, 2], np.float32), 3)
        assert np.asarray(x).tolist() == [1, 2] and int(y) == 3
    assert_unchanged(text.replace("(f32[2], s32[]) custom-call", "(f32[1], s32[]) custom-call"), PASS)


def test_annotations_of_a_tuple_and_without_results():
    text = program(
        "x = (f32[2], s32[]) parameter(0)",
        'c = (f32[2], s32[]) custom-call(x), custom_call_target="Sharding"',
        'g = () custom-call(c), custom_call_target="xla.sdy.ShardingGroup", custom_call_has_side_effect=true',
        "ROOT r = f32[2] get-tuple-element(c), index=0",
    )
    assert "custom-call" not in rewritten(text, PASS)
    for platform in ("cpu", "interpreter"):
        executable = xla.Client(platform).compile(text)
        assert np.asarray(executable((np.array([1, 2], np.float32), np.int32(3)))).tolist() == [1, 2]


def test_other_targets_and_other_shapes_stay():
    assert_unchanged(_marked("mine"), PASS)
    assert_unchanged(_marked("SPMDFullToShardShape", "f32[1,3]"), PASS)


def test_a_registered_target_stays():
    register_custom_call_target("Sharding", lambda x: x + 1, platform="cpu")
    try:
        assert_unchanged(_marked("Sharding"), PASS)
        text = _marked("Sharding")
        assert np.asarray(xla.Client("cpu").compile(text)(np.zeros((2, 3), np.float32))).tolist() == [[1, 1, 1]] * 2
    finally:
        unregister_custom_call_target("Sharding", "cpu")


def test_control_edges_lead_past_a_removed_call():
    text = program(
        "x = f32[2] parameter(0)",
        "a = f32[2] negate(x)",
        'c = f32[2] custom-call(x), custom_call_target="Sharding", control-predecessors={a}',
        "b = f32[2] exponential(x), control-predecessors={c}",
        "ROOT t = (f32[2], f32[2], f32[2]) tuple(a, b, c)",
    )
    module = parse_hlo(text)
    assert parse_passes(PASS)[0].run(module)
    a, b = (next(i for i in module.instructions() if i.name == name) for name in ("a", "b"))
    assert list(b.control_predecessors) == [a]
    assert [operand.name for operand in module.entry_computation.root_instruction.operands] == ["a", "b", "x"]


def test_a_compiled_program_does_not_call_the_host():
    """Also in a loop, and as the root with another layout."""
    text = """HloModule marked
    body { p = (s32[], f32[2,3]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      v = f32[2,3] get-tuple-element(p), index=1
      m = f32[2,3] custom-call(v), custom_call_target="MoveToHost"
      one = s32[] constant(1)
      n = s32[] add(i, one)
      d = f32[2,3] add(m, m)
      ROOT t = (s32[], f32[2,3]) tuple(n, d) }
    condition { p = (s32[], f32[2,3]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      k = s32[] constant(3)
      ROOT c = pred[] compare(i, k), direction=LT }
    ENTRY e { x = f32[2,3]{1,0} parameter(0)
      zero = s32[] constant(0)
      s = (s32[], f32[2,3]) tuple(zero, x)
      w = (s32[], f32[2,3]) while(s), condition=condition, body=body
      v = f32[2,3] get-tuple-element(w), index=1
      ROOT r = f32[2,3]{0,1} custom-call(v), custom_call_target="LayoutConstraint" }"""
    executable = xla.Client("cpu").compile(text)
    assert "custom-call" not in executable.as_hlo_text(optimized=True)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.asarray(executable(x)).tolist() == (8 * x).tolist()
