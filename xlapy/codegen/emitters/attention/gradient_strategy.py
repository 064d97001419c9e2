"""The strategy of gradients of attention: blocks of queries, whose scores and weights stay in the cache."""

from __future__ import annotations

import math

from xlapy import opcodes
from xlapy.base.element_types import F32
from xlapy.codegen.emitters.attention.gradient_kernel import gradient_kernel
from xlapy.codegen.emitters.attention.gradient_problem import GradientProblem, gradient_problem
from xlapy.codegen.emitters.attention.gradient_sizes import (
    BLOCK_QUERIES,
    GradientParameters,
    check_parameters,
    preferred_block,
)
from xlapy.codegen.fusion.attention_gradients import MIN_TASKS
from xlapy.codegen.kernel_cost import operation_cycles, vector_cycles
from xlapy.codegen.plan import Candidate, Rejection, Strategy
from xlapy.codegen.region import Region
from xlapy.loops import Kernel

MIN_SCORES = 3 << 20
"""The smallest number of scores of all batch elements. Fewer stay in the cache from one kernel to the next one, and the
scores that the gradient computes again cost more than it saves: without a mask, it takes 1.1 times as long for 12 heads
of 256 queries and keys in f32, 1.15 times for 384 in bf16, and 0.9 times for 512 in both (`attention gradient unmasked`
of benchmarks.transformers with these sizes)."""

MIN_KEYS = 256
"""The smallest number of keys of a gradient without a mask: with 128 keys, it takes 1.05 times as long."""

MIN_MASKED_KEYS = 192
"""The smallest number of keys if a mask hides some, which need not be computed: a causal gradient of 128 queries and
keys takes as long as without this kernel, in bf16 1.05 times as long; of 192 queries and keys, 0.9 times as long."""


def reason_against_gradient(region: Region) -> str:
    """Why a region should have no kernel as a gradient of attention; "" if it should."""
    answer = _rejection(region)
    return "" if answer is None else answer.reason


def _rejection(region: Region) -> Rejection | None:
    problem = region.derived(gradient_problem)
    if isinstance(problem, str):
        return Rejection(problem)
    if preferred_block(problem) is None:
        return Rejection(f"the scores of {BLOCK_QUERIES[-1]} queries and {problem.length} keys are too large")
    tasks = math.prod(problem.dimensions[: problem.batches]) * problem.segments
    if tasks < MIN_TASKS:
        return Rejection(f"{tasks} tasks are less than {MIN_TASKS}", is_possible=True)
    if problem.masked is not None:
        if problem.length >= MIN_MASKED_KEYS:
            return None
        return Rejection(f"{problem.length} keys are less than {MIN_MASKED_KEYS}", is_possible=True)
    scores = math.prod(problem.dimensions)
    if problem.length < MIN_KEYS or scores < MIN_SCORES:
        return Rejection(
            f"{scores} scores of {problem.length} keys, of which no mask hides any, are few", is_possible=True
        )
    return None


class AttentionGradientStrategy(Strategy[GradientParameters]):
    """Keeps the scores of a block of queries in the cache."""

    name = "attention-gradient"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        rejection = _rejection(region)
        if rejection is not None:
            return rejection
        problem = _problem(region)
        scores, lanes = math.prod(problem.dimensions), region.target.lanes(F32.byte_size)
        terms = sum(dot.terms for dot in problem.scores)
        columns = sum(product.width for product in (*problem.over_keys, *problem.over_queries))
        products = scores * (terms + columns)
        return Candidate(operation_cycles(products, lanes) + vector_cycles(region, scores, lanes))

    def parameters(self, region: Region) -> GradientParameters:
        block = preferred_block(_problem(region))
        assert block is not None
        return GradientParameters(block)

    def check(self, region: Region, parameters: GradientParameters) -> None:
        check_parameters(_problem(region), parameters)

    def emit(self, region: Region, parameters: GradientParameters) -> list[Kernel]:
        return [gradient_kernel(_problem(region), parameters)]


def _problem(region: Region) -> GradientProblem:
    problem = region.derived(gradient_problem)
    assert isinstance(problem, GradientProblem)
    return problem
