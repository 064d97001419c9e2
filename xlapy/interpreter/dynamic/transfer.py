"""Transfers of arrays of dynamic dimensions: values travel with their sizes.

Must not know: queues and channels.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.core import DYNAMIC
from xlapy.interpreter.dynamic.core import ordinary

DYNAMIC.rule(ops.COPY_DONE, ops.COPY_START, ops.INFEED, ops.OUTFEED, ops.RECV, ops.RECV_DONE, ops.SEND, ops.SEND_DONE)(
    ordinary
)
