"""Meaning of the custom call `xlapy.interpret`: what the interpreter makes of the HLO text in its `backend_config`.

By it a module of static shapes holds what has no static form: `resolve-dynamic-dimensions` writes such calls, for
platforms that have the host carry them out.

Owns: the target, the module of a call. Must not know: who writes such calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xlapy.base.errors import UnsupportedError, XlaError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.interpreter.core import Context, Value, evaluate_computation
from xlapy.text.parser import parse_hlo

INTERPRET_TARGET = "xlapy.interpret"

_MOST_KEPT = 256
"""Modules: a program has few such calls, and what one has lost is parsed again."""


@lru_cache(maxsize=_MOST_KEPT)
def _parsed(text: str) -> Module:
    return parse_hlo(text)


def parse_program(instruction: Instruction) -> Module:
    """The module that a call evaluates; `UnsupportedError` if it is none, or does not fit the call."""
    where = f"{describe_instruction(instruction)}: {INTERPRET_TARGET}"
    try:
        module = _parsed(instruction.backend_config or "")
    except XlaError as error:
        raise UnsupportedError(f"{where} takes HLO text as its backend_config: {error}") from error
    program = module.entry_computation.program_shape
    wanted = (*program.parameters, program.result)
    given = (*instruction.operand_shapes, instruction.shape)
    if len(wanted) != len(given) or not all(w.compatible(g) for w, g in zip(wanted, given, strict=True)):
        *operands, result = (shape.to_text(layout=False) for shape in given)
        raise UnsupportedError(
            f"{where} evaluates a program of {program.to_text()}, given ({', '.join(operands)}) and {result}"
        )
    return module


def check_program(instruction: Instruction) -> None:
    """Errors as of `parse_program`."""
    parse_program(instruction)


def call_program(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return evaluate_computation(context, parse_program(instruction).entry_computation, values)
