"""Which arrays of a computation are the same memory, and when each is read for the last time.

Tuples, get-tuple-element, reshape and the like make no new arrays: what they give is an array of an operand.
`Flow` resolves every (instruction, leaf) to the instruction that makes it, orders the instructions, and knows who reads
what last.

Owns: aliases by meaning, the order of evaluation. Must not know: slots, kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order

Path = tuple[int, ...]

SAME = frozenset({opcodes.RESHAPE, opcodes.COPY, opcodes.OPT_BARRIER, opcodes.DOMAIN, opcodes.ADD_DEPENDENCY})
"""Operations that give their first operand's memory: row-major order is the same in both shapes."""

IN_PLACE = frozenset({opcodes.DYNAMIC_UPDATE_SLICE, opcodes.SCATTER})
"""Operations that may write into the memory of their first operand."""


@dataclass(frozen=True, slots=True)
class Made:
    """An array: the leaf at `path` of what `maker` gives."""

    maker: Instruction
    path: Path


def array_leaves(shape: Shape) -> Iterator[tuple[Path, Shape]]:
    """The arrays in a shape, tokens left out."""
    return ((path, leaf) for path, leaf in shape.leaves() if leaf.is_array)


class Flow:
    """A computation resolved."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.order = _late_updates(post_order(computation))
        self._made: dict[tuple[Instruction, Path], Made] = {}
        for instruction in self.order:
            for path, _ in array_leaves(instruction.shape):
                self._made[instruction, path] = self._resolve(instruction, path)
        root = computation.root_instruction
        self.results = {self._made[root, path] for path, _ in array_leaves(root.shape)}
        self._last: dict[Made, Instruction] = {}
        for instruction in self.order:
            if not is_alias(instruction):
                for operand in instruction.operands:
                    for made in self.arrays(operand):
                        self._last[made] = instruction

    def made(self, instruction: Instruction, path: Path = ()) -> Made:
        """The array behind a leaf of an instruction."""
        return self._made[instruction, path]

    def arrays(self, instruction: Instruction) -> list[Made]:
        """All arrays of an instruction, in the order of its leaves."""
        return [self._made[instruction, path] for path, _ in array_leaves(instruction.shape)]

    def dies_at(self, made: Made, reader: Instruction) -> bool:
        """Whether nothing reads the array after an instruction that does, and it is no result of the computation."""
        return self._last.get(made) is reader and made not in self.results

    def _resolve(self, instruction: Instruction, path: Path) -> Made:
        if instruction.op is opcodes.TUPLE:
            return self._made[instruction.operands[path[0]], path[1:]]
        if instruction.op is opcodes.GET_TUPLE_ELEMENT:
            return self._made[instruction.operands[0], (instruction.index, *path)]
        if is_alias(instruction):
            return self._made[instruction.operands[0], path]
        return Made(instruction, path)


def is_alias(instruction: Instruction) -> bool:
    """Whether the instruction makes no arrays of its own."""
    if instruction.op is opcodes.BITCAST:
        source, result = instruction.operands[0].shape, instruction.shape
        return source.element_type is result.element_type and is_row_major(source) and is_row_major(result)
    return instruction.op in SAME or instruction.op in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT)


def is_row_major(shape: Shape) -> bool:
    return shape.layout is None or shape.layout.minor_to_major == tuple(reversed(range(shape.rank)))


def _late_updates(order: list[Instruction]) -> list[Instruction]:
    """The same order, but operations that may work in place come behind all others that can go first.

    The memory that such an operation overwrites so has been read by all that need its old contents, where possible.
    """
    place = {instruction: (instruction.op in IN_PLACE, n) for n, instruction in enumerate(order)}
    missing = {i: len({*i.operands, *i.control_predecessors}) for i in order}
    ready = [(*place[i], i) for i in order if not missing[i]]
    heapify(ready)
    result: list[Instruction] = []
    while ready:
        *_, instruction = heappop(ready)
        result.append(instruction)
        for user in {*instruction.users, *instruction.control_successors}:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, (*place[user], user))
    return result
