"""Lowers calls inside of computations that are part of a kernel, by inlining the called computation.

Calls in the program itself are not lowered: the back end follows them.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.lower.core import LOWERINGS, Index, Lowering


@LOWERINGS.rule(opcodes.CALL)
def call(lowering: Lowering, instruction: Instruction, index: Index) -> Any:
    called = instruction.to_apply
    return lowering.nested(called, instruction.operands).elements(called.root_instruction, index)
