"""Combines independent all-reduces into one with several operands, as XLA's AllReduceCombiner does.

Devices then synchronize once instead of several times.

Responsible for which all-reduces are combined. Does not depend on what wrote them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.passes.rewrite import Writer, remove_uncalled_computations
from xlapy.spmd.partial_sums import reducer_op

MAX_COMBINED_BYTES = 32 << 20
"""The largest sum of operand sizes of a combined all-reduce. Larger arrays gain nothing from being combined, and stay
in memory for longer."""


def combine_all_reduces(computation: Computation) -> None:
    """Combines all-reduces with equal attributes and reducers that are at equal depth, counted in all-reduces.

    All-reduces at equal depth do not depend on each other.
    """
    depth: dict[Instruction, int] = {}
    combinable: dict[Hashable, list[Instruction]] = defaultdict(list)
    for instruction in post_order(computation):
        above = max((depth[operand] for operand in instruction.operands), default=0)
        key = _combine_key(instruction)
        depth[instruction] = above + (key is not None)
        if key is not None:
            combinable[above, key].append(instruction)
    for instructions in combinable.values():
        for batch in _batches(instructions):
            _combine(batch)


def _combine_key(instruction: Instruction) -> Hashable:
    """Returns what must be equal for all-reduces to be combined; None for an instruction that cannot be."""
    if instruction.op is not opcodes.ALL_REDUCE or instruction.shape.is_tuple or instruction.has_control_edges:
        return None
    op = reducer_op(instruction)
    if op is None:
        return None
    return op, instruction.shape.element_type, instruction.attributes.replace(channel_id=None)


def _batches(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Splits all-reduces into batches of at most `MAX_COMBINED_BYTES`; returns those of more than one."""
    batches: list[list[Instruction]] = [[]]
    size = 0
    for instruction in instructions:
        size += instruction.shape.byte_size
        if size > MAX_COMBINED_BYTES:
            batches.append([])
            size = instruction.shape.byte_size
        batches[-1].append(instruction)
    return [batch for batch in batches if len(batch) > 1]


def _combine(all_reduces: Sequence[Instruction]) -> None:
    first = all_reduces[0]
    write = Writer(first)
    operands = [instruction.operands[0] for instruction in all_reduces]
    combined = write.add(opcodes.ALL_REDUCE, *operands, attributes=first.attributes, computations=first.computations)
    for number, instruction in enumerate(all_reduces):
        called = instruction.computations
        edit.replace_uses(instruction, write.get_tuple_element(combined, number))
        edit.remove(instruction)
        remove_uncalled_computations(called)
