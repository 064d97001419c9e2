"""Instructions that meet dynamic dimensions, by family of ops.

Importing it registers the rules of all families.
"""

from xlapy.interpreter.dynamic import (
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

__all__ = [
    "collectives",
    "contraction",
    "control",
    "convolution",
    "custom",
    "elementwise",
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
