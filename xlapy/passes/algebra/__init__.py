"""Algebraic rewrites of operations to simpler ones, one module for each family of operations.

Importing the package registers the rules of all families in `REWRITES`. XLA's counterpart is AlgebraicSimplifier.
"""

from xlapy.passes.algebra import (
    contraction,
    conversion,
    elementwise,
    general,
    indexing,
    integer_division,
    movement,
    movement_of_broadcasts,
    predicates,
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
    "integer_division",
    "movement",
    "movement_of_broadcasts",
    "predicates",
    "reduction",
    "sorting",
    "tuples",
]
