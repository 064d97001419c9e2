"""Placements of arrays that a loop reads slice by slice, as the steps of `jax.lax.scan` read their inputs.

If such an array is split along the sliced dimension, the device that holds a slice has to send it to all others, in
each iteration. If the loop does not change the array, devices may gather it once, before the loop, and slice it without
communication. The placement that takes less time in all iterations is chosen.

Responsible for that choice. Does not depend on how loops are partitioned.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.analysis.cost import array_bytes
from xlapy.analysis.counted_loops import exact_trip_count
from xlapy.analysis.loops import TupleLoop
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.array_sharding import ArraySharding, Tiling, tile_count
from xlapy.spmd.time_model import all_reduce_seconds, resharding_seconds


def loop_placements(
    loop: Instruction, requested: Sequence[ArraySharding], manual_axes: tuple[Tiling, ...]
) -> list[ArraySharding]:
    """Returns the placements of a loop's state: those requested, some of them without the tilings of sliced dimensions.

    requested: one placement for each leaf of the state.
    """
    view, trips = TupleLoop.of(loop), exact_trip_count(loop)
    if view is None or trips is None or len(requested) != len(loop.shape.tuple_shapes):
        return list(requested)
    found = list(requested)
    for number, placement in enumerate(requested):
        if any(placement.tilings) and view.is_invariant(number):
            found[number] = _chosen(view, number, placement, trips, manual_axes)
    return found


def _chosen(
    view: TupleLoop, number: int, placement: ArraySharding, trips: int, manual_axes: tuple[Tiling, ...]
) -> ArraySharding:
    reads = [each for each in view.element_reads(view.body) if each.tuple_index == number]
    users = [user for read in reads for user in read.users if user is not view.body.root_instruction]
    whole, seconds = placement, 0.0
    for user in users:
        if user.op is not opcodes.DYNAMIC_SLICE or user.operands[0] not in reads:
            return placement
        for dimension, tiling in enumerate(placement.tilings):
            if tiling is not None and user.shape.dimensions[dimension] < user.operands[0].shape.dimensions[dimension]:
                whole = whole.with_tiling(dimension, None)
                seconds += all_reduce_seconds(array_bytes(user.shape), tile_count(tiling))
    shape = view.loop.shape.tuple_shapes[number]
    return whole if resharding_seconds(shape, placement, whole, manual_axes) < trips * seconds else placement
