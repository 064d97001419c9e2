"""Evaluation of computations on batches, by op family.

Importing the package registers the batching rules of all families.
"""

from xlapy.interpreter.batching import (
    collectives,
    contraction,
    control,
    convolution,
    custom,
    elementwise,
    indexing,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    sorting,
    sources,
    transfer,
    tuples,
)
from xlapy.interpreter.batching.core import BATCHING_RULES, evaluate_batch

__all__ = [
    "BATCHING_RULES",
    "collectives",
    "contraction",
    "control",
    "convolution",
    "custom",
    "elementwise",
    "evaluate_batch",
    "indexing",
    "linalg",
    "movement",
    "normalization",
    "random",
    "reduction",
    "sorting",
    "sources",
    "transfer",
    "tuples",
]
