"""The rules of operations along a split dimension.

They are asked before the strategy of an operation is chosen (`strategy.py`), because such an operation has no factor
for the split dimension. Responsible for which operations have a rule. Does not depend on the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy import opcodes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.along_dimension.cumulative import cumulative_along_split_dimension
from xlapy.spmd.along_dimension.fourier import fft_along_split_dimensions
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.reductions import reduce_split_dimensions
from xlapy.spmd.along_dimension.sorting import sort_along_split_dimension
from xlapy.spmd.along_dimension.top_k import top_k_along_split_dimension
from xlapy.spmd.resharding import PartitionedArray

SplitRule = Callable[[SplitOperation], "list[PartitionedArray] | None"]
"""Writes an operation along a split dimension; returns its results, or None if the rule does not apply."""

SPLIT_RULES: dict[OpDef, SplitRule] = {
    opcodes.FFT: fft_along_split_dimensions,
    opcodes.REDUCE: reduce_split_dimensions,
    opcodes.REDUCE_WINDOW: cumulative_along_split_dimension,
    opcodes.SORT: sort_along_split_dimension,
    opcodes.TOPK: top_k_along_split_dimension,
}
