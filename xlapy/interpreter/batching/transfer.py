"""Transfers in a scalar computation: copies hand values on; what leaves or enters the device does so in its turn.

Must not know: what is transferred.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.COPY_DONE, opcodes.COPY_START)(apply_ordinary_rule)
BATCHING_RULES.refuse(
    "each instance has its turn with the host or another device",
    opcodes.INFEED,
    opcodes.OUTFEED,
    opcodes.RECV,
    opcodes.RECV_DONE,
    opcodes.SEND,
    opcodes.SEND_DONE,
)
