"""Estimates whether a launch takes so long that calls should return before it has finished.

Responsible for that decision. Does not depend on how launches wait.
"""

from __future__ import annotations

from math import inf
from typing import Final

from xlapy import opcodes
from xlapy.analysis.constants import literal_value
from xlapy.analysis.cost import Cost, instruction_costs
from xlapy.analysis.work import element_count
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations

MAX_SYNCHRONOUS_MICROSECONDS: Final = 100.0
"""A launch that is expected to take more microseconds runs asynchronously. Waking a stream takes up to ten."""

_PER_MICROSECOND = {"flops": 20_000.0, "transcendentals": 500.0, "bytes accessed": 10_000.0}
"""What one thread does in a microsecond, by the kind of cost."""

_ITERATION_MICROSECONDS = 0.02
"""Overhead of a loop iteration in microseconds."""

_UNCOUNTED_OPCODES = frozenset({opcodes.CUSTOM_CALL, opcodes.SORT, opcodes.FFT})
"""Opcodes whose cost the cost model underestimates or does not count."""

_MIN_UNCOUNTED_ELEMENTS: Final = 1 << 12
"""An instruction of such an opcode with an operand of at least this many elements makes a program long-running."""


def is_long_running(module: Module, devices: int = 1) -> bool:
    """Whether launches of an optimized module on `devices` devices, one after the other, are likely to take longer than
    the limit."""
    if any(map(_is_uncounted_and_large, module.instructions())):
        return True
    costs = instruction_costs(module)
    total = sum(map(_microseconds, map(costs.__getitem__, module.entry_computation)))
    loops = [instruction for instruction in module.instructions() if instruction.op is opcodes.WHILE]
    return (
        devices
        * (total + sum(_trip_count(loop) * (_microseconds(costs[loop]) + _ITERATION_MICROSECONDS) for loop in loops))
        > MAX_SYNCHRONOUS_MICROSECONDS
    )


def _is_uncounted_and_large(instruction: Instruction) -> bool:
    is_large = any(element_count(operand.shape) >= _MIN_UNCOUNTED_ELEMENTS for operand in instruction.operands)
    return instruction.op in _UNCOUNTED_OPCODES and is_large


def _microseconds(cost: Cost) -> float:
    named = cost.properties()
    return sum(named[name] / rate for name, rate in _PER_MICROSECOND.items())


def _trip_count(loop: Instruction) -> float:
    """An upper bound of the trip count: the largest integer constant in the condition, because most loops count up to
    one."""
    seen = [loop.computations[0]]
    for computation in seen:
        seen += [called for called in called_computations(computation) if called not in seen]
    return max((number for computation in seen for one in computation for number in _integer_value(one)), default=inf)


def _integer_value(instruction: Instruction) -> list[int]:
    """The value of an integer constant, in a list; otherwise empty."""
    shape = instruction.shape
    if instruction.op is not opcodes.CONSTANT or shape.rank or not shape.element_type.is_integral:
        return []
    return [int(literal_value(instruction.literal))]
