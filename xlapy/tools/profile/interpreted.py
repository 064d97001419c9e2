"""Profiles on the interpreter: how long the rule of each instruction takes.

Responsible for the observer and the rows made from its times. Does not depend on how rows are shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xlapy import opcodes
from xlapy.analysis.cost import Cost, instruction_costs
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.runtime.values import Observer
from xlapy.tools.profile.rows import Row


@dataclass(slots=True)
class Stopwatch:
    """Measures the time between consecutive instructions on a device. The instructions that an instruction calls come
    before it.
    """

    seconds: dict[Instruction, float] = field(default_factory=dict[Instruction, float])
    executions: dict[Instruction, int] = field(default_factory=dict[Instruction, int])
    _begin: float = 0.0
    _last: threading.local = field(default_factory=threading.local)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Starts the clock of a run."""
        self._last, self._begin = threading.local(), time.perf_counter()

    def observe(self, instruction: Instruction, _: Sequence[Any], __: Any) -> None:
        now = time.perf_counter()
        spent = now - getattr(self._last, "time", self._begin)
        with self._lock:
            self.seconds[instruction] = self.seconds.get(instruction, 0.0) + spent
            self.executions[instruction] = self.executions.get(instruction, 0) + 1
        self._last.time = time.perf_counter()


def interpreted(module: Module, run: Callable[[Observer], None], repeat: int, devices: int) -> tuple[list[Row], float]:
    """Returns the rows of the entry computation and the seconds of a run: means over `repeat` runs after a warm-up
    run."""
    run(Stopwatch().observe)
    watch, wall = Stopwatch(), 0.0
    for _ in range(repeat):
        watch.start()
        begin = time.perf_counter()
        run(watch.observe)
        wall += time.perf_counter() - begin
    return _rows(module, watch, repeat * devices), wall / repeat


def _rows(module: Module, watch: Stopwatch, runs: int) -> list[Row]:
    """Returns rows; a computation with several callers is shown below the first."""
    costs = instruction_costs(module)
    found: dict[Computation, list[Row]] = {}
    for computation in computation_post_order(module):
        rows = [_row(one, watch, runs, costs[one], found) for one in computation if one in watch.seconds]
        found[computation] = sorted(rows, key=lambda row: -row.seconds)
    return found[module.entry_computation]


def _row(one: Instruction, watch: Stopwatch, runs: int, cost: Cost, found: dict[Computation, list[Row]]) -> Row:
    row = Row(one.name, one.op.name, one, watch.seconds[one] / runs, watch.executions[one] / runs)
    if one.op is opcodes.WHILE:
        row.iterations = watch.executions.get(one.computation("body").root_instruction, 0) / runs
    for called in one.computations:
        row.children += found.pop(called, [])
    row.seconds += sum(child.seconds for child in row.children)
    if row.children:
        row.set_totals_of_children()
    else:
        row.read, row.written = row.executions * sum(cost.operands), row.executions * cost.result
        row.flops = row.executions * (cost.flops + cost.transcendentals)
    return row
