"""The table of expansions: what an operation is in terms of simpler ones.

Owns: the table and the form of a rule. Must not know: which operations a platform lacks (`expand`).

A rule is `rule(write, instruction) -> replacement`: it writes instructions with `write` and returns the one whose value
is that of `instruction`, of the same dimensions and element type. It may call computations that it adds to the module,
and must not use the op that it expands; ops that are expanded themselves are allowed. For a form of the op that has no
expansion it raises `UnsupportedError`, before it writes anything: the instruction stays.
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
    """The type that an expansion of several steps computes in: f32 for floats narrower than it, which would round, and
    those without infinities overflow to NaN, at every step."""
    return F32 if element_type.is_floating and element_type.bits < F32.bits else element_type
