"""The time of the arithmetic of an instruction, from the rates of its operations.

A machine may give the rate of single opcodes, `DeviceRates.elements`, for example of `tanh` or `sort`. All other
operations count by their numbers of operations and of transcendental functions. The instructions inside a fusion count
one by one.

Responsible for that choice, and for the size on which a rate depends. Does not depend on memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost import Cost
from xlapy.analysis.simulation.machine import DeviceRates
from xlapy.base.element_types import F32
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.sorting import SortAttributes

_SORTED_SHARE: Final = 0.2
"""The part of the time of a sort's first operand that each further one adds: it is permuted once."""

_CALLING = frozenset({opcodes.FUSION, opcodes.CALL, opcodes.WHILE})


def arithmetic_seconds(
    instruction: Instruction, cost: Cost, costs: Mapping[Instruction, Cost], rates: DeviceRates, share: float = 1.0
) -> float:
    """Returns the seconds of all operations of an instruction but matrix products.

    costs: those of the instructions inside of a fusion. share: the devices that share a processor and its caches.
    """
    flops, transcendentals = cost.flops - cost.products, cost.transcendentals
    functions = moved = 0.0
    chains: dict[Instruction, int] = {}
    for one in _operations(instruction):
        found = cost if one is instruction else costs.get(one, Cost())
        is_function = found.transcendentals > 0 or one.op is opcodes.DIVIDE
        chains[one] = max((chains.get(operand, 0) for operand in one.operands), default=0) + is_function
        curve = rates.elements.get(one.op.name)
        if is_cumulative(one):
            flops -= found.flops - one.operands[0].shape.size
        elif one.op is opcodes.REDUCE_WINDOW:
            continue
        elif _is_rotation(one):
            flops -= 2 * found.flops
        if curve is None:
            continue
        count, size = _count_and_size(one)
        seconds = count / curve.at(max(1.0, size if one.op is opcodes.SORT else size * share))
        functions, moved = (functions + seconds, moved) if is_function else (functions, moved + seconds)
        flops -= found.flops - found.products
        transcendentals -= found.transcendentals
    functions += max(0, transcendentals) / rates.transcendentals
    functions /= rates.chains.at(max(1, *chains.values(), 1))
    return functions + moved + max(0, flops) / rates.elementwise


def _is_rotation(instruction: Instruction) -> bool:
    """Whether an `or` joins the two parts of a rotation, which is one operation of a processor."""
    if instruction.op is not opcodes.OR:
        return False
    left, right = instruction.operands
    return {left.op, right.op} == {opcodes.SHIFT_LEFT, opcodes.SHIFT_RIGHT_LOGICAL} and (
        left.operands[0] is right.operands[0]
    )


def _operations(instruction: Instruction) -> Iterator[Instruction]:
    """Yields an instruction, or those inside of it that are computed as often as it is."""
    if instruction.op not in _CALLING:
        yield instruction
        return
    for computation in instruction.computations:
        yield from _inside(computation)


def _inside(computation: Computation) -> Iterator[Instruction]:
    for one in computation:
        yield from _operations(one)


def _count_and_size(instruction: Instruction) -> tuple[float, float]:
    """Returns the elements that an operation goes through, in units of four bytes, and the size on which its rate
    depends: the length of rows for sorts, the elements of an index for gathers and scatters, else all elements."""
    attributes = instruction.attributes
    if isinstance(attributes, SortAttributes):
        operand = instruction.operands[0].shape
        others = sum(map(_words, instruction.operands[1:]))
        return _words(instruction.operands[0]) + _SORTED_SHARE * others, operand.dimensions[attributes.dimension]
    if isinstance(attributes, GatherAttributes):
        return _words(instruction), index_elements(instruction)
    if isinstance(attributes, ScatterAttributes):
        count = len(instruction.operands) // 2
        return sum(map(_words, instruction.operands[count + 1 :])), index_elements(instruction)
    words = _words(instruction)
    return words, words


def index_elements(instruction: Instruction) -> int:
    """Returns how many elements each index of a gather or scatter stands for."""
    attributes = instruction.attributes
    if isinstance(attributes, ScatterAttributes):
        updates = instruction.operands[len(instruction.operands) // 2 + 1]
        return prod(updates.shape.dimensions[d] for d in attributes.update_window_dims)
    return prod(instruction.attributes_as(GatherAttributes).slice_sizes)


def _words(instruction: Instruction) -> float:
    """The elements of all arrays of a value; elements of more than four bytes count as several."""
    return sum(
        leaf.size * max(1.0, leaf.element_type.byte_size / F32.byte_size)
        for _, leaf in instruction.shape.leaves()
        if leaf.is_array
    )


def is_cumulative(instruction: Instruction) -> bool:
    """Whether a reduce-window computes running values: its windows end (or begin) at each element of one dimension, and
    have all elements before (or after)."""
    if instruction.op is not opcodes.REDUCE_WINDOW:
        return False
    window = instruction.attributes_as(WindowAttributes).window
    pairs = zip(window.dimensions, instruction.operands[0].shape.dimensions, strict=True)
    long = [(dimension, size) for dimension, size in pairs if dimension != WindowDimension(1)]
    if len(long) != 1:
        return False
    dimension, size = long[0]
    before, after = WindowDimension(size, padding_low=size - 1), WindowDimension(size, padding_high=size - 1)
    return dimension in (before, after)
