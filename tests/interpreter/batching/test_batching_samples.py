"""Every sample, evaluated for several instances at once, gives what each instance gives on its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interpreter.batching.batch_elements import assert_batched_equals_one_by_one
from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.interpreter import RULES
from xlapy.interpreter.batching import BATCHING_RULES
from xlapy.opcodes.registry import REGISTRY
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.samples import REFUSED_AT_RUN, all_samples
from xlapy.text import parse_hlo

COUNT = 3


def is_lifted(computation: Computation) -> bool:
    """Whether all that a computation makes has a form for many instances, and depends on its parameters."""
    reached, pending = {computation}, [computation]
    while pending:
        for instruction in pending.pop():
            if instruction.op not in BATCHING_RULES or instruction.op not in RULES or instruction.shape.is_dynamic:
                return False
            pending += [called for called in instruction.computations if called not in reached]
            reached |= set(instruction.computations)
    return bool(computation.parameters)


def computations() -> Iterator[Any]:
    for sample in all_samples():
        if sample.note != REFUSED_AT_RUN:
            module = parse_hlo(sample.text)
            for computation in filter(is_lifted, module.computations):
                yield pytest.param(computation, id=f"{sample.name}-{computation.name}")


def patterns(count: int) -> list[tuple[bool, ...]]:
    """Which parameters carry instances: all of them, each alone, all but one."""
    alone = [tuple(i == j for j in range(count)) for i in range(count)]
    others = [tuple(i != j for j in range(count)) for i in range(count)] if count > 2 else []
    return list(dict.fromkeys([(True,) * count, *alone, *others]))


def instances(computation: Computation) -> list[list[Any]]:
    shapes = [parameter.shape for parameter in computation.parameters]
    return [random_arguments(shapes, seed) for seed in range(COUNT)]


COMPUTATIONS = list(computations())


@pytest.mark.parametrize("computation", COMPUTATIONS)
def test_a_sample(computation: Computation):
    rows = instances(computation)
    for pattern in patterns(len(computation.parameters)):
        assert_batched_equals_one_by_one(computation, rows, pattern)


def test_every_op_is_lifted_or_says_why_not():
    assert [name for name, op in REGISTRY.items() if (op in BATCHING_RULES) == (op in BATCHING_RULES.refusals)] == []


def test_every_lifted_op_has_a_sample_here():
    seen = {i.op for param in COMPUTATIONS for i in param.values[0]}
    assert set(BATCHING_RULES) - seen == {
        opcodes.PARTITION_ID,
        opcodes.REPLICA_ID,
    }  # of the device, whose samples read nothing else
