"""The strategy of attention: two dots and the row reductions between them, with the scores in the cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlapy.codegen.emitters.attention.kernel import attention_kernel, most_queries, queries_per_block
from xlapy.codegen.emitters.attention.problem import AttentionProblem, attention_problem
from xlapy.codegen.plan import (
    Candidate,
    EmittedKernel,
    ImpossibleParameterError,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region

MIN_BLOCK_QUERIES = 8
"""The smallest number of queries of a block; the scores of longer rows do not fit into the cache."""


@dataclass(frozen=True, slots=True)
class AttentionParameters:
    """The blocks of queries."""

    block_queries: int = parameter(1)
    """The queries whose scores a task computes at a time."""


def has_attention_kernel(region: Region) -> bool:
    """Whether a region is attention, with blocks of at least `MIN_BLOCK_QUERIES` queries."""
    problem = attention_problem(region)
    return problem is not None and most_queries(problem) >= MIN_BLOCK_QUERIES


class AttentionStrategy(Strategy[AttentionParameters]):
    """Keeps the scores of a block of queries in the cache."""

    name = "attention"

    def candidate(self, region: Region) -> Candidate | Rejection:
        problem = region.derived(attention_problem)
        if problem is None:
            return Rejection("it is not two dots with reductions of rows between them")
        if most_queries(problem) < MIN_BLOCK_QUERIES:
            return Rejection(f"the scores of {MIN_BLOCK_QUERIES} queries and {problem.length} keys are too large")
        lanes = region.target.vector_bytes // 4
        rows = math.prod(problem.scores.shape.dimensions) // problem.length
        # only the second dot: other strategies count the products of the longest sum only, too
        return Candidate(rows * problem.length * problem.width / (2 * lanes))

    def parameters(self, region: Region) -> AttentionParameters:
        return AttentionParameters(queries_per_block(_problem(region)))

    def check(self, region: Region, parameters: AttentionParameters) -> None:
        most = most_queries(_problem(region))
        if parameters.block_queries > most:
            raise ImpossibleParameterError(
                "block_queries", f"it is {parameters.block_queries}, but must be at most {most}"
            )

    def emit(self, region: Region, parameters: AttentionParameters) -> list[EmittedKernel]:
        return [attention_kernel(_problem(region), parameters.block_queries)]


def _problem(region: Region) -> AttentionProblem:
    problem = region.derived(attention_problem)
    assert problem is not None
    return problem
