"""Observers of a run: tracing values, and finding the first instruction that makes a NaN.

Owns: these two. Must not know: which back end runs the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import DynamicArray
from xlapy.runtime.arguments import leaves
from xlapy.runtime.backend import Observer, Value


def trace(write: Callable[[str], None], pattern: str = "") -> Observer:
    """Writes each instruction with its computation and its value, every time it runs (in loops too).

    With `pattern`, a regular expression, only those whose name it matches somewhere; `InvalidArgumentError` if it is
    none.
    """
    try:
        matches = re.compile(pattern)
    except re.error as error:
        raise InvalidArgumentError(f"{pattern!r} is not a regular expression: {error}") from error

    def observe(instruction: Instruction, _: Sequence[Value], value: Value) -> None:
        if matches.search(instruction.name):
            parent = "" if instruction.parent is None else f"{instruction.parent.name}: "
            operands = ", ".join(operand.name for operand in instruction.operands)
            applied = f"{instruction.op.name}({operands})" if operands else instruction.op.name
            write(f"{parent}{instruction.name} = {instruction.shape.brief} {applied} -> {describe(value)}")

    return observe


def describe(value: Value) -> str:
    """A value on one line, long arrays shortened; where dimensions are dynamic, the sizes before the elements."""
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, DynamicArray):
        return f"[{','.join(map(str, value.sizes))}] {describe(value.actual)}"
    if isinstance(value, np.ndarray):
        return " ".join(np.array2string(value, threshold=8, edgeitems=3, precision=6).split())
    return str(value)


def check_nans(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
    """Raises `ExecutionError` at an instruction whose value has a NaN though none of its operands has."""
    if _has_nan(value) and not any(map(_has_nan, operands)):
        source = instruction.metadata
        line = f" at {source.source_file}:{source.source_line}" if source and source.source_file else ""
        where = f"{instruction.name} ({instruction.op.name}){line}"
        given = "; ".join(f"operand {i} = {describe(o)}" for i, o in enumerate(operands))
        raise ExecutionError(f"{where} is the first to make a NaN: {describe(value)}; {given or 'it has no operands'}")


def _has_nan(value: Value) -> bool:
    return any(_is_inexact(leaf) and bool(np.isnan(leaf).any()) for leaf in leaves(value))


def _is_inexact(array: np.ndarray[Any, Any]) -> bool:
    element_type = PrimitiveType.from_dtype(array.dtype)
    return element_type.is_floating or element_type.is_complex


def both(*observers: Observer) -> Observer:
    """One observer that calls several in turn."""

    def observe(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        for observer in observers:
            observer(instruction, operands, value)

    return observe
