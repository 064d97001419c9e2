"""Op generators for custom calls of XLA's own markers, which return their operand."""

from __future__ import annotations

from xlapy.opcodes.custom import CUSTOM_CALL, CustomCallAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator

_MARKS = ("Sharding", "MoveToHost", "MoveToDevice", "LayoutConstraint")


def mark(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda _: True, lambda _: True)
    attributes = CustomCallAttributes.make(custom_call_target=generator.choice(_MARKS))
    generator.add(CUSTOM_CALL, (operand,), attributes, shape=operand.shape)


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = ((CUSTOM_CALL, mark),)
