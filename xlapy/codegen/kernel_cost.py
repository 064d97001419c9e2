"""Estimates the cycles that one core needs for the kernels of a region, to compare strategies.

The estimates count vector operations: one cycle each, whether they compute, load or store. They are coarse, and only
their order for one region matters. Does not depend on a strategy.
"""

from __future__ import annotations

from typing import Final

from xlapy.analysis.cost import element_cost
from xlapy.codegen.iteration_domain import first_array_shape
from xlapy.codegen.region import Region

IRREGULAR_LOAD_CYCLES: Final = 1.25
"""The cycles of a load of one element that a vector cannot load together with its neighbors."""

INTERLEAVED_LOAD_OPERATIONS: Final = 1
"""The vector operations per vector that is loaded contiguously and (de)interleaved."""

TRANSPOSED_LOAD_OPERATIONS: Final = 2
"""The vector operations per vector that is transposed into scratch memory and loaded from there."""

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
    return elements * operations_per_element(region) / lanes
