"""Estimates the cycles that one core needs for the kernels of a region, to compare strategies.

The figures are those of the reference machine (`analysis.cost.reference_machine`). An element costs what its operations
do (`element_cost`), and a load or a store. The estimates are coarse, and only their order for one region matters; those
of dots count the loads of each level of memory (`emitters.matmul.cost`). Does not depend on a strategy.
"""

from __future__ import annotations

import math
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost import element_cost
from xlapy.analysis.cost.reference_machine import OPERATION_CYCLES, TRANSPOSED_BYTES_PER_CYCLE
from xlapy.codegen.iteration_domain import first_array_shape
from xlapy.codegen.region import Region
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.reduction import WindowAttributes

SCAN_OPERATIONS: Final = 2
"""The times that a scan in vectors combines each element, compared to a loop that knows the value before it."""


def result_size(region: Region) -> int:
    """The number of elements of the first result."""
    return first_array_shape(region.root.shape).size


def operations_per_element(region: Region) -> int:
    """The vector operations for one element of the result, with a load or a store."""
    return 1 + sum(map(element_cost, region.instructions))


def vector_cycles(region: Region, elements: int, lanes: int) -> float:
    """The cycles of the computation of all instructions for some elements, in vectors."""
    return operation_cycles(elements * operations_per_element(region), lanes)


def operation_cycles(operations: float, lanes: int) -> float:
    """The cycles of operations on single elements, such as multiply-adds, in vectors."""
    return operations / lanes * OPERATION_CYCLES


def transposition_cycles(element_bytes: int, elements: int) -> float:
    """The cycles of transposing elements into scratch memory."""
    return elements * element_bytes / TRANSPOSED_BYTES_PER_CYCLE


def terms_of_largest_sum(region: Region) -> int:
    """Terms of the largest sum in the region; 1 if there is none."""
    terms = 1
    for instruction in region.instructions:
        if instruction.op is opcodes.REDUCE:
            results = max(1, first_array_shape(instruction.shape).size)
            terms = max(terms, instruction.operands[0].shape.size // results)
        elif instruction.op is opcodes.DOT:
            lhs = instruction.operands[0].shape
            terms = max(
                terms,
                math.prod(lhs.dimensions[d] for d in instruction.attributes_as(DotAttributes).lhs_contracting_dims),
            )
        elif instruction.op is opcodes.CONVOLUTION:
            terms = max(terms, instruction.operands[1].shape.size)
        elif instruction.op is opcodes.REDUCE_WINDOW:
            terms = max(terms, math.prod(instruction.attributes_as(WindowAttributes).window.sizes))
    return terms
