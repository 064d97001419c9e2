"""How long a run takes, roughly: long ones go on behind the caller's back.

Owns: that decision. Must not know: how runs wait.
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

LONG: Final = 100.0
"""Microseconds. To wake the worker takes up to ten."""

_PER_MICROSECOND = {"flops": 20_000.0, "transcendentals": 500.0, "bytes accessed": 10_000.0}
"""What one thread does in a microsecond."""

_ROUND = 0.02
"""Microseconds of a round of a loop, whatever it does."""

_UNCOUNTED = frozenset({opcodes.CUSTOM_CALL, opcodes.SORT, opcodes.FFT})
"""What the analysis of costs counts too little, or not at all."""

_UNCOUNTED_FROM: Final = 1 << 12
"""Elements from which one of them makes a program long."""


def is_long_running(module: Module, devices: int = 1) -> bool:
    """Whether runs of an optimised module on so many devices, one after the other, are likely to take longer than
    `LONG`."""
    if any(map(_is_dear, module.instructions())):
        return True
    costs = instruction_costs(module)
    total = sum(map(_duration, map(costs.__getitem__, module.entry_computation)))
    loops = [instruction for instruction in module.instructions() if instruction.op is opcodes.WHILE]
    return devices * (total + sum(_rounds(loop) * (_duration(costs[loop]) + _ROUND) for loop in loops)) > LONG


def _is_dear(instruction: Instruction) -> bool:
    is_large = any(element_count(operand.shape) >= _UNCOUNTED_FROM for operand in instruction.operands)
    return instruction.op in _UNCOUNTED and is_large


def _duration(cost: Cost) -> float:
    named = cost.properties()
    return sum(named[name] / rate for name, rate in _PER_MICROSECOND.items())


def _rounds(loop: Instruction) -> float:
    """The largest number in its condition: most loops count up to one."""
    seen = [loop.computations[0]]
    for computation in seen:
        seen += [called for called in called_computations(computation) if called not in seen]
    return max((number for computation in seen for one in computation for number in _number(one)), default=inf)


def _number(instruction: Instruction) -> list[int]:
    """The value of an integer constant, in a list of one; else none."""
    shape = instruction.shape
    if instruction.op is not opcodes.CONSTANT or shape.rank or not shape.element_type.is_integral:
        return []
    return [int(literal_value(instruction.literal))]
