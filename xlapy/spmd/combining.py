"""All-reduces that wait for nothing of each other, made one: devices meet once.

Owns: which are joined. Must not know: why they are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.passes.rewrite import Writer, has_control_edges, remove_uncalled
from xlapy.spmd.sums import only_op

_BYTES = 32 << 20
"""The most that is joined: larger arrays gain nothing by it, and would live longer."""


def combine_all_reduces(computation: Computation) -> None:
    """Joins those of one kind with as many all-reduces before them, so that none depends on another."""
    before: dict[Instruction, int] = {}
    found: dict[Hashable, list[Instruction]] = defaultdict(list)
    for instruction in post_order(computation):
        earlier = max((before[operand] for operand in instruction.operands), default=0)
        kind = _kind(instruction)
        before[instruction] = earlier + (kind is not None)
        if kind is not None:
            found[earlier, kind].append(instruction)
    for alike in found.values():
        for several in _batches(alike):
            _join(several)


def _kind(instruction: Instruction) -> Hashable:
    """What all-reduces that may be joined have in common; None of others."""
    if instruction.op is not opcodes.ALL_REDUCE or instruction.shape.is_tuple or has_control_edges(instruction):
        return None
    root = only_op(instruction)
    return root and (root.op, instruction.shape.element_type, instruction.attributes.replace(channel_id=None))


def _batches(alike: Sequence[Instruction]) -> list[list[Instruction]]:
    batches: list[list[Instruction]] = [[]]
    size = 0
    for instruction in alike:
        size += instruction.shape.byte_size
        if size > _BYTES:
            batches.append([])
            size = instruction.shape.byte_size
        batches[-1].append(instruction)
    return [batch for batch in batches if len(batch) > 1]


def _join(several: Sequence[Instruction]) -> None:
    first = several[0]
    write = Writer(first)
    operands = [instruction.operands[0] for instruction in several]
    called = first.computations
    joined = write.add(opcodes.ALL_REDUCE, *operands, attributes=first.attributes, computations=called)
    for number, instruction in enumerate(several):
        left = instruction.computations
        edit.replace_uses(instruction, write.element(joined, number))
        edit.remove(instruction)
        remove_uncalled(left)
