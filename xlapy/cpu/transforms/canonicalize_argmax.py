"""Reductions like argmax, whose computation relies on meeting the elements in order, get one that does not.

JAX's argmax keeps the left one of two NaN, whatever their indices: right only where the left index is the smaller one,
as it is along a row. The new computation looks at the indices first and hands the smaller one to the old computation as
the left one; so it may see elements in any order, in lanes and in blocks.

Must not know: kernels, threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.lower.selections import is_selection
from xlapy.lower.sources import uniform_value
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.expand.blocks import compare, new_computation
from xlapy.passes.rewrite import Writer, editable_computations, has_control_edges, replace_with_new, update_schedule


@dataclass(frozen=True)
class CanonicalizeArgmax:
    """Lets reductions of values and their positions see them in any order."""

    name: ClassVar[str] = "order-selections"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.REDUCE and not has_control_edges(instruction):
                    changed |= _order(instruction)
        return update_schedule(module, changed)


def _order(reduction: Instruction) -> bool:
    place = _ascending(reduction)
    computation = reduction.to_apply
    if place is None or is_selection(computation) or not is_selection(computation, ordered_by=place):
        return False
    write = Writer(reduction)
    ordered = _in_order(write, computation, place)
    replace_with_new(
        reduction,
        write.add(opcodes.REDUCE, *reduction.operands, attributes=reduction.attributes, computations=[ordered]),
    )
    return True


def _ascending(reduction: Instruction) -> int | None:
    """Which operand counts the elements in the order in which they are reduced, from its initial value or later on."""
    count = len(reduction.operands) // 2
    shape = reduction.operands[0].shape
    long = [d for d in reduction.dimensions if shape.dimensions[d] > 1]
    if shape.is_dynamic or len(long) != 1:
        return None
    for place, (operand, init) in enumerate(zip(reduction.operands[:count], reduction.operands[count:], strict=True)):
        is_first = init.op is opcodes.CONSTANT and init.shape.element_type.is_integral and uniform_value(init) == 0
        if is_first and _counted_dimension(operand) == long[0]:
            return place
    return None


def _counted_dimension(instruction: Instruction) -> int | None:
    """The dimension along which an array holds 0, 1, 2 ..., the same everywhere else."""
    through: list[Instruction] = []
    while instruction.op is opcodes.BROADCAST:
        through.append(instruction)
        (instruction,) = instruction.operands
    if instruction.op is not opcodes.IOTA or instruction.shape.element_type.bits < 32:
        return None  # a narrow one wraps
    dimension: int = instruction.attributes_as(IotaAttributes).iota_dimension
    for broadcast in reversed(through):
        dimension = broadcast.dimensions[dimension]
    return dimension


def _in_order(write: Writer, computation: Computation, place: int) -> Computation:
    """The computation on its arguments, exchanged where the left one's position is behind the right one's."""

    def body(into: Writer, given: list[Instruction]) -> Instruction:
        count = len(given) // 2
        pairs = list(zip(given[:count], given[count:], strict=True))
        is_behind = compare(into, *pairs[place], ComparisonDirection.GT)
        first = [into.add(opcodes.SELECT, is_behind, right, left) for left, right in pairs]
        second = [into.add(opcodes.SELECT, is_behind, left, right) for left, right in pairs]
        return edit.inline_call(into.add(opcodes.CALL, *first, *second, computations=[computation]))

    scalars = [Shape.scalar(p.shape.element_type) for p in computation.parameters]
    return new_computation(write, computation.name, scalars, body)
