"""Searches for what makes a program wrong: a run of a pass, or the code generated after all passes.

The passes run once, and the text of every module that they produce is kept. The interpreter runs these modules; a
binary search finds two consecutive ones of which the first is right and the second is wrong. If the last module is
right, code generation is checked.

Responsible for the order of the search. Does not depend on how a program is reduced (`pass_reduction`) or how a wrong
kernel is found (`kernels`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xlapy import opcodes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError, UnsupportedError
from xlapy.debugging.bisecting.kernels import KernelFault, find_kernel
from xlapy.debugging.bisecting.pass_reduction import ReducedProgram, reduce_program_for_pass
from xlapy.debugging.bisecting.session import (
    BisectSession,
    FaultKind,
    PassPosition,
    PassRun,
    PassTrace,
    ProgramFault,
    find_result_fault,
)
from xlapy.hlo.instruction import describe_instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.transfer import ChannelAttributes
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.testing.program_tolerance import ProgramTolerance
from xlapy.text import parse_hlo

Value = Any
ReportProgress = Callable[[str], None]

_HOST_QUEUE_OPCODES = frozenset({opcodes.INFEED, opcodes.OUTFEED})


@dataclass(frozen=True, slots=True)
class BisectSettings:
    """What is checked, and how.

    passes: the passes to check as text, as `parse_passes` reads it, "" for none; None checks the passes of cpu and code
    generation. only_position: the position of the only pass that runs. optimized: the program is optimized already, so
    only code generation is checked. against: the reference, `interpreter` or `xla`. loads: Python files or modules to
    load first. timeout_seconds: the maximum time of a pass or a run of the program. reduce_seconds: the maximum time
    for reducing the program.
    """

    passes: str | None = None
    only_position: str | None = None
    optimized: bool = False
    against: str = "interpreter"
    loads: tuple[str, ...] = ()
    timeout_seconds: float = 60.0
    reduce_seconds: float = 60.0

    @property
    def generates_code(self) -> bool:
        """Whether code generation is checked."""
        return self.optimized or (self.passes is None and self.only_position is None)


@dataclass(slots=True)
class BisectResult:
    """The result of a bisection.

    pass_runs, changing_runs: the number of pass runs, and of those that changed the module. fault: None if nothing is
    wrong.
    """

    pass_runs: int = 0
    changing_runs: int = 0
    fault: ProgramFault | None = None
    position: PassPosition | None = None
    """The faulty run of a pass; None if no pass is faulty."""
    before: str = ""
    """The module before the faulty pass, or the module whose code is wrong."""
    after: str | None = None
    first_change: list[str] = field(default_factory=list[str])
    """The first instruction whose value the pass changed: a line for it before the pass, one for it after the pass, and
    one per difference.
    """
    kernel: KernelFault | None = None
    reduced: ReducedProgram | None = None
    agrees_before_passes: bool = True
    """Whether the interpreter agrees with XLA on the program before any pass. Always true if the interpreter is the
    reference.
    """
    notes: list[str] = field(default_factory=list[str])


def bisect(
    module: Module,
    arguments: Sequence[Sequence[Any]],
    settings: BisectSettings,
    report_progress: ReportProgress = lambda _: None,
) -> BisectResult:
    """Finds what makes a verified program wrong for some arguments, which are given for each device.

    `report_progress` is called with a description of each step. Raises `ExecutionError` if the reference gives no
    result, and `UnsupportedError` for programs that exchange data with the host and for programs for several devices if
    XLA is the reference.
    """
    _check(module, arguments, settings)
    shape = module.entry_computation.program_shape
    values = [check_arguments(shape, given) for given in arguments]
    replicas = max(1, len(arguments) // module.config.num_partitions)
    session = BisectSession(shape, values, replicas, settings.loads, settings.timeout_seconds)
    try:
        return _Search(session, settings, report_progress).run(_full_text(module))
    finally:
        session.worker.close()


def _check(module: Module, arguments: Sequence[Sequence[Any]], settings: BisectSettings) -> None:
    if settings.against not in ("interpreter", "xla"):
        raise InvalidArgumentError(codes.CHOICE, f"the reference is the interpreter or xla, not {settings.against!r}")
    if settings.against == "xla" and len(arguments) > 1:
        raise UnsupportedError(
            codes.SINGLE_DEVICE, f"{module.name} runs on {len(arguments)} devices; XLA runs programs on one"
        )
    for instruction in module.instructions():
        attributes = instruction.attributes
        if instruction.op in _HOST_QUEUE_OPCODES or (
            isinstance(attributes, ChannelAttributes) and attributes.is_host_transfer
        ):
            raise UnsupportedError(
                codes.HOST_EXCHANGE,
                f"{describe_instruction(instruction)} exchanges data with the host: such programs cannot be "
                "bisected, because bisecting runs a program many times",
            )


def _full_text(module: Module) -> str:
    return module.to_text(print_large_constants=True)


class _Search:
    """The state of one bisection."""

    def __init__(self, session: BisectSession, settings: BisectSettings, report_progress: ReportProgress) -> None:
        self.session = session
        self.settings = settings
        self.report_progress = report_progress
        self.result = BisectResult()
        self.expected: list[ProgramTolerance] = []

    def run(self, text: str) -> BisectResult:
        if not self._compute_expected_results(text):
            return self.result
        trace = PassTrace() if self.settings.optimized else self._run_passes(text)
        changed = [run for run in trace.runs if run.text is not None]
        self.result.pass_runs = len(trace.runs) + (trace.stopped_at is not None)
        self.result.changing_runs = len(changed)
        self.result.notes += [_misreport_note(run) for run in trace.runs if run.is_misreported]
        texts = [text, *[run.text or "" for run in changed]]
        positions = [run.position for run in changed]
        if not self._find_pass_that_changes_result(texts, positions) and trace.stopped_at is not None:
            self._record_pass_fault(trace.stopped_at, trace.fault, texts[-1], trace.invalid_text)
        if self.result.fault is None and self.settings.generates_code:
            self._check_generated_code(text, texts[-1])
            self._note_pass_of_refused_instruction(texts, positions)
        self._find_first_changed_value()
        self._reduce_program()
        return self.result

    def _compute_expected_results(self, text: str) -> bool:
        """Sets the expected results. Returns whether the interpreter agrees with the reference on the original
        program."""
        self.report_progress("running the program on the interpreter")
        against_xla = self.settings.against == "xla"
        interpreted = self.session.find_tolerances(
            text, flush_denormals=against_xla or self.settings.generates_code, excess_precision=against_xla
        )
        if not against_xla:
            if isinstance(interpreted, ProgramFault):
                raise ExecutionError(
                    codes.REFERENCE_RESULT, f"the interpreter gives no result to compare with: {interpreted.message}"
                )
            self.expected = interpreted
            return True
        self.report_progress("running the program on XLA")
        reference = self.session.run_xla(text)
        if isinstance(reference, ProgramFault):
            raise ExecutionError(codes.REFERENCE_RESULT, f"XLA gives no result to compare with: {reference.message}")
        if isinstance(interpreted, ProgramFault):
            self.result.fault = interpreted
        else:
            results = [tolerance.expected for tolerance in interpreted]
            pairs = zip(interpreted, reference, strict=True)
            self.expected = [replace(tolerance, expected=expected) for tolerance, expected in pairs]
            self.result.fault = find_result_fault(results, self.expected)
        self.result.agrees_before_passes = self.result.fault is None
        return self.result.agrees_before_passes

    def _run_passes(self, text: str) -> PassTrace:
        def report_position(position: PassPosition) -> None:
            self.report_progress(f"{position}")

        return self.session.run_passes(text, self.settings.passes, self.settings.only_position, report_position)

    def _find_pass_that_changes_result(self, texts: Sequence[str], positions: Sequence[PassPosition]) -> bool:
        """Finds a pass run after which the result is wrong and before which it is right. Returns whether there is
        one."""
        if len(texts) == 1 or self._fault_after_changes(texts, len(texts) - 1) is None:
            return False
        right, wrong = 0, len(texts) - 1
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._fault_after_changes(texts, middle) is None:
                right = middle
            else:
                wrong = middle
        self._record_pass_fault(positions[right], self._fault_after_changes(texts, wrong), texts[right], texts[wrong])
        return True

    def _fault_after_changes(self, texts: Sequence[str], number: int) -> ProgramFault | None:
        self.report_progress(f"running the program after {number} of {len(texts) - 1} changes")
        return find_result_fault(self.session.run_interpreter(texts[number]), self.expected)

    def _find_first_changed_value(self) -> None:
        """Finds the first value that the faulty pass changed, if it changed the result of a program for one device."""
        found = self.result
        changes_result = found.fault is not None and found.fault.kind is FaultKind.CHANGES
        if (
            changes_result
            and found.position is not None
            and found.after is not None
            and len(self.session.arguments) == 1
        ):
            self.report_progress("searching for the first instruction whose value differs")
            found.first_change = self.session.first_changed_value(found.before, found.after)

    def _record_pass_fault(
        self, position: PassPosition, fault: ProgramFault | None, before: str, after: str | None
    ) -> None:
        self.result.position, self.result.fault = position, fault
        self.result.before, self.result.after = before, after

    # -- code generation

    def _check_generated_code(self, text: str, optimized: str) -> None:
        self.report_progress("running the program on cpu")
        actual = self.session.run_generated_code(optimized) if self.settings.optimized else self.session.run_cpu(text)
        fault = find_result_fault(actual, self.expected)
        if fault is None:
            return
        self.result.fault, self.result.before = fault, optimized
        if self.settings.optimized or fault.is_like(
            find_result_fault(self.session.run_generated_code(optimized), self.expected)
        ):
            self.result.kernel = self._find_kernel(optimized, fault)
        else:
            self.result.notes.append("the optimized module, parsed from its text, does not show this fault")

    def _note_pass_of_refused_instruction(self, texts: Sequence[str], positions: Sequence[PassPosition]) -> None:
        """Notes which pass created the instruction that code generation refuses. The error message begins with its
        name.
        """
        fault = self.result.fault
        if fault is None or fault.kind is not FaultKind.REFUSED:
            return
        name = fault.message.removeprefix("UnsupportedError: ").split(" ")[0]
        first = next((number for number, text in enumerate(texts) if f"%{name} = " in text), 0)
        if first:
            self.result.notes.append(f"{name} is made by {positions[first - 1]}")

    def _find_kernel(self, optimized: str, fault: ProgramFault) -> KernelFault | None:
        if len(self.session.arguments) > 1:
            self.result.notes.append("kernels are not checked one by one in programs for several devices")
            return None
        if fault.kind is FaultKind.REFUSED:
            return None
        return find_kernel(optimized, self.session, self.report_progress)

    def _reduce_program(self) -> None:
        found = self.result
        if found.fault is None or found.position is None or self.settings.reduce_seconds <= 0:
            return
        found.reduced = reduce_program_for_pass(
            self.session,
            parse_hlo(found.before),
            (self.settings.passes, found.position.position),
            found.fault,
            self.settings.reduce_seconds,
            self.report_progress,
        )
        if found.reduced is None:
            found.notes.append(
                "the program is not reduced: the pass alone, run on the module before it, does not show this fault"
            )


def _misreport_note(run: PassRun) -> str:
    if run.text is None:
        return f"{run.position} reports a change but makes none"
    return f"{run.position} changes the module but reports no change"
