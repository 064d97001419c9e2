"""Evaluation of computations for many independent instances at once, by family of ops.

Importing it registers the lifted rules of all families.
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
