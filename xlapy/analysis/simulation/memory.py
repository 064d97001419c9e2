"""The memory of a device during a step: arguments, and the results and temporaries that are live at once.

Responsible for the sum over the computations that the program runs. Does not depend on time.
"""

from __future__ import annotations

from xlapy.analysis.aliasing import array_leaves
from xlapy.analysis.cost import array_bytes
from xlapy.analysis.memory.computations import memory_graph, runs_in_program
from xlapy.analysis.memory.profile import live_bytes
from xlapy.analysis.simulation.outcome import MemoryUse
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order


def memory_use(module: Module) -> MemoryUse:
    """Returns the memory that a module needs in the order of its instructions. Results that may be computed in donated
    arguments need no memory of their own."""
    donated = _donated(module)
    peaks: dict[Computation, int] = {}
    at = None
    entry = module.entry_computation
    for computation in computation_post_order(module):
        if runs_in_program(computation):
            graph = memory_graph(computation, peaks, donated)
            live = live_bytes(graph, range(len(graph.instructions)))
            peaks[computation] = max(live, default=0)
            if computation is entry and live:
                at = graph.instructions[live.index(peaks[computation])]
    arguments = sum(array_bytes(parameter.shape) for parameter in entry.parameters)
    return MemoryUse(arguments, array_bytes(entry.root_instruction.shape), arguments + peaks[entry], at)


def _donated(module: Module) -> frozenset[int]:
    """Returns the numbers, among all leaves of the parameters, of arguments that the program may overwrite."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for parameter in module.entry_computation.parameters:
        for index, _ in array_leaves(parameter.shape):
            numbers[parameter.parameter_number, index] = len(numbers)
    config = module.config
    keys = [(one.parameter_number, one.parameter_index) for one in config.input_output_alias]
    keys += [(one.parameter_number, one.parameter_index) for one in config.buffer_donors]
    return frozenset(numbers[key] for key in keys if key in numbers)
