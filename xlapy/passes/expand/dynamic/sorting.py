"""Sorting on dynamic dimensions: of the elements that are there, before all others.

Does not depend on how elements are ordered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.passes.expand.blocks import new_computation
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, Size, Sized, SizeWriter, Value, array_of, sizes_of
from xlapy.passes.rewrite import Writer


@DYNAMIC_EXPANSIONS.rule(opcodes.SORT)
def sort(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A flag that says which elements are there is sorted along with them, and decides first."""
    sizes, arrays = write.smallest(values), [array_of(value) for value in values]
    dimension, bounds = instruction.attributes_as(SortAttributes).dimension, arrays[0].shape.dimensions
    along: list[Size] = [size if d == dimension else bounds[d] for d, size in enumerate(sizes)]
    mask = write.inside(bounds, along)
    if mask is None:
        result = write.like(instruction, arrays)
    else:
        result = write.add(
            opcodes.SORT,
            *[*arrays, mask],
            attributes=instruction.attributes,
            computations=[_those_there_first(write, instruction.to_apply)],
        )
    if not result.shape.is_tuple:
        return Sized(result, sizes)
    sorted_ = [Sized(write.get_tuple_element(result, number), sizes) for number in range(len(arrays))]
    return sorted_[0] if len(sorted_) == 1 else tuple(sorted_)


def _those_there_first(write: SizeWriter, comparator: Computation) -> Computation:
    """The comparator on values with flags: a value that is there comes before one that is not."""
    shapes = [parameter.shape for parameter in comparator.parameters]
    flag = Shape.scalar(PRED)

    def less(into: Writer, given: list[Instruction]) -> Instruction:
        *operands, left, right = given
        ordered = edit.inline_call(into.add(opcodes.CALL, *operands, computations=[comparator]))
        differ = into.add(opcodes.XOR, left, right)
        return into.add(opcodes.SELECT, differ, left, ordered)

    return new_computation(write, "those_there_first", [*shapes, flag, flag], less)


@DYNAMIC_EXPANSIONS.rule(opcodes.TOPK)
def topk(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Of fewer than k elements all are taken; the k places of the result are declared static, the last are padding."""
    array, sizes = array_of(values[0]), sizes_of(values[0])
    bounds = array.shape.dimensions
    t = array.shape.element_type
    attributes = instruction.attributes_as(TopKAttributes)
    last = _last_value(t.bits, t.is_floating, t.is_signed, largest=attributes.largest)
    along = [*bounds[:-1], sizes[-1]]
    result = write.like(instruction, [write.masked(array, along, write.scalar(last, t))])
    taken = (*sizes[:-1], write.smaller(sizes[-1], attributes.k))
    return tuple(Sized(write.zeroed(write.get_tuple_element(result, number), taken), taken) for number in range(2))


def _last_value(bits: int, is_floating: bool, is_signed: bool, *, largest: bool) -> float:
    """A value that comes behind all others, or among equals: those at lower indices come first."""
    if is_floating:
        return -math.inf if largest else math.nan
    if is_signed:
        return -(2 ** (bits - 1)) if largest else 2 ** (bits - 1) - 1
    return 0 if largest else 2**bits - 1
