"""Evaluates every sample on a batch, and on each batch element alone, and asserts that both agree."""

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


def has_batching_rules(computation: Computation) -> bool:
    """Returns whether all instructions of a computation can be batched, and it has parameters to batch."""
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
            for computation in filter(has_batching_rules, module.computations):
                yield pytest.param(computation, id=f"{sample.name}-{computation.name}")


def patterns(count: int) -> list[tuple[bool, ...]]:
    """Returns which parameters are batched: all of them, each alone, all but one."""
    alone = [tuple(i == j for j in range(count)) for i in range(count)]
    others = [tuple(i != j for j in range(count)) for i in range(count)] if count > 2 else []
    return list(dict.fromkeys([(True,) * count, *alone, *others]))


def batch_arguments(computation: Computation) -> list[list[Any]]:
    shapes = [parameter.shape for parameter in computation.parameters]
    return [random_arguments(shapes, seed) for seed in range(COUNT)]


COMPUTATIONS = list(computations())


@pytest.mark.parametrize("computation", COMPUTATIONS)
def test_a_sample(computation: Computation):
    rows = batch_arguments(computation)
    for pattern in patterns(len(computation.parameters)):
        assert_batched_equals_one_by_one(computation, rows, pattern)


def test_every_op_has_batching_rules_or_a_reason():
    assert [name for name, op in REGISTRY.items() if (op in BATCHING_RULES) == (op in BATCHING_RULES.refusals)] == []


def test_every_op_with_a_batching_rule_has_a_sample():
    seen = {i.op for param in COMPUTATIONS for i in param.values[0]}
    assert set(BATCHING_RULES) - seen == {
        opcodes.PARTITION_ID,
        opcodes.REPLICA_ID,
    }  # they read only the device number, so that their samples have no operand to batch
