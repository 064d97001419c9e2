"""Other plans of a kernel than the chosen one: other strategies, and other parameters of a strategy.

Responsible for which plans are worth measuring, and in which order. Does not depend on measurements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any

from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.plan import DemandedPlan, KernelPlan
from xlapy.codegen.region import Region
from xlapy.codegen.strategies import Choice, followed_plan
from xlapy.hlo.instruction import Instruction

MAX_COST_RATIO = 16.0
"""Strategies whose estimated cost is this many times that of the chosen one are not proposed: estimates of kernels are
within a factor of four."""

TILE_SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28)
"""The proposed sides of register tiles."""

MAX_TILE_PRODUCT = 32
"""The largest proposed product of the sides of a register tile, because AVX-512 has 32 vector registers."""

_TILE = "tile_"
"""What the names of parameters that are sides of a register tile begin with."""

_SMALL = 32
"""Parameters up to this value also change by one."""


def strategy_plans(instruction: Instruction, region: Region, choice: Choice) -> Iterator[KernelPlan]:
    """Yields the preferred plan of each other strategy that can compute the region: the cheapest estimates first, then
    those without one."""
    costs = dict(choice.costlier)
    others = [name for name, _ in choice.costlier] + [name for name, _ in choice.rejections]
    for name in others:
        if choice.cost and costs.get(name, 0.0) > MAX_COST_RATIO * choice.cost:
            continue
        yield from _possible(instruction, region, DemandedPlan(name, ()))


def tile_plans(instruction: Instruction, region: Region, plan: KernelPlan) -> Iterator[KernelPlan]:
    """Yields the plan with other register tiles of at least half its size, those with a size near that of the plan
    first.

    The sides are the parameters whose names begin with `tile_`.
    """
    sides = [f.name for f in fields(plan.parameters) if f.name.startswith(_TILE)]
    if not sides:
        return
    own = math.prod(getattr(plan.parameters, name) for name in sides)
    most = max(MAX_TILE_PRODUCT, own)
    tiles = [tile for tile in product(TILE_SIDES, repeat=len(sides)) if own // 2 <= math.prod(tile) <= most]
    for tile in sorted(tiles, key=lambda tile: (abs(math.prod(tile) - own), tile)):
        yield from _variants(instruction, region, plan, dict(zip(sides, tile, strict=True)))


def neighboring_plans(instruction: Instruction, region: Region, plan: KernelPlan) -> Iterator[KernelPlan]:
    """Yields the plan with one parameter changed: a Boolean negated, an integer doubled, halved, or by one."""
    for field in fields(plan.parameters):
        value = getattr(plan.parameters, field.name)
        if isinstance(value, bool):
            values = [not value]
        else:
            values = [2 * value, value // 2] + ([value + 1, value - 1] if value <= _SMALL else [])
        for other in dict.fromkeys(values):
            yield from _variants(instruction, region, plan, {field.name: other})


def _variants(
    instruction: Instruction, region: Region, plan: KernelPlan, changes: dict[str, Any]
) -> Iterator[KernelPlan]:
    changed = replace(plan.parameters, **changes)
    if changed != plan.parameters:
        yield from _possible(instruction, region, KernelPlan(plan.strategy, changed).demanded)


def _possible(instruction: Instruction, region: Region, plan: DemandedPlan) -> Iterator[KernelPlan]:
    """Yields the complete plan, if it is possible."""
    try:
        yield followed_plan(instruction, region, plan)
    except InvalidArgumentError:
        return
