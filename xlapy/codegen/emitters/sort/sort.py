"""Chooses the algorithm of a sort: radix sort if the comparator compares integer keys and slices are long, else merge
sort."""

from __future__ import annotations

import math

from xlapy.codegen.emitters.sort.merge_sort import merge_sort
from xlapy.codegen.emitters.sort.parallel_radix_sort import parallel_radix_sort
from xlapy.codegen.emitters.sort.radix_sort import RadixSort
from xlapy.codegen.emitters.sort.slices import MAX_PARALLEL_SLICES, SortKernels
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.lower.sort_keys import sort_key

RADIX_MIN_LENGTH = 128
"""The smallest length of a slice that uses radix sort. Shorter slices use merge sort, because building histograms costs
more than it saves."""

RADIX_MAX_LENGTH = 1 << 31
"""The length from which on a slice uses merge sort, because the entries of histograms have 32 bits."""

RADIX_PARALLEL_LENGTH = 1 << 20
"""The smallest length of slices whose blocks are tasks. For a million f32, two threads take 0.7x of the time of one by
itself, for 64 thousand 1.6x, because blocks move elements to the same cache lines."""


def sort_kernels(instruction: Instruction, target: Target) -> SortKernels:
    """Returns the kernels that sort the arrays in place."""
    key = sort_key(instruction)
    dimensions = instruction.operands[0].shape.dimensions
    length = dimensions[instruction.dimension]
    if key is None or not RADIX_MIN_LENGTH <= length < RADIX_MAX_LENGTH:
        return merge_sort(instruction, target)
    is_parallel = length >= RADIX_PARALLEL_LENGTH and math.prod(dimensions) < MAX_PARALLEL_SLICES * length
    if is_parallel and target.processors > 1:
        return parallel_radix_sort(instruction, target, key)
    return RadixSort(instruction, target, key).build()
