"""Regions that a program computes by hand on each device, between the custom calls that lead into them and out.

Owns: which axes of the devices are by hand where, how arrays lie on both sides. Must not know: what is computed there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.spmd.splits import Placement, Split, along_axes, axes_by_hand, part_of, placement_of, whole

TO_PART, TO_WHOLE = "SPMDFullToShardShape", "SPMDShardToFullShape"

Axes = tuple[Split, ...]
"""The place of each device along some axes."""


def joined(several: Iterable[Axes]) -> Axes:
    """All of the axes, each once."""
    return tuple(dict.fromkeys(axis for axes in several for axis in axes))


def without(axes: Axes, others: Axes) -> Axes:
    return tuple([axis for axis in axes if axis not in others])


def axes_of(instruction: Instruction, devices: int) -> Axes:
    """The axes by hand of the region that a custom call leads into or out of."""
    sides = instruction.operands[0].sharding, instruction.sharding
    outside, inside = sides if instruction.custom_call_target == TO_PART else sides[::-1]
    mesh = outside.named.mesh if outside is not None and outside.named is not None else None
    return axes_by_hand(inside, mesh, devices)


def axes_ahead(computation: Computation, devices: int) -> dict[Instruction, Axes]:
    """The axes by hand of the regions that a value is used in: where it is not known by what it is made of."""
    ahead: dict[Instruction, Axes] = defaultdict(tuple)
    for instruction in reversed(post_order(computation)):
        axes = ahead[instruction]
        target = instruction.custom_call_target if instruction.op is opcodes.CUSTOM_CALL else ""
        if target == TO_PART:
            axes = without(axes, axes_of(instruction, devices))
        elif target == TO_WHOLE:
            axes = joined([axes, axes_of(instruction, devices)])
        for operand in instruction.operands:
            ahead[operand] = joined([ahead[operand], axes])
    return ahead


def both_sides(instruction: Instruction, devices: int) -> tuple[Placement, Placement]:
    """Where the array of a custom call lies outside of the region, and inside of it; cut along the axes by hand alone
    if sizes do not allow more. `UnsupportedError` if parts are not of the sizes that the region has."""
    given = instruction.operands[0]
    out, part = (given, instruction) if instruction.custom_call_target == TO_PART else (instruction, given)
    outside = placement_of(out.sharding, out.shape, devices)
    inside = placement_of(part.sharding, part.shape, devices)
    if not _fit(out.shape, outside, part.shape, inside):
        by_hand = out.sharding and along_axes(out.sharding, part.sharding)
        outside, inside = placement_of(by_hand, out.shape, devices), whole(part.shape)
    if not _fit(out.shape, outside, part.shape, inside):
        raise UnsupportedError(
            f"{instruction.name} ({instruction.custom_call_target}): a device has "
            f"{part_of(out.shape, outside).to_text(layout=False)}, "
            f"the region by hand has {part.shape.to_text(layout=False)}"
        )
    return outside, inside


def _fit(out: Shape, outside: Placement, part: Shape, inside: Placement) -> bool:
    return part_of(out, outside).compatible(part_of(part, inside))
