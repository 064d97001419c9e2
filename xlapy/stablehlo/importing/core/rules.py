"""The table of import rules: the name of an operation -> the function that makes HLO of it.

Owns: the table, how a family file enters its rules, how many operands, results and regions an operation has. Must not
know: any particular operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir

if TYPE_CHECKING:
    from xlapy.stablehlo.importing.core.scope import Scope

Results: TypeAlias = Instruction | Sequence[Instruction]
Rule: TypeAlias = "Callable[[Scope, ir.Operation], Results]"
"""`(scope, operation) -> the HLO of its results`, one instruction a result."""

Count: TypeAlias = "int | range | None"
"""Exactly so many, as many as a range holds, or any number."""

SOME = range(1, 1 << 31)
"""One or more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule, and the operations it is made for.

    `stored`: it takes quantized operands as the integers that are stored; others see the numbers meant.
    """

    rule: Rule
    operands: Count
    results: Count
    regions: Count
    stored: bool

    def check(self, operation: ir.Operation) -> None:
        """`ShapeError` unless the operation has the operands, results and regions that the rule counts on."""
        _check("operand", self.operands, len(operation.operands))
        _check("result", self.results, len(operation.results))
        _check("region", self.regions, len(operation.regions))


def _check(what: str, wanted: Count, given: int) -> None:
    if wanted is None or wanted == given or (isinstance(wanted, range) and given in wanted):
        return
    number = wanted if isinstance(wanted, int) else f"at least {wanted.start}"
    raise ShapeError(f"it has {number} {what}{'' if number == 1 else 's'}, given are {given}")


RULES: dict[str, Entry] = {}


def rule(
    *names: str, operands: Count = None, results: Count = 1, regions: Count = 0, stored: bool = False
) -> Callable[[Rule], Rule]:
    """Decorator: enters the function as the rule of operations."""

    def enter(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two import rules")
            RULES[name] = Entry(function, operands, results, regions, stored)
        return function

    return enter
