"""Reductions of dimensions that do not divide evenly into tiles.

The last tiles of such a dimension are filled up with elements of any value, NaN included. Before a dimension is
reduced or contracted, these elements are replaced by the identity of the reduction.

Responsible for that replacement. Does not depend on which dimensions are split (`strategy.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.array_sharding import divides_evenly
from xlapy.spmd.halo.exchange import HaloExchange
from xlapy.spmd.local_operations import LocalOperation
from xlapy.spmd.strategy import Strategy
from xlapy.spmd.tiling import tile_count


def with_identities(local: LocalOperation, strategy: Strategy) -> LocalOperation:
    """Returns a local operation whose operands have the identity in the elements that fill up reduced dimensions."""
    operands = list(local.operands)
    for factor, tiling in strategy.factor_tilings.items():
        for number, dimension in enumerate(factor.operands if factor.is_reduction else ()):
            if dimension is None or number in factor.exchanged:
                continue
            size = local.instruction.operands[number].shape.dimensions[dimension]
            if not divides_evenly(size, tiling):
                exchange = HaloExchange(local.resharder, dimension, tiling, ())
                own = operands[number].shape.dimensions[dimension]
                starts = np.arange(tile_count(tiling)) * own
                operands[number] = exchange.filled(operands[number], starts, size, _identity(local, number))
    return replace(local, operands=operands)


def _identity(local: LocalOperation, number: int) -> Instruction:
    """Returns the identity of the reduction of an operand: the initial value of a reduce, zero of a contraction."""
    if local.instruction.op is opcodes.REDUCE:
        return local.operands[len(local.operands) // 2 + number]
    return local.resharder.write.scalar(0, local.operands[number].shape.element_type)
