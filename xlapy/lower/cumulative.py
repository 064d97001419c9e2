"""Recognizes cumulative reductions: windows that grow (or shrink) by one element per position.

Example: `reduce-window` of f32[4] with a window of size 4 and padding 3_0 computes the reductions of the first element,
of the first two elements, and so on. Does not depend on loops or kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.hlo.instruction import Instruction
from xlapy.lower.reduction import can_be_reordered
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.reduction import REDUCE_WINDOW, WindowAttributes


@dataclass(frozen=True, slots=True)
class Cumulative:
    """A cumulative reduction along the dimension `axis`."""

    axis: int
    is_reverse: bool
    """Whether the windows reach from each element to the last one, not from the first one to each element."""
    can_be_reordered: bool
    """Whether the reducer allows any grouping of the elements."""


def cumulative(instruction: Instruction) -> Cumulative | None:
    """Describes an instruction as a cumulative reduction; returns None if it is not one."""
    if instruction.op is not REDUCE_WINDOW:
        return None
    window = instruction.attributes_as(WindowAttributes).window
    sizes = instruction.operands[0].shape.dimensions
    long = [d for d, dimension in enumerate(window.dimensions) if dimension != WindowDimension(1)]
    if len(long) != 1 or not instruction.operands[0].shape.size:
        return None
    (axis,) = long
    dimension, size = window.dimensions[axis], sizes[axis]
    padding = dimension.size - 1
    cumulative_windows = (
        WindowDimension(padding + 1, padding_low=padding),
        WindowDimension(padding + 1, padding_high=padding),
    )
    if dimension.size < size or dimension not in cumulative_windows:
        return None
    is_reverse = dimension == cumulative_windows[1]
    is_reorderable = can_be_reordered(instruction.to_apply)
    # a running value from the end combines the elements of each window in reverse order
    return None if is_reverse and not is_reorderable else Cumulative(axis, is_reverse, is_reorderable)
