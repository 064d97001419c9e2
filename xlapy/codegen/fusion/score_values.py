"""The values between the dots of attention and of its gradient: those that depend on the products of a dot.

Each dimension of such a value has a label, as in an einsum: the number of the dimension of the dot that it is. Example,
attention with heads:

    scores  = f32[2,8,100,70] dot(queries, keys)                 labels 0, 1, 2, 3
    moved   = f32[8,2,100,70] transpose(scores)                  labels 1, 0, 2, 3
    maximum = f32[8,2,100] reduce(moved), dimensions={3}         labels 1, 0, 2

Does not depend on what is done with the values.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import DotAttributes

Labels = tuple[int | None, ...]
"""The labels of the dimensions of an array; None for those of size 1."""


@dataclass(slots=True)
class ScoreValues:
    """A dot, and the values that depend on it through operations that keep its dimensions apart."""

    dot: Instruction
    labels: dict[Instruction, Labels] = field(default_factory=dict[Instruction, Labels])
    reduced: set[int] = field(default_factory=set[int])
    """The labels of the dimensions that reductions reduce."""
    mixed: set[Instruction] = field(default_factory=set[Instruction])
    """Values whose operands give them different labels, such as the sum of scores and of their transpose, and what
    depends on these. They have no labels."""


def score_values(dot: Instruction, excluded: Container[Instruction] = ()) -> ScoreValues:
    """The values that depend on a dot: elementwise operations, reductions of one dimension, broadcasts of their
    results, transposes, and reshapes that add or remove dimensions of size 1.

    excluded: values that are not searched.
    """
    sizes = dot.shape.dimensions
    found = ScoreValues(dot, {dot: tuple(d if size > 1 else None for d, size in enumerate(sizes))})
    pending, mixed = [dot], list[Instruction]()
    while pending:
        operand = pending.pop()
        for user in operand.users:
            if user in excluded:
                continue
            labels = result_labels(user, operand, found.labels[operand], sizes)
            if user in found.labels:
                if labels != found.labels[user]:
                    mixed.append(user)
            elif labels is not None:
                found.labels[user] = labels
                pending.append(user)
    _drop(mixed, found)
    found.reduced = {
        label
        for value, labels in found.labels.items()
        if value.op is opcodes.REDUCE
        for label in found.labels[value.operands[0]]
        if label is not None and label not in labels
    }
    return found


def _drop(values: Iterable[Instruction], found: ScoreValues) -> None:
    """Drops the labels of mixed values, and of all that depends on them."""
    pending = list(values)
    while pending:
        value = pending.pop()
        if found.labels.pop(value, None) is not None:
            found.mixed.add(value)
            pending += value.users


def result_labels(user: Instruction, operand: Instruction, labels: Labels, sizes: Sequence[int]) -> Labels | None:
    """The labels of the result of an instruction, given those of an operand; None if it has none.

    sizes: of the labels.
    """
    if not user.shape.is_array or user.has_control_edges:
        return None
    dimensions = user.shape.dimensions
    if user.op.elementwise:
        return labels if operand.shape.dimensions == dimensions else None
    if user.op is opcodes.RESHAPE:
        kept = iter([label for label in labels if label is not None])
        is_same = [size for size in dimensions if size > 1] == [sizes[label] for label in labels if label is not None]
        return tuple(next(kept) if size > 1 else None for size in dimensions) if is_same else None
    if user.op is opcodes.TRANSPOSE:
        return tuple(labels[d] for d in user.dimensions)
    if user.op is opcodes.BROADCAST:
        return _of_broadcast(user, labels, sizes)
    if user.op is opcodes.REDUCE and len(user.operands) == 2 and operand is not user.operands[1]:
        reduced = [d for d in user.dimensions if labels[d] is not None]
        if len(reduced) == 1:
            return tuple(label for d, label in enumerate(labels) if d not in user.dimensions)
    return None


def _of_broadcast(broadcast: Instruction, labels: Labels, sizes: Sequence[int]) -> Labels | None:
    """The labels of the result of a broadcast along at most one dimension, which is the one that its operand lacks."""
    found: list[int | None] = [None] * broadcast.shape.rank
    for d, label in zip(broadcast.dimensions, labels, strict=True):
        found[d] = label
    new = [d for d, size in enumerate(broadcast.shape.dimensions) if size > 1 and d not in broadcast.dimensions]
    missing = [label for label, size in enumerate(sizes) if size > 1 and label not in labels]
    if len(new) != len(missing) or len(new) > 1:
        return None
    for d, label in zip(new, missing, strict=True):
        if broadcast.shape.dimensions[d] != sizes[label]:
            return None
        found[d] = label
    return tuple(found)


@dataclass(frozen=True, slots=True)
class DotLabels:
    """The labels of the dimensions of the operands and of the result of a dot."""

    left: Labels
    right: Labels
    result: Labels


TERMS = -1
"""The label of the dimension that a score sums over, or of the columns that a product with scores has."""


def labels_of_scores(dot: Instruction, labels: Labels) -> DotLabels | None:
    """The labels of the operands of a dot, given those of its result; None if it does not contract one dimension."""
    attributes: DotAttributes = dot.attributes_as(DotAttributes)
    lhs, rhs = dot.operands
    contracted = [d for d in attributes.lhs_contracting_dims if lhs.shape.dimensions[d] > 1]
    if len(contracted) != 1:
        return None
    left_free = attributes.lhs_free_dims(lhs.shape.rank)
    batches = labels[: len(attributes.lhs_batch_dims)]
    free = labels[len(batches) :]

    def of_operand(operand: Instruction, batch: Sequence[int], along: Sequence[int], of_free: Labels) -> Labels:
        frees = [d for d in range(operand.shape.rank) if d not in batch and d not in along]
        found: dict[int, int | None] = dict(zip(batch, batches, strict=True)) | dict(zip(frees, of_free, strict=True))
        return tuple(
            found[d] if d in found else TERMS if operand.shape.dimensions[d] > 1 else None
            for d in range(operand.shape.rank)
        )

    left = of_operand(lhs, attributes.lhs_batch_dims, attributes.lhs_contracting_dims, free[: len(left_free)])
    right = of_operand(rhs, attributes.rhs_batch_dims, attributes.rhs_contracting_dims, free[len(left_free) :])
    return DotLabels(left, right, labels)


def labels_of_product(dot: Instruction, number: int, labels: Labels) -> DotLabels | None:
    """The labels of a dot of which operand `number` has the given labels.

    None unless the other operand has one more dimension: the columns, labeled `TERMS`.
    """
    attributes: DotAttributes = dot.attributes_as(DotAttributes)
    batch = attributes.lhs_batch_dims, attributes.rhs_batch_dims
    along = attributes.lhs_contracting_dims, attributes.rhs_contracting_dims
    other = dot.operands[1 - number]
    found: dict[int, int | None] = {}
    for mine, theirs in ((batch[number], batch[1 - number]), (along[number], along[1 - number])):
        found |= {theirs[n]: labels[mine[n]] for n in range(len(mine))}
    free = [d for d in range(other.shape.rank) if d not in found]
    if sum(other.shape.dimensions[d] > 1 for d in free) != 1:
        return None
    found |= {d: TERMS if other.shape.dimensions[d] > 1 else None for d in free}
    others = tuple(found[d] for d in range(other.shape.rank))
    kept_here = [d for d in range(len(labels)) if d not in (*batch[number], *along[number])]
    kept = [tuple(labels[d] for d in kept_here), tuple(others[d] for d in free)]
    result = (*(labels[d] for d in batch[number]), *kept[number], *kept[1 - number])
    left, right = (labels, others) if number == 0 else (others, labels)
    return DotLabels(left, right, result)
