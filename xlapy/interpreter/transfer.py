"""Transfers between devices and the host: not evaluated yet; each says what it waits for.

Owns: nothing but these refusals. Must not know: text, builders.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.core import RULES

RULES.refuse(
    "needs queues and channels between devices",
    ops.COPY_DONE,
    ops.COPY_START,
    ops.INFEED,
    ops.OUTFEED,
    ops.RECV,
    ops.RECV_DONE,
    ops.SEND,
    ops.SEND_DONE,
)
