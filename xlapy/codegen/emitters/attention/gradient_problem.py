"""Recognizes a gradient of attention: two dots of scores, reductions of their rows, and dots with what follows.

    S      = f32[b,q,k] dot(Q, K)               dP     = f32[b,q,k] dot(dO, V)
    P, dS  = f32[b,q,k] functions of both and of reductions over k
    dQ     = f32[b,q,d] dot(dS, K)              over keys
    dK, dV = f32[b,k,d] dot(dS, Q), dot(P, dO)  over queries

S are called scores here, and P and dS weights, because further dots multiply both by arrays.

All arrays have their dimensions in this order, as the pass `fuse-attention-gradients` writes them; b and q may be
several dimensions, and b none. Does not depend on how the kernel computes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import F32, PrimitiveType
from xlapy.codegen.emitters.attention.masked_keys import MaskedKeys, masked_keys
from xlapy.codegen.emitters.attention.problem import FactorForm, between
from xlapy.codegen.emitters.matmul.group_formats import group_format
from xlapy.codegen.emitters.row_reduction import RowPlan, can_run_in_vectors, plan_row_reduction
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.loops import F32 as F32_REGISTER
from xlapy.lower.contraction import sum_type
from xlapy.lower.element_types import register_type
from xlapy.opcodes.contraction import DotAttributes


@dataclass(frozen=True, slots=True)
class ScoreDot:
    """A dot of `rows` [b,q,terms] and `keys` [b,k,terms]."""

    dot: Instruction
    rows: Instruction
    keys: Instruction
    factors: FactorForm

    @property
    def terms(self) -> int:
        """The number of terms of a score."""
        return self.rows.shape.dimensions[-1]


@dataclass(frozen=True, slots=True)
class ProductDot:
    """A dot of `weights` [b,q,k] and an array [b,k,d] over the keys, or an array [b,q,d] over the queries."""

    dot: Instruction
    weights: Instruction
    other: Instruction
    result: Instruction
    """The result of the region that follows from it."""
    contracts_keys: bool
    """Whether it is over the keys."""
    segments: int = 1
    """The parts of the queries that have products over queries of their own: a dimension of the dot, after b."""

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.other.shape.dimensions[-1]

    @property
    def type(self) -> PrimitiveType:
        """The type of the sums."""
        return type_of_sums(self.dot)


@dataclass(frozen=True, slots=True)
class GradientProblem:
    """The parts of a region that is a gradient of attention."""

    region: Region
    scores: tuple[ScoreDot, ScoreDot]
    plan: RowPlan
    weights: tuple[Instruction, ...]
    """The one or two arrays [b,q,k] that products take."""
    over_keys: tuple[ProductDot, ...]
    over_queries: tuple[ProductDot, ...]
    masked: MaskedKeys | None
    """The mask whose masked keys need not be computed."""

    @property
    def cached(self) -> dict[Instruction, Instruction | None]:
        """The values that sweeps cache, and the dot whose scores each replaces, because no later sweep reads them."""
        dots = [score.dot for score in self.scores]
        found: dict[Instruction, Instruction | None] = {}
        for number, sweep in enumerate(self.plan.sweeps):
            for cached in sweep.cached:
                free = [dot for dot in dots if dot not in self._read_after(number) and dot not in found.values()]
                is_fitting = register_type(cached.shape.element_type) is F32_REGISTER
                found[cached] = free[0] if free and is_fitting else None
        return found

    def _read_after(self, number: int) -> set[Instruction]:
        """The values that are read after a sweep."""
        cached = {i for sweep in self.plan.sweeps[: number + 1] for i in sweep.cached}
        later = self.plan.sweeps[number + 1 :]
        pending = [
            *self.weights,
            *(r.operands[0] for s in later for r in s.reductions),
            *(i for s in later for i in s.cached),
        ]
        found = set[Instruction]()
        while pending:
            value = pending.pop()
            if value not in found:
                found.add(value)
                pending += () if value in cached or value.op is opcodes.REDUCE else value.operands
        return found

    @property
    def batches(self) -> int:
        """The number of batch dimensions."""
        return self.scores[0].keys.shape.rank - 2

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the scores."""
        return self.scores[0].dot.shape.dimensions

    @property
    def length(self) -> int:
        """The number of keys."""
        return self.dimensions[-1]

    @property
    def row_count(self) -> int:
        """The number of queries along the last of their dimensions, of which tasks compute blocks."""
        return self.dimensions[-2]

    @property
    def segments(self) -> int:
        """The number of parts of the queries along that dimension, each of which is a task."""
        return max([product.segments for product in self.over_queries], default=1)


def gradient_problem(region: Region) -> GradientProblem | str:
    """Returns the parts of a region that is a gradient of attention; or the reason why it is none."""
    dots = [i for i in region.instructions if i.op is opcodes.DOT]
    if len(dots) < 3 or not all(len(dot.operands) == 2 for dot in dots):
        return "it does not have two dots of scores, and dots with what is computed from them"
    if not all(i.shape.element_type.is_floating and _sums_in_f32(i) for i in dots):
        return "a dot does not sum floats in f32"
    scores = [score for dot in dots if (score := _score_dot(dot, region)) is not None]
    if len(scores) != 2 or scores[0].dot.shape.dimensions != scores[1].dot.shape.dimensions:
        return "it does not have two dots of queries and keys in the same order"
    first, second = (score.dot for score in scores)
    products = [dot for dot in dots if dot not in (first, second)]
    found = [_product(dot, scores[0], region.results) for dot in products]
    if None in found or len({p.result for p in found if p}) != len(region.results):
        return "a result is not a dot over the queries or the keys"
    if len({p.segments for p in found if p and not p.contracts_keys}) > 1:
        return "its dots over the queries have different segments"
    over_keys, over_queries = [tuple(p for p in found if p and p.contracts_keys is along) for along in (True, False)]
    weights = tuple(dict.fromkeys(p.weights for p in (*over_keys, *over_queries)))
    members = between({first, second}, weights, region.instructions)
    plan = plan_row_reduction(weights, members)
    if plan is None or plan.domain.length != first.shape.dimensions[-1]:
        return "what is between the dots are not reductions of rows"
    reason = _reason_against(weights, plan, (first, second))
    if reason:
        return reason
    masked = masked_keys((first, second), weights, plan, members)
    return GradientProblem(region, (scores[0], scores[1]), plan, weights, over_keys, over_queries, masked)


def type_of_sums(dot: Instruction) -> PrimitiveType:
    """The type in which a dot adds its terms."""
    return sum_type([operand.shape.element_type for operand in dot.operands], dot.shape.element_type)


def _sums_in_f32(dot: Instruction) -> bool:
    return register_type(type_of_sums(dot)) is F32_REGISTER


def _score_dot(dot: Instruction, region: Region) -> ScoreDot | None:
    """A dot of scores, if its dimensions are in order."""
    attributes: DotAttributes = dot.attributes_as(DotAttributes)
    rows, keys = dot.operands
    batch = tuple(range(keys.shape.rank - 2))
    is_fitting = (
        attributes.lhs_batch_dims == attributes.rhs_batch_dims == batch
        and attributes.lhs_contracting_dims == (rows.shape.rank - 1,)
        and attributes.rhs_contracting_dims == (keys.shape.rank - 1,)
        and rows.shape.rank > keys.shape.rank - 1
    )
    if not is_fitting:
        return None
    t, terms = type_of_sums(dot), rows.shape.dimensions[-1]
    group = group_format(region.target, rows.shape.element_type, keys.shape.element_type, t, terms)
    return ScoreDot(dot, rows, keys, FactorForm(t, group))


def _product(dot: Instruction, score: ScoreDot, results: Sequence[Instruction]) -> ProductDot | None:
    """A product with weights, if its dimensions are in order."""
    attributes: DotAttributes = dot.attributes_as(DotAttributes)
    weights, other = dot.operands
    dimensions = score.dot.shape.dimensions
    batches, rank = score.keys.shape.rank - 2, len(dimensions)
    batch, rows = tuple(range(batches)), tuple(range(batches, rank - 1))
    segments = 1
    if weights.op is other.op is opcodes.RESHAPE and weights.shape.rank == rank + 1:
        segments = weights.shape.dimensions[rank - 2]
        batch, rows = (*batch, rank - 2), (*rows[:-1], rank - 1)
        if not (_is_divided(weights, segments) and _is_divided(other, segments)):
            return None
        weights, other = weights.operands[0], other.operands[0]
    along = attributes.lhs_contracting_dims, attributes.rhs_contracting_dims
    contracts_keys = segments == 1 and along == ((rank - 1,), (batches,)) and other.shape.rank == batches + 2
    contracts_queries = along == (rows, rows) and other.shape.rank == rank and dot.shape.element_type is F32
    result = next((r for r in results if _source(r) is dot), None)
    if result is None or weights.shape.dimensions != dimensions or not (contracts_keys or contracts_queries):
        return None
    is_fitting = attributes.lhs_batch_dims == attributes.rhs_batch_dims == batch
    return ProductDot(dot, weights, other, result, contracts_keys, segments) if is_fitting else None


def _is_divided(reshape: Instruction, segments: int) -> bool:
    """Whether a reshape divides the queries of an array [b,q,n] into segments."""
    *outer, queries, columns = reshape.operands[0].shape.dimensions
    return reshape.shape.dimensions == (*outer, segments, queries // segments, columns)


def _source(result: Instruction) -> Instruction:
    """The dot from which a result follows by moves and conversions."""
    while result.op in (opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.CONVERT):
        result = result.operands[0]
    return result


def _reason_against(weights: Sequence[Instruction], plan: RowPlan, dots: Sequence[Instruction]) -> str:
    """Why a block of queries cannot compute its weights; "" if it can."""
    if len(weights) > len(dots):
        return "the dots take more than two arrays"
    reductions: Mapping[Instruction, None] = dict.fromkeys(r for sweep in plan.sweeps for r in sweep.reductions)
    if not all(map(can_run_in_vectors, reductions)):
        return "a reduction cannot be reordered"
    if any(register_type(i.shape.element_type) is not F32_REGISTER for i in (*weights, *dots)):
        return "scores and weights are not at most 32 bits wide"
    return ""
