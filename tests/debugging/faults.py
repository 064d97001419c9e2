"""Faults that the tests of bisecting load: a pass that is wrong in one of several ways, and wrong code generation.

The name of a copy of this file selects how cpu is broken: `broken_pipeline.py`, `broken_code.py`, `deadly_code.py` or
`refused_code.py`.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.error_codes.compilation.compiling import LOWERED_INSTRUCTION
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.cpu import compiler
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.lower import elementwise
from xlapy.passes import register_pass


@register_pass
@dataclass(frozen=True)
class Tinker:
    """Changes the first subtraction in one of several ways, or does nothing."""

    name: ClassVar[str] = "tinker"
    how: str = "nothing"

    def run(self, module: Module) -> bool:
        for instruction in module.instructions():
            if instruction.op is opcodes.SUBTRACT:
                return self.tinker(instruction)
        return False

    def tinker(self, instruction: Instruction) -> bool:
        if self.how == "raise":
            raise InvalidArgumentError(LOWERED_INSTRUCTION, "no subtractions, please")
        if self.how == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.how == "hang":
            time.sleep(60)
        if self.how == "break":
            edit.set_shape(instruction, Shape.parse("f32[3]"))
        if self.how in ("change", "lie"):
            assert instruction.parent is not None
            edit.replace_uses(
                instruction, edit.create(instruction.parent, opcodes.ADD, instruction.operands, name="sum")
            )
            edit.remove(instruction)
        return self.how not in ("nothing", "lie")


def break_pipeline() -> None:
    """Adds `tinker` to cpu's simplifications. Its second run changes the result; the first finds no subtraction."""
    right = compiler.simplifications
    compiler.simplifications = lambda: [Tinker(how="change"), *right()]


def break_code() -> None:
    """Generates the code of an addition for subtractions."""
    rules = elementwise.FLOATS
    assert isinstance(rules, dict)
    rules[opcodes.SUBTRACT] = rules[opcodes.ADD]


def refuse_code() -> None:
    """Adds a last pass to cpu that copies the first argument by an asynchronous copy, which has no code then."""

    @dataclass(frozen=True)
    class Defer:
        name: ClassVar[str] = "defer"

        def run(self, module: Module) -> bool:
            entry = module.entry_computation
            argument, users = entry.parameters[0], list(entry.parameters[0].users)
            done = edit.create(
                entry, opcodes.COPY_DONE, [edit.create(entry, opcodes.COPY_START, [argument], name="later")]
            )
            for user in users:
                edit.replace_operand(user, user.operands.index(argument), done)
            return True

    right = compiler.passes
    compiler.passes = lambda *arguments: [*right(*arguments), Defer()]


def break_process() -> None:
    """Ends the process when the code of a subtraction is generated."""

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGABRT)

    rules = elementwise.FLOATS
    assert isinstance(rules, dict)
    rules[opcodes.SUBTRACT] = die


_BROKEN = {
    "broken_pipeline": break_pipeline,
    "broken_code": break_code,
    "deadly_code": break_process,
    "refused_code": refuse_code,
}
if __name__ in _BROKEN:
    _BROKEN[__name__]()
