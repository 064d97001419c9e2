"""Functions as the checker runs them: jump targets resolved, and which registers are needed at each instruction.

Two states that differ only in registers that are never read again are the same state.

Responsible for the prepared form of functions. Must not know memory or schedules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from xlapy.native import ir
from xlapy.native.function import Function, NativeFunction


@dataclass(slots=True)
class Code:
    """A function. targets: index of each label. live: registers that are read at or after each instruction."""

    function: Function
    instructions: list[ir.Instruction]
    targets: dict[str, int]
    live: list[frozenset[int]] = field(default_factory=list)

    @property
    def parameters(self) -> list[int]:
        return [one.operand.number for one in self.function.parameters if isinstance(one.operand, ir.Register)]


@dataclass(slots=True)
class Program:
    """Functions, and the sizes of static memory and of texts in bytes, by name."""

    codes: dict[str, Code]
    statics: dict[str, int]


def prepare(functions: Iterable[NativeFunction[Any, Any]]) -> Program:
    """Prepares functions and all that they call."""
    program = Program({}, {})
    pending = list(functions)
    while pending:
        function = pending.pop()
        built = function.built()
        if (known := program.codes.get(function.name)) is not None:
            if known.function is not built:
                raise ValueError(f"two native functions have the name {function.name}")
            continue
        program.codes[function.name] = _code(built)
        program.statics |= {name: memory.bytes for name, memory in built.statics.items()}
        program.statics |= {name: len(data) for name, data in built.texts.items()}
        pending += [called for called in built.called.values() if isinstance(called, NativeFunction)]
    return program


def _code(function: Function) -> Code:
    instructions = function.instructions
    targets = {one.name: index for index, one in enumerate(instructions) if isinstance(one, ir.Label)}
    code = Code(function, instructions, targets)
    code.live = _liveness(code)
    return code


def _liveness(code: Code) -> list[frozenset[int]]:
    """The registers live before each instruction, by iteration to a fixed point."""
    count = len(code.instructions)
    live: list[frozenset[int]] = [frozenset()] * (count + 1)
    changed = True
    while changed:
        changed = False
        for index in reversed(range(count)):
            instruction = code.instructions[index]
            after: frozenset[int] = frozenset()
            for following in _following(code, index):
                after |= live[following]
            before = frozenset(_used(instruction)) | (after - frozenset(_defined(instruction)))
            if before != live[index]:
                live[index] = before
                changed = True
    return live


def _following(code: Code, index: int) -> tuple[int, ...]:
    match code.instructions[index]:
        case ir.Jump(target):
            return (code.targets[target],)
        case ir.Branch(_, if_true, if_false):
            return code.targets[if_true], code.targets[if_false]
        case ir.Return():
            return ()
    return (index + 1,)


def _operands(instruction: ir.Instruction) -> Iterator[ir.Operand | None]:
    match instruction:
        case ir.Compute(_, _, operands):
            yield from operands
        case ir.Assign(_, value) | ir.Return(value):
            yield value
        case ir.Load(_, address) | ir.AcquireLock(address) | ir.ReleaseLock(address) | ir.FutexWake(address):
            yield address
        case ir.Store(address, value) | ir.ReadModifyWrite(_, _, address, value):
            yield from (address, value)
        case ir.CompareExchange(_, _, address, expected, new):
            yield from (address, expected, new)
        case ir.FutexWait(address, expected, timeout):
            yield from (address, expected, timeout)
        case ir.Call(_, function, arguments):
            yield from (function, *arguments)
        case ir.Check(condition) | ir.Branch(condition):
            yield condition


def _used(instruction: ir.Instruction) -> Iterator[int]:
    return (one.number for one in _operands(instruction) if isinstance(one, ir.Register))


def _defined(instruction: ir.Instruction) -> Iterator[int]:
    match instruction:
        case ir.CompareExchange(result, succeeded):
            yield from (result.number, succeeded.number)
        case ir.Assign(variable, _):
            yield variable.number
        case ir.Compute(result) | ir.Stack(result) | ir.Load(result) | ir.ReadModifyWrite(result):
            yield result.number
        case ir.Call(result) if result is not None:
            yield result.number
