"""Definitions of sort and topk."""

from __future__ import annotations

from functools import cmp_to_key

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.reference.core import Function, Value, defines
from xlapy.reference.elements import indices, number, type_of, with_values
from xlapy.reference.elementwise import total_order


@defines(opcodes.SORT)
def sort(instruction: Instruction, comparator: Function, *operands: Array) -> Value:
    """Reorders all operands in the same way along a dimension, so that no element precedes the one before it.

    The order is stable, whether it must be or not. comparator(a0, b0, a1, b1, ...) is whether element a precedes b.
    """
    dimension = instruction.attributes_as(SortAttributes).dimension
    results = [np.array(operand) for operand in operands]
    for base in indices([1 if d == dimension else size for d, size in enumerate(operands[0].shape)]):
        line = [with_values(base, [dimension], [i]) for i in range(operands[0].shape[dimension])]
        elements = [tuple(np.asarray(operand[place]) for operand in operands) for place in line]

        def before(a: int, b: int, elements: list[tuple[Array, ...]] = elements) -> int:
            pairs = (x for pair in zip(elements[a], elements[b], strict=True) for x in pair)
            return -1 if number(comparator(*pairs)) else 0

        for place, source in zip(line, sorted(range(len(line)), key=cmp_to_key(before)), strict=True):
            for result, element in zip(results, elements[source], strict=True):
                result[place] = element
    return tuple(results) if len(results) > 1 else results[0]


@defines(opcodes.TOPK)
def topk(instruction: Instruction, operand: Array) -> Value:
    """The k largest (or smallest) elements of each row in order, and their positions; ties keep their order.

    Floats are in total order, in which NaN is the largest number.
    """
    attributes = instruction.attributes_as(TopKAttributes)
    key = total_order if type_of(operand).is_floating else number
    values, positions = (np.empty(shape.dimensions, shape.dtype) for shape in instruction.shape.tuple_shapes)
    for row in indices(operand.shape[:-1]):
        keys = [key(operand[(*row, i)]) * (-1 if attributes.largest else 1) for i in range(operand.shape[-1])]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        for k, source in enumerate(order[: attributes.k]):
            values[(*row, k)], positions[(*row, k)] = operand[(*row, source)], source
    return values, positions
