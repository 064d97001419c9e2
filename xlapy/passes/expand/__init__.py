"""Expansions: operations written by simpler ones, family by family. Importing it registers those of all families."""

from xlapy.passes.expand import (
    contraction,
    elementwise,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    sorting,
)
from xlapy.passes.expand.core import EXPANSIONS, ExpansionRule

__all__ = [
    "EXPANSIONS",
    "ExpansionRule",
    "contraction",
    "elementwise",
    "linalg",
    "movement",
    "normalization",
    "random",
    "reduction",
    "sorting",
]
