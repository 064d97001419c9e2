"""The table of import rules: the name of an operation -> the function that makes HLO of it.

Owns: the table and how a family file enters its rules. Must not know: any particular operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir

if TYPE_CHECKING:
    from xlapy.stablehlo.importing.scope import Scope

Results: TypeAlias = Instruction | Sequence[Instruction]
Rule: TypeAlias = "Callable[[Scope, ir.Operation], Results]"
"""`(scope, operation) -> the HLO of its results`, one instruction a result."""

RULES: dict[str, Rule] = {}

STORED: set[str] = set()
"""Operations whose rules take quantized operands as the integers that are stored; others see the numbers meant."""


def rule(*names: str, stored: bool = False) -> Callable[[Rule], Rule]:
    """Decorator: enters the function as the rule of operations. `stored`: it handles quantized values itself."""

    def enter(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two import rules")
            RULES[name] = function
            if stored:
                STORED.add(name)
        return function

    return enter
