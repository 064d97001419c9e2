"""Alias analysis of a computation: which leaves of its instructions are the same array, and which instruction reads an
array last.

A tuple, get-tuple-element, reshape or copy defines no array: its result is an array of an operand. An element of a
loop's state that the body passes on is an array of the operand, too. `AliasAnalysis` resolves each leaf of each
instruction to the `ArrayValue` that it denotes, and answers which one reads a value last. XLA's counterparts are
HloDataflowAnalysis and HloAliasAnalysis.

Responsible for aliases that follow from the meaning of operations. Does not depend on memory slots or kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import ShapeIndex
from xlapy.hlo.traverse import post_order

OPERAND_FORWARDING_OPS = frozenset(
    {opcodes.RESHAPE, opcodes.COPY, opcodes.OPT_BARRIER, opcodes.DOMAIN, opcodes.ADD_DEPENDENCY}
)
"""Operations whose result is their first operand's memory: both hold the same elements in the same row-major order."""

IN_PLACE_OPS = frozenset({opcodes.DYNAMIC_UPDATE_SLICE, opcodes.SCATTER})
"""Operations that may write their result into the memory of their first operand."""


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array that an instruction defines: the leaf of its result at `index`."""

    defining_instruction: Instruction
    index: ShapeIndex


def array_leaves(shape: Shape) -> Iterator[tuple[ShapeIndex, Shape]]:
    """Yields the index and the shape of each array in a shape; tokens are left out."""
    return ((index, leaf) for index, leaf in shape.leaves() if leaf.is_array)


class AliasAnalysis:
    """The array values of one computation, as it stood when the analysis was made.

    order: the schedule of the instructions: that of the module if it is scheduled, else XLA's post-order.
    result_values: the values that the computation returns.
    """

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        module = computation.module
        is_scheduled = module is not None and module.config.is_scheduled
        self.order = list(computation) if is_scheduled else post_order(computation)
        self._values: dict[Instruction, dict[ShapeIndex, ArrayValue]] = {}
        for instruction in self.order:
            indices = [index for index, _ in array_leaves(instruction.shape)]
            self._values[instruction] = {index: self._resolve(instruction, index) for index in indices}
        self._counted: tuple[Instruction, Counter[ArrayValue]] | None = None
        """The instruction whose uses were counted last, and its values: an instruction asks for all of them in turn."""
        self.result_values = set(self.values(computation.root_instruction))
        self._last_user: dict[ArrayValue, Instruction] = {}
        for instruction in self.order:
            if not is_alias(instruction):
                for operand in instruction.operands:
                    for value in self.values(operand):
                        self._last_user[value] = instruction

    def value(self, instruction: Instruction, index: ShapeIndex = ()) -> ArrayValue:
        """Returns the array value that a leaf of an instruction denotes."""
        return self._values[instruction][index]

    def values(self, instruction: Instruction) -> Collection[ArrayValue]:
        """Returns the array values of all leaves of an instruction, in the order of the leaves."""
        return self._values[instruction].values()

    def use_count(self, value: ArrayValue, user: Instruction) -> int:
        """Returns how many leaves of the operands of an instruction denote a value."""
        if self._counted is None or self._counted[0] is not user:
            self._counted = user, Counter(one for operand in user.operands for one in self.values(operand))
        return self._counted[1][value]

    def is_last_use(self, value: ArrayValue, user: Instruction) -> bool:
        """Returns whether `user` is the last instruction to read a value, and the computation does not return it."""
        return self._last_user.get(value) is user and value not in self.result_values

    def _resolve(self, instruction: Instruction, index: ShapeIndex) -> ArrayValue:
        if instruction.op is opcodes.TUPLE:
            return self._values[instruction.operands[index[0]]][index[1:]]
        if instruction.op is opcodes.GET_TUPLE_ELEMENT:
            return self._values[instruction.operands[0]][instruction.tuple_index, *index]
        if is_alias(instruction) or is_invariant_state(instruction, index):
            return self._values[instruction.operands[0]][index]
        return ArrayValue(instruction, index)


def is_alias(instruction: Instruction) -> bool:
    """Returns whether all arrays of an instruction are arrays of its operands, so that it defines none."""
    if instruction.op is opcodes.BITCAST:
        source, result = instruction.operands[0].shape, instruction.shape
        return source.element_type is result.element_type and is_row_major(source) and is_row_major(result)
    return instruction.op in OPERAND_FORWARDING_OPS or instruction.op in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT)


def is_invariant_state(instruction: Instruction, index: ShapeIndex) -> bool:
    """Returns whether a leaf of a loop's result is its initial value, because the body passes it on unchanged."""
    if instruction.op is not opcodes.WHILE or len(index) != 1:
        return False
    body = instruction.computation("body")
    (parameter,), root = body.parameters, body.root_instruction
    if root.op is not opcodes.TUPLE:
        return root is parameter
    following = root.operands[index[0]]
    is_element = following.op is opcodes.GET_TUPLE_ELEMENT and following.operands[0] is parameter
    return is_element and following.tuple_index == index[0]


def is_row_major(shape: Shape) -> bool:
    """Returns whether an array has the default layout, row-major, or none."""
    return shape.layout is None or shape.layout.minor_to_major == tuple(reversed(range(shape.rank)))


CONTROL_FLOW_OPS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})


def updates_in_place(instruction: Instruction) -> bool:
    """Whether an instruction may write its result into the memory of an operand."""
    if instruction.op not in CONTROL_FLOW_OPS:
        return instruction.op in IN_PLACE_OPS
    pending, visited = list(instruction.computations), set[Computation]()
    while pending:
        computation = pending.pop()
        if computation in visited:
            continue
        visited.add(computation)
        if any(inner.op in IN_PLACE_OPS for inner in computation):
            return True
        pending += [called for inner in computation if inner.op in CONTROL_FLOW_OPS for called in inner.computations]
    return False
