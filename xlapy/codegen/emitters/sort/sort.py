"""Chooses the algorithm of a sort: radix sort if the comparator compares integer keys and slices are long, else merge
sort. If there are few slices, blocks of each are sorted by radix sort and merged."""

from __future__ import annotations

import math

from xlapy.codegen.emitters.sort.merge_sort import merge_sort
from xlapy.codegen.emitters.sort.merging import merged_blocks
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

RADIX_PARALLEL_LENGTH = 1 << 16
"""The smallest length of slices whose blocks are tasks, and are then merged: with two processors, 131,072 f32 take 0.8x
of the time, a million 0.6x, and 32,768 the same."""

RADIX_MIN_BLOCK = 1 << 15
"""The smallest length of a block of a slice."""


def sort_kernels(instruction: Instruction, target: Target) -> SortKernels:
    """Returns the kernels that sort the arrays in place."""
    key = sort_key(instruction)
    dimensions = instruction.operands[0].shape.dimensions
    length = dimensions[instruction.dimension]
    if key is None or not RADIX_MIN_LENGTH <= length < RADIX_MAX_LENGTH:
        return merge_sort(instruction, target)
    blocks = 1
    if length >= RADIX_PARALLEL_LENGTH and math.prod(dimensions) < MAX_PARALLEL_SLICES * length:
        blocks = min(1 << (target.processors - 1).bit_length(), length // RADIX_MIN_BLOCK)
    sorting = RadixSort(instruction, target, key, blocks)
    return merged_blocks(instruction, target, sorting.build(), sorting.block, key)
