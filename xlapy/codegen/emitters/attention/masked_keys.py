"""Finds whether a gradient of attention may leave out the keys that a mask hides from all queries of a block.

It may if the weights of these keys are zeros, and so are the terms that they add to sums. Example, a causal softmax:

    e      = exp(select(mask, scores, -1e38) - maximum)        0 at masked keys
    weight = e / sum(e)                                        0
    terms  = (dP / sum(e)) * e                                 0, if the dot `dP` is finite

At masked keys, scores are the same number, and everything else is either the same for all keys of a query, or a
monotonic function of an element of the other dot. If a monotonic function is zero at both ends of an interval, it is
zero between. So a kernel evaluates it at two ends that bound the elements of the other dot. Does not depend on the
kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from xlapy import opcodes
from xlapy.codegen.emitters.attention.problem import selection_of
from xlapy.codegen.emitters.row_reduction import RowPlan
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, monoid


class _Kind(Enum):
    """How the value of a masked key depends on the key."""

    SAME = "all masked keys of a query have the same value"
    MONOTONIC = "a monotonic function of the element of the other dot"
    OTHER = "any"


_MONOTONIC_OPS = frozenset({
    opcodes.ADD, opcodes.CONVERT, opcodes.COPY, opcodes.DIVIDE, opcodes.MAXIMUM, opcodes.MINIMUM, opcodes.MULTIPLY,
    opcodes.NEGATE, opcodes.RESHAPE, opcodes.SELECT, opcodes.SUBTRACT,
})  # fmt: skip
"""Opcodes that are monotonic in one operand if the others do not change."""


@dataclass(frozen=True, slots=True)
class MaskedKeys:
    """A mask of scores, as in the module's docstring."""

    predicate: Instruction
    kept: bool
    """The value of the predicate for keys that are not masked."""
    other: Instruction
    """The dot that the mask does not select from."""


def masked_keys(
    dots: Sequence[Instruction], weights: Sequence[Instruction], plan: RowPlan, members: Sequence[Instruction]
) -> MaskedKeys | None:
    """The mask of one of two dots whose masked keys can be left out; None if there is none.

    members: the instructions between the dots and the weights, operands before users.
    """
    for masked, other in (dots, dots[::-1]):
        found = selection_of(masked, members)
        if found is None:
            continue
        selection, step = found
        mask = MaskedKeys(selection.operands[0], selection.operands[1] is step, other)
        if _has_uniform_values(mask, selection, weights, plan, members):
            return mask
    return None


def _has_uniform_values(
    mask: MaskedKeys,
    selection: Instruction,
    weights: Sequence[Instruction],
    plan: RowPlan,
    members: Sequence[Instruction],
) -> bool:
    """Whether the weights and the terms of reductions are of a kind that two evaluations bound."""
    kinds: dict[Instruction, _Kind] = {mask.predicate: _Kind.SAME, mask.other: _Kind.MONOTONIC}
    for member in members:
        if member is selection:
            kinds[member] = kinds.get(selection.operands[1 + mask.kept], _Kind.OTHER)
        elif member not in kinds:
            kinds[member] = _kind(member, kinds, mask.other.shape.dimensions)
    for sweep in plan.sweeps:
        for reduction in sweep.reductions:
            op, kind = monoid(reduction.to_apply), kinds[reduction.operands[0]]
            is_sum = op is opcodes.ADD and kind is not _Kind.OTHER
            if not is_sum and not (op in IDEMPOTENT_OPS and kind is _Kind.SAME):
                return False
    return all(kinds[weight] is not _Kind.OTHER for weight in weights)


def _kind(member: Instruction, kinds: Mapping[Instruction, _Kind], dimensions: Sequence[int]) -> _Kind:
    """The kind of an instruction, given those of its operands. dimensions: those of scores, of which the keys are the
    last; the kind of an array with others does not matter."""
    if member.shape.dimensions != tuple(dimensions):
        return _Kind.OTHER
    if member.op is opcodes.BROADCAST:
        return _Kind.OTHER if len(dimensions) - 1 in member.dimensions else _Kind.SAME
    if not member.op.elementwise:
        return _Kind.OTHER
    found = [kinds.get(operand, _Kind.OTHER) if operand.shape.rank else _Kind.SAME for operand in member.operands]
    if _Kind.OTHER in found:
        return _Kind.OTHER
    if _Kind.MONOTONIC not in found:
        return _Kind.SAME
    is_changed = found.count(_Kind.MONOTONIC) == 1 and member.op in _MONOTONIC_OPS
    is_divisor = member.op is opcodes.DIVIDE and found[1] is _Kind.MONOTONIC
    is_condition = member.op is opcodes.SELECT and found[0] is _Kind.MONOTONIC
    return _Kind.MONOTONIC if is_changed and not is_divisor and not is_condition else _Kind.OTHER
