"""The computations of a module whose arrays are memory of the program, and the memory graph of each.

Responsible for which computations run as parts of the program, and for what they may overwrite. Does not depend on
orders of instructions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xlapy.analysis.aliasing import CONTROL_FLOW_OPS, AliasAnalysis
from xlapy.analysis.memory.graph import MemoryGraph
from xlapy.hlo.computation import Computation


def memory_graph(computation: Computation, peaks: Mapping[Computation, int], donated: Collection[int]) -> MemoryGraph:
    """Returns the graph of a computation, which may overwrite the donated arguments, or all if it is not the entry.

    peaks: the bytes that the computations need that it calls.
    """
    aliases = AliasAnalysis(computation)
    leaves = [value for parameter in computation.parameters for value in aliases.values(parameter)]
    owned = [value for number, value in enumerate(leaves) if number in donated or not computation.is_entry]
    return MemoryGraph(aliases, peaks, owned)


def runs_in_program(computation: Computation) -> bool:
    """Whether a computation is the entry, or all that call it run it as a part of the program."""
    return computation.is_entry or all(caller.op in CONTROL_FLOW_OPS for caller in computation.callers)
