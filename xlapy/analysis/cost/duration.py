"""Estimates whether a launch takes so long that calls should return before it has finished.

Responsible for that decision. Does not depend on how launches wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost.elements import element_count
from xlapy.analysis.cost.instructions import instruction_costs
from xlapy.analysis.cost.model import Cost, Rates
from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND, MIN_PARALLEL_CYCLES
from xlapy.analysis.counted_loops import estimated_trip_count
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order

DEFAULT_RATES: Final = Rates()

MAX_SYNCHRONOUS_MICROSECONDS: Final = 1000.0
"""A launch that is expected to take more microseconds runs asynchronously. If the caller, the stream and the threads of
the pool share the processors, a caller that waits for the result gets it 20 to 100 microseconds later: launches of 450
and 900 microseconds take 1.03x and 1.07x the time. A caller that does not wait gains its few microseconds between two
calls, but results of queued launches do not reuse each other's memory: the same launches, each with the result of the
one before, take 1.5x the time because 20 results of 2 and 4 MB leave the caches (two processors)."""

_MIN_PARALLEL_MICROSECONDS = MIN_PARALLEL_CYCLES / CYCLES_PER_MICROSECOND
"""A kernel that takes fewer microseconds runs on one thread."""

_ITERATION_MICROSECONDS = 0.02
"""Overhead of a loop iteration in microseconds."""

_UNCOUNTED_OPCODES = frozenset({opcodes.CUSTOM_CALL, opcodes.SORT})
"""Opcodes whose cost the cost model underestimates or does not count."""

_MIN_UNCOUNTED_ELEMENTS: Final = 1 << 12
"""An instruction of such an opcode with an operand of at least this many elements makes a program long-running."""


def is_long_running(module: Module, devices: int = 1, rates: Rates = DEFAULT_RATES) -> bool:
    """Whether launches of an optimized module on `devices` devices, one after the other, are likely to take longer than
    the limit."""
    if any(map(_is_uncounted_and_large, module.instructions())):
        return True
    costs = instruction_costs(module)
    durations: dict[Computation, float] = {}
    for computation in computation_post_order(module):
        durations[computation] = sum(_duration(one, _alone(costs[one], rates), durations) for one in computation)
    return devices * durations[module.entry_computation] > MAX_SYNCHRONOUS_MICROSECONDS


def _alone(cost: Cost, rates: Rates) -> float:
    """Returns the microseconds that a kernel takes on all threads that share its work."""
    on_one_thread = cost.microseconds(rates)
    return on_one_thread if on_one_thread < _MIN_PARALLEL_MICROSECONDS else on_one_thread / rates.threads


def _duration(instruction: Instruction, alone: float, durations: Mapping[Computation, float]) -> float:
    """Returns the microseconds that an instruction takes, with those of the computations that it calls.

    alone: the microseconds of one execution of the instruction without loops.
    """
    called = [durations[computation] for computation in instruction.computations]
    if instruction.op is opcodes.WHILE:
        trip_count = estimated_trip_count(instruction)
        return trip_count * (sum(called) + _ITERATION_MICROSECONDS) if trip_count else 0.0
    if instruction.op in (opcodes.CALL, opcodes.CONDITIONAL):
        return max(called)
    if instruction.op is opcodes.FUSION and any(inner.op is opcodes.WHILE for inner in instruction.computations[0]):
        return max(called)  # iterations of elementwise loops take less than kernels on whole arrays
    return alone


def _is_uncounted_and_large(instruction: Instruction) -> bool:
    return instruction.op in _UNCOUNTED_OPCODES and any(
        element_count(operand.shape) >= _MIN_UNCOUNTED_ELEMENTS for operand in instruction.operands
    )
