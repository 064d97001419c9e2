"""Op generators for transfers of a device to itself: asynchronous copies."""

from __future__ import annotations

from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.transfer import COPY_DONE, COPY_START
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator


def copy(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda _: True, lambda _: True)
    started = generator.add(COPY_START, (operand,))
    generator.remove_last_from_pool()
    generator.add(COPY_DONE, (started,))


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = ((COPY_START, copy), (COPY_DONE, copy))
