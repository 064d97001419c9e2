"""remove-trivial-collectives: which collectives are removed, and what stays."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.passes.runner import body, run_passes
from xlapy import opcodes
from xlapy.passes.remove_trivial_collectives import RemoveTrivialCollectives
from xlapy.text import parse_hlo

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
WIDE = "add { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT c = f64[] add(a, b) }\n"


def module(line: str, reducer: str = ADD) -> str:
    return f"HloModule m\n{reducer}ENTRY e {{ p = f32[4,2] parameter(0)\n q = f32[3] parameter(1)\n {line} }}"


def removed(line: str, replicas: int = 1, partitions: int = 1, reducer: str = ADD) -> str | None:
    """The entry computation after the pass; None if nothing changed."""
    parsed = parse_hlo(module(line, reducer))
    changed = run_passes(parsed, [RemoveTrivialCollectives(replicas, partitions)])
    return body(parsed) if changed else None


FORMS = {
    "all-reduce": "ROOT r = f32[4,2] all-reduce(p), replica_groups={}, to_apply=add",
    "all-gather": "ROOT r = f32[4,2] all-gather(p), replica_groups={}, dimensions={0}",
    "reduce-scatter": "ROOT r = f32[4,2] reduce-scatter(p), replica_groups={}, dimensions={1}, to_apply=add",
    "all-to-all": "ROOT r = f32[4,2] all-to-all(p), replica_groups={}, dimensions={0}",
    "collective-broadcast": "ROOT r = f32[4,2] collective-broadcast(p), replica_groups={{0}}",
    "collective-permute": "ROOT r = f32[4,2] collective-permute(p), source_target_pairs={{0,0}}",
}


@pytest.mark.parametrize("name", FORMS)
def test_one_device_receives_its_operand(name: str):
    assert removed(FORMS[name]) == "ROOT p = f32[4,2] parameter(0)\nq = f32[3] parameter(1)"
    assert removed(FORMS[name], replicas=2) is None
    assert removed(FORMS[name], replicas=0) is None
    compiled = xla.Client("cpu").compile(module(FORMS[name]))
    assert not compiled.program.compiled.program.host_calling_thunks
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert np.asarray(compiled(x, np.ones(3, np.float32))).tolist() == x.tolist()


def test_several_operands_become_a_tuple():
    line = "ROOT r = (f32[4,2], f32[3]) all-reduce(p, q), replica_groups={}, to_apply=add"
    assert removed(line).splitlines()[2:] == ["ROOT tuple = (f32[4,2], f32[3]) tuple(p, q)"]
    line = "ROOT r = (f32[4,2]) all-to-all(p), replica_groups={{0}}"
    assert removed(line).splitlines()[2:] == ["ROOT tuple = (f32[4,2]) tuple(p)"]


def test_groups_of_one_member_on_several_devices():
    line = "ROOT r = f32[4,2] all-reduce(p), replica_groups={{1},{0}}, to_apply=add"
    assert removed(line, replicas=2) is not None
    assert removed(line, replicas=3) is None  # device 2 is in no group
    across = "ROOT r = f32[4,2] all-reduce(p), replica_groups={}, to_apply=add, channel_id=1"
    assert removed(across, partitions=2) is None
    own = "ROOT r = f32[4,2] all-reduce(p), replica_groups={}, to_apply=add"
    assert removed(own, replicas=1, partitions=2) is not None
    permute = "ROOT r = f32[4,2] collective-permute(p), source_target_pairs={{1,1},{0,0}}"
    assert removed(permute, replicas=2) is not None
    assert removed(permute.replace("{{1,1},{0,0}}", "{{1,0},{0,1}}"), replicas=2) is None
    assert removed(permute.replace("{{1,1},{0,0}}", "{{0,0}}"), replicas=2) is None


def test_a_permute_that_does_not_send_to_the_device_stays():
    assert removed("ROOT r = f32[4,2] collective-permute(p), source_target_pairs={}") is None


def test_a_reducer_of_another_type_stays():
    """It rounds or converts the operand."""
    assert removed(FORMS["all-reduce"], reducer=WIDE) is None


def test_control_edges_lead_past_a_removed_collective():
    line = """a = f32[3] negate(q)
      c = f32[4,2] all-reduce(p), replica_groups={}, to_apply=add, control-predecessors={a}
      b = f32[3] exponential(q), control-predecessors={c}
      ROOT t = (f32[3], f32[3], f32[4,2]) tuple(a, b, c)"""
    parsed = parse_hlo(module(line))
    assert run_passes(parsed, [RemoveTrivialCollectives(1, 1)])
    a, b, x = parsed.entry_computation.root_instruction.operands
    assert list(b.control_predecessors) == [a]
    assert x.op is opcodes.PARAMETER
