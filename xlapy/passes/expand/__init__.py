"""Expansions of operations into simpler ones, one module for each family of operations.

Importing the package registers the expansions of all families in `EXPANSIONS`.
"""

from xlapy.passes.expand import (
    collectives,
    contraction,
    control,
    elementwise,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    sorting,
    transfer,
)
from xlapy.passes.expand.core import EXPANSIONS, ExpansionRule

__all__ = [
    "EXPANSIONS",
    "ExpansionRule",
    "collectives",
    "contraction",
    "control",
    "elementwise",
    "linalg",
    "movement",
    "normalization",
    "random",
    "reduction",
    "sorting",
    "transfer",
]
