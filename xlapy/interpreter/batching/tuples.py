"""Tuples in a batch: each element is batched or not, independently of the others."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE)(apply_ordinary_rule)
