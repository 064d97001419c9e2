"""The smallest program on which one pass does the harm that it does to a larger one.

Owns: what makes a smaller program as interesting, and when to stop. Must not know: how programs are made smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xlapy.base.errors import XlaError
from xlapy.debugging.bisecting.outcome import Fault, Laboratory, difference, replaced
from xlapy.debugging.bisecting.signature import given_now
from xlapy.debugging.fuzzing.campaign import arguments_for
from xlapy.debugging.reducing import Progress, reduce_module
from xlapy.hlo.module import Module
from xlapy.runtime.engine.arguments import check_arguments

Value = Any

_SECONDS = 10.0
"""That a pass or a run of a smaller program may take."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The module before the pass, made smaller, its arguments on each device, and what is wrong behind the pass."""

    text: str
    arguments: Sequence[Sequence[Value]]
    after: str | None
    fault: Fault


class _TimeIsOver(Exception):
    pass


@dataclass(slots=True)
class _Check:
    """Runs the pass on smaller programs, with the arguments of the large one cut to their shapes."""

    laboratory: Laboratory
    given: Sequence[dict[str, Value]]
    chosen: str | None
    place: str

    def __call__(self, module: Module) -> Reduced | None:
        """What is wrong with the pass on a module; None if nothing is."""
        shape = module.entry_computation.program_shape
        arguments = [arguments_for(module, given) for given in self.given]
        values = [check_arguments(shape, each) for each in arguments]
        here = replaced(self.laboratory, shape, values)
        text = module.to_text(print_large_constants=True)
        way = here.passes(text, self.chosen, self.place, lambda _: None)
        if way.fault is not None:
            return Reduced(text, arguments, way.broken, way.fault)
        after = next((run.text for run in way.runs if run.text is not None), None)
        expected = here.interpreted(text) if after is not None else []
        if after is None or isinstance(expected, Fault):
            return None
        fault = difference(here.interpreted(after), expected)
        return None if fault is None else Reduced(text, arguments, after, fault)


def reduce_for_pass(
    laboratory: Laboratory,
    module: Module,
    chosen: tuple[str | None, str],
    fault: Fault,
    seconds: float,
    say: Callable[[str], None],
) -> Reduced | None:
    """The smallest program found in some time on which a pass, chosen by pipeline and place, is as wrong.

    None if it is not even wrong on that, run alone.
    """
    shape = module.entry_computation.program_shape
    names = [parameter.name for parameter in module.entry_computation.parameters]
    rows = [given_now(values, laboratory.first, shape) for values in laboratory.values]
    check = _Check(laboratory, [dict(zip(names, row, strict=True)) for row in rows], *chosen)
    say("running the pass alone on the module before it")
    best = check(module)
    if best is None or not best.fault.is_like(fault):
        return None
    laboratory.worker.seconds = min(laboratory.seconds, _SECONDS)
    end = time.monotonic() + seconds

    def interesting(candidate: Module) -> bool:
        nonlocal best
        if time.monotonic() > end:
            raise _TimeIsOver
        try:
            found = check(candidate)
        except XlaError:  # the process could not even begin
            return False
        if found is None or not found.fault.is_like(fault):
            return False
        best = found
        return True

    def report(progress: Progress) -> None:
        say(f"reducing: {progress.best.instruction_count} instructions left, {progress.tried} programs tried")

    with suppress(_TimeIsOver):
        reduce_module(module, interesting, report)
    return best
