"""The table of strategies, and the choice among them.

Every strategy for an opcode of the region is asked for a candidate; the one with the smallest estimated cost is the
plan. A plan that the `backend_config` of the instruction demands is followed instead, or refused with an error; one of
a tuning file is followed if it is possible. Does not depend on how a strategy works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlapy import opcodes
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.logging import logger
from xlapy.codegen.emitters.attention.gradient_strategy import AttentionGradientStrategy
from xlapy.codegen.emitters.attention.strategy import AttentionStrategy
from xlapy.codegen.emitters.column_reduction import ColumnReductionStrategy
from xlapy.codegen.emitters.concatenate import ConcatenateStrategy
from xlapy.codegen.emitters.convolution.strategies import (
    DepthwiseGradientStrategy,
    DirectConvolutionStrategy,
    GroupedConvolutionStrategy,
    Im2colStrategy,
    KernelGradientStrategy,
    WinogradStrategy,
)
from xlapy.codegen.emitters.elementwise import LoopStrategy
from xlapy.codegen.emitters.elementwise_loops import ElementwiseLoopStrategy
from xlapy.codegen.emitters.interleaved import InterleavedStrategy
from xlapy.codegen.emitters.matmul.dot import (
    DirectGemmStrategy,
    InnerProductStrategy,
    PackedGemmStrategy,
    SkinnyGemmStrategy,
    SkinnyInnerProductStrategy,
    TileGemmStrategy,
)
from xlapy.codegen.emitters.matmul.ragged_gemm import RaggedGemmStrategy
from xlapy.codegen.emitters.pooling import PoolingStrategy
from xlapy.codegen.emitters.row_strategies import RowReductionStrategy, UnrolledRowStrategy
from xlapy.codegen.emitters.scan import ScanStrategy
from xlapy.codegen.emitters.select_and_scatter.strategies import GatherSourcesStrategy, ScatterSourcesStrategy
from xlapy.codegen.emitters.transpose import TransposeStrategy
from xlapy.codegen.plan import (
    Candidate,
    DemandedPlan,
    ImpossibleParameterError,
    KernelPlan,
    Rejection,
    Strategy,
    demanded_plan,
    with_demanded,
)
from xlapy.codegen.region import Region
from xlapy.codegen.tuning import NO_TUNED_PLANS, TunedPlans
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.loops import Kernel

STRATEGIES: tuple[Strategy[Any], ...] = (
    AttentionStrategy(),
    AttentionGradientStrategy(),
    DirectGemmStrategy(),
    SkinnyGemmStrategy(),
    InnerProductStrategy(),
    SkinnyInnerProductStrategy(),
    PackedGemmStrategy(),
    TileGemmStrategy(),
    RaggedGemmStrategy(),
    GroupedConvolutionStrategy(),
    KernelGradientStrategy(),
    DepthwiseGradientStrategy(),
    DirectConvolutionStrategy(),
    WinogradStrategy(),
    Im2colStrategy(),
    ElementwiseLoopStrategy(),
    ConcatenateStrategy(),
    ScanStrategy(),
    PoolingStrategy(),
    GatherSourcesStrategy(),
    ScatterSourcesStrategy(),
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
    """The plan of a region, the costs of the other candidates, and the reasons of the rejections."""

    plan: KernelPlan
    cost: float | None
    """The estimated cost of the strategy in cycles of one core; None if it would not have proposed itself."""
    costlier: tuple[tuple[str, float], ...]
    """The other candidates with their costs, the cheapest first."""
    rejections: tuple[tuple[str, str], ...]
    """The strategies for its opcodes that rejected the region, each with its reason."""
    demanded: DemandedPlan | None = None
    """The plan that the module demands, which `plan` follows whatever it costs; None if the module demands none."""
    is_tuned: bool = False
    """Whether a tuning file states the plan."""

    def lines(self) -> list[str]:
        """The choice as sentences."""
        how = "demanded by the module" if self.demanded else "taken from the tuning file" if self.is_tuned else "chosen"
        found = [f"{self.plan}: {how}, {_estimate(self.cost)}"]
        found += [f"{name}: not chosen, {_estimate(cost)}" for name, cost in self.costlier]
        return [*found, *(f"{name}: rejected: {reason}" for name, reason in self.rejections)]


def _estimate(cost: float | None) -> str:
    return "not estimated" if cost is None else f"estimated {cost:,.0f} cycles"


def choose_plan(region: Region) -> Choice:
    """Asks all strategies for candidates, and chooses the cheapest."""
    candidates, rejections = _answers(region)
    assert candidates, f"no strategy computes {region.name}"
    (name, cost), *others = candidates
    plan = KernelPlan(name, BY_NAME[name].parameters(region))
    return Choice(plan, cost, tuple(others), rejections)


def _answers(region: Region) -> tuple[list[tuple[str, float]], tuple[tuple[str, str], ...]]:
    """The candidates with their costs, the cheapest first, and the rejections with their reasons.

    Only strategies for an opcode of the region are asked.
    """
    candidates: list[tuple[str, float]] = []
    rejections: list[tuple[str, str]] = []
    present = {instruction.op for instruction in region.instructions}
    for strategy in STRATEGIES:
        if strategy.required_opcodes is not None and not strategy.required_opcodes & present:
            continue
        answer = _answer(strategy, region)
        if isinstance(answer, Candidate):
            candidates.append((strategy.name, answer.cost))
        else:
            rejections.append((strategy.name, answer.reason))
    return sorted(candidates, key=lambda candidate: candidate[1]), tuple(rejections)


def _answer(strategy: Strategy[Any], region: Region) -> Candidate | Rejection:
    if strategy.computes_elements:
        for instruction in region.instructions:
            if instruction.op in (opcodes.SELECT_AND_SCATTER, opcodes.RAGGED_DOT, opcodes.WHILE):
                return Rejection(f"{instruction.name} ({instruction.op.name}) is not computed element by element")
    return strategy.candidate(region)


def plan_of(instruction: Instruction, region: Region, tuned: TunedPlans = NO_TUNED_PLANS) -> Choice:
    """The plan of the region of an instruction: the one that its `backend_config` demands, or that of a tuning file, or
    else the cheapest.

    Raises `InvalidArgumentError` for a demanded plan that is impossible; it names the instruction, the strategy and the
    parameter. A tuned plan that is impossible is ignored, and the log says why.
    """
    demanded = demanded_plan(instruction)
    if demanded is not None:
        return _choice(followed_plan(instruction, region, demanded), region, demanded)
    found = tuned.plan_of(instruction)
    if found is None:
        return choose_plan(region)
    try:
        plan = followed_plan(instruction, region, found)
    except InvalidArgumentError as error:
        _warn_once(tuned.source, found, str(error))
        return choose_plan(region)
    return _choice(plan, region, None)


@SingleFlight
def _warn_once(source: str, plan: DemandedPlan, reason: str) -> None:
    logger.warning("%s has a plan that this version cannot follow, and is ignored there: %s", source, reason)


def _choice(plan: KernelPlan, region: Region, demanded: DemandedPlan | None) -> Choice:
    """The choice of a plan that the module demands or, if `demanded` is None, that a tuning file states."""
    candidates, rejections = _answers(region)
    cost = dict(candidates).get(plan.strategy)
    others = tuple((name, cost) for name, cost in candidates if name != plan.strategy)
    reasons = tuple(pair for pair in rejections if pair[0] != plan.strategy)
    return Choice(plan, cost, others, reasons, demanded, is_tuned=demanded is None)


def followed_plan(instruction: Instruction, region: Region, demanded: DemandedPlan) -> KernelPlan:
    """The complete plan that follows a demanded one. Raises `InvalidArgumentError` if it is impossible."""
    strategy = BY_NAME.get(demanded.strategy)
    where = f"{describe_instruction(instruction)}: the strategy {demanded.strategy!r} of its kernel plan"
    if strategy is None:
        raise InvalidArgumentError(codes.KERNEL_PLAN, f"{where} is unknown; known: {', '.join(BY_NAME)}")
    answer = _answer(strategy, region)
    if isinstance(answer, Rejection) and not answer.is_possible:
        raise InvalidArgumentError(codes.KERNEL_PLAN, f"{where} is impossible: {answer.reason}")
    try:
        parameters = with_demanded(strategy.parameters(region), dict(demanded.parameters))
        strategy.check(region, parameters)
    except ImpossibleParameterError as error:
        raise InvalidArgumentError(
            codes.KERNEL_PLAN, f"{where} is impossible: parameter {error.name}: {error.reason}"
        ) from error
    return KernelPlan(strategy.name, parameters)


def emit_kernels(plan: KernelPlan, region: Region) -> list[Kernel]:
    """The kernels of a region by its plan."""
    kernels = BY_NAME[plan.strategy].emit(region, plan.parameters)
    region.forget_derived()  # the kernels have used up what was started for them
    return kernels
