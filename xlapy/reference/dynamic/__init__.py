"""Definitions on dynamic dimensions: an operation on f32[<=5] of size 3 computes what it computes on f32[3].

Elements beyond a size are unspecified, with one exception: operations that only move or map elements do so within the
whole array of the bounds, and set-dimension-size moves none, so that elements reappear when the size grows. Importing
the package registers the definitions.
"""

from xlapy.reference.dynamic import elementwise, indexing, movement, reduction
from xlapy.reference.dynamic.core import at_actual_sizes

__all__ = ["at_actual_sizes", "elementwise", "indexing", "movement", "reduction"]
