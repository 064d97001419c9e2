"""Orders the instructions of a program so that it needs little memory.

The order of the computations that run as parts of the program, such as the bodies of loops, is the order of their
thunks; that of fused computations and reducers has no meaning. The module is scheduled afterwards.

Responsible for which computations are ordered. Does not depend on how an order is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy.analysis.memory.computations import memory_graph, runs_in_program
from xlapy.analysis.memory.schedule import schedule
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order


@dataclass(frozen=True)
class ScheduleForMemory:
    """Gives each computation that runs as a part of the program an order with a small peak of memory.

    donated: the numbers of the arguments (leaves of the parameters) in whose memory results may be computed.
    """

    name: ClassVar[str] = "schedule-for-memory"
    donated: frozenset[int] = frozenset()

    def run(self, module: Module) -> bool:
        before = [list(computation) for computation in module.computations]
        was_scheduled = module.config.is_scheduled
        module.config.is_scheduled = False  # a schedule that the module came with has no meaning any more
        peaks: dict[Computation, int] = {}
        for computation in computation_post_order(module):
            if not runs_in_program(computation):
                edit.reorder(computation, post_order(computation))
                continue
            graph = memory_graph(computation, peaks, self.donated)
            order, peaks[computation] = schedule(graph)
            edit.reorder(computation, [graph.instructions[node] for node in order])
        module.config.is_scheduled = True
        return not was_scheduled or before != [list(computation) for computation in module.computations]
