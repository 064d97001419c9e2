"""Rewrites of operations to simpler ones, family by family. Importing it registers those of all families."""

from xlapy.passes.algebra import (
    contraction,
    conversion,
    elementwise,
    general,
    indexing,
    movement,
    movement_of_broadcasts,
    reduction,
    sorting,
    tuples,
)
from xlapy.passes.algebra.core import REWRITES, RewriteRule

__all__ = [
    "REWRITES",
    "RewriteRule",
    "contraction",
    "conversion",
    "elementwise",
    "general",
    "indexing",
    "movement",
    "movement_of_broadcasts",
    "reduction",
    "sorting",
    "tuples",
]
