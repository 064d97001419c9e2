"""Reductions of dimensions that do not divide evenly into tiles.

The last tiles of such a dimension are filled up with elements of any value, NaN included. Before a dimension is
reduced or contracted, these elements are replaced by the identity of the reduction.

Responsible for that replacement. Does not depend on which dimensions are split (`strategy.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.array_sharding import ArraySharding, divides_evenly, uneven_dimensions
from xlapy.spmd.halo.exchange import HaloExchange
from xlapy.spmd.local_operations import LocalOperation
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.strategy import Strategy
from xlapy.spmd.tiling import tile_count


def with_identities(local: LocalOperation, strategy: Strategy) -> LocalOperation:
    """Returns a local operation whose operands have the identity in the elements that fill up reduced dimensions."""
    operands = list(local.operands)
    for factor, tiling in strategy.factor_tilings.items():
        for number, dimension in enumerate(factor.operands if factor.is_reduction else ()):
            if dimension is None or number in factor.exchanged:
                continue
            shape, sharding = local.instruction.operands[number].shape, local.operand_shardings[number]
            if not divides_evenly(shape.dimensions[dimension], tiling):
                identity = _identity(local, number)
                operands[number] = with_filling(
                    local.resharder, operands[number], shape, sharding, [dimension], identity
                )
    return replace(local, operands=operands)


def with_filling(
    resharder: Resharder, tile: Instruction, shape: Shape, sharding: ArraySharding, dimensions: Sequence[int],
    value: Instruction,
) -> Instruction:  # fmt: skip
    """Returns a tile of an array with a value in the elements that fill up some dimensions.

    shape: that of the whole array. value: a scalar.
    """
    for dimension in set(uneven_dimensions(shape, sharding)).intersection(dimensions):
        tiling = sharding.tilings[dimension]
        assert tiling is not None
        starts = np.arange(tile_count(tiling)) * tile.shape.dimensions[dimension]
        exchange = HaloExchange(resharder, dimension, tiling, ())
        tile = exchange.filled(tile, starts, shape.dimensions[dimension], value)
    return tile


def _identity(local: LocalOperation, number: int) -> Instruction:
    """Returns the identity of the reduction of an operand: the initial value of a reduce, zero of a contraction."""
    if local.instruction.op is opcodes.REDUCE:
        return local.operands[len(local.operands) // 2 + number]
    return local.resharder.write.scalar(0, local.operands[number].shape.element_type)
