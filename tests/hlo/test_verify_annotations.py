"""Verification of annotations: threads, shardings, original values, composite calls, device numbers."""

from __future__ import annotations

import pytest

from tests.raising import Wanted, raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.structure import annotations as codes
from xlapy.base.errors import VerificationError
from xlapy.hlo.verify import verify
from xlapy.text import parse_hlo

HEAD = """HloModule m, replica_count=2, num_partitions=3
add { left = f32[] parameter(0) right = f32[] parameter(1) ROOT sum = f32[] add(left, right) }
other { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }, execution_thread="side"
one { d = f32[] parameter(0) ROOT n = f32[] negate(d), sharding={replicated} }
two { e = f32[] parameter(0) ROOT o = f32[] negate(e), sharding={maximal device=1} }
go { f = (f32[]) parameter(0) ROOT g = pred[] constant(true) }
step { s = (f32[]) parameter(0), sharding={{replicated}} ROOT u = (f32[]) copy(s) }
ENTRY main {
  p = f32[4] parameter(0)
  q = f32[] parameter(1)
  t = (f32[], (f32[4], f32[])) parameter(2)
"""


def refuse(line: str, code: ErrorCode, *values: str) -> None:
    module = parse_hlo(f"{HEAD}  ROOT r = {line}\n}}", verify=False)
    with raises(VerificationError, code, *values):
        verify(module)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "f32[] call(q, q), to_apply=other",
            (codes.EXECUTION_THREAD, "r (call)", "thread main", "other on side"),
        ),
        (
            "f32[] reduce(p, q), dimensions={0}, to_apply=other",
            (codes.EXECUTION_THREAD, "r (reduce)", "thread main", "other on side"),
        ),
        (
            "f32[4] negate(p), sharding={devices=[2,3]0,1,2,3,4,5}",
            (codes.SHARDING_SHAPE, "r (negate)", "{devices=[2,3]0,1,2,3,4,5}", "splits 2", "f32[4]", "rank 1"),
        ),
        (
            "(f32[4], f32[]) tuple(p, q), sharding={{replicated}}",
            (codes.SHARDING_SHAPE, "r (tuple)", "{{replicated}}", "1 elements", "(f32[4], f32[])", "2 leaves"),
        ),
        ("f32[4] negate(p), sharding={maximal device=-1}", (codes.SHARDING_DEVICES, "{maximal device=-1}")),
        (
            "f32[] conditional(s32[] constant(1), q, q), branch_computations={one,two}",
            (codes.EQUAL_SHARDINGS, "r (conditional)", "{replicated}", "{maximal device=1}"),
        ),
        (
            "(f32[]) while((f32[]) tuple(q)), condition=go, body=step, sharding={{maximal device=0}}",
            (codes.EQUAL_SHARDINGS, "r (while)", "{{maximal device=0}}", "s", "{{replicated}}"),
        ),
        (
            '(f32[4], f32[]) tuple(p, q), origin={({"a"}, ({"b"}))}',
            (codes.ORIGINAL_VALUE, "r (tuple)", '{({"a"}, ({"b"}))}', "(f32[4], f32[])"),
        ),
        ('f32[4] negate(p), origin={({"a"})}', (codes.ORIGINAL_VALUE, "f32[4]")),
        ("f32[] call(q, q), to_apply=add, is_composite=true", (codes.COMPOSITE_CALL, "composite.name")),
        (
            'f32[] call(q, q), to_apply=add, is_composite=true, frontend_attributes={composite.name=""}',
            (codes.COMPOSITE_CALL, "composite.name"),
        ),
        (
            "f32[] call(q, q), to_apply=add, is_composite=true, "
            'frontend_attributes={composite.name="a.b",composite.attributes=""}',
            (codes.COMPOSITE_CALL, "composite.attributes"),
        ),
        (
            "f32[] call(q, q), to_apply=add, is_composite=true, "
            'frontend_attributes={composite.name="a.b",composite.version="-1"}',
            (codes.COMPOSITE_CALL, "composite.version", "'-1'", "least 0"),
        ),
        (
            "f32[4] all-reduce(p), replica_groups={{0,1,2}}, to_apply=add",
            (codes.GROUP_MEMBERS, "r (all-reduce)", "replica_groups", "{{0,1,2}}", "3 members", "2 replicas"),
        ),
        (
            "f32[4] all-reduce(p), replica_groups={{0,1},{2}}, channel_id=1, use_global_device_ids=true, to_apply=add",
            (codes.GROUP_MEMBERS, "replica_groups", "{{0,1},{2}}", "3 members", "6 devices"),
        ),
        (
            "f32[8] all-gather(p), dimensions={0}, replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true",
            (codes.GROUP_MEMBERS, "replica_groups", "{{0,1}}", "2 members", "6 devices"),
        ),
        (
            "f32[4] collective-permute(p), source_target_pairs={{0,1},{1,2}}",
            (codes.PAIR_MEMBERS, "r (collective-permute)", "target 2", "source_target_pairs", "below 2", "replicas"),
        ),
        (
            "f32[4] collective-permute(p), channel_id=1, source_target_pairs={{3,1}}",
            (codes.PAIR_MEMBERS, "r (collective-permute)", "source 3", "source_target_pairs", "below 3", "partitions"),
        ),
    ],
)
def test_refusals(line: str, expected: Wanted) -> None:
    refuse(line, *expected)


def test_all_reduces_have_constrained_layouts_or_none_has() -> None:
    lines = (
        "v = f32[4] all-reduce(p), to_apply=add\n  ROOT r = f32[4] all-reduce(v), to_apply=add, constrain_layout=true"
    )
    with raises(VerificationError, codes.LAYOUT_CONSTRAINTS, "r (all-reduce)", "constrain_layout=true", "v"):
        parse_hlo(f"{HEAD}  {lines}\n}}")


@pytest.mark.parametrize(
    "line",
    [
        "f32[4] negate(p), sharding={devices=[2,3]<=[6] last_tile_dim_replicate}",
        "f32[4] negate(p), sharding={mesh['a'=2,'b'=3], [{'a'}]}",
        "(f32[4], f32[]) tuple(p, q), sharding={replicated}",
        '(f32[4], (), f32[]) tuple(p, () tuple(), q), origin={({"a(" {0,1}}, (), {})}',
        "f32[4] negate(p), origin={[synthetic_call]}",
        "f32[] call(q, q), to_apply=add, is_composite=true, "
        'frontend_attributes={composite.name="a.b",composite.attributes={},composite.version="2"}',
        "f32[4] all-reduce(p), replica_groups={{1},{0}}, to_apply=add",
        "f32[8] all-gather(p), dimensions={0}, replica_groups=[3,2]<=[6], channel_id=1, use_global_device_ids=true",
        "f32[4] collective-broadcast(p), replica_groups={{1}}",
        "f32[4] collective-permute(p), channel_id=1, source_target_pairs={{2,1}}",
    ],
)
def test_valid_examples(line: str) -> None:
    parse_hlo(f"{HEAD}  ROOT r = {line}\n}}")
