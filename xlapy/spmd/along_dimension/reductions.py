"""Reductions of split dimensions whose reducer is not one operation: several operands, as in an argmax, or any reducer.

Each device reduces its tiles, and the results of the tiles are combined by the same reducer. Reducers are associative
and commutative, so the results are those of the whole; sums of floating-point numbers are rounded in another order.
Reductions by one operation are all-reduces (`strategy.py`).

Responsible for these reductions. Does not depend on how results are combined (`reducers.py`).
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.reducers import combine_tiles, elements_of, initial_values_may_repeat
from xlapy.spmd.array_sharding import ArraySharding, are_independent
from xlapy.spmd.partial_sums import is_reducible_in_parts
from xlapy.spmd.resharding import PartitionedArray


def reduce_split_dimensions(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a reduction of dimensions some of which are split."""
    instruction, write = split.instruction, split.resharder.write
    count = len(instruction.operands) // 2
    sharding = _sharding_of_operands(split)
    if sharding is None or (count == 1 and is_reducible_in_parts(instruction)):
        return None
    reducer = instruction.to_apply
    if not initial_values_may_repeat(reducer, instruction.operands[count:]):
        return None
    reduced = instruction.attributes_as(ReduceAttributes).dimensions
    tiles = [split.local(number, sharding) for number in range(count)]
    initial = [split.whole(number) for number in range(count, 2 * count)]
    for dimension in reduced:
        pairs = zip(tiles, initial, strict=True)
        tiles = [split.fill(tile, sharding, dimension, value) for tile, value in pairs]
    local = write.add(opcodes.REDUCE, *tiles, *initial, attributes=instruction.attributes, computations=[reducer])
    values = elements_of(write, local, count)
    for dimension in reduced:
        if sharding.tilings[dimension] is not None:
            values = combine_tiles(split.group(sharding, dimension), reducer, values, initial)
    kept = tuple([tiling for d, tiling in enumerate(sharding.tilings) if d not in reduced])
    return split.results(values, ArraySharding(kept))


def _sharding_of_operands(split: SplitOperation) -> ArraySharding | None:
    """Returns the sharding of the first operand with a split dimension that is reduced; None without one."""
    instruction = split.instruction
    reduced = instruction.attributes_as(ReduceAttributes).dimensions
    for operand in split.operands[: len(instruction.operands) // 2]:
        sharding = operand.sharding.with_partial_sums(None)
        is_split = any(sharding.tilings[dimension] is not None for dimension in reduced)
        if is_split and are_independent([*sharding.all_tilings, *split.manual_axes]):
            return sharding
    return None
