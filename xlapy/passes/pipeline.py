"""Runs passes in order, checks them, and counts and times them.

Responsible for the order of runs, groups that run to a fixpoint, checks after each pass, and statistics. Does not
depend on any particular pass, or on how texts and statistics are displayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError, PassError, XlaError
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.passes.pass_ import Pass, pass_text
from xlapy.text import PrintOptions, print_module

_FULL_TEXT = PrintOptions(print_large_constants=True)


@dataclass(frozen=True)
class Fixpoint:
    """Runs a group of passes repeatedly until none of them changes the module, for at most `limit` iterations.

    >>> from xlapy.passes import Fixpoint, Pipeline, parse_passes
    >>> module = xla.parse_hlo("ENTRY e { x = f32[] parameter(0)  y = negate(x)  ROOT z = negate(y) }")
    >>> Pipeline([Fixpoint(passes=tuple(parse_passes("simplify,dce")))]).run(module)
    True
    """

    name: ClassVar[str] = "fixpoint"
    limit: int = 25
    passes: tuple[Pass, ...] = ()

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InvalidArgumentError(
                codes.PASS_OPTION_VALUE, f"option limit of pass {self.name} must be at least 1, not {self.limit}"
            )

    def run(self, module: Module) -> bool:
        return Pipeline([self]).run(module)


@dataclass(frozen=True, slots=True)
class PassEvent:
    """A finished run of a pass. number: the number of runs before it in this run of the pipeline."""

    number: int
    pass_: Pass
    module: Module
    changed: bool
    seconds: float
    iteration: int = 0
    """The iteration of the innermost fixpoint group of the pass, from 1; 0 outside of groups."""


@dataclass(slots=True)
class PassStatistics:
    """Statistics of all runs of a pass with the same options: runs, runs that changed the module, seconds."""

    runs: int = 0
    changes: int = 0
    seconds: float = 0.0


@dataclass
class Pipeline:
    """A sequence of passes, itself a pass.

    verify_each: verify the module before the first pass and after each pass that changes it. check_changes: print the
    module before and after each pass, and compare the texts with what the pass reports; tests and `xlapy opt
    --verify-each` set it, a compilation does not need it. on_start: called before each run of a pass with its number,
    the pass and the iteration of its group. on_pass: called after each run. Raises `PassError` for a pass that leaves
    the module invalid or reports wrongly whether it changed it.

    >>> from xlapy.passes import Pipeline, parse_passes
    >>> module = xla.parse_hlo("ENTRY e { x = f32[] parameter(0)  y = negate(x)  ROOT z = negate(y) }")
    >>> Pipeline(parse_passes("simplify,dce"), verify_each=True).run(module)
    True
    >>> module.instruction_count
    1
    """

    name: ClassVar[str] = "pipeline"
    passes: Sequence[Pass]
    verify_each: bool = False
    check_changes: bool = False
    on_pass: Callable[[PassEvent], None] | None = None
    on_start: Callable[[int, Pass, int], None] | None = None
    statistics: dict[str, PassStatistics] = field(default_factory=dict[str, PassStatistics])
    _texts: dict[int, str] = field(default_factory=dict[int, str])
    """The text of each pass object of a run, by its identity."""
    _runs: int = 0
    _iteration: int = 0

    def run(self, module: Module) -> bool:
        self._runs = self._iteration = 0
        self._texts.clear()
        if self.verify_each:
            verify(module)
        return self._run_all(self.passes, module)

    def _run_all(self, passes: Sequence[Pass], module: Module) -> bool:
        changed = False
        for pass_ in passes:
            changed |= self._run_group(pass_, module) if isinstance(pass_, Fixpoint) else self._run_one(pass_, module)
        return changed

    def _run_group(self, group: Fixpoint, module: Module) -> bool:
        changed, unchanged_runs, outside = False, 0, self._iteration
        for number in range(1, group.limit + 1):
            for pass_ in group.passes:
                self._iteration = number
                one_changed = self._run_all([pass_], module)
                self._iteration = outside
                if one_changed:
                    changed, unchanged_runs = True, 0
                elif (unchanged_runs := unchanged_runs + 1) == len(group.passes):  # each has run on the module as it is
                    return changed
        if self.check_changes:
            names = ", ".join(pass_.name for pass_ in group.passes)
            raise PassError(
                codes.PASSES_END, f"the passes {names} still change {module.name} after {group.limit} iterations"
            )
        return True

    def _run_one(self, pass_: Pass, module: Module) -> bool:
        if self.on_start is not None:
            self.on_start(self._runs, pass_, self._iteration)
        before = print_module(module, _FULL_TEXT) if self.check_changes else ""
        started = time.perf_counter()
        changed = pass_.run(module)
        seconds = time.perf_counter() - started
        if self.check_changes:
            _check_reported_change(pass_, module, changed, before)
        if changed and self.verify_each:
            _check_validity(pass_, module)
        self._record(PassEvent(self._runs, pass_, module, changed, seconds, self._iteration))
        return changed

    def _record(self, event: PassEvent) -> None:
        self._runs += 1
        text = self._texts.get(id(event.pass_))
        if text is None:
            text = self._texts[id(event.pass_)] = pass_text(event.pass_)
        found = self.statistics.get(text)
        if found is None:
            found = self.statistics[text] = PassStatistics()
        found.runs += 1
        found.changes += event.changed
        found.seconds += event.seconds
        if self.on_pass is not None:
            self.on_pass(event)


def _check_reported_change(pass_: Pass, module: Module, changed: bool, before: str) -> None:
    after = print_module(module, _FULL_TEXT)
    if changed == (after != before):
        return
    if changed:
        raise PassError(
            codes.REPORTED_CHANGE,
            f"pass {pass_.name} reports a change of {module.name}, but its text is the same as before",
        )
    raise PassError(
        codes.REPORTED_CHANGE,
        f"pass {pass_.name} reports no change of {module.name}, but {_first_difference(before, after)}",
    )


def _first_difference(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    line = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    shown = [text[line].strip()[:200] if line < len(text) else "nothing" for text in (old, new)]
    return f"line {line + 1} of its text was {shown[0]!r} and is {shown[1]!r}"


def _check_validity(pass_: Pass, module: Module) -> None:
    try:
        verify(module)
    except XlaError as error:
        raise PassError(
            codes.VALID_RESULT,
            f"pass {pass_.name} left {module.name} invalid by the rule {error.code}: {error.message}",
        ) from error
