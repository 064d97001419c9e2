"""Fuses the gradient of attention: two dots of scores, what is computed from them, and the dots with the results.

    S  = dot(Q, K)                P      = softmax(S)
    dP = dot(dO, V)               dS     = P * (dP - sum(dP * P))
    dV = dot(P, dO)               dQ, dK = dot(dS, K), dot(dS, Q)

`dO` is the gradient of attention's result. One fusion computes the last three dots. It computes the weights P
again, so that the forward pass does not store them. The forward pass keeps its own dots, and can become attention.
Runs before `Fuse`. Does not depend on what stands between the dots, or on the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain, ignore_decision
from xlapy.codegen.fusion.score_fusion import ScoreFusion
from xlapy.codegen.fusion.score_values import (
    TERMS,
    DotLabels,
    Labels,
    ScoreValues,
    labels_of_product,
    labels_of_scores,
    score_values,
)
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.contraction import DotAttributes
from xlapy.passes.rewrite import editable_computations, update_schedule

MIN_TASKS = 8
"""The smallest number of tasks, which compute a batch element each: with fewer, processors would idle. With fewer
elements, the queries of each are divided into segments, for which each product over queries takes as much memory as for
all of them."""

MAX_VALUES = 64
"""The largest number of values that depend on a dot of scores. A kernel computes them without storing them, one after
the other in code; a softmax and its gradient with a mask, dropout and conversions are about 45."""

MIN_SEGMENT_QUERIES = 128
"""The smallest number of queries of a segment: adding up the products of smaller ones costs more than 0.05 of the time
of their dots."""


@dataclass(frozen=True, slots=True)
class Product:
    """A dot of score values with an array."""

    dot: Instruction
    weights: Instruction
    labels: DotLabels
    contracts_keys: bool
    """Whether it sums over the keys, and not over the queries."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """The parts of a gradient of attention, and the labels of their dimensions."""

    scores: dict[Instruction, DotLabels]
    products: list[Product]
    labels: Mapping[Instruction, Labels]
    """The labels of every value between the dots."""
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    """The labels of the dimensions of the queries; the longest is the last."""
    keys: int

    @property
    def order(self) -> tuple[int, ...]:
        """The order of the dimensions of scores in the fusion."""
        return (*self.batch, *self.rows, self.keys)

    @property
    def segments(self) -> int:
        """The number of segments of the queries that tasks compute: the smallest for enough tasks."""
        sizes = next(iter(self.scores)).shape.dimensions
        batch, queries = math.prod(sizes[label] for label in self.batch), sizes[self.rows[-1]]
        possible = [n for n in range(1, max(queries // MIN_SEGMENT_QUERIES, 1) + 1) if queries % n == 0]
        return next((n for n in possible if batch * n >= MIN_TASKS), possible[-1])


@dataclass(frozen=True)
class FuseAttentionGradients:
    """Replaces the dots of a gradient of attention, and what is between them, by one fusion."""

    name: ClassVar[str] = "fuse-attention-gradients"
    reason_against: Callable[[Instruction], str]
    """Why a fusion has no kernel that keeps the scores in the cache; "" if it has one."""
    explain: Explain | None = None

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for first, second in _pairs(computation):
                changed |= self._fuse(module, _renewed(first), _renewed(second))
        return update_schedule(module, changed)

    def _fuse(self, module: Module, first: ScoreValues, second: ScoreValues) -> bool:
        found = find_gradient(first, second)
        if found is None:
            return False
        names = (first.dot.name, second.dot.name)
        reason = found if isinstance(found, str) else self._replace(module, found)
        outcome = f"stay separate kernels: {reason}" if reason else "become one gradient of attention"
        kind = DecisionKind.SEPARATE if reason else DecisionKind.ATTENTION
        text = f"{names[0]}, {names[1]} and the dots with what is computed from both {outcome}"
        (self.explain or ignore_decision)(Decision(names, kind, text))
        return not reason

    def _replace(self, module: Module, gradient: Gradient) -> str:
        """Replaces the dots by a fusion; returns the reason against it, or ""."""
        written = ScoreFusion(module, gradient.scores, gradient.labels, gradient.order)
        for product in gradient.products:
            if product.contracts_keys:
                written.add_product_of_rows(product.dot, product.weights, product.labels)
            else:
                written.add_product_of_keys(product.dot, product.weights, product.labels, gradient.segments)
        fusion = written.finish()
        dots = {product.dot for product in gradient.products}
        reason = "an operand depends on a result" if _depends(fusion.operands, dots) else self.reason_against(fusion)
        if reason:
            written.discard()
            return reason
        written.replace_results()
        return ""


def _pairs(computation: Computation) -> list[tuple[ScoreValues, ScoreValues]]:
    """The pairs of dots of which some values depend on both, in the order of the computation.

    A third dot is not searched for values that depend on two, so that a sum of many dots does not take quadratic time.
    """
    of_value: dict[Instruction, list[ScoreValues]] = {}
    full = set[Instruction]()
    for scores in (score_values(i, full) for i in computation.instructions if _may_be_scores(i)):
        for value in (*scores.labels, *scores.mixed):
            found = of_value.setdefault(value, [])
            found.append(scores)
            if len(found) == 2:
                full.add(value)
    pairs: dict[tuple[Instruction, Instruction], tuple[ScoreValues, ScoreValues]] = {}
    for value, found in of_value.items():
        if len(found) == 2 and all(scores.reduced and value in scores.labels for scores in found):
            pairs.setdefault((found[0].dot, found[1].dot), (found[0], found[1]))
    return list(pairs.values())


def _renewed(scores: ScoreValues) -> ScoreValues:
    """Score values after a fusion has replaced some of them; just the dot if it has replaced the dot."""
    return score_values(scores.dot) if any(value.parent is None for value in scores.labels) else scores


def _may_be_scores(instruction: Instruction) -> bool:
    is_dot = instruction.op is opcodes.DOT and len(instruction.operands) == 2 and not instruction.has_control_edges
    return is_dot and not instruction.shape.is_dynamic and sum(size > 1 for size in instruction.shape.dimensions) > 1


def _depends(instructions: Iterable[Instruction], on: set[Instruction]) -> bool:
    """Whether any instruction depends on one of some others."""
    pending, seen = list(instructions), set[Instruction]()
    while pending:
        instruction = pending.pop()
        if instruction in on:
            return True
        if instruction not in seen:
            seen.add(instruction)
            pending += (*instruction.operands, *instruction.control_predecessors)
    return False


# -- the parts


def find_gradient(first: ScoreValues, second: ScoreValues) -> Gradient | str | None:
    """The parts of a gradient of attention; why it has no kernel; or None if it is nothing like one."""
    for values in (first, second):
        if len(values.labels) > MAX_VALUES:
            return f"{len(values.labels)} values depend on {values.dot.name}, which are more than {MAX_VALUES}"
    labels = _joined_labels(first, second)
    if labels is None:
        return None
    both = {value for value in first.labels if value in second.labels}
    keys = first.reduced
    batch = _batch_labels(first.dot, first.labels[first.dot])
    rows = tuple(label for label in labels[first.dot] if label is not None and label not in (*batch, *keys))
    if len(keys) != 1 or not rows or keys & set(batch):
        return None
    (key,) = keys
    sizes = first.dot.shape.dimensions
    rows = tuple(sorted(rows, key=lambda label: sizes[label]))
    products = _products(labels, both, set(batch), set(rows), key)
    if isinstance(products, str):
        return products
    if not products:
        return None
    scores: dict[Instruction, DotLabels] = {}
    for dot in (first.dot, second.dot):
        of_dot = labels_of_scores(dot, labels[dot])
        if of_dot is None or {*_batch_labels(dot, labels[dot])} != {*batch} or not _are_sides(of_dot, rows, key):
            return f"{dot.name} is not a product of queries and keys"
        scores[dot] = of_dot
    return Gradient(scores, products, labels, batch, rows, key)


def _joined_labels(first: ScoreValues, second: ScoreValues) -> dict[Instruction, Labels] | None:
    """The labels of all values in terms of the first dot's dimensions; None if they do not fit."""
    renamed: dict[int | None, int | None] = {None: None}
    for value, labels in first.labels.items():
        if value in second.labels:
            for mine, theirs in zip(labels, second.labels[value], strict=True):
                if renamed.setdefault(theirs, mine) != mine:
                    return None
    of_second = {label for label in second.labels[second.dot] if label is not None}
    if not of_second <= renamed.keys() or {renamed[label] for label in second.reduced} != first.reduced:
        return None
    if {renamed[label] for label in of_second} != {label for label in first.labels[first.dot] if label is not None}:
        return None
    others = {value: tuple(renamed[label] for label in labels) for value, labels in second.labels.items()}
    return {**others, **first.labels}


def _batch_labels(dot: Instruction, labels: Labels) -> tuple[int, ...]:
    count = len(dot.attributes_as(DotAttributes).lhs_batch_dims)
    return tuple(label for label in labels[:count] if label is not None)


def _are_sides(labels: DotLabels, rows: tuple[int, ...], key: int) -> bool:
    """Whether one operand of a dot has all dimensions of the queries, and the other one those of the keys."""
    sides = [{*side} & {*rows, key} for side in (labels.left, labels.right)]
    return sides in ([{*rows}, {key}], [{key}, {*rows}])


def _products(
    labels: Mapping[Instruction, Labels], both: set[Instruction], batch: set[int], rows: set[int], key: int
) -> list[Product] | str:
    """The dots with values that depend on both dots of scores, and the others that sum over queries; or why not."""
    found: list[Product] = []
    reason = ""
    for value in labels:
        if value.is_root:
            reason = reason or f"{value.name} is a result"
        for user in value.users:
            if user in labels:
                continue
            product = _product(user, value, labels, batch, rows, key)
            if product is None:
                reason = reason or f"{user.name} ({user.op.name}) needs {value.name} in memory"
            elif value in both or not product.contracts_keys:
                found.append(product)
    if not any(product.weights in both for product in found):
        return []
    return reason or found


def _product(
    dot: Instruction,
    weights: Instruction,
    labels: Mapping[Instruction, Labels],
    batch: set[int],
    rows: set[int],
    key: int,
) -> Product | None:
    """A dot of values with an array; None if it does not sum over either the keys or the queries."""
    numbers = [number for number, operand in enumerate(dot.operands) if operand in labels]
    if dot.op is not opcodes.DOT or len(dot.operands) != 2 or len(numbers) != 1 or dot.has_control_edges:
        return None
    of_dot = labels_of_product(dot, numbers[0], labels[weights])
    if of_dot is None:
        return None
    result = {label for label in of_dot.result if label is not None}
    contracts_keys = result == {*batch, *rows, TERMS}
    return Product(dot, weights, of_dot, contracts_keys) if contracts_keys or result == {*batch, key, TERMS} else None
