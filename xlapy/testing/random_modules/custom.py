"""Makers of custom calls of XLA's own marks, which return their operand."""

from __future__ import annotations

from xlapy.opcodes.custom import CUSTOM_CALL, CustomCallAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.draft import Draft, Maker

_MARKS = ("Sharding", "MoveToHost", "MoveToDevice", "LayoutConstraint")


def mark(draft: Draft) -> None:
    operand = draft.array(lambda _: True, lambda _: True)
    attributes = CustomCallAttributes.make(custom_call_target=draft.choice(_MARKS))
    draft.add(CUSTOM_CALL, (operand,), attributes, shape=operand.shape)


MAKERS: tuple[tuple[OpDef, Maker], ...] = ((CUSTOM_CALL, mark),)
