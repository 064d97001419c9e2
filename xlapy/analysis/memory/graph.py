"""The instructions of a computation as a graph of numbered nodes and array values with sizes, for schedules.

Responsible for which values an instruction reads, defines, and may compute in the memory of others. Does not depend on
how an order is found, or on the memory that kernels are given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from xlapy import opcodes
from xlapy.analysis.aliasing import (
    CONTROL_FLOW_OPS,
    IN_PLACE_OPS,
    AliasAnalysis,
    ArrayValue,
    is_alias,
    updates_in_place,
)
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction

ALIGNMENT = 64
"""The alignment in bytes of temporaries, which is the size of a cache line and of the widest vector register."""

_ELEMENT_BY_ELEMENT = frozenset(
    {
        opcodes.BROADCAST,
        opcodes.CONSTANT,
        opcodes.PARAMETER,
        opcodes.REDUCE,
        opcodes.RESHAPE,
        opcodes.TUPLE,
        opcodes.IOTA,
    }
    | {op for op in opcodes.REGISTRY.values() if op.elementwise}
)
"""Opcodes that fusions consist of which may overwrite an operand with their result."""

_WITHOUT_MEMORY = frozenset({opcodes.PARAMETER, opcodes.CONSTANT})
"""Opcodes whose arrays are no temporaries: the caller or the program owns them."""


class MemoryGraph:
    """The nodes of a computation, in a valid order, and the values that they read and define.

    called_bytes: the bytes of temporaries that each computation needs that instructions call. owned: the values of
    parameters that the computation may overwrite, as the body of a loop its state. A node is an index in
    `instructions`. Sizes are in bytes.
    """

    def __init__(
        self, aliases: AliasAnalysis, called_bytes: Mapping[Computation, int], owned: Collection[ArrayValue] = ()
    ) -> None:
        self.instructions: Sequence[Instruction] = aliases.order
        self.sizes: list[int] = []
        """The size of each value; 0 for those that are no temporaries."""
        self.is_result: list[bool] = []
        self.definer: list[int] = []
        """The node that defines each value."""
        self.readers: list[list[int]] = []
        """The nodes that read each value."""
        self.reads: list[list[int]] = []
        self.defines: list[list[int]] = []
        self.shares: list[list[tuple[int, int]]] = []
        """For each node, pairs of a value that it defines and one whose memory may hold it, if nothing reads that one
        afterwards."""
        self.overwrites: list[list[int]] = []
        """The values that each node overwrites in place, or has to copy if something reads them afterwards."""
        self.scratch: list[int] = []
        """The bytes of temporaries that each node needs inside."""
        self.dependencies: list[list[int]] = []
        self.dependents: list[list[int]] = []
        self.result_bytes = 0
        self._aliases = aliases
        self._numbers: dict[ArrayValue, int] = {}
        self._owned = frozenset(owned)
        self._array_values: list[ArrayValue] = []
        self._bytes: list[int] = []
        """The size of each value, that of parameters and constants too."""
        self._fusion_kinds: dict[Computation, bool] = {}
        nodes = {instruction: node for node, instruction in enumerate(self.instructions)}
        for node, instruction in enumerate(self.instructions):
            self._add(node, instruction, nodes, called_bytes)

    def _add(
        self,
        node: int,
        instruction: Instruction,
        nodes: Mapping[Instruction, int],
        called_bytes: Mapping[Computation, int],
    ) -> None:
        before = dict.fromkeys(chain(instruction.operands, instruction.control_predecessors))
        self.dependencies.append([nodes[other] for other in before])
        self.dependents.append([])
        for other in self.dependencies[node]:
            self.dependents[other].append(node)
        self.defines.append([])
        self.shares.append([])
        self.overwrites.append([])
        self.scratch.append(0)
        if is_alias(instruction):
            self.reads.append([])
            return
        per_operand = [self._values(operand) for operand in instruction.operands]
        read = list(dict.fromkeys(chain.from_iterable(per_operand)))
        self.reads.append(read)
        for value in read:
            self.readers[value].append(node)
        for defined in self._aliases.values(instruction):
            if defined.defining_instruction is instruction:  # a loop only reads some arrays of its state
                self._define(node, instruction, defined)
        self.shares[node] = list(self._shares(instruction, self.defines[node], per_operand))
        if updates_in_place(instruction):
            self.overwrites[node] = read if instruction.op in CONTROL_FLOW_OPS else per_operand[0]
        elif self._aliases.computation.is_entry:
            self.overwrites[node] = self._donated_operands(node)
        if instruction.op in CONTROL_FLOW_OPS:
            called = max(called_bytes.get(called, 0) for called in instruction.computations)
            inside = 0 if instruction.op is opcodes.WHILE else sum(self.sizes[value] for value in self.defines[node])
            self.scratch[node] = max(0, called - inside)

    def _values(self, instruction: Instruction) -> list[int]:
        return [self._numbers[value] for value in self._aliases.values(instruction)]

    def _define(self, node: int, instruction: Instruction, value: ArrayValue) -> None:
        shape = instruction.shape
        for part in value.index:
            shape = shape.tuple_shapes[part]
        self._bytes.append(aligned(shape.size * shape.element_type.byte_size))
        size = 0 if instruction.op in _WITHOUT_MEMORY else self._bytes[-1]
        self._numbers[value] = number = len(self.sizes)
        self._array_values.append(value)
        self.sizes.append(size)
        self.is_result.append(value in self._aliases.result_values)
        self.definer.append(node)
        self.readers.append([])
        self.defines[node].append(number)
        self.result_bytes += size * self.is_result[number]

    def _shares(
        self, instruction: Instruction, defined: Sequence[int], per_operand: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, int]]:
        if instruction.op is opcodes.WHILE:
            states = zip(self._values(instruction), per_operand[0], strict=True)
            pairs: Iterator[tuple[int, int]] = ((after, before) for after, before in states if after != before)
        elif instruction.op in IN_PLACE_OPS:
            pairs = ((value, per_operand[0][0]) for value in defined)
        elif self._is_element_by_element(instruction):
            size = {value: self.sizes[value] for value in defined}
            operands = [operand for values in per_operand for operand in values]
            pairs = ((v, o) for v in defined for o in operands if self.sizes[o] == size[v] or not self.sizes[o])
        else:
            return
        for value, operand in pairs:
            if self._may_overwrite(operand):
                yield value, operand

    def _donated_operands(self, node: int) -> list[int]:
        """Returns the donated arguments in which a node may compute results that it reads them for."""
        result_sizes = {self._bytes[value] for value in self.defines[node] if self.is_result[value]}
        return [value for value in self.reads[node] if self._bytes[value] in result_sizes and self._is_donated(value)]

    def _is_donated(self, value: int) -> bool:
        owner = self.instructions[self.definer[value]]
        return owner.op is opcodes.PARAMETER and self._may_overwrite(value)

    def _may_overwrite(self, value: int) -> bool:
        owner = self.instructions[self.definer[value]]
        if owner.op is opcodes.PARAMETER:
            return self._array_values[value] in self._owned
        return owner.op is not opcodes.CONSTANT

    def _is_element_by_element(self, instruction: Instruction) -> bool:
        if instruction.op is not opcodes.FUSION:
            return instruction.op.elementwise or instruction.op is opcodes.CONDITIONAL
        (computation,) = instruction.computations
        found = self._fusion_kinds.get(computation)
        if found is None:
            found = all(inner.op in _ELEMENT_BY_ELEMENT for inner in computation)
            self._fusion_kinds[computation] = found
        return found


def aligned(size: int) -> int:
    """Returns the bytes that an array of `size` bytes takes among temporaries."""
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
