"""The kernel of sort: by digits of keys where the comparator compares keys and lines are long, else by merging.

Owns: the choice. Must not know: either algorithm.
"""

from __future__ import annotations

from xlapy.codegen.emitters.sort.merge_sort import MergeSort
from xlapy.codegen.emitters.sort.radix_sort import RadixSort
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.lower.sort_keys import sort_key

LEAST_BY_DIGITS = 128
"""Elements of a line from which on digits are worth their counts."""

MOST_BY_DIGITS = 1 << 31
"""Counts have 32 bits."""


def sort_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Sorts the arrays where they are. Buffers: the arrays, then spare memory for each."""
    key = sort_key(instruction)
    length = instruction.operands[0].shape.dimensions[instruction.dimension]
    if key is None or not LEAST_BY_DIGITS <= length < MOST_BY_DIGITS:
        return MergeSort(instruction, target).build()
    return RadixSort(instruction, target, key).build()
