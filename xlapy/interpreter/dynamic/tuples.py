"""Tuples of arrays of dynamic dimensions: the elements are handed on.

Must not know: what the elements are.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC
from xlapy.interpreter.dynamic.core import ordinary

DYNAMIC.rule(opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE)(ordinary)
