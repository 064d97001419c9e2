"""The table of import rules: maps the name of an operation to the function that emits its HLO.

Responsible for the table, the decorator that registers a rule, and the check of how many operands, results and regions
an operation has. Does not depend on particular operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder

Results: TypeAlias = Instruction | Sequence[Instruction]
"""The HLO of an operation: one instruction per result."""

RuleFunction: TypeAlias = Callable[[ComputationBuilder, ir.Operation], Results]
"""Emits the instructions of an operation through the builder and returns one instruction per result."""

Count: TypeAlias = "int | range | None"
"""The permitted number of operands, results or regions: an exact number, a range, or None for any number."""

ONE_OR_MORE = range(1, 1 << 31)


@dataclass(frozen=True, slots=True)
class ImportRule:
    """The rule of an operation and the number of operands, results and regions that it requires.

    `on_storage_type`: the rule receives quantized operands as integers of their storage type. Other rules receive them
    dequantized to the expressed type, and their results are quantized again. `any_operands`: operands may be tuples and
    tokens; the operands of other rules are arrays.
    """

    function: RuleFunction
    operands: Count
    results: Count
    regions: Count
    on_storage_type: bool
    any_operands: bool

    def check_counts(self, operation: ir.Operation) -> None:
        """Raises `ShapeError` unless the operation has as many operands, results and regions as the rule requires."""
        _check_count("operand", self.operands, len(operation.operands))
        _check_count("result", self.results, len(operation.results))
        _check_count("region", self.regions, len(operation.regions))


def _check_count(what: str, expected: Count, actual: int) -> None:
    if expected is None or expected == actual or (isinstance(expected, range) and actual in expected):
        return
    number = expected if isinstance(expected, int) else f"at least {expected.start}"
    raise ShapeError(codes.OPERATION_COUNTS, f"it takes {number} {what}{'' if number == 1 else 's'}, but has {actual}")


def check_arrays(operands: Sequence[Instruction]) -> None:
    """Raises `ShapeError` unless all operands are arrays."""
    for number, operand in enumerate(operands):
        if not operand.shape.is_array:
            raise ShapeError(
                codes.TENSOR_VALUE, f"operand {number} must be an array, but is {operand.shape.to_text(layout=False)}"
            )


RULES: dict[str, ImportRule] = {}


def rule(
    *names: str,
    operands: Count = None,
    results: Count = 1,
    regions: Count = 0,
    on_storage_type: bool = False,
    any_operands: bool = False,
) -> Callable[[RuleFunction], RuleFunction]:
    """Decorator: registers a function as the import rule of the named operations."""

    def register(function: RuleFunction) -> RuleFunction:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two import rules")
            RULES[name] = ImportRule(function, operands, results, regions, on_storage_type, any_operands)
        return function

    return register
