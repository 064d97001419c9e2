"""Expansion of topk into a sort and slices."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.passes.expand.blocks import compare, iota, new_computation
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer


@EXPANSIONS.rule(opcodes.TOPK)
def topk(write: Writer, instruction: Instruction) -> Instruction:
    """The first k elements of each row and their indices, sorted stably by the total order."""
    (operand,), attributes = instruction.operands, instruction.attributes_as(TopKAttributes)
    last = operand.shape.rank - 1
    indices = iota(write, operand.shape.with_element_type(S32), last)
    direction = ComparisonDirection.GT if attributes.largest else ComparisonDirection.LT

    def precedes(into: Writer, given: list[Instruction]) -> Instruction:
        return compare(into, given[0], given[1], direction, total_order=True)

    scalars = [Shape.scalar(operand.shape.element_type)] * 2 + [Shape.scalar(S32)] * 2
    ordered = write.add(
        opcodes.SORT,
        operand,
        indices,
        attributes=SortAttributes.make(dimension=last, is_stable=True),
        computations=[new_computation(write, "precedes", scalars, precedes)],
    )
    limits = (*operand.shape.dimensions[:-1], attributes.k)
    pairs = enumerate(instruction.shape.tuple_shapes)
    starts = [0] * len(limits)
    return write.add(
        opcodes.TUPLE,
        *(write.slice(write.get_tuple_element(ordered, i), starts, limits, shape=shape) for i, shape in pairs),
    )
