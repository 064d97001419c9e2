"""Meaning of replica-id and partition-id."""

from __future__ import annotations

import pytest

from xlapy.interpreter import Context, evaluate_computation
from xlapy.text import parse_hlo

IDENTIFIERS = """HloModule m, replica_count=4, num_partitions=3
ENTRY e { r = u32[] replica-id() p = u32[] partition-id() ROOT t = (u32[], u32[]) tuple(r, p) }
"""


@pytest.mark.parametrize(("replica", "partition"), [(0, 0), (3, 0), (0, 2), (3, 2)])
def test_each_device_knows_its_numbers(replica: int, partition: int) -> None:
    context = Context(replica_id=replica, partition_id=partition)
    ids = evaluate_computation(context, parse_hlo(IDENTIFIERS).entry_computation, [])
    assert [(int(value), value.dtype, value.shape) for value in ids] == [
        (replica, "uint32", ()),
        (partition, "uint32", ()),
    ]
