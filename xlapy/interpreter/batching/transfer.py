"""Transfers in a batch: copies pass values on; other transfers run for one batch element after the other."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.COPY_DONE, opcodes.COPY_START)(apply_ordinary_rule)
BATCHING_RULES.refuse(
    "each batch element is transferred separately, in order",
    opcodes.INFEED,
    opcodes.OUTFEED,
    opcodes.RECV,
    opcodes.RECV_DONE,
    opcodes.SEND,
    opcodes.SEND_DONE,
)
