"""The custom call `xlapy.interpret`, which evaluates the HLO text in its `backend_config` with the interpreter.

With it, a module of static shapes can contain operations without a static form: the pass `resolve-dynamic-dimensions`
creates such calls for platforms with host fallback.

Responsible for the target and for parsing the module of a call. Does not depend on the passes that create such calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import UnsupportedError, XlaError, message_of
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.interpreter.core import Context, Value, evaluate_computation
from xlapy.text.parser import parse_hlo

INTERPRET_TARGET = "xlapy.interpret"

_MAX_CACHED_MODULES = 256
"""A program has few such calls; a module that is evicted from the cache is parsed again."""


@lru_cache(maxsize=_MAX_CACHED_MODULES)
def _parsed(text: str) -> Module:
    return parse_hlo(text)


def parse_program(instruction: Instruction) -> Module:
    """Returns the module that a call evaluates; `UnsupportedError` if it is malformed or does not match the shapes."""
    where = f"{describe_instruction(instruction)}: {INTERPRET_TARGET}"
    try:
        module = _parsed(instruction.backend_config or "")
    except XlaError as error:
        reason = message_of(error)
        raise UnsupportedError(
            codes.BUILT_IN_CALL, f"{where} takes HLO text as its backend_config: {reason}"
        ) from error
    program = module.entry_computation.program_shape
    wanted = (*program.parameters, program.result)
    given = (*instruction.operand_shapes, instruction.shape)
    if len(wanted) != len(given) or not all(w.compatible(g) for w, g in zip(wanted, given, strict=True)):
        *operands, result = (shape.to_text(layout=False) for shape in given)
        raise UnsupportedError(
            codes.BUILT_IN_CALL,
            f"{where} evaluates a program of {program.to_text()}, given ({', '.join(operands)}) and {result}",
        )
    return module


def check_program(instruction: Instruction) -> None:
    """Raises the errors of `parse_program`."""
    parse_program(instruction)


def call_program(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Evaluates the module of a call on its operands."""
    return evaluate_computation(context, parse_program(instruction).entry_computation, values)
