"""Cumulative reductions: windows that begin (or end) with the array, and grow (or shrink) by an element a position.

Example: f32[4] with a window of size 4 and padding 3_0 gives the sums of the first element, of the first two, ...

Owns: what is cumulative, and when each element is needed only once. Must not know: loops, kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.hlo.instruction import Instruction
from xlapy.lower.reduction import can_be_reordered
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.reduction import REDUCE_WINDOW, WindowAttributes


@dataclass(frozen=True, slots=True)
class Cumulative:
    """is_reverse: the windows are those from each element to the last. regroups: in any grouping."""

    axis: int
    is_reverse: bool
    regroups: bool


def cumulative(instruction: Instruction) -> Cumulative | None:
    """How an instruction is a cumulative reduction with a running value; None if it is none."""
    if instruction.op is not REDUCE_WINDOW:
        return None
    window = instruction.attributes_as(WindowAttributes).window
    sizes = instruction.operands[0].shape.dimensions
    long = [d for d, dimension in enumerate(window.dimensions) if dimension != WindowDimension(1)]
    if len(long) != 1 or not instruction.operands[0].shape.size:
        return None
    (axis,) = long
    dimension, size = window.dimensions[axis], sizes[axis]
    reach = dimension.size - 1
    ways = (WindowDimension(reach + 1, padding_low=reach), WindowDimension(reach + 1, padding_high=reach))
    if dimension.size < size or dimension not in ways:
        return None
    is_reverse = dimension == ways[1]
    groups = can_be_reordered(instruction.to_apply)
    # a value that runs backwards takes each window's elements in the wrong order
    return None if is_reverse and not groups else Cumulative(axis, is_reverse, groups)
