"""Recognizes attention: a dot (scores), reductions of its rows (softmax), and a dot of the weights with the values
("mixing" in names).

    scores  = f32[b,h,q,k] dot(queries, keys)
    weights = f32[b,h,q,k] softmax over k of a function of the scores, such as a scaled and masked one
    ROOT r  = f32[b,h,q,d] dot(weights, values), with an epilogue

Between the dots may stand any operations that read the scores of a row for its weights, so masks, biases and dropout
need no rules. Does not depend on how the kernel computes them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import S32, PrimitiveType
from xlapy.codegen.emitters.matmul.group_formats import GroupFormat, add_products, group_format
from xlapy.codegen.emitters.row_reduction import RowPlan, can_run_in_vectors, plan_row_reduction
from xlapy.codegen.epilogue import Path, epilogue_paths, keeps_rows
from xlapy.codegen.iteration_domain import AccessPattern, join_patterns, operand_pattern
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, monoid
from xlapy.loops import F32, Builder
from xlapy.lower import Element
from xlapy.lower.contraction import multiply_add, sum_type
from xlapy.lower.element_types import register_type
from xlapy.opcodes.contraction import DotAttributes

MIN_QUERIES = 16
"""The smallest number of queries of attention: with fewer, each packed key is used too rarely."""

MIN_KEYS = 16
"""The smallest number of keys, which fill a vector."""

MAX_TERMS = 512
"""The largest number of terms of a score, so that packed queries and keys stay in the cache."""


@dataclass(frozen=True, slots=True)
class DotSide:
    """An operand of a dot, and its dimensions; `free` leaves out those of size 1."""

    operand: Instruction
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mask:
    """A selection of scores. Where `predicate` differs from `kept`, the weights do not depend on the score."""

    predicate: Instruction
    kept: bool
    is_uniform: bool
    """Whether all keys of a row that are not kept have the same weight, and reductions can leave them out if their
    terms are zeros."""


@dataclass(frozen=True, slots=True)
class FactorForm:
    """The form of the factors that the kernel of a dot packs."""

    type: PrimitiveType
    """The type of the sums."""
    group: GroupFormat | None
    """How a dot instruction takes groups of terms; None if a factor is one element, in the type of the sums."""

    @property
    def terms(self) -> int:
        """The number of terms of a factor."""
        return self.group.instruction.terms if self.group else 1

    @property
    def packed_type(self) -> PrimitiveType:
        """The type of packed factors."""
        return S32 if self.group else self.type

    def multiply_add(self, builder: Builder, left: Element, right: Element, total: Element) -> Element:
        """The sum of a total and the products of the elements of two factors."""
        if self.group:
            return add_products(builder, self.group, left, right, total)
        return multiply_add(builder, self.type, left, right, total)


@dataclass(frozen=True, slots=True)
class AttentionProblem:
    """The parts of a region that is attention."""

    region: Region
    scores: Instruction
    queries: DotSide
    keys: DotSide
    score_path: Path
    """The reshapes and transposes from the scores to the rows of `plan`."""
    mask: Mask | None
    plan: RowPlan
    weights: Instruction
    """The result of the row reductions."""
    weight_path: Path
    """The reshapes and transposes from the weights to the operand of the second dot."""
    mixing: Instruction
    weight_side: DotSide
    values: DotSide

    @property
    def length(self) -> int:
        """The number of keys."""
        return self.plan.domain.length

    @property
    def terms(self) -> int:
        """The number of terms of a score."""
        return self.queries.operand.shape.dimensions[self.queries.contracted[0]]

    @property
    def width(self) -> int:
        """The number of columns of the values."""
        return math.prod(self.values.operand.shape.dimensions[d] for d in self.values.free)

    @property
    def left_free(self) -> tuple[int, ...]:
        """The dimensions of the queries that are neither batch nor contracted."""
        attrs: DotAttributes = self.scores.attributes_as(DotAttributes)
        return tuple(attrs.lhs_free_dims(self.queries.operand.shape.rank))

    @property
    def row_dimension(self) -> int:
        """The dimension of the scores along which queries form blocks: the longest one, if there are several."""
        batches = len(self.queries.batch)
        candidates = range(batches, batches + len(self.left_free))
        return max(candidates, key=lambda d: (self.scores.shape.dimensions[d], -d))

    @property
    def row_count(self) -> int:
        """The number of queries along `row_dimension`."""
        return self.scores.shape.dimensions[self.row_dimension]

    @property
    def outer_dimensions(self) -> list[int]:
        """The dimensions of the scores that tasks enumerate: all of the queries but `row_dimension`."""
        return [d for d in range(len(self.queries.batch) + len(self.left_free)) if d != self.row_dimension]

    @property
    def score_type(self) -> PrimitiveType:
        """The type of the sums of the first dot."""
        return _sum_type(self.scores)

    @property
    def mixing_type(self) -> PrimitiveType:
        """The type of the sums of the second dot."""
        return _sum_type(self.mixing)

    @property
    def score_factors(self) -> FactorForm:
        """The form of the factors of the first dot."""
        return self._factors(self.scores, self.score_type, self.terms)

    @property
    def mixing_factors(self) -> FactorForm:
        """The form of the factors of the second dot."""
        return self._factors(self.mixing, self.mixing_type, self.length)

    def _factors(self, dot: Instruction, t: PrimitiveType, terms: int) -> FactorForm:
        left, right = (operand.shape.element_type for operand in dot.operands)
        return FactorForm(t, group_format(self.region.target, left, right, t, terms))


def attention_problem(region: Region) -> AttentionProblem | None:
    """Returns the parts of a region that is attention; None if it is not, or too small."""
    dots = [i for i in region.instructions if i.op is opcodes.DOT]
    if len(dots) != 2 or not all(len(dot.operands) == 2 and _has_form(dot) for dot in dots):
        return None
    scores, mixing = dots
    paths = epilogue_paths(mixing, region.instructions)
    if paths is None or any(result not in paths for result in region.results):
        return None
    dependent = _dependent_on(scores, region.instructions)
    weighted = [number for number, operand in enumerate(mixing.operands) if operand in dependent]
    if len(weighted) != 1:
        return None
    queries, keys = _sides(scores)
    sides = _sides(mixing)
    weight_side, values = sides if weighted == [0] else sides[::-1]
    weights, weight_path = _without_moves(weight_side.operand)
    row_source, score_path = _moved_scores(scores)
    members = between({row_source}, [weights], region.instructions)
    plan = plan_row_reduction([weights], members) if weights in dependent else None
    if plan is None or not all(map(keeps_rows, (*score_path, *weight_path))):
        return None
    users = row_source.users_in(plan.patterns)
    patterns = [operand_pattern(plan.domain, user, plan.patterns[user], row_source) for user in users]
    if not patterns or join_patterns(patterns) is not AccessPattern.IDENTITY:
        return None
    mask = _mask(row_source, members, plan)
    problem = AttentionProblem(
        region, scores, queries, keys, score_path, mask, plan, weights, weight_path, mixing, weight_side, values
    )
    return problem if _is_supported(problem) else None


def _has_form(dot: Instruction) -> bool:
    """Whether a dot sums floats in F32 over one dimension."""
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    is_float = all(i.shape.element_type.is_floating for i in (dot, *dot.operands))
    return is_float and len(attrs.lhs_contracting_dims) == 1 and register_type(_sum_type(dot)) is F32


def _sum_type(dot: Instruction) -> PrimitiveType:
    return sum_type([operand.shape.element_type for operand in dot.operands], dot.shape.element_type)


def _sides(dot: Instruction) -> tuple[DotSide, DotSide]:
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    lhs, rhs = dot.operands
    left, right = attrs.lhs_free_dims(lhs.shape.rank), attrs.rhs_free_dims(rhs.shape.rank)

    def long(operand: Instruction, free: Sequence[int]) -> tuple[int, ...]:
        return tuple(d for d in free if operand.shape.dimensions[d] > 1)

    return (
        DotSide(lhs, tuple(attrs.lhs_batch_dims), long(lhs, left), tuple(attrs.lhs_contracting_dims)),
        DotSide(rhs, tuple(attrs.rhs_batch_dims), long(rhs, right), tuple(attrs.rhs_contracting_dims)),
    )


def _dependent_on(source: Instruction, instructions: Sequence[Instruction]) -> set[Instruction]:
    found = {source}
    for instruction in instructions:
        if any(operand in found for operand in instruction.operands):
            found.add(instruction)
    return found


def _without_moves(instruction: Instruction) -> tuple[Instruction, Path]:
    """The producer below reshapes and transposes, and these, in the order of the computation."""
    path: list[Instruction] = []
    while instruction.op in (opcodes.RESHAPE, opcodes.TRANSPOSE):
        path.insert(0, instruction)
        instruction = instruction.operands[0]
    return instruction, tuple(path)


def _moved_scores(scores: Instruction) -> tuple[Instruction, Path]:
    """The last transpose of the scores, through which alone they are read, and the path to it; or the scores."""
    found: tuple[Instruction, Path] = scores, ()
    step, path = scores, list[Instruction]()
    while step.user_count == 1:
        (user,) = step.users
        if user.op in (opcodes.RESHAPE, opcodes.TRANSPOSE):
            path.append(user)
            found = (user, tuple(path)) if user.op is opcodes.TRANSPOSE else found
        elif not user.op.elementwise or user.shape.dimensions != step.shape.dimensions:
            break
        step = user
    return found


def between(
    sources: Collection[Instruction], results: Sequence[Instruction], instructions: Sequence[Instruction]
) -> list[Instruction]:
    """The instructions that compute results from sources, and all else that they need."""
    found, stack = {*results}, [*results]
    while stack:
        for operand in stack.pop().operands:
            if operand not in sources and operand not in found and operand.op is not opcodes.PARAMETER:
                found.add(operand)
                stack.append(operand)
    return [i for i in instructions if i in found]


def _mask(source: Instruction, members: Sequence[Instruction], plan: RowPlan) -> Mask | None:
    """The selection through which alone the scores are read."""
    found = selection_of(source, members)
    if found is None:
        return None
    selection, step = found
    is_kept = selection.operands[1] is step
    return Mask(selection.operands[0], is_kept, _is_uniform(selection, step, members, plan))


def selection_of(source: Instruction, members: Sequence[Instruction]) -> tuple[Instruction, Instruction] | None:
    """The selection through which alone a source is read, and the operand of it that follows from the source."""
    step = source
    while step.user_count == 1:
        (user,) = step.users
        if user not in members or not (user.op.elementwise or user.op is opcodes.RESHAPE):
            return None
        if user.op is opcodes.SELECT and user.operands[0] is not step:
            is_array = user.operands[0].shape.dimensions == user.shape.dimensions
            return (user, step) if is_array else None
        step = user
    return None


REDUCTIONS_OF_UNIFORM_TERMS = IDEMPOTENT_OPS | {opcodes.ADD}
"""The reducers that equal terms do not change: those of which one is enough, and sums if the terms are zeros."""


def _is_uniform(selection: Instruction, source: Instruction, members: Sequence[Instruction], plan: RowPlan) -> bool:
    """Whether the values of a row that follow from a selection are the same at all keys that are not kept."""
    following = _dependent_on(selection, members)
    is_of_keys = {AccessPattern.IDENTITY, AccessPattern.PER_COLUMN, AccessPattern.IRREGULAR}

    def varies(user: Instruction, operand: Instruction) -> bool:
        """Whether an operand of an instruction differs from key to key, other than by the selection."""
        if operand in following or operand_pattern(plan.domain, user, plan.patterns[user], operand) not in is_of_keys:
            return False
        if operand not in plan.patterns or not (operand.op.elementwise or operand.op in _REPEATING):
            return True
        return any(varies(operand, inner) for inner in operand.operands)

    def is_kept_apart(member: Instruction) -> bool:
        if member.op is opcodes.REDUCE:
            return can_run_in_vectors(member) and monoid(member.to_apply) in REDUCTIONS_OF_UNIFORM_TERMS
        patterns = [
            operand_pattern(plan.domain, member, plan.patterns[member], o) for o in member.operands if o in following
        ]
        is_fitting = (member.op.elementwise or member.op in _REPEATING) and not _OF_OTHER_ROWS & {*patterns}
        others = [o for o in member.operands if member is not selection or o not in (source, selection.operands[0])]
        return is_fitting and not any(varies(member, operand) for operand in others)

    return all(map(is_kept_apart, following))


_OF_OTHER_ROWS = {AccessPattern.PER_COLUMN, AccessPattern.IRREGULAR}

_REPEATING = frozenset({opcodes.BITCAST, opcodes.BROADCAST, opcodes.COPY, opcodes.RESHAPE})
"""Opcodes whose elements are those of their operand, along with the elementwise ones."""


def _is_supported(problem: AttentionProblem) -> bool:
    keys, values, weight_side = problem.keys, problem.values, problem.weight_side
    rows = [problem.queries.operand.shape.dimensions[d] for d in problem.queries.free]
    if len(keys.free) != 1 or len(values.free) != 1 or max(rows, default=1) < MIN_QUERIES:
        return False
    is_key_last = weight_side.contracted == (weight_side.operand.shape.rank - 1,)
    length = problem.length
    return (
        is_key_last
        and keys.operand.shape.dimensions[keys.free[0]] == length >= MIN_KEYS
        and problem.scores.shape.dimensions[-1] == length
        and values.operand.shape.dimensions[values.contracted[0]] == length
        and problem.terms <= MAX_TERMS
        and not _row_dimensions_of_weights(problem) & set(weight_side.batch)  # rows of a block share the values
    )


def _row_dimensions_of_weights(problem: AttentionProblem) -> set[int]:
    """The dimensions of the operand of the second dot in which the rows of a block differ."""
    dimensions, before = {problem.row_dimension}, problem.scores.shape.dimensions
    for step in (*problem.score_path, problem.weights, *problem.weight_path):
        if step.op is opcodes.TRANSPOSE and step is not problem.weights:
            dimensions = {number for number, d in enumerate(step.dimensions) if d in dimensions}
        else:  # a reshape, or the row reductions, whose rows keep their order
            dimensions = _reshaped(dimensions, before, step.shape.dimensions)
        before = step.shape.dimensions
    return dimensions


def _reshaped(dimensions: set[int], before: Sequence[int], after: Sequence[int]) -> set[int]:
    """The dimensions after a reshape that may differ between elements that differ only in some before it."""

    def strides(sizes: Sequence[int]) -> list[int]:
        return [math.prod(max(size, 1) for size in sizes[d + 1 :]) for d in range(len(sizes))]

    def is_independent(stride: int, size: int, other: int, other_size: int) -> bool:
        return size <= 1 or stride % (other * other_size) == 0 or other % (stride * size) == 0

    moved = [(stride, before[d]) for d, stride in enumerate(strides(before)) if d in dimensions]
    return {
        d
        for d, stride in enumerate(strides(after))
        if after[d] > 1 and not all(is_independent(*other, stride, after[d]) for other in moved)
    }
