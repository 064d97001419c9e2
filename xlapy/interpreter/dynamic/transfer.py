"""Transfers of arrays with dynamic dimensions: values are sent with their sizes."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(
    opcodes.COPY_DONE,
    opcodes.COPY_START,
    opcodes.INFEED,
    opcodes.OUTFEED,
    opcodes.RECV,
    opcodes.RECV_DONE,
    opcodes.SEND,
    opcodes.SEND_DONE,
)(apply_ordinary_rule)
