"""Reduces a program to the smallest one on which a pass shows the same fault.

Responsible for deciding whether a smaller program shows the fault, and when to stop. Does not depend on how programs
are made smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xlapy.base.errors import XlaError
from xlapy.debugging.bisecting.session import BisectSession, ProgramFault, find_result_fault
from xlapy.debugging.bisecting.signature import to_current_arguments
from xlapy.debugging.fuzzing.campaign import arguments_for
from xlapy.debugging.reducing import Progress, reduce_module
from xlapy.hlo.module import Module
from xlapy.runtime.engine.arguments import check_arguments

Value = Any

_MAX_RUN_SECONDS = 10.0
"""The maximum time of a pass or of a run of a reduced program."""


@dataclass(frozen=True, slots=True)
class ReducedProgram:
    """The reduced module before the pass, its arguments on each device, the module after the pass, and the fault."""

    text: str
    arguments: Sequence[Sequence[Value]]
    after: str | None
    fault: ProgramFault


class _TimeLimitReached(Exception):
    """Ends the reduction because its time is over."""


@dataclass(slots=True)
class _PassCheck:
    """Runs the pass on smaller programs. Their arguments are those of the original program, cropped to their shapes."""

    session: BisectSession
    arguments_by_name: Sequence[dict[str, Value]]
    passes: str | None
    position: str

    def __call__(self, module: Module) -> ReducedProgram | None:
        """Returns the module with the fault that the pass shows on it; None if the pass is correct on it."""
        shape = module.entry_computation.program_shape
        arguments = [arguments_for(module, given) for given in self.arguments_by_name]
        values = [check_arguments(shape, given) for given in arguments]
        session = self.session.with_arguments(shape, values)
        text = module.to_text(print_large_constants=True)
        trace = session.run_passes(text, self.passes, self.position, lambda _: None)
        if trace.fault is not None:
            return ReducedProgram(text, arguments, trace.invalid_text, trace.fault)
        after = next((run.text for run in trace.runs if run.text is not None), None)
        expected = session.find_tolerances(text) if after is not None else []
        if after is None or isinstance(expected, ProgramFault):
            return None
        fault = find_result_fault(session.run_interpreter(after), expected)
        return None if fault is None else ReducedProgram(text, arguments, after, fault)


def reduce_program_for_pass(
    session: BisectSession,
    module: Module,
    passes_and_position: tuple[str | None, str],
    fault: ProgramFault,
    seconds: float,
    report_progress: Callable[[str], None],
) -> ReducedProgram | None:
    """Returns the smallest program found within `seconds` on which one pass shows a similar fault.

    passes_and_position: the passes of the pipeline, and the position of the one that runs. Returns None if the pass,
    run alone on `module`, does not show the fault.
    """
    shape = module.entry_computation.program_shape
    names = [parameter.name for parameter in module.entry_computation.parameters]
    arguments = [to_current_arguments(values, session.original_shape, shape) for values in session.arguments]
    check = _PassCheck(session, [dict(zip(names, given, strict=True)) for given in arguments], *passes_and_position)
    report_progress("running the pass alone on the module before it")
    best = check(module)
    if best is None or not best.fault.is_like(fault):
        return None
    session.worker.seconds = min(session.timeout_seconds, _MAX_RUN_SECONDS)
    end = time.monotonic() + seconds

    def interesting(candidate: Module) -> bool:
        nonlocal best
        if time.monotonic() > end:
            raise _TimeLimitReached
        try:
            found = check(candidate)
        except XlaError:  # the program cannot be run at all
            return False
        if found is None or not found.fault.is_like(fault):
            return False
        best = found
        return True

    def report(progress: Progress) -> None:
        report_progress(
            f"reducing: {progress.best.instruction_count} instructions left, {progress.tried} programs tried"
        )

    with suppress(_TimeLimitReached):
        reduce_module(module, interesting, report)
    return best
