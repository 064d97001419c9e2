"""The search for the fastest plan of one kernel.

It measures the preferred plan of each other strategy, then other register tiles and other parameters of the best ones,
one change at a time as long as that gains something. The winner is compared with the default plan once more, and its
results are checked.

Responsible for the order of trials, and for when to stop. Does not depend on how a trial is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from xlapy.base.errors import XlaError
from xlapy.base.logging import logger
from xlapy.codegen.plan import KernelPlan
from xlapy.codegen.plan_variants import neighboring_plans, strategy_plans, tile_plans
from xlapy.codegen.region import region_of
from xlapy.cpu.target import host_target
from xlapy.tools.tune.kernels import TunableKernel
from xlapy.tools.tune.trials import Bench

MIN_STEP = 0.985
"""The ratio to the time of the best plan so far below which a plan takes its place. Closer ones differ by noise."""

MAX_CONTENDERS = 2
"""The number of strategies whose parameters are varied."""

CONTENDER_RATIO = 1.3
"""The ratio to the time of the best strategy up to which the parameters of another one are varied."""

AT_LIMIT, BEYOND_LIMIT = 0.95, 1.1
"""The shares of the machine's limit between which a kernel cannot gain enough to be worth a search. A larger share
means that the limit does not hold: the kernel finds its data in a cache, or the machine was busy when it was
measured."""

CONFIRMING_RUNS = 3
"""How many times as many runs compare the winner with the default plan as compare others."""

MAX_CHECKED = 3
"""The number of plans whose results are checked, the fastest first, before the default plan stays."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What bounds the search. runs: samples of a trial. min_gain: the least part of the time that a plan must save."""

    runs: int = 5
    min_gain: float = 0.03
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """A measured plan. ratio: its time divided by that of the default plan, in a program of this kernel alone."""

    plan: KernelPlan
    ratio: float


@dataclass(slots=True)
class Found:
    """The outcome for a kernel."""

    kernel: TunableKernel
    trials: list[Trial] = field(default_factory=list[Trial])
    """Everything that was measured, the default plan first."""
    winner: Trial | None = None
    """A plan that is faster than the default one and computes the same; None if there is none."""
    reason: str = ""
    """Why the search ended early or without a winner."""
    wrong: list[KernelPlan] = field(default_factory=list[KernelPlan])
    """Plans whose results were not within the tolerance."""


Report = Callable[[str], None]
"""Is called with a line about the trial that begins."""


def search(kernel: TunableKernel, settings: Settings, deadline: float, report: Report) -> Found:
    """Returns the fastest plan of a kernel. deadline: the time of `time.monotonic` at which the search ends."""
    return _Search(kernel, settings, deadline, report).run()


class _Search:
    def __init__(self, kernel: TunableKernel, settings: Settings, deadline: float, report: Report) -> None:
        self.settings = settings
        self.deadline = deadline
        self.report = report
        self.found = Found(kernel)
        self.tried: dict[KernelPlan, Trial] = {}
        self.instruction = kernel.instructions[0]
        self.region = region_of(self.instruction, host_target())

    def run(self) -> Found:
        kernel = self.found.kernel
        if _is_at_limit(kernel.limit):
            self.found.reason = f"at {kernel.limit:.0%} of the machine's limit"
            return self.found
        try:
            self.bench = Bench(kernel, self.settings.seed)
        except (XlaError, MemoryError) as error:  # its arguments do not fit in memory, for example
            self.found.reason = str(error) or "out of memory"
            return self.found
        self.best = self.note(Trial(kernel.choice.plan, 1.0))
        self.best_program = self.bench.default
        self.try_all(strategy_plans(self.instruction, self.region, kernel.choice))
        best_of: dict[str, Trial] = {}
        for trial in sorted(self.tried.values(), key=lambda trial: trial.ratio):
            best_of.setdefault(trial.plan.strategy, trial)
        limit = CONTENDER_RATIO * self.best.ratio
        for trial in [trial for trial in best_of.values() if trial.ratio <= limit][:MAX_CONTENDERS]:
            self.vary(trial)
        self.choose()
        return self.found

    def vary(self, start: Trial) -> None:
        """Tries other tiles and other parameters of a strategy, from its best plan on."""
        plan = self.best_of(start, self.try_all(tile_plans(self.instruction, self.region, start.plan)))
        while True:
            better = self.best_of(plan, self.try_all(neighboring_plans(self.instruction, self.region, plan.plan)))
            if better is plan:
                return
            plan = better

    @staticmethod
    def best_of(start: Trial, trials: Iterable[Trial]) -> Trial:
        best = min(trials, key=lambda trial: trial.ratio, default=start)
        return best if best.ratio < MIN_STEP * start.ratio else start

    def try_all(self, plans: Iterable[KernelPlan]) -> list[Trial]:
        """Measures plans that have not been measured, as long as there is time and something to gain."""
        found: list[Trial] = []
        for plan in plans:
            if self.found.reason or plan in self.tried:
                continue
            if time.monotonic() > self.deadline:
                self.found.reason = "out of time"
                break
            trial = self.measure(plan)
            if trial is not None:
                found.append(trial)
            reached = self.found.kernel.limit / self.best.ratio
            if _is_at_limit(reached):
                self.found.reason = f"reaches {reached:.0%} of the machine's limit"
        return found

    def measure(self, plan: KernelPlan) -> Trial | None:
        """Measures a plan beside the best one so far, whose place it may take; None if it cannot be compiled."""
        self.report(str(plan))
        try:
            program = self.bench.compiled(plan)
        except (XlaError, AssertionError) as error:
            logger.info("%s is not tried for %s: %s", plan, self.instruction.name, error)
            return None
        ratio = self.bench.ratio(program, self.best_program, self.settings.runs)
        trial = self.note(Trial(plan, self.best.ratio * ratio))
        if ratio < MIN_STEP:
            self.best, self.best_program = trial, program
        return trial

    def note(self, trial: Trial) -> Trial:
        self.tried[trial.plan] = trial
        self.found.trials.append(trial)
        return trial

    def choose(self) -> None:
        """Sets the winner: the fastest plan that saves enough when it is compared with the default plan again, and
        computes what it should."""
        default, most = self.found.trials[0], 1 - self.settings.min_gain
        faster = sorted((trial for trial in self.tried.values() if trial.ratio <= most), key=lambda trial: trial.ratio)
        for trial in [trial for trial in faster if trial is not default][:MAX_CHECKED]:
            self.report(f"checking {trial.plan}")
            program = self.bench.compiled(trial.plan)
            if not self.bench.is_right(program):
                self.found.wrong.append(trial.plan)
                logger.warning("%s gives wrong results for %s, and is not used", trial.plan, self.instruction.name)
                continue
            ratio = self.bench.ratio(program, self.bench.default, CONFIRMING_RUNS * self.settings.runs)
            if ratio <= most:
                self.found.winner = Trial(trial.plan, ratio)
                return
        self.found.reason = self.found.reason or "no faster plan"


def _is_at_limit(share: float) -> bool:
    return AT_LIMIT <= share <= BEYOND_LIMIT
