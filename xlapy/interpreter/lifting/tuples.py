"""Tuples of values that carry instances, or not: each element does so by itself.

Must not know: what the elements are.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.lifting.core import LIFTED, ordinary

LIFTED.rule(ops.GET_TUPLE_ELEMENT, ops.TUPLE)(ordinary)
