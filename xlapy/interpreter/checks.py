"""Finds the first instruction that produces a NaN, or an infinity, from operands without one.

Responsible for the condition, for the message, and for the loop iterations that the message names. Does not depend on
the engine that runs the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.value import DynamicArray
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import Context, Value, evaluate_computation

_MAX_LOOPS = 50
"""The number of enclosing loops that a message names."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Which values to report; false if none."""

    nans: bool = False
    infs: bool = False

    @staticmethod
    def chosen(nans: bool | None = None, infs: bool | None = None) -> Checks:
        """Returns the requested checks; None means the value of the flag `check_nans` or `check_infs`."""
        return Checks(
            bool(flags.get("check_nans")) if nans is None else nans,
            bool(flags.get("check_infs")) if infs is None else infs,
        )

    def __bool__(self) -> bool:
        return self.nans or self.infs

    def find_new(self, instruction: Instruction, operands: Sequence[Value], value: Value) -> str:
        """Returns what the result contains and no operand does: `a NaN`, `an infinity`, or "" for neither.

        An infinity that is a constant of the program (the initial value of a maximum, say) is not reported.
        """
        if self.nans and _has(np.isnan, value) and not any(_has(np.isnan, o) for o in operands):
            return "a NaN"
        is_constant = instruction.op is opcodes.CONSTANT
        if self.infs and not is_constant and _has(np.isinf, value) and not any(_has(np.isinf, o) for o in operands):
            return "an infinity"
        return ""


NO_CHECKS = Checks()


def may_hold_nan_or_infinity(instruction: Instruction) -> bool:
    """Returns whether the value of an instruction has floating-point or complex elements."""
    return any(
        leaf.is_array and (leaf.element_type.is_floating or leaf.element_type.is_complex)
        for _, leaf in instruction.shape.leaves()
    )


@dataclass(slots=True)
class ValueChecker:
    """Checks the values of one run on one device, and counts the iterations of its loops."""

    checks: Checks
    _iterations: dict[Instruction, int] = field(default_factory=dict[Instruction, int])

    def enter_loop(self, loop: Instruction) -> None:
        """Resets the number of iterations of a loop."""
        self._iterations[loop] = 0

    def begin_iteration(self, loop: Instruction) -> None:
        """Counts an iteration of a loop."""
        self._iterations[loop] = self._iterations.get(loop, 0) + 1

    def check(self, instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        """Raises `ExecutionError` if the instruction produces a NaN or infinity; searches inside a fusion."""
        what = self.checks.find_new(instruction, operands, value)
        if not what:
            return
        where = self._iterations_around(instruction)
        if instruction.op is not opcodes.FUSION:
            raise ExecutionError(codes.INVALID_VALUE, f"{_message(instruction, operands, value, what)}{where}")
        self._check_inside(instruction, operands, f"; it is computed in {instruction.name}{where}")
        raise ExecutionError(
            codes.INVALID_VALUE,
            f"{_message(instruction, operands, value, what)}{where}; evaluated one by one, the instructions in this "
            "fusion do not make it",
        )

    def _check_inside(self, fusion: Instruction, operands: Sequence[Value], suffix: str) -> None:
        """Evaluates a fusion's instructions one by one and raises for the first that makes a NaN or infinity."""
        (fused,) = fusion.computations

        def observe(instruction: Instruction, values: Sequence[Value], value: Value) -> None:
            what = self.checks.find_new(instruction, values, value)
            if what:
                raise ExecutionError(codes.INVALID_VALUE, f"{_message(instruction, values, value, what)}{suffix}")

        evaluate_computation(Context(observer=observe), fused, operands)

    def observe(self, instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        """Checks a value, as an observer of the interpreter; the root of a loop's condition begins an iteration."""
        self.check(instruction, operands, value)
        if instruction.op is opcodes.WHILE:
            self.enter_loop(instruction)
        elif instruction.is_root:
            for loop, role in _loops_of(instruction):
                if role == "condition":
                    self.begin_iteration(loop)

    def _iterations_around(self, instruction: Instruction) -> str:
        """Names the iterations of the loops around an instruction, the innermost first."""
        found: list[str] = []
        inner: Instruction | None = instruction
        while inner is not None and len(found) < _MAX_LOOPS:
            inner = self._next_loop(inner, found)
        return f", in {' of '.join(found)}" if found else ""

    def _next_loop(self, instruction: Instruction, found: list[str]) -> Instruction | None:
        """Returns the caller of the computation around an instruction.

        If it is a loop, adds its iteration to `found`.
        """
        callers = [] if instruction.parent is None else instruction.parent.callers
        for loop, role in _loops_of(instruction):
            if loop in self._iterations:
                count = self._iterations[loop]
                found.append(f"iteration {count - (role == 'body')} of {loop.name}")
                return loop
        return next(iter(callers), None)


def _loops_of(instruction: Instruction) -> Iterator[tuple[Instruction, str]]:
    """Yields the loops whose body or condition contains an instruction, each with "body" or "condition"."""
    if instruction.parent is None:
        return
    for caller in instruction.parent.callers:
        if caller.op is opcodes.WHILE:
            is_body = caller.computation("body") is instruction.parent
            yield caller, "body" if is_body else "condition"


def describe_value(value: Value) -> str:
    """Prints a value on one line, with long arrays shortened; a `DynamicArray` begins with its sizes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(describe_value, value))})"
    if isinstance(value, DynamicArray):
        return f"[{','.join(map(str, value.sizes))}] {describe_value(value.actual)}"
    if isinstance(value, np.ndarray):
        return " ".join(np.array2string(value, threshold=8, edgeitems=3, precision=6).split())
    return str(value)


def _message(instruction: Instruction, operands: Sequence[Value], value: Value, what: str) -> str:
    source = instruction.metadata
    line = f" at {source.source_file}:{source.source_line}" if source and source.source_file else ""
    given = "; ".join(f"operand {i} = {describe_value(operand)}" for i, operand in enumerate(operands))
    where = f"{instruction.name} ({instruction.op.name}){line}"
    return f"{where} is the first to make {what}: {describe_value(value)}; {given or 'it has no operands'}"


def _has(predicate: Callable[[Array], Array], value: Value) -> bool:
    """Returns whether a floating-point element of a value satisfies a NumPy predicate."""
    if isinstance(value, tuple):
        return any(_has(predicate, element) for element in value)
    array = value.actual if isinstance(value, DynamicArray) else value
    if not isinstance(array, np.ndarray):
        return False
    element_type = PrimitiveType.from_dtype(array.dtype)
    return (element_type.is_floating or element_type.is_complex) and bool(predicate(array).any())
