"""Estimates of the memory that a program needs, so that programs that cannot fit are rejected before they run.

Depends on how a program is evaluated only through the interpreter's plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.interpreter import EvaluationPlan
from xlapy.runtime.system_memory import format_bytes

UNCHECKED_BYTES: Final = 1 << 24
"""A run that needs no more memory starts without asking the system how much is available."""

_VIEWS = frozenset({
    opcodes.ADD_DEPENDENCY, opcodes.BITCAST, opcodes.BROADCAST, opcodes.CONSTANT, opcodes.COPY, opcodes.DOMAIN,
    opcodes.GET_TUPLE_ELEMENT, opcodes.IOTA, opcodes.OPT_BARRIER, opcodes.PARAMETER, opcodes.RESHAPE, opcodes.REVERSE,
    opcodes.SLICE, opcodes.TRANSPOSE, opcodes.TUPLE,
})  # fmt: skip
"""Ops whose value may share memory with another value. The estimate is a lower bound, so it assumes that they do."""


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """The minimum number of bytes that a program needs, and the instruction at which it needs them."""

    size: int = 0
    at: Instruction | None = None

    def __str__(self) -> str:
        where = (
            ""
            if self.at is None
            else f" at {describe_instruction(self.at)} of shape {self.at.shape.to_text(layout=False)}"
        )
        return f"{format_bytes(self.size)}{where}"


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes that a run of a program takes on one device, under JAX's names.

    The figures of native programs are exact except for rounding. The interpreter allocates as it runs, so its
    `temp_size_in_bytes` is a lower bound. The peak is the sum of arguments, results and temporaries, with shared memory
    counted once.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    """Bytes of results that reuse the memory of donated arguments."""
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int

    @property
    def peak_memory_in_bytes(self) -> int:
        shared = self.alias_size_in_bytes
        return self.argument_size_in_bytes + self.output_size_in_bytes - shared + self.temp_size_in_bytes


def value_bytes(shape: Shape) -> int:
    """The bytes that a value of a shape takes as NumPy arrays."""
    leaves = (leaf for _, leaf in shape.leaves())
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves if leaf.is_array)


def memory_demand(module: Module, plans: Mapping[Computation, EvaluationPlan]) -> MemoryDemand:
    """Returns the larger of the largest single value, and the most bytes that are live at once in the entry
    computation."""
    peaks: dict[Computation, MemoryDemand] = {}
    largest = MemoryDemand()
    for computation in computation_post_order(module):
        peaks[computation] = _peak(plans[computation], peaks)
        for instruction in computation:
            size = value_bytes(instruction.shape)
            if size > largest.size:
                largest = MemoryDemand(size, instruction)
    entry = peaks[module.entry_computation]
    return entry if entry.size > largest.size else largest


def _peak(plan: EvaluationPlan, peaks: Mapping[Computation, MemoryDemand]) -> MemoryDemand:
    """The peak of live bytes while a computation runs, including called computations, without its arguments."""
    alive = [0] * plan.slots
    total = 0
    peak = MemoryDemand()
    for step in plan.steps:
        instruction = step.instruction
        inside = max(
            (peaks[called] for called in instruction.computations), key=lambda d: d.size, default=MemoryDemand()
        )
        if total + inside.size > peak.size:
            peak = MemoryDemand(total + inside.size, inside.at)
        size = 0 if instruction.op in _VIEWS else value_bytes(instruction.shape)
        alive[step.result] = size
        total += size
        if total > peak.size:
            peak = MemoryDemand(total, instruction)
        for dead in step.dead:
            total -= alive[dead]
    return peak
