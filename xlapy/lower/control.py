"""Elements of calls inside computations that are part of a kernel: those of the called computation.

Must not know: calls of the program itself, which are followed step by step (`cpu/program.py`).
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
