"""Generators of what one device transfers to itself: copies that start and end apart."""

from __future__ import annotations

from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.transfer import COPY_DONE, COPY_START
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator


def copy(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda _: True, lambda _: True)
    started = generator.add(COPY_START, (operand,))
    generator.set_aside()
    generator.add(COPY_DONE, (started,))


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = ((COPY_START, copy), (COPY_DONE, copy))
