"""Finds the instructions that draw random numbers.

An instruction that applies a computation without a kernel form (`lower.scalar_computations`) falls back to the host.
"""

from __future__ import annotations

from xlapy.cpu.transforms.side_effect_order import DRAWS, called_instructions
from xlapy.hlo.instruction import Instruction


def draws(instruction: Instruction) -> bool:
    """Whether it moves the counter of the run on, or what it calls does."""
    return instruction.op in DRAWS or any(i.op in DRAWS for i in called_instructions(instruction))
