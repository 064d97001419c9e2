"""Custom calls that a front end partitions: its program on local arrays, resharded operands, bad programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding
from xlapy.hlo.verify import verify
from xlapy.spmd import partition
from xlapy.spmd.context import CustomPartition

ROWS, COLUMNS, WHOLE = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "{replicated}"
TEXT = f"""HloModule m
  ENTRY e {{ x = f32[8,4] parameter(0), sharding={COLUMNS}
    y = f32[4] parameter(1)
    c = (f32[8,4], f32[4]) custom-call(x, y), custom_call_target="scale", sharding={{{ROWS}, {WHOLE}}}
    a = f32[8,4] get-tuple-element(c), index=0
    b = f32[4] get-tuple-element(c), index=1
    d = f32[8,4] broadcast(b), dimensions={{1}}
    ROOT r = f32[8,4] add(a, d), sharding={ROWS} }}"""
PROGRAM = """HloModule scale
  sum { a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = f32[] add(a, b) }
  ENTRY e { x = f32[2,4] parameter(0)
    y = f32[4] parameter(1)
    z = f32[] constant(0)
    s = f32[4] reduce(x, z), dimensions={0}, to_apply=sum
    t = f32[4] all-reduce(s), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum
    w = f32[2,4] broadcast(y), dimensions={1}
    p = f32[2,4] multiply(x, w)
    ROOT r = (f32[2,4], f32[4]) tuple(p, t) }"""


def test_a_partitioner_chooses_the_shardings_of_operands() -> None:
    """The operand is split by columns, the program takes rows."""
    asked: list[tuple[list[str], list[str]]] = []

    def scale(
        call: Instruction, operands: Sequence[Sharding], results: Sequence[Sharding] | None
    ) -> CustomPartition | None:
        assert results is not None
        asked.append((list(map(str, operands)), list(map(str, results))))
        return CustomPartition(xla.parse_hlo(PROGRAM), (results[0], operands[1]), tuple(results))

    module = xla.parse_hlo(TEXT)
    partition(module, 4, custom_partitioner=scale)
    verify(module)
    assert asked == [([COLUMNS, WHOLE], [ROWS, WHOLE])]
    sent = {i.op.name for i in module.instructions() if i.op.family == "collectives" and i.operands}
    assert sent == {"all-reduce", "all-to-all"}
    channels = [i.attributes.channel_id for i in module.instructions() if i.op.name.startswith("all-")]
    assert len(set(channels)) == len(channels)
    x, y = np.arange(32, dtype=np.float32).reshape(8, 4), np.arange(4, dtype=np.float32)
    parts = [[x[:, device : device + 1], y] for device in range(4)]
    results = xla.Client("cpu", devices=4).compile(module, 1, 4).execute_sharded(parts)
    np.testing.assert_array_equal(np.concatenate(results), x * y + x.sum(0))


def test_a_partitioner_may_decline() -> None:
    text = TEXT.replace(f", sharding={{{ROWS}, {WHOLE}}}", "")
    asked: list[Sequence[Sharding] | None] = []
    module = xla.parse_hlo(text)
    partition(module, 4, custom_partitioner=lambda call, operands, results: asked.append(results), propagate=False)
    assert asked == [None]
    (call,) = [i for i in module.instructions() if i.op.name == "custom-call"]
    assert call.operands[0].shape == xla.Shape.parse("f32[8,4]")


@pytest.mark.parametrize(("program", "local"), [("f32[8,4]", "f32[2,4]"), ("f32[2,2]", "f32[2,4]")])
def test_a_program_of_other_shapes_is_refused(program: str, local: str) -> None:
    text = f"""HloModule m
      ENTRY e {{ x = f32[8,4] parameter(0), sharding={ROWS}
        ROOT c = f32[8,4] custom-call(x), custom_call_target="f", sharding={ROWS} }}"""
    returned = xla.parse_hlo(f"HloModule f\nENTRY e {{ x = {program} parameter(0)\nROOT y = {program} negate(x) }}")

    def same(
        call: Instruction, operands: Sequence[Sharding], results: Sequence[Sharding] | None
    ) -> CustomPartition | None:
        return CustomPartition(returned, tuple(operands), tuple(results or ()))

    with raises(UnsupportedError, codes.CUSTOM_PARTITION_SHAPES, "c (custom-call), target f", local, program):
        partition(xla.parse_hlo(text), 4, custom_partitioner=same)
