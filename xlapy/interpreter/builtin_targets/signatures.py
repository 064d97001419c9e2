"""The error for a call of a built-in target whose shapes do not match the target's signature."""

from __future__ import annotations

from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction


def require_signature(instruction: Instruction, matches: bool, signature: str) -> None:
    """Raises `UnsupportedError` unless the shapes match; `signature` says which operands and results the target has."""
    if matches:
        return
    given = ", ".join(shape.to_text(layout=False) for shape in instruction.operand_shapes)
    target = instruction.custom_call_target
    raise UnsupportedError(
        codes.BUILT_IN_CALL,
        f"{describe_instruction(instruction)}: {target} takes {signature}, given ({given}) and "
        f"{instruction.shape.to_text(layout=False)}",
    )
