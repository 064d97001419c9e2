"""Sorting on dynamic dimensions: the elements within the actual size are sorted and come before the padding.

Does not depend on how elements are ordered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.passes.expand.blocks import new_computation
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, Size, Sized, SizeWriter, Value, array_of, sizes_of
from xlapy.passes.rewrite import Writer


@DYNAMIC_EXPANSIONS.rule(opcodes.SORT)
def sort(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Sorts with an additional flag operand, true within the actual sizes, which is compared first."""
    sizes, arrays = write.smallest_sizes(values), [array_of(value) for value in values]
    dimension, bounds = instruction.attributes_as(SortAttributes).dimension, arrays[0].shape.dimensions
    along: list[Size] = [size if d == dimension else bounds[d] for d, size in enumerate(sizes)]
    mask = write.mask_within(bounds, along)
    if mask is None:
        result = write.like(instruction, arrays)
    else:
        result = write.add(
            opcodes.SORT,
            *[*arrays, mask],
            attributes=instruction.attributes,
            computations=[_flagged_comparator(write, instruction.to_apply)],
        )
    if not result.shape.is_tuple:
        return Sized(result, sizes)
    sorted_ = [Sized(write.get_tuple_element(result, number), sizes) for number in range(len(arrays))]
    return sorted_[0] if len(sorted_) == 1 else tuple(sorted_)


def _flagged_comparator(write: SizeWriter, comparator: Computation) -> Computation:
    """Extends a comparator by two flags: a value whose flag is set comes before one whose flag is not set."""
    shapes = [parameter.shape for parameter in comparator.parameters]
    flag = Shape.scalar(PRED)

    def less(into: Writer, given: list[Instruction]) -> Instruction:
        *operands, left, right = given
        ordered = inline_call(into.add(opcodes.CALL, *operands, computations=[comparator]))
        differ = into.add(opcodes.XOR, left, right)
        return into.add(opcodes.SELECT, differ, left, ordered)

    return new_computation(write, "flagged_comparator", [*shapes, flag, flag], less)


@DYNAMIC_EXPANSIONS.rule(opcodes.TOPK)
def topk(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """If there are fewer than k elements, all are returned. The result has the static size k; the rest is padding."""
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
    """Returns a value that is ordered after all others or equal to the last; equal values are ordered by index."""
    if is_floating:
        return -math.inf if largest else math.nan
    if is_signed:
        return -(2 ** (bits - 1)) if largest else 2 ** (bits - 1) - 1
    return 0 if largest else 2**bits - 1
