"""Makers of what one device transfers to itself: copies that start and end apart."""

from __future__ import annotations

from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.transfer import COPY_DONE, COPY_START
from xlapy.testing.random_modules.draft import Draft, Maker


def copy(draft: Draft) -> None:
    operand = draft.array(lambda _: True, lambda _: True)
    started = draft.add(COPY_START, (operand,))
    draft.set_aside()
    draft.add(COPY_DONE, (started,))


MAKERS: tuple[tuple[OpDef, Maker], ...] = ((COPY_START, copy), (COPY_DONE, copy))
