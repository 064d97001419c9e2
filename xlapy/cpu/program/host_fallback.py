"""Instructions that apply to elements what is no expression: the host carries them out, by the interpreter's rules.

Reducers, comparators and the like are parts of kernels where each element of their result is an expression of elements.
A loop or a branch inside of one, a draw of a random number, a call to the host is not.

Owns: which instructions these are. Must not know: how the host is called.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.cpu.transforms.side_effect_order import DRAWS, acts, called_instructions
from xlapy.hlo.instruction import Instruction
from xlapy.lower import LOWERINGS

_GIVEN = frozenset({opcodes.PARAMETER})
OF_THE_PROGRAM = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE})
"""Their computations are parts of the program: nothing in them is applied to elements."""


def applies_steps(instruction: Instruction) -> bool:
    """Whether a computation that an instruction applies to elements is no expression."""
    if instruction.op in OF_THE_PROGRAM:
        return False
    return any((i.op not in LOWERINGS and i.op not in _GIVEN) or acts(i) for i in called_instructions(instruction))


def draws(instruction: Instruction) -> bool:
    """Whether it moves the counter of the run on, or what it calls does."""
    return instruction.op in DRAWS or any(i.op in DRAWS for i in called_instructions(instruction))
