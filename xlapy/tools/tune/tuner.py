"""Tunes a program: finds the kernels that take the time, searches for faster plans, and keeps those that make the
program faster.

    tuned = tune_module(module, arguments, time_limit=60)
    Path("model.tuning").write_text(tuning_text(tuned.kernels))
    executable = Client("cpu").compile(module, tuning_file="model.tuning")

Responsible for the steps. Does not depend on files or on output.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import UnsupportedError
from xlapy.codegen.strategies import Choice
from xlapy.codegen.tuning import NO_TUNED_PLANS, TunedKernel, TunedPlans, plans_for
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.llvm.processor import instruction_set
from xlapy.hlo.module import Module
from xlapy.runtime import Executable
from xlapy.runtime.backends.cpu import CpuBackend, CpuProgram
from xlapy.runtime.device import Device
from xlapy.runtime.engine.donation import donated_leaves
from xlapy.runtime.machine import machine_roofline
from xlapy.tools.profile.measuring import compiled_form, measure
from xlapy.tools.profile.native import native_rows
from xlapy.tools.profile.rows import Row, all_rows
from xlapy.tools.profile.session import Session
from xlapy.tools.tune.kernels import tunable_kernels
from xlapy.tools.tune.search import Found, Settings, search
from xlapy.tools.tune.trials import alternate

MIN_SHARE = 0.01
"""The least share of the run time of a kernel that is tuned."""

WHOLE_RUNS = 15
"""The samples of the whole program with and without the plans that are kept."""

Report = Callable[[int, int, str], None]
"""Is called with the number of the kernel that is tuned, the number of kernels, and a line about the trial."""


@dataclass(frozen=True, slots=True)
class TunedRow:
    """A kernel and what became of it. Seconds are those of a run of the whole program."""

    found: Found
    share: float
    """The part of the run time that the kernel takes with its default plan."""
    before: float
    after: float
    is_kept: bool
    """Whether the winning plan also makes the kernel faster in the program."""


@dataclass(frozen=True, slots=True)
class TunedProgram:
    """The result of tuning."""

    module: Module
    rows: list[TunedRow]
    """The kernels that were examined, the most expensive first."""
    before: float
    """The seconds of a call with default plans."""
    after: float
    """The seconds of a call with the plans that are kept."""
    kernels: list[TunedKernel]
    """The plans that are kept."""
    untuned_kernels: int
    """The number of kernels that were not examined."""
    tuned: Compiled
    """The program with the plans that are kept."""


class TuningInterrupted(KeyboardInterrupt):
    """An interruption of the search. kernels: the plans that were found before, and not yet compared in the program."""

    def __init__(self, kernels: list[TunedKernel]) -> None:
        super().__init__()
        self.kernels = kernels


def tune_module(
    module: Module,
    arguments: Sequence[Any],
    *,
    top: int = 10,
    time_limit: float = 300.0,
    settings: Settings | None = None,
    repeat: int | None = None,
    report: Report = lambda number, count, text: None,
) -> TunedProgram:
    """Tunes a program on one device. arguments: one per parameter, on which the program is profiled.

    top: the number of kernels that are examined, by their share of the run time. time_limit: seconds for the search;
    the measurements of the whole program and the check of a plan that is being chosen may exceed it. repeat: runs of
    each profile; by default about two seconds of runs. Raises `UnsupportedError` for a program on several devices, and
    `TuningInterrupted` if Ctrl-C ends the search.
    """
    end = time.monotonic() + time_limit
    settings = settings or Settings()
    plain = compile_with_plans(module, NO_TUNED_PLANS)
    session = Session(plain, [list(arguments)])
    rows, _ = _profile(plain, session, repeat)
    kernels = tunable_kernels(rows, _plans(plain))
    total = sum(row.seconds for row in rows)
    examined = [kernel for kernel in kernels[:top] if kernel.seconds >= MIN_SHARE * total]
    found: list[Found] = []
    try:
        for number, kernel in enumerate(examined):
            left = (end - time.monotonic()) / (len(examined) - number)  # what one leaves over is for the others

            def note(text: str, number: int = number) -> None:
                report(number, len(examined), text)

            note(kernel.name)
            found.append(search(kernel, settings, time.monotonic() + left, note))
        report(len(examined), len(examined), "measuring the whole program")
        return _Comparison(module, plain, session, repeat, found, len(kernels) - len(examined)).result()
    except KeyboardInterrupt as error:
        raise TuningInterrupted(_tuned_kernels(found)) from error


class _Comparison:
    """Measures the program with the winners, and leaves out those that make their kernel no faster there."""

    def __init__(
        self,
        module: Module,
        plain: Executable,
        session: Session,
        repeat: int | None,
        found: Sequence[Found],
        unexamined: int,
    ) -> None:
        self.module, self.plain, self.session, self.repeat = module, plain, session, repeat
        self.found, self.unexamined = found, unexamined

    def result(self) -> TunedProgram:
        winners = [found for found in self.found if found.winner is not None]
        tuned = self.compiled(winners)
        before, wall = self.seconds(self.plain)
        after, _ = self.seconds(tuned) if winners else (before, wall)
        kept = [one for one in winners if after.get(id(one), math.inf) < before[id(one)]]
        kept.sort(key=lambda one: before[id(one)] - after[id(one)])
        if len(kept) < len(winners):
            tuned = self.compiled(kept)
        walls = [wall, wall]
        total = max(wall, sum(before.values()))  # reading the clock makes thunks longer
        while kept:
            walls = self.walls(tuned)
            if walls[1] < walls[0]:
                break
            kept = kept[1:]  # without the plan that gains least
            tuned = self.compiled(kept)
            walls = [walls[0], walls[0]]
        rows: list[TunedRow] = []
        for one in self.found:
            old = before.get(id(one), 0.0)
            new = after.get(id(one), old) if one.winner is not None else old
            rows.append(TunedRow(one, old / total if total else 0.0, old, new, one in kept))
        return TunedProgram(
            self.module, rows, walls[0], walls[1], _tuned_kernels(kept), self.unexamined, form_of(tuned)
        )

    def walls(self, tuned: Executable) -> list[float]:
        """Returns the seconds of a call with default plans and with those of the search."""
        return alternate([lambda: self.session.run(self.plain), lambda: self.session.run(tuned)], WHOLE_RUNS)

    def seconds(self, executable: Executable) -> tuple[dict[int, float], float]:
        """Returns the seconds of each kernel in a run of the program, by the identity of what was found for it, and
        those of a call."""
        rows, wall = _profile(executable, self.session, self.repeat)
        names = {instruction.name: one for one in self.found for instruction in one.kernel.instructions}
        return _seconds(rows, names), wall

    def compiled(self, winners: Sequence[Found]) -> Executable:
        if not winners:
            return self.plain
        return compile_with_plans(self.module, plans_for(_tuned_kernels(winners), instruction_set(), "the search"))


def _tuned_kernels(winners: Sequence[Found]) -> list[TunedKernel]:
    return [
        TunedKernel(instruction_set(), one.kernel.fingerprint, one.winner.plan.demanded, one.kernel.what)
        for one in winners
        if one.winner is not None
    ]


def compile_with_plans(module: Module, plans: TunedPlans) -> Executable:
    """Compiles a program on one device with the plans of a search, and without the cache of compiled programs."""
    count = module.config.replica_count * module.config.num_partitions
    if count > 1:
        raise UnsupportedError(
            codes.SINGLE_DEVICE, f"{module.name} runs on {count} devices; programs on one device are tuned"
        )
    donated = donated_leaves(module, ())
    compiled = CpuBackend().compile_uncached(module, donated=donated, tuned=plans)
    program = CpuProgram(compiled, module.entry_computation.program_shape, donated, 1)
    return Executable(module, program, "cpu", [Device(0, "cpu")], donated=donated)


def form_of(executable: Executable) -> Compiled:
    assert isinstance(executable.program, CpuProgram)
    return compiled_form(executable.program)


def _plans(executable: Executable) -> dict[str, Choice]:
    return form_of(executable).record.plans


def _profile(executable: Executable, session: Session, repeat: int | None) -> tuple[list[Row], float]:
    """Returns the rows of a program, and the seconds of a call."""
    measured = measure(executable, session.run, repeat)
    return native_rows(measured, machine_roofline()), measured.wall


def _seconds(rows: Sequence[Row], names: Mapping[str, Found]) -> dict[int, float]:
    """Returns the seconds of a run by the identity of what was found for a kernel."""
    seconds: dict[int, float] = {}
    for _, row in all_rows(rows):
        one = None if row.instruction is None else names.get(row.instruction.name)
        if one is not None:
            seconds[id(one)] = seconds.get(id(one), 0.0) + row.seconds
    return seconds
