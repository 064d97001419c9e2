"""Finds the first wrong kernel of a program whose passes are correct.

The interpreter runs the optimized module and records the operands and the value of every instruction that has a kernel;
in loops, those of the first few iterations. Each of these instructions is compiled alone and run on the recorded
operands. Some faults, such as buffers reused too early, do not appear this way; then the program is truncated after one
instruction after the other, until its result differs.

Responsible for this search, also inside a fusion. Does not depend on passes or on how code is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.debugging.bisecting.session import BisectSession
from xlapy.debugging.bisecting.signature import to_current_arguments
from xlapy.debugging.first_difference import truncate_after
from xlapy.debugging.fuzzing.differential import Verdict, compare_steps
from xlapy.debugging.fuzzing.implementations import Implementation, find_implementation, plain
from xlapy.debugging.fuzzing.worker import WorkerDied, WorkerError
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, evaluate_computation
from xlapy.opcodes.registry import AsyncRole
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.testing.instruction_by_instruction import describe, flat_module
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.sum_errors import Step
from xlapy.text import parse_hlo

Value = Any
ReportProgress = Callable[[str], None]

MAX_STEPS_PER_INSTRUCTION = 3
"""How many executions of the same instruction are checked, if it is in a loop."""

_WITHOUT_KERNEL = frozenset({
    opcodes.CALL, opcodes.CONDITIONAL, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE,
    opcodes.WHILE,
})  # fmt: skip
_WRONG_VERDICTS = (Verdict.DIFFERS, Verdict.DIED, Verdict.REFUSED)
_ALONE_SUFFIX = ", even alone"
_INLINED_CALLERS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})


@dataclass(frozen=True, slots=True)
class KernelFault:
    """An instruction whose machine code is wrong.

    compiled_alone: whether the fault appears if the instruction is compiled alone. fused_instruction: the first
    instruction inside a fusion that makes the code of the fusion wrong; "" if the instruction is not a fusion. text,
    arguments: a program that shows the fault: the instruction alone, or the program truncated after it.
    """

    instruction: str
    computation: str
    message: str
    compiled_alone: bool
    fused_instruction: str
    text: str
    arguments: Sequence[Value]


def find_kernel(text: str, session: BisectSession, report_progress: ReportProgress) -> KernelFault | None:
    """Returns the first instruction of an optimized module whose machine code differs from the interpreter, if any."""
    module = parse_hlo(text)
    shape = module.entry_computation.program_shape
    values = check_arguments(shape, to_current_arguments(session.arguments[0], session.original_shape, shape))
    implementation = find_implementation("cpu")
    caller = _GeneratedCodeCaller(session)
    report_progress("running the optimized module on the interpreter")
    steps = list(record_steps(module, values))
    for number, step in enumerate(steps):
        report_progress(f"kernel {number + 1} of {len(steps)}: {step.instruction.name}")
        if implementation.known_divergence(step) is None and (
            found := _find_kernel_fault(step, implementation, caller)
        ):
            return found
    report_progress("running the program truncated after each instruction")
    return _find_wrong_prefix(module, values, implementation, caller)


class _GeneratedCodeCaller:
    """A `Caller` that runs programs as machine code without running passes. Takes the place of a worker in
    `compare_steps`."""

    def __init__(self, session: BisectSession) -> None:
        self._session = session

    def call(self, *arguments: Any, **_: Any) -> Value:
        text, values = arguments
        given = [plain(value) for value in values]
        session = self._session
        return session.worker.call("optimized", session.loads, text, [given], 1)[0]


def record_steps(module: Module, values: Sequence[Value]) -> Iterator[Step]:
    """Yields the operands and the value of each instruction with a kernel, in the order in which the interpreter runs
    them. Includes the instructions of loops, branches and called computations.
    """
    computations = set(_computations_with_kernels(module.entry_computation))
    steps: list[Step] = []
    counts: dict[Instruction, int] = {}

    def observe(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        if instruction.parent not in computations or instruction.op in _WITHOUT_KERNEL:
            return
        if instruction.op.async_role is not AsyncRole.NONE:
            return
        counts[instruction] = counts.get(instruction, 0) + 1
        if counts[instruction] <= MAX_STEPS_PER_INSTRUCTION:
            steps.append(Step(instruction, tuple(operands), value))

    with np.errstate(all="ignore"):
        evaluate_computation(Context(observer=observe), module.entry_computation, values)
    return iter(steps)


def _computations_with_kernels(computation: Computation) -> Iterator[Computation]:
    """Yields the computation and those that its calls, conditionals and loops execute, directly or not. Their
    instructions have kernels of their own.
    """
    pending = [computation]
    while pending:
        yield (found := pending.pop())
        pending += [called for i in found if i.op in _INLINED_CALLERS for called in i.computations]


def _find_kernel_fault(step: Step, implementation: Implementation, caller: _GeneratedCodeCaller) -> KernelFault | None:
    (outcome,) = compare_steps([step], implementation, caller)
    if outcome.verdict not in _WRONG_VERDICTS:
        return None
    is_fusion = step.instruction.op is opcodes.FUSION
    fused_instruction = _find_wrong_fused_instruction(step, implementation, caller) if is_fusion else ""
    module, values = flat_module([step])
    parent = step.instruction.parent
    return KernelFault(
        describe(step.instruction),
        parent.name if parent is not None else "",
        outcome.reason,
        True,
        fused_instruction,
        module.to_text(print_large_constants=True),
        values,
    )


def _find_wrong_fused_instruction(step: Step, implementation: Implementation, caller: _GeneratedCodeCaller) -> str:
    alone = _find_wrong_instruction_alone(step, implementation, caller)
    return alone or _find_wrong_fusion_prefix(step, implementation, caller)


def _find_wrong_instruction_alone(step: Step, implementation: Implementation, caller: _GeneratedCodeCaller) -> str:
    """Describes the first instruction of a fusion that is wrong if compiled alone; "" if there is none."""
    for inner in _steps_of_fusion(step):
        if inner.instruction.op in _WITHOUT_KERNEL or implementation.known_divergence(inner) is not None:
            continue
        (outcome,) = compare_steps([inner], implementation, caller)
        if outcome.verdict in _WRONG_VERDICTS:
            return describe(inner.instruction) + _ALONE_SUFFIX
    return ""


def _steps_of_fusion(step: Step) -> list[Step]:
    """Returns the steps that the interpreter executes inside a fusion."""
    (fused,) = step.instruction.computations
    steps: list[Step] = []

    def observe(instruction: Instruction, operands: Sequence[Value], value: Value) -> None:
        if instruction.parent is fused:
            steps.append(Step(instruction, tuple(operands), value))

    with np.errstate(all="ignore"):
        evaluate_computation(Context(observer=observe), fused, step.operands)
    return steps


def _find_wrong_fusion_prefix(step: Step, implementation: Implementation, caller: _GeneratedCodeCaller) -> str:
    """Describes the first instruction that makes the fusion wrong if the fusion is truncated after it; "" if there is
    none.
    """
    (fused,) = step.instruction.computations
    for position, instruction in enumerate(fused.instructions):
        if instruction.op in _WITHOUT_KERNEL:
            continue
        truncated = _truncate_fusion(step, position)
        (outcome,) = compare_steps([truncated], implementation, caller)
        if outcome.verdict in _WRONG_VERDICTS:
            return describe(instruction)
    return ""


def _truncate_fusion(step: Step, position: int) -> Step:
    """Returns the step of a fusion truncated after the instruction at `position`, which becomes its root."""
    module, _ = flat_module([step])
    entry = module.entry_computation
    fusion = next(i for i in entry if i.op is opcodes.FUSION)
    (fused,) = fusion.computations
    edit.set_root(fused, fused.instructions[position])
    shape = fused.root_instruction.shape
    truncated = edit.create(
        entry, opcodes.FUSION, fusion.operands, fusion.attributes, [fused], shape=shape, name=fusion.name
    )
    root = entry.root_instruction
    edit.set_root(entry, truncated)
    for instruction in (root, fusion):
        edit.remove(instruction)
    with np.errstate(all="ignore"):
        value = evaluate_computation(Context(), fused, step.operands)
    return Step(truncated, step.operands, value)


def _find_wrong_prefix(
    module: Module, values: Sequence[Value], implementation: Implementation, caller: _GeneratedCodeCaller
) -> KernelFault | None:
    entry = module.entry_computation
    for step in record_steps(module, values):
        if step.instruction.parent is not entry:
            continue
        truncated = truncate_after(module, step)
        text = truncated.to_text(print_large_constants=True)
        if message := _prefix_difference(truncated, text, values, implementation, caller):
            return KernelFault(describe(step.instruction), entry.name, message, False, "", text, values)
    return None


def _prefix_difference(
    truncated: Module, text: str, values: Sequence[Value], implementation: Implementation, caller: _GeneratedCodeCaller
) -> str:
    """Describes how the result of a truncated program differs from the interpreter's; "" if it does not."""
    tolerance = program_tolerance(truncated, values, flush_denormals=implementation.flushes_denormals)
    try:
        tolerance.assert_close(caller.call(text, values))
    except (AssertionError, WorkerError, WorkerDied) as error:
        return str(error)
    return ""
