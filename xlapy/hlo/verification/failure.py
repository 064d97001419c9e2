"""The error that every part of the verifier raises about an instruction. Does not depend on any rule."""

from __future__ import annotations

from typing import NoReturn

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.errors import VerificationError
from xlapy.hlo.instruction import Instruction, describe_instruction


def fail(instruction: Instruction, code: ErrorCode, message: str) -> NoReturn:
    """Raises `VerificationError` naming the computation, the instruction, its op and the user's line."""
    parent = instruction.parent
    where = "" if parent is None else f"{parent.name}: "
    raise VerificationError(code, f"{where}{describe_instruction(instruction)}: {message}")
