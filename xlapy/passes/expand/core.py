"""The table of expansions: rules that write an operation as simpler operations.

A rule is `rule(write, instruction) -> replacement`. It writes instructions with `write` and returns the one with the
value of `instruction`, of the same dimensions and element type. It may add computations to the module. It must not use
the op that it expands; ops that have expansions themselves are allowed. For a form of the op without expansion it
raises `UnsupportedError` before it writes anything, and the instruction stays.

Responsible for the table and the form of a rule. Does not depend on which operations a platform lacks (`expand.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy.base.element_types import F32, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import Rules
from xlapy.passes.rewrite import Writer

ExpansionRule = Callable[[Writer, Instruction], Instruction]

EXPANSIONS: Rules[ExpansionRule] = Rules("expansions")


def wide_type(element_type: PrimitiveType) -> PrimitiveType:
    """Returns the type in which an expansion of several steps computes: f32 for narrower floats, else the type itself.

    Narrower floats would round at every step, and those without infinities would overflow to NaN.
    """
    return F32 if element_type.is_floating and element_type.bits < F32.bits else element_type
