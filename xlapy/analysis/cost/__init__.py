"""The cost model: what instructions compute and access, and how long that takes.

`reference_machine` has the figures of all estimates of time. `elements` says what an element costs, `instructions` what
an instruction, a computation or a module does (as XLA counts it), `model` the time on a machine, `duration` whether a
launch is long, and `evaluation` what the interpreter goes through when a pass evaluates an instruction.
"""

from xlapy.analysis.cost.elements import (
    MAX_RECOMPUTED_COST,
    STORED_ELEMENT_COST,
    TRANSCENDENTAL_COST,
    array_bytes,
    element_cost,
    element_count,
)
from xlapy.analysis.cost.instructions import COSTS, instruction_costs, module_cost
from xlapy.analysis.cost.model import Cost, Rates

__all__ = [
    "COSTS",
    "MAX_RECOMPUTED_COST",
    "STORED_ELEMENT_COST",
    "TRANSCENDENTAL_COST",
    "Cost",
    "Rates",
    "array_bytes",
    "element_cost",
    "element_count",
    "instruction_costs",
    "module_cost",
]
