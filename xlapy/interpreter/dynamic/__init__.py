"""Rules for instructions with dynamic dimensions, by op family.

Importing the package registers the rules of all families.
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
