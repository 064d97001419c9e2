"""Estimates the time of what the partitioner chooses between: resharding arrays, and computing parts of operations.

Times of collectives are those of the simulator (`xlapy.analysis.simulation`), those of local operations follow from the
cost analysis (`xlapy.analysis.cost`). Both are for one fixed machine, so that a program is partitioned alike wherever
it is compiled: processes that run one program together must agree on its collectives.

Responsible for these estimates, and for the plan of a resharding that takes the least time. Does not depend on how a
strategy is chosen.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost import Rates, array_bytes, element_count
from xlapy.analysis.cost.instructions import instruction_cost
from xlapy.analysis.simulation.collective_time import CollectiveKind, level_seconds
from xlapy.analysis.simulation.machine import Curve, Level, Link
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.array_sharding import ArraySharding, local_shape
from xlapy.spmd.resharding_plan import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    GroupStep,
    ReduceScatter,
    Step,
    plan_resharding,
    resharding_stages,
)
from xlapy.spmd.tiling import Tiling

BANDWIDTH: Final = 10e9
"""The bytes that a device sends in a second while it receives as many: a 100 Gb/s network, or copies in memory."""

START_SECONDS: Final = 5e-6
"""The time until all devices of a collective have met. It counts once for each collective, because messages to several
devices are on their way at the same time."""

_LINK: Final = Level("link", 0, Link(0.0, Curve.constant(BANDWIDTH)))

RATES: Final = Rates()
"""The rates of a device: one core of the reference machine."""

_KINDS: Final = {
    AllReduce: CollectiveKind.ALL_REDUCE, ReduceScatter: CollectiveKind.REDUCE_SCATTER,
    AllGather: CollectiveKind.ALL_GATHER, AllToAll: CollectiveKind.ALL_TO_ALL,
}  # fmt: skip


@functools.lru_cache(maxsize=4096)
def cheapest_plan(
    shape: Shape, source: ArraySharding, target: ArraySharding, manual_axes: tuple[Tiling, ...]
) -> tuple[tuple[Step, ...], float]:
    """Returns the steps that reshard an array of a shape in the least time, and this time. Of equals, the fewest."""
    plan = plan_resharding(source, target, manual_axes)
    plans = [plan]
    if any(isinstance(step, AllReduce) for step in plan):
        plans.append(plan_resharding(source, target, manual_axes, exchanges_first=True))
    seconds = [_plan_seconds(shape, source, each) for each in plans]
    least = seconds.index(min(seconds))
    return tuple(plans[least]), seconds[least]


def _plan_seconds(shape: Shape, source: ArraySharding, plan: Sequence[Step]) -> float:
    total, current, size = 0.0, source, array_bytes(shape)
    for step in plan:
        before, after = (_local_bytes(size, sharding) for sharding in (current, step.after))
        total += _step_seconds(step, before, after)
        current = step.after
    return total


@functools.lru_cache(maxsize=4096)
def _resharding_seconds(
    shape: Shape, source: ArraySharding, target: ArraySharding, manual_axes: tuple[Tiling, ...]
) -> float:
    total, current = 0.0, source
    for stage in resharding_stages(shape, source, target):
        total += cheapest_plan(shape, current, stage, manual_axes)[1]
        current = stage
    return total


def resharding_seconds(
    shape: Shape, source: ArraySharding, target: ArraySharding, manual_axes: tuple[Tiling, ...] = ()
) -> float:
    """Returns the time in which an array of a shape is resharded."""
    if source == target:
        return 0.0
    return _resharding_seconds(shape, source, target, manual_axes)


def all_reduce_seconds(size: int, members: int) -> float:
    """Returns the time of an all-reduce of some bytes among some devices."""
    return START_SECONDS + level_seconds(CollectiveKind.ALL_REDUCE, size, _LINK, members)


def collectives_seconds(count: int, sent: float) -> float:
    """Returns the time of `count` collectives one after the other, in which a device sends `sent` bytes in all."""
    return count * START_SECONDS + sent / BANDWIDTH


def exchange_seconds(size: float) -> float:
    """Returns the time in which each device receives some bytes from its neighbors."""
    return collectives_seconds(1, size) if size else 0.0


def _local_bytes(size: int, sharding: ArraySharding) -> float:
    return size / prod([tiling.tiles for tiling in sharding.tilings if tiling is not None])


def _step_seconds(step: Step, before: float, after: float) -> float:
    """before, after: the bytes of the local arrays."""
    copied = (before + after) / RATES.bytes_accessed * 1e-6
    if isinstance(step, GroupStep):
        largest = max(before, after) if isinstance(step, AllGather) else before
        return copied + START_SECONDS + level_seconds(_KINDS[type(step)], largest, _LINK, step.group_size)
    if isinstance(step, CollectivePermute):
        return copied + START_SECONDS + before / BANDWIDTH
    return copied


def operation_seconds(
    instruction: Instruction, operands: tuple[ArraySharding, ...], results: tuple[ArraySharding, ...], parts: int
) -> float:
    """Returns the time of a local operation. parts: the number of different local operations."""
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    pairs = [*zip([operand.shape for operand in instruction.operands], operands, strict=True)]
    accessed = sum(array_bytes(local_shape(*pair)) for pair in [*pairs, *zip(leaves, results, strict=True)])
    computed = arithmetic_seconds(instruction) / parts
    return max(computed, accessed / RATES.bytes_accessed * 1e-6)


def arithmetic_seconds(instruction: Instruction) -> float:
    """Returns the time of the arithmetic of an operation, on all of its operands."""
    if instruction.computations or instruction.op is opcodes.CUSTOM_CALL:
        shapes = [operand.shape for operand in instruction.operands]
        return max([element_count(shape) for shape in shapes], default=0) / RATES.flops * 1e-6
    cost = instruction_cost(instruction)
    computed = (cost.flops - cost.products) / RATES.flops + cost.products / RATES.products
    return (computed + cost.transcendentals / RATES.transcendentals) * 1e-6
