"""Combines independent collectives of one kind into one with several operands.

Devices then synchronize once instead of several times. XLA's counterparts are AllReduceCombiner, AllGatherCombiner,
ReduceScatterCombiner and CollectivePermuteCombiner. Collectives of the same operands are not combined, but one of them
takes the place of all: those of a halo that two windows read, for example.

Responsible for which collectives are combined. Does not depend on what wrote them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost import array_bytes
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.registry import OpDef
from xlapy.passes.rewrite import Writer, remove_uncalled_computations
from xlapy.spmd.partial_sums import reducer_op

MAX_COMBINED_BYTES: Final[dict[OpDef, int]] = {
    opcodes.ALL_REDUCE: 32 << 20,
    opcodes.ALL_GATHER: 4 << 20,
    opcodes.REDUCE_SCATTER: 4 << 20,
    opcodes.COLLECTIVE_PERMUTE: 4 << 20,
}
"""The largest sum of the sizes of the operands or results, whichever are larger, of a combined collective. Larger
arrays gain nothing from being combined, and stay in memory for longer. The limit is lower where one side is larger than
the other: combined all-gathers hold all gathered arrays at the same time, even if they are used one after another."""


def combine_collectives(computation: Computation) -> None:
    """Combines collectives with equal attributes and reducers that are at equal depth, counted in such collectives.

    Collectives at equal depth do not depend on each other.
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
        for batch in _batches(_different(instructions)):
            _combine(batch)


def _different(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Replaces collectives of the same operands by the first of them; returns those that are left."""
    found: dict[tuple[Instruction, ...], Instruction] = {}
    for instruction in instructions:
        first = found.setdefault(instruction.operands, instruction)
        if first is not instruction:
            called = instruction.computations
            edit.replace_uses(instruction, first)
            edit.remove(instruction)
            remove_uncalled_computations(called)
    return list(found.values())


def _combine_key(instruction: Instruction) -> Hashable:
    """Returns what must be equal for collectives to be combined; None for an instruction that cannot be."""
    op, shape = instruction.op, instruction.shape
    if op not in MAX_COMBINED_BYTES or shape.is_tuple or instruction.has_control_edges:
        return None
    if op is opcodes.COLLECTIVE_PERMUTE:  # one with slices has four operands
        return None if len(instruction.operands) > 1 else (op, instruction.attributes.replace(channel_id=None))
    reducer = reducer_op(instruction) if instruction.computations else None
    if instruction.computations and reducer is None:
        return None
    return op, reducer, shape.element_type, instruction.attributes.replace(channel_id=None)


def _batches(instructions: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """Splits collectives into batches within the limit of their kind; yields those of more than one."""
    batch: list[Instruction] = []
    size = 0
    for instruction in instructions:
        larger = max(array_bytes(instruction.shape), array_bytes(instruction.operands[0].shape))
        if size + larger > MAX_COMBINED_BYTES[instruction.op]:
            if len(batch) > 1:
                yield batch
            batch, size = [], 0
        batch.append(instruction)
        size += larger
    if len(batch) > 1:
        yield batch


def _combine(collectives: Sequence[Instruction]) -> None:
    first = collectives[0]
    write = Writer(first)
    combined = write.add(
        first.op, *[instruction.operands[0] for instruction in collectives], attributes=first.attributes,
        computations=first.computations, shape=Shape.tuple([instruction.shape for instruction in collectives]),
    )  # fmt: skip
    for number, instruction in enumerate(collectives):
        called = instruction.computations
        edit.replace_uses(instruction, write.get_tuple_element(combined, number))
        edit.remove(instruction)
        remove_uncalled_computations(called)
