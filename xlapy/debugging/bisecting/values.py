"""Where a pass changed what a program computes: the first instruction whose value is another behind it.

Owns: this search, among instructions that correspond before and behind the pass. Must not know: the pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.analysis.correspondence import correspond
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, evaluate_computation
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.runtime.engine.memory import value_bytes
from xlapy.testing.comparison import assert_close

Value = Any

_MOST_BYTES = 1 << 30
"""Of values that are kept for comparison."""


class _Found(Exception):
    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction


def first_change(before: Module, after: Module, arguments: Sequence[Value]) -> list[str]:
    """The first instruction behind the pass whose counterpart has another value, as it was and as it is, and how they
    differ, a line each; empty if there is none. In loops, the first turn counts.
    """
    if before.entry_computation.program_shape != after.entry_computation.program_shape:
        return []
    pairs = correspond(before, after)
    values = _values_of(before, set(pairs.instructions), arguments)
    expected = {pairs.instructions[one]: (one, value) for one, value in values.items()}

    def compare(instruction: Instruction, _: Sequence[Value], value: Value) -> None:
        if instruction in expected:
            try:
                assert_close(plain(value), plain(expected.pop(instruction)[1]), rule="program")
            except AssertionError:
                raise _Found(instruction) from None

    counterparts = {right: left for left, right in pairs.instructions.items()}
    try:
        _run(after, arguments, compare)
    except _Found as found:
        left = counterparts[found.instruction]
        lines = [_line(left), _line(found.instruction)]
        return [*lines, *(f"  {word}" for word in pairs.differences(left))]
    return []


def _values_of(module: Module, wanted: set[Instruction], arguments: Sequence[Value]) -> dict[Instruction, Value]:
    """The first value of each instruction that is wanted, of as many as there is room for."""
    kept: dict[Instruction, Value] = {}
    room = _MOST_BYTES

    def observe(instruction: Instruction, _: Sequence[Value], value: Value) -> None:
        nonlocal room
        size = value_bytes(instruction.shape)
        if instruction in wanted and instruction not in kept and size <= room:
            kept[instruction] = value
            room -= size

    _run(module, arguments, observe)
    return kept


def _run(module: Module, arguments: Sequence[Value], observer: Any) -> None:
    values = check_arguments(module.entry_computation.program_shape, arguments)
    with np.errstate(all="ignore"):
        evaluate_computation(Context(observer=observer), module.entry_computation, values)


def _line(instruction: Instruction) -> str:
    operands = ", ".join(operand.name for operand in instruction.operands)
    where = "" if instruction.parent is None else f" in {instruction.parent.name}"
    return f"{instruction.name} = {instruction.shape.to_text(layout=False)} {instruction.op.name}({operands}){where}"
