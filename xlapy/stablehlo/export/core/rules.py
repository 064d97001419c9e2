"""The table of export rules: op -> the function that makes StableHLO of an instruction.

Owns: the table, and the reasons why some ops have no form. Must not know: any particular op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import Rules
from xlapy.stablehlo import ir

if TYPE_CHECKING:
    from xlapy.stablehlo.export.core.scope import Scope

Structure: TypeAlias = ir.Value | tuple["Structure", ...]
"""What an instruction gives: a value, or of a tuple what its elements are. StableHLO's functions see no tuples."""

Rule: TypeAlias = "Callable[[Scope, Instruction], Structure]"

RULES: Rules[Rule] = Rules("export")
