"""Observers of a run: tracing values, and finding the first instruction that produces a NaN.

Does not depend on the back end that runs the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.checks import Checks, ValueChecker, describe_value
from xlapy.runtime.values import Observer, Value


def trace(write: Callable[[str], None], pattern: str = "") -> Observer:
    """Returns an observer that writes each instruction with its computation and its value, each time it runs.

    With `pattern`, a regular expression, only instructions whose name it matches; `InvalidArgumentError` if it is
    invalid.
    """
    try:
        matches = re.compile(pattern)
    except re.error as error:
        raise InvalidArgumentError(codes.NAME_PATTERN, f"{pattern!r} is not a regular expression: {error}") from error

    def observe(instruction: Instruction, _: Sequence[Value], value: Value) -> None:
        if matches.search(instruction.name):
            parent = "" if instruction.parent is None else f"{instruction.parent.name}: "
            operands = ", ".join(operand.name for operand in instruction.operands)
            applied = f"{instruction.op.name}({operands})" if operands else instruction.op.name
            shape_text = instruction.shape.to_text(layout=False)
            write(f"{parent}{instruction.name} = {shape_text} {applied} -> {describe_value(value)}")

    return observe


def check_nans(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
    """Raises `ExecutionError` at an instruction whose value has a NaN though none of its operands has."""
    ValueChecker(Checks(nans=True)).check(instruction, operands, value)


def combine_observers(*observers: Observer) -> Observer:
    """Returns one observer that calls several in order."""

    def observe(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        for observer in observers:
            observer(instruction, operands, value)

    return observe
