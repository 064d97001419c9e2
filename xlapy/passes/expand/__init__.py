"""Expansions: operations written by simpler ones, family by family. Importing it registers those of all families."""

from xlapy.passes.expand import (
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
