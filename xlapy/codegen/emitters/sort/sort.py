"""Chooses the algorithm of a sort: radix sort if the comparator compares integer keys and slices are long, else merge
sort."""

from __future__ import annotations

from xlapy.codegen.emitters.sort.merge_sort import MergeSort
from xlapy.codegen.emitters.sort.radix_sort import RadixSort
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.lower.sort_keys import sort_key

RADIX_MIN_LENGTH = 128
"""The smallest length of a slice that uses radix sort. Shorter slices use merge sort, because building histograms costs
more than it saves."""

RADIX_MAX_LENGTH = 1 << 31
"""The length from which on a slice uses merge sort, because the entries of histograms have 32 bits."""


def sort_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Returns the kernel that sorts the arrays in place. Buffers: the arrays, then a spare buffer for each."""
    key = sort_key(instruction)
    length = instruction.operands[0].shape.dimensions[instruction.dimension]
    if key is None or not RADIX_MIN_LENGTH <= length < RADIX_MAX_LENGTH:
        return MergeSort(instruction, target).build()
    return RadixSort(instruction, target, key).build()
