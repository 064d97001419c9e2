"""Finds the first instruction whose value a pass changed.

Responsible for comparing the values of instructions that correspond before and after a pass. Does not depend on the
pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.analysis.correspondence import correspond
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, ReplaceValue, evaluate_computation
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.runtime.engine.memory import value_bytes
from xlapy.testing.program_tolerance import RUNS, ProgramTolerance, RoundingErrors, deviations

Value = Any

_MAX_KEPT_BYTES = 1 << 30
"""The maximum total size of the values that are kept for comparison."""


class _FirstChangeFound(Exception):
    """Ends the run of the second module at the first instruction whose value differs."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction


def describe_first_change(before: Module, after: Module, arguments: Sequence[Value]) -> list[str]:
    """Describes the first instruction after a pass whose value differs from that of its counterpart before the pass.

    Returns a line for the instruction before the pass, one for it after the pass, and one per difference between them.
    Returns an empty list if no value differs or if the pass changed the signature of the entry. In loops, the values of
    the first iteration are compared.
    """
    if before.entry_computation.program_shape != after.entry_computation.program_shape:
        return []
    pairs = correspond(before, after)
    tolerances = _tolerances(before, set(pairs.instructions), arguments)
    expected = {pairs.instructions[left]: tolerance for left, tolerance in tolerances.items()}

    def compare(instruction: Instruction, _: Sequence[Value], value: Value) -> None:
        if instruction in expected:
            try:
                expected.pop(instruction).assert_close(plain(value))
            except AssertionError:
                raise _FirstChangeFound(instruction) from None

    counterparts = {right: left for left, right in pairs.instructions.items()}
    try:
        _run(after, arguments, compare)
    except _FirstChangeFound as found:
        left = counterparts[found.instruction]
        lines = [_describe(left), _describe(found.instruction)]
        return [*lines, *(f"  {line}" for line in pairs.differences(left))]
    return []


def _tolerances(
    module: Module, selected: set[Instruction], arguments: Sequence[Value]
) -> dict[Instruction, ProgramTolerance]:
    """Returns the first value of each selected instruction and its tolerance. Skips instructions that rounding errors
    may leave out, and values for which `_MAX_KEPT_BYTES` leaves no memory."""
    values = _first_values(module, selected, arguments, None)
    changed = [_first_values(module, set(values), arguments, RoundingErrors(run)) for run in range(RUNS)]
    return {
        instruction: ProgramTolerance(value, deviations(value, [run[instruction] for run in changed]))
        for instruction, value in values.items()
        if all(instruction in run for run in changed)
    }


def _first_values(
    module: Module, selected: set[Instruction], arguments: Sequence[Value], replace_value: ReplaceValue | None
) -> dict[Instruction, Value]:
    values: dict[Instruction, Value] = {}
    free_bytes = _MAX_KEPT_BYTES // (1 + RUNS)

    def observe(instruction: Instruction, _: Sequence[Value], value: Value) -> None:
        nonlocal free_bytes
        size = value_bytes(instruction.shape)
        if instruction in selected and instruction not in values and size <= free_bytes:
            values[instruction] = plain(value)
            free_bytes -= size

    _run(module, arguments, observe, replace_value)
    return values


def _run(module: Module, arguments: Sequence[Value], observer: Any, replace_value: ReplaceValue | None = None) -> None:
    values = check_arguments(module.entry_computation.program_shape, arguments)
    context = Context(observer=observer, replace_value=replace_value)
    with np.errstate(all="ignore"):
        evaluate_computation(context, module.entry_computation, values)


def _describe(instruction: Instruction) -> str:
    operands = ", ".join(operand.name for operand in instruction.operands)
    where = "" if instruction.parent is None else f" in {instruction.parent.name}"
    return f"{instruction.name} = {instruction.shape.to_text(layout=False)} {instruction.op.name}({operands}){where}"
