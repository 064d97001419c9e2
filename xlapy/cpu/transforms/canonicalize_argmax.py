"""Makes reductions like argmax independent of the order of the elements.

JAX's argmax keeps the left of two NaN, whatever their indices. That is right only if the left index is the smaller one,
as it is along a row. The new computation compares the indices first and passes the element with the smaller index to
the old computation as the left one. It may therefore see elements in any order, in vector lanes and in blocks.

Does not depend on kernels or threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.selections import is_selection
from xlapy.lower.sources import uniform_value
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.expand.blocks import compare, new_computation
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class CanonicalizeArgmax:
    """Lets reductions of values with their indices see the elements in any order."""

    name: ClassVar[str] = "canonicalize-argmax"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.REDUCE and not instruction.has_control_edges:
                    changed |= _canonicalize(instruction)
        return update_schedule(module, changed)


def _canonicalize(reduction: Instruction) -> bool:
    place = _index_operand(reduction)
    computation = reduction.to_apply
    if place is None or is_selection(computation) or not is_selection(computation, ordered_by=place):
        return False
    write = Writer(reduction)
    ordered = _ordered_computation(write, computation, place)
    replace_with_new(
        reduction,
        write.add(opcodes.REDUCE, *reduction.operands, attributes=reduction.attributes, computations=[ordered]),
    )
    return True


def _index_operand(reduction: Instruction) -> int | None:
    """Returns the operand that numbers the elements in the order in which they are reduced, starting at its initial
    value."""
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
    """Returns the dimension along which an array is 0, 1, 2, ..., if it is constant along all others."""
    through: list[Instruction] = []
    while instruction.op is opcodes.BROADCAST:
        through.append(instruction)
        (instruction,) = instruction.operands
    if instruction.op is not opcodes.IOTA or instruction.shape.element_type.bits < 32:
        return None  # a narrow iota wraps around
    dimension: int = instruction.attributes_as(IotaAttributes).iota_dimension
    for broadcast in reversed(through):
        dimension = broadcast.dimensions[dimension]
    return dimension


def _ordered_computation(write: Writer, computation: Computation, place: int) -> Computation:
    """Returns the computation with its arguments swapped if the left index is greater than the right one."""

    def body(into: Writer, given: list[Instruction]) -> Instruction:
        count = len(given) // 2
        pairs = list(zip(given[:count], given[count:], strict=True))
        is_behind = compare(into, *pairs[place], ComparisonDirection.GT)
        first = [into.add(opcodes.SELECT, is_behind, right, left) for left, right in pairs]
        second = [into.add(opcodes.SELECT, is_behind, left, right) for left, right in pairs]
        return inline_call(into.add(opcodes.CALL, *first, *second, computations=[computation]))

    scalars = [Shape.scalar(p.shape.element_type) for p in computation.parameters]
    return new_computation(write, computation.name, scalars, body)
