"""Decides which custom calls are calls of LAPACK in compiled programs.

Does not depend on how they are executed.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.custom_calls.lapack import is_lapack_target
from xlapy.custom_calls.registry import find_target
from xlapy.hlo.instruction import Instruction


def calls_lapack(instruction: Instruction) -> bool:
    """Whether an instruction is a custom call of LAPACK whose target has not been registered by the user."""
    if instruction.op is not opcodes.CUSTOM_CALL or not is_lapack_target(instruction.custom_call_target):
        return False
    return find_target(instruction.custom_call_target, "cpu") is None
