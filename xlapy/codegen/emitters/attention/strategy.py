"""The strategy of attention: two dots and the row reductions between them, with the scores in the cache."""

from __future__ import annotations

import math

from xlapy import opcodes
from xlapy.base.element_types import F32
from xlapy.codegen.emitters.attention.kernel import attention_kernel
from xlapy.codegen.emitters.attention.problem import AttentionProblem, attention_problem
from xlapy.codegen.emitters.attention.sizes import (
    MIN_BLOCK_QUERIES,
    AttentionParameters,
    check_parameters,
    most_queries,
    preferred_parameters,
)
from xlapy.codegen.kernel_cost import operation_cycles, vector_cycles
from xlapy.codegen.plan import Candidate, Rejection, Strategy
from xlapy.codegen.region import Region
from xlapy.loops import Kernel


def has_attention_kernel(region: Region) -> bool:
    """Whether a region is attention, with blocks of at least `MIN_BLOCK_QUERIES` queries."""
    problem = attention_problem(region)
    return problem is not None and most_queries(problem) >= MIN_BLOCK_QUERIES


class AttentionStrategy(Strategy[AttentionParameters]):
    """Keeps the scores of a block of queries in the cache."""

    name = "attention"
    required_opcodes = frozenset({opcodes.DOT})

    def candidate(self, region: Region) -> Candidate | Rejection:
        problem = region.derived(attention_problem)
        if problem is None:
            return Rejection("it is not two dots with reductions of rows between them")
        if most_queries(problem) < MIN_BLOCK_QUERIES:
            return Rejection(f"the scores of {MIN_BLOCK_QUERIES} queries and {problem.length} keys are too large")
        scores, lanes = math.prod(problem.scores.shape.dimensions), region.target.lanes(F32.byte_size)
        products = scores * (problem.terms + problem.width)
        return Candidate(operation_cycles(products, lanes) + vector_cycles(region, scores, lanes))

    def parameters(self, region: Region) -> AttentionParameters:
        return preferred_parameters(_problem(region))

    def check(self, region: Region, parameters: AttentionParameters) -> None:
        check_parameters(_problem(region), parameters)

    def emit(self, region: Region, parameters: AttentionParameters) -> list[Kernel]:
        return [attention_kernel(_problem(region), parameters)]


def _problem(region: Region) -> AttentionProblem:
    problem = region.derived(attention_problem)
    assert problem is not None
    return problem
