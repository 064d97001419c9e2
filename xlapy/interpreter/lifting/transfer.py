"""Transfers in a scalar computation: copies hand values on; what leaves or enters the device does so in its turn.

Must not know: what is transferred.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.lifting.core import LIFTED, ordinary

LIFTED.rule(ops.COPY_DONE, ops.COPY_START)(ordinary)
LIFTED.refuse(
    "each instance has its turn with the host or another device",
    ops.INFEED,
    ops.OUTFEED,
    ops.RECV,
    ops.RECV_DONE,
    ops.SEND,
    ops.SEND_DONE,
)
