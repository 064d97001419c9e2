"""Removal of collectives in which every device only meets itself, such as an all-reduce on one device.

The result of such a collective is its operand. A program without collectives runs in the thread of its caller.

Responsible for these instructions. Does not depend on how devices meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, participants
from xlapy.opcodes.collectives import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    group_mode_of,
    has_dynamic_root,
)
from xlapy.passes.rewrite import Writer, bridge_control_edges, editable_computations, remove_replaced, update_schedule

_GROUPED = frozenset({
    opcodes.ALL_GATHER, opcodes.ALL_REDUCE, opcodes.ALL_TO_ALL, opcodes.COLLECTIVE_BROADCAST,
    opcodes.COLLECTIVE_REDUCE, opcodes.REDUCE_SCATTER,
})  # fmt: skip


@dataclass(frozen=True)
class RemoveTrivialCollectives:
    """Removes collectives whose groups have one member each, and permutes that send every device its own operands.

    replicas, partitions: how many the program runs on; with 0, which means that it is unknown, nothing is removed.
    """

    name: ClassVar[str] = "remove-trivial-collectives"
    replicas: int = 0
    partitions: int = 0

    def run(self, module: Module) -> bool:
        if not self.replicas * self.partitions:
            return False
        found = [
            instruction
            for computation in editable_computations(module)
            for instruction in computation
            if self._is_trivial(instruction)
        ]
        for instruction in found:
            bridge_control_edges(instruction)
            operands = instruction.operands
            made = Writer(instruction).add(opcodes.TUPLE, *operands) if instruction.shape.is_tuple else operands[0]
            edit.replace_uses(instruction, made)
            remove_replaced(instruction)
        return update_schedule(module, bool(found))

    def _is_trivial(self, instruction: Instruction) -> bool:
        if instruction.op is opcodes.COLLECTIVE_PERMUTE:
            return self._sends_own_operands(instruction)
        if instruction.op not in _GROUPED or has_dynamic_root(instruction.attributes):
            return False
        groups = self._groups(instruction)
        return groups is not None and all(len(group) == 1 for group in groups) and _keeps_operands(instruction)

    def _sends_own_operands(self, instruction: Instruction) -> bool:
        attributes = instruction.attributes_as(CollectivePermuteAttributes)
        groups = self._groups(instruction)
        if groups is None or attributes.slice_sizes or not _keeps_operands(instruction):
            return False
        return sorted(attributes.source_target_pairs) == [(n, n) for n in range(max(map(len, groups)))]

    def _groups(self, instruction: Instruction) -> list[tuple[int, ...]] | None:
        """The group of each device; None if it cannot be determined."""
        attributes = instruction.attributes
        named = attributes.replica_groups if isinstance(attributes, GroupedAttributes) else ALL_REPLICAS
        try:
            mode = group_mode_of(instruction.attributes_as(CollectiveAttributes))
            return [
                participants(named, mode, self.replicas, self.partitions, device)
                for device in range(self.replicas * self.partitions)
            ]
        except ShapeError:
            return None


def _keeps_operands(instruction: Instruction) -> bool:
    """Whether the results have the shapes of the operands, and a reducer computes in their element types."""
    shape, given = instruction.shape, instruction.operand_shapes
    results = shape.tuple_shapes if shape.is_tuple else (shape,)
    if len(results) != len(given) or not all(map(type(shape).compatible, results, given)):
        return False
    types = [operand.element_type for operand in given]
    reducers = [[p.shape.element_type for p in one.parameters] for one in instruction.computations]
    return all(own in ([*types, *types], [own[0]] * 2) and {*own} == {*types} for own in reducers)
