"""Finding the first instruction that makes a NaN, or an infinity, of operands that have none.

Owns: what counts as made, the message, in which turn of which loop it happened. Must not know: who runs the program and
when values can be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.errors import ExecutionError
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import Context, Value, evaluate_computation
from xlapy.interpreter.dynamic_array import DynamicArray

_MOST_LOOPS = 50
"""That a message names."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What values are looked at for; false if for nothing."""

    nans: bool = False
    infs: bool = False

    @staticmethod
    def chosen(nans: bool | None = None, infs: bool | None = None) -> Checks:
        """What is asked for, by the flags `check_nans` and `check_infs` where nothing is said."""
        return Checks(
            bool(flags.get("check_nans")) if nans is None else nans,
            bool(flags.get("check_infs")) if infs is None else infs,
        )

    def __bool__(self) -> bool:
        return self.nans or self.infs

    def made(self, instruction: Instruction, operands: Sequence[Value], value: Value) -> str:
        """What an instruction makes of operands without it: `a NaN`, `an infinity`, or nothing, "".

        An infinity that is written in the program (the initial value of a maximum, say) is not made by anything.
        """
        if self.nans and _has(np.isnan, value) and not any(_has(np.isnan, o) for o in operands):
            return "a NaN"
        is_written = instruction.op is opcodes.CONSTANT
        if self.infs and not is_written and _has(np.isinf, value) and not any(_has(np.isinf, o) for o in operands):
            return "an infinity"
        return ""


NO_CHECKS = Checks()


def may_hold_nan_or_infinity(instruction: Instruction) -> bool:
    """Whether the value of an instruction may hold a NaN or an infinity."""
    return any(
        leaf.is_array and (leaf.element_type.is_floating or leaf.element_type.is_complex)
        for _, leaf in instruction.shape.leaves()
    )


@dataclass(slots=True)
class ValueChecker:
    """Looks at the values of one run on one device, and counts the turns of its loops."""

    checks: Checks
    _turns: dict[Instruction, int] = field(default_factory=dict[Instruction, int])

    def begin(self, loop: Instruction) -> None:
        """A loop begins: no turn of it has."""
        self._turns[loop] = 0

    def turn(self, loop: Instruction) -> None:
        """A turn of a loop begins."""
        self._turns[loop] = self._turns.get(loop, 0) + 1

    def look(self, instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        """Raises `ExecutionError` if the instruction makes what is looked for; inside of a fusion, it is found."""
        what = self.checks.made(instruction, operands, value)
        if not what:
            return
        where = self._where(instruction)
        if instruction.op is not opcodes.FUSION:
            raise ExecutionError(f"{_message(instruction, operands, value, what)}{where}")
        place = f"; it is computed in {instruction.name}{where}"
        self._look_inside(instruction, operands, place)
        raise ExecutionError(
            f"{_message(instruction, operands, value, what)}{where}; evaluated one by one, the instructions in this "
            "fusion do not make it"
        )

    def _look_inside(self, fusion: Instruction, operands: Sequence[Value], place: str) -> None:
        (fused,) = fusion.computations

        def observe(instruction: Instruction, values: Sequence[Value], value: Value) -> None:
            what = self.checks.made(instruction, values, value)
            if what:
                raise ExecutionError(f"{_message(instruction, values, value, what)}{place}")

        evaluate_computation(Context(observer=observe), fused, operands)

    def observe(self, instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        """As an observer of the interpreter, which tells of every instruction: loops turn where conditions end."""
        self.look(instruction, operands, value)
        if instruction.op is opcodes.WHILE:
            self.begin(instruction)
        elif instruction.is_root:
            for loop, role in _loops_of(instruction):
                if role == "condition":
                    self.turn(loop)

    def _where(self, instruction: Instruction) -> str:
        """In which turns of the loops around it."""
        found: list[str] = []
        inner: Instruction | None = instruction
        while inner is not None and len(found) < _MOST_LOOPS:
            inner = self._next_loop(inner, found)
        return f", in {' of '.join(found)}" if found else ""

    def _next_loop(self, instruction: Instruction, found: list[str]) -> Instruction | None:
        """The caller of the computation around an instruction; notes the turn if that is a loop."""
        callers = [] if instruction.parent is None else instruction.parent.callers
        for loop, role in _loops_of(instruction):
            if loop in self._turns:
                turns = self._turns[loop]
                found.append(f"iteration {turns - (role == 'body')} of {loop.name}")
                return loop
        return next(iter(callers), None)


def _loops_of(instruction: Instruction) -> Iterator[tuple[Instruction, str]]:
    """The loops whose body or condition an instruction is in, and which of these."""
    if instruction.parent is None:
        return
    for caller in instruction.parent.callers:
        if caller.op is opcodes.WHILE:
            is_body = caller.computation("body") is instruction.parent
            yield caller, "body" if is_body else "condition"


def describe_value(value: Value) -> str:
    """A value on one line, long arrays shortened; where dimensions are dynamic, the sizes before the elements."""
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


def _has(judge: Callable[[Array], Array], value: Value) -> bool:
    if isinstance(value, tuple):
        return any(_has(judge, element) for element in value)
    array = value.actual if isinstance(value, DynamicArray) else value
    if not isinstance(array, np.ndarray):
        return False
    element_type = PrimitiveType.from_dtype(array.dtype)
    return (element_type.is_floating or element_type.is_complex) and bool(judge(array).any())
