"""Runs passes one after the other, watches over them, and keeps account of them.

Owns: the order of runs, groups that run until nothing changes, checks after each pass, time and counts.
Must not know: any particular pass, where texts and statistics are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xlapy.base.errors import InvalidArgumentError, PassError, XlaError
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.passes.pass_ import Pass, pass_text
from xlapy.text import PrintOptions, print_module

_EVERYTHING = PrintOptions(print_large_constants=True)


@dataclass(frozen=True)
class Fixpoint:
    """A group of passes that runs again and again until none of them changes the module, at most `limit` rounds."""

    name: ClassVar[str] = "fixpoint"
    limit: int = 25
    passes: tuple[Pass, ...] = ()

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InvalidArgumentError(f"option limit of pass {self.name} must be at least 1, not {self.limit}")

    def run(self, module: Module) -> bool:
        return Pipeline([self]).run(module)


@dataclass(frozen=True, slots=True)
class PassEvent:
    """One run of one pass, just over. number: how many runs came before it in the pipeline's run."""

    number: int
    pass_: Pass
    module: Module
    changed: bool
    seconds: float
    round: int = 0
    """Of the innermost group that the pass is in, from 1; 0 outside of groups."""


@dataclass(slots=True)
class PassStatistics:
    """All runs of the passes of one text (name and options): how many, how many changed something, their time."""

    runs: int = 0
    changes: int = 0
    seconds: float = 0.0


@dataclass
class Pipeline:
    """Passes in a row; itself a pass.

    verify_each: verify the module before the first pass and after each that changes it. check_changes: print the module
    before and after each pass and compare that with what the pass reports; tests and `xlapy opt --verify-each` do, a
    compilation need not. on_start: called before each run of a pass with its number, the pass and the round of its
    group. on_pass: called after it. `PassError` names the pass that broke a rule.
    """

    name: ClassVar[str] = "pipeline"
    passes: Sequence[Pass]
    verify_each: bool = False
    check_changes: bool = False
    on_pass: Callable[[PassEvent], None] | None = None
    on_start: Callable[[int, Pass, int], None] | None = None
    statistics: dict[str, PassStatistics] = field(default_factory=dict[str, PassStatistics])
    _runs: int = 0
    _round: int = 0

    def run(self, module: Module) -> bool:
        self._runs = self._round = 0
        if self.verify_each:
            verify(module)
        return self._run_all(self.passes, module)

    def _run_all(self, passes: Sequence[Pass], module: Module) -> bool:
        changed = False
        for pass_ in passes:
            changed |= self._run_group(pass_, module) if isinstance(pass_, Fixpoint) else self._run_one(pass_, module)
        return changed

    def _run_group(self, group: Fixpoint, module: Module) -> bool:
        changed, resting, outside = False, 0, self._round
        for number in range(1, group.limit + 1):
            for pass_ in group.passes:
                self._round = number
                one_changed = self._run_all([pass_], module)
                self._round = outside
                if one_changed:
                    changed, resting = True, 0
                elif (resting := resting + 1) == len(group.passes):  # each has seen the module as it is
                    return changed
        if self.check_changes:
            names = ", ".join(pass_.name for pass_ in group.passes)
            raise PassError(f"the passes {names} still change {module.name} after {group.limit} rounds")
        return True

    def _run_one(self, pass_: Pass, module: Module) -> bool:
        if self.on_start is not None:
            self.on_start(self._runs, pass_, self._round)
        before = print_module(module, _EVERYTHING) if self.check_changes else ""
        started = time.perf_counter()
        changed = pass_.run(module)
        seconds = time.perf_counter() - started
        if self.check_changes:
            _check_truth(pass_, module, changed, before)
        if changed and self.verify_each:
            _check_soundness(pass_, module)
        self._note(PassEvent(self._runs, pass_, module, changed, seconds, self._round))
        return changed

    def _note(self, event: PassEvent) -> None:
        self._runs += 1
        found = self.statistics.setdefault(pass_text(event.pass_), PassStatistics())
        found.runs += 1
        found.changes += event.changed
        found.seconds += event.seconds
        if self.on_pass is not None:
            self.on_pass(event)


def _check_truth(pass_: Pass, module: Module, changed: bool, before: str) -> None:
    after = print_module(module, _EVERYTHING)
    if changed == (after != before):
        return
    if changed:
        raise PassError(f"pass {pass_.name} reports a change of {module.name}, but its text is the same as before")
    raise PassError(f"pass {pass_.name} reports no change of {module.name}, but {_first_difference(before, after)}")


def _first_difference(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    line = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    shown = [text[line].strip()[:200] if line < len(text) else "nothing" for text in (old, new)]
    return f"line {line + 1} of its text was {shown[0]!r} and is {shown[1]!r}"


def _check_soundness(pass_: Pass, module: Module) -> None:
    try:
        verify(module)
    except XlaError as error:
        raise PassError(f"pass {pass_.name} left {module.name} broken: {error}") from error
