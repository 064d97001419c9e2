"""The table of strategies, and the choice among them.

Every strategy is asked for a candidate; the one with the smallest estimated cost is the plan. A plan that the
`backend_config` of the instruction demands is followed instead, or refused with an error. Does not depend on how a
strategy works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.emitters.attention.strategy import AttentionStrategy
from xlapy.codegen.emitters.column_reduction import ColumnReductionStrategy
from xlapy.codegen.emitters.concatenate import ConcatenateStrategy
from xlapy.codegen.emitters.convolution.strategies import (
    DepthwiseGradientStrategy,
    DirectConvolutionStrategy,
    GroupedConvolutionStrategy,
    Im2colStrategy,
    KernelGradientStrategy,
)
from xlapy.codegen.emitters.elementwise import LoopStrategy
from xlapy.codegen.emitters.interleaved import InterleavedStrategy
from xlapy.codegen.emitters.matmul.dot import (
    DirectGemmStrategy,
    InnerProductStrategy,
    PackedGemmStrategy,
    SkinnyGemmStrategy,
)
from xlapy.codegen.emitters.pooling import PoolingStrategy
from xlapy.codegen.emitters.row_strategies import RowReductionStrategy, UnrolledRowStrategy
from xlapy.codegen.emitters.scan import ScanStrategy
from xlapy.codegen.emitters.transpose import TransposeStrategy
from xlapy.codegen.plan import (
    Candidate,
    DemandedPlan,
    EmittedKernel,
    ImpossibleParameterError,
    KernelPlan,
    Rejection,
    Strategy,
    demanded_plan,
    described,
    with_demanded,
)
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction

STRATEGIES: tuple[Strategy[Any], ...] = (
    AttentionStrategy(),
    DirectGemmStrategy(),
    SkinnyGemmStrategy(),
    InnerProductStrategy(),
    PackedGemmStrategy(),
    GroupedConvolutionStrategy(),
    KernelGradientStrategy(),
    DepthwiseGradientStrategy(),
    DirectConvolutionStrategy(),
    Im2colStrategy(),
    ConcatenateStrategy(),
    ScanStrategy(),
    PoolingStrategy(),
    ColumnReductionStrategy(),
    UnrolledRowStrategy(),
    RowReductionStrategy(),
    InterleavedStrategy(),
    TransposeStrategy(),
    LoopStrategy(),
)
"""All strategies. Of candidates with equal costs, the first one is chosen."""

BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan of a region, and what became of the other strategies."""

    plan: KernelPlan
    cost: float
    """The estimated cost of the plan in cycles of one core."""
    costlier: tuple[tuple[str, float], ...]
    """The other candidates with their costs, the cheapest first."""
    rejections: tuple[tuple[str, str], ...]
    """The strategies that rejected the region, each with its reason."""

    def lines(self) -> list[str]:
        """The choice as sentences."""
        found = [f"{self.plan}: chosen, estimated {_cycles(self.cost)}"]
        found += [f"{name}: not chosen, estimated {_cycles(cost)}" for name, cost in self.costlier]
        return [*found, *(f"{name}: rejected: {reason}" for name, reason in self.rejections)]


def _cycles(cost: float) -> str:
    return f"{cost:,.0f} cycles"


def choose_plan(region: Region) -> Choice:
    """Asks all strategies for candidates, and chooses the cheapest."""
    candidates: list[tuple[Strategy[Any], float]] = []
    rejections: list[tuple[str, str]] = []
    for strategy in STRATEGIES:
        answer = strategy.candidate(region)
        if isinstance(answer, Candidate):
            candidates.append((strategy, answer.cost))
        else:
            rejections.append((strategy.name, answer.reason))
    assert candidates, f"no strategy computes {region.name}"
    candidates.sort(key=lambda candidate: candidate[1])
    (chosen, cost), *others = candidates
    plan = KernelPlan(chosen.name, chosen.parameters(region))
    return Choice(plan, cost, tuple((strategy.name, cost) for strategy, cost in others), tuple(rejections))


def plan_of(instruction: Instruction, region: Region) -> KernelPlan:
    """The plan of the region of an instruction: the one that its `backend_config` demands, or else the cheapest.

    Raises `InvalidArgumentError` for a plan that is impossible; it names the instruction, the strategy and the
    parameter.
    """
    demanded = demanded_plan(instruction)
    return choose_plan(region).plan if demanded is None else _followed(instruction, region, demanded)


def _followed(instruction: Instruction, region: Region, demanded: DemandedPlan) -> KernelPlan:
    strategy = BY_NAME.get(demanded.strategy)
    where = f"{described(instruction)}: the strategy {demanded.strategy!r} of its kernel plan"
    if strategy is None:
        raise InvalidArgumentError(f"{where} is unknown; known: {', '.join(BY_NAME)}")
    answer = strategy.candidate(region)
    if isinstance(answer, Rejection) and not answer.is_possible:
        raise InvalidArgumentError(f"{where} is impossible: {answer.reason}")
    try:
        parameters = with_demanded(strategy.parameters(region), dict(demanded.parameters))
        strategy.check(region, parameters)
    except ImpossibleParameterError as error:
        raise InvalidArgumentError(f"{where} is impossible: parameter {error.name}: {error.reason}") from error
    return KernelPlan(strategy.name, parameters)


def emit_kernels(plan: KernelPlan, region: Region) -> list[EmittedKernel]:
    """The kernels of a region by its plan, each with the work of one parallel iteration."""
    kernels = BY_NAME[plan.strategy].emit(region, plan.parameters)
    region.forget_derived()  # the kernels have used up what was started for them
    return kernels
