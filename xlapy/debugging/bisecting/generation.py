"""The first kernel that is wrong in a program whose passes are right.

The interpreter runs the module as it is behind the passes and keeps operands and value of every instruction that is a
step of the native program, in loops the first few times. Each is compiled by itself and run on those operands. What is
wrong only together with others, as memory used again, does not show so: then the program is cut off behind one
instruction after the other.

Owns: this search, also inside of a fusion. Must not know: passes, what the code generator does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.debugging.bisecting.outcome import Laboratory, difference, nudged
from xlapy.debugging.bisecting.signature import given_now
from xlapy.debugging.first_difference import cut_behind
from xlapy.debugging.fuzzing.differential import Verdict, compared
from xlapy.debugging.fuzzing.implementations import Implementation, find_implementation, plain
from xlapy.debugging.fuzzing.worker import WorkerDied, WorkerError
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, evaluate_computation
from xlapy.opcodes.registry import AsyncRole
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.testing.comparison import assert_close
from xlapy.testing.instruction_by_instruction import Step, describe, flat_module
from xlapy.text import parse_hlo

Value = Any
Say = Callable[[str], None]

MOST_TIMES = 3
"""That an instruction of a loop is looked at."""

_STRUCTURE = frozenset({
    opcodes.CALL, opcodes.CONDITIONAL, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE,
    opcodes.WHILE,
})  # fmt: skip
_WRONG = (Verdict.DIFFERS, Verdict.DIED, Verdict.REFUSED)
_BY_ITSELF = ", even by itself"
_CALLERS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})


@dataclass(frozen=True, slots=True)
class KernelFault:
    """An instruction whose code is wrong. alone: run by itself. inside: the first instruction of a fusion with which
    its code is wrong. text, arguments: a program of this instruction alone, or the whole cut off behind it.
    """

    instruction: str
    computation: str
    message: str
    alone: bool
    inside: str
    text: str
    arguments: Sequence[Value]


def find_kernel(text: str, laboratory: Laboratory, say: Say) -> KernelFault | None:
    """The first instruction of a module behind all passes whose machine code differs from the interpreter, if any."""
    module = parse_hlo(text)
    shape = module.entry_computation.program_shape
    values = check_arguments(shape, given_now(laboratory.values[0], laboratory.first, shape))
    implementation = replace(find_implementation("cpu"), rule=_rule)
    generator = _Generator(laboratory)
    say("running the module behind the passes on the interpreter")
    steps = list(steps_run(module, values))
    for number, step in enumerate(steps):
        say(f"kernel {number + 1} of {len(steps)}: {step.instruction.name}")
        if implementation.known_divergence(step) is None and (found := _judged(step, implementation, generator)):
            return found
    say("cutting the program off behind one instruction after the other")
    return _prefix(module, values, implementation, generator)


class _Generator:
    """What `compared` calls instead of another implementation: cpu without passes."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory

    def call(self, *arguments: Any, **_: Any) -> Value:
        text, values = arguments
        given = [plain(value) for value in values]
        laboratory = self._laboratory
        return laboratory.worker.call("optimized", laboratory.loads, text, [given], 1)[0]


def _rule(step: Step) -> str | None:
    """A fusion is a small program."""
    return "program" if step.instruction.op is opcodes.FUSION else None


def steps_run(module: Module, values: Sequence[Value]) -> Iterator[Step]:
    """What the interpreter computes in the entry and in what it calls, loops and branches, in the order of its run."""
    running = set(_running(module.entry_computation))
    kept: list[Step] = []
    times: dict[Instruction, int] = {}

    def observe(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        if instruction.parent not in running or instruction.op in _STRUCTURE:
            return
        if instruction.op.async_role is not AsyncRole.NONE:
            return
        times[instruction] = times.get(instruction, 0) + 1
        if times[instruction] <= MOST_TIMES:
            kept.append(Step(instruction, tuple(operands), value))

    with np.errstate(all="ignore"):
        evaluate_computation(Context(observer=observe), module.entry_computation, values)
    return iter(kept)


def _running(computation: Computation) -> Iterator[Computation]:
    """The computation and those whose instructions are steps of the program as well."""
    pending = [computation]
    while pending:
        yield (found := pending.pop())
        pending += [called for i in found if i.op in _CALLERS for called in i.computations]


def _judged(step: Step, implementation: Implementation, generator: _Generator) -> KernelFault | None:
    (outcome,) = compared([step], implementation, generator)
    if outcome.verdict not in _WRONG:
        return None
    is_fusion = step.instruction.op is opcodes.FUSION
    inside = (
        (_alone_inside(step, implementation, generator) or _first_inside(step, implementation, generator))
        if is_fusion
        else ""
    )
    if is_fusion and outcome.verdict is Verdict.DIFFERS and not inside.endswith(_BY_ITSELF) and _amplifies(step):
        return None
    module, values = flat_module([step])
    parent = step.instruction.parent
    return KernelFault(
        describe(step.instruction),
        parent.name if parent is not None else "",
        outcome.reason,
        True,
        inside,
        module.to_text(print_large_constants=True),
        values,
    )


def _alone_inside(step: Step, implementation: Implementation, generator: _Generator) -> str:
    """The first instruction of a fusion whose code is wrong when it is compiled by itself."""
    for inner in _steps_inside(step):
        if inner.instruction.op in _STRUCTURE or implementation.known_divergence(inner) is not None:
            continue
        (outcome,) = compared([inner], implementation, generator)
        if outcome.verdict in _WRONG:
            return describe(inner.instruction) + _BY_ITSELF
    return ""


def _steps_inside(step: Step) -> list[Step]:
    """What the interpreter computes in a fusion."""
    (fused,) = step.instruction.computations
    kept: list[Step] = []

    def observe(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        if instruction.parent is fused:
            kept.append(Step(instruction, tuple(operands), value))

    with np.errstate(all="ignore"):
        evaluate_computation(Context(observer=observe), fused, step.operands)
    return kept


def _amplifies(step: Step) -> bool:
    """Whether the interpreter's own value of a fusion is another when operands change in their last bit."""
    rng = np.random.default_rng(0)
    (fused,) = step.instruction.computations
    with np.errstate(all="ignore"):
        value = evaluate_computation(Context(), fused, [nudged(operand, rng) for operand in step.operands])
    return difference([plain(value)], [plain(step.value)]) is not None


def _first_inside(step: Step, implementation: Implementation, generator: _Generator) -> str:
    """The first instruction of a fusion with which, as the fusion's result, its code is wrong already."""
    (fused,) = step.instruction.computations
    for position, instruction in enumerate(fused.instructions):
        if instruction.op in _STRUCTURE:
            continue
        cut = _cut_inside(step, position)
        (outcome,) = compared([cut], implementation, generator)
        if outcome.verdict in _WRONG:
            return describe(instruction)
    return ""


def _cut_inside(step: Step, position: int) -> Step:
    """The step of a fusion that ends with one of its instructions."""
    module, _ = flat_module([step])
    entry = module.entry_computation
    fusion = next(i for i in entry if i.op is opcodes.FUSION)
    (fused,) = fusion.computations
    edit.set_root(fused, fused.instructions[position])
    shape = fused.root_instruction.shape
    made = edit.create(
        entry, opcodes.FUSION, fusion.operands, fusion.attributes, [fused], shape=shape, name=fusion.name
    )
    root = entry.root_instruction
    edit.set_root(entry, made)
    for instruction in (root, fusion):
        edit.remove(instruction)
    with np.errstate(all="ignore"):
        value = evaluate_computation(Context(), fused, step.operands)
    return Step(made, step.operands, value)


def _prefix(
    module: Module, values: Sequence[Value], implementation: Implementation, generator: _Generator
) -> KernelFault | None:
    entry = module.entry_computation
    for step in steps_run(module, values):
        if step.instruction.parent is not entry:
            continue
        text = cut_behind(module, step).to_text(print_large_constants=True)
        message = _wrong(text, values, step, implementation, generator)
        if message:
            return KernelFault(describe(step.instruction), entry.name, message, False, "", text, values)
    return None


def _wrong(
    text: str, values: Sequence[Value], step: Step, implementation: Implementation, generator: _Generator
) -> str:
    """How a program that ends with a step differs; "" if it does not."""
    try:
        actual = generator.call(text, values)
        assert_close(actual, plain(step.value), rule="program", flush_denormals=implementation.flushes_denormals)
    except (AssertionError, WorkerError, WorkerDied) as error:
        return str(error)
    return ""
