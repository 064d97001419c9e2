"""Estimates the cycles of the arithmetic of a kernel, as the CPU compiler emits it, on a machine that was measured.

The statements of the kernel count as in `loops.cost`, with refinements that the choice between strategies does not
need: divisions and square roots take the cycles of this machine, a rotation of bits is one operation, and a processor
overlaps only as many iterations of a loop as fit into its window of instructions. Long chains of functions wait for
their own results for that reason: with a window of 500 instructions, 330 instructions of a chain of eight `tanh`
overlap with half of the next iteration.

Responsible for cycles of arithmetic. Does not depend on memory or on how threads share a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Final

from xlapy.analysis.cost.reference_machine import (
    LONG_OPERATION_CYCLES,
    OPERATION_CYCLES,
)
from xlapy.loops.cost import KernelCost
from xlapy.loops.ir import For, If, Kernel, Prefetch, Statement, Store, Value, While

_FLOAT_LATENCY: Final = 4
"""Cycles until the result of an addition, a multiplication or a conversion can be used."""

_OTHER_LATENCY: Final = 1
"""The same for operations on bits, comparisons and selections."""

_LONG_LATENCY: Final = 2
"""The latency of a division or a square root, as a multiple of the cycles that the unit is busy."""

_LOAD_LATENCY: Final = 6

_BIT_OPERATIONS: Final = frozenset({
    "and", "or", "xor", "shl", "lshr", "ashr", "select", "compare", "smin", "smax", "umin", "umax",
})  # fmt: skip
_FREE: Final = frozenset({"affine", "const"})


@dataclass(frozen=True, slots=True)
class Core:
    """What one core does. division, square_root: the cycles of a vector register of f32. window: the instructions that
    are under way at once; 0 if the overlap of iterations has no bound."""

    division: float = LONG_OPERATION_CYCLES["div"]
    square_root: float = LONG_OPERATION_CYCLES["sqrt"]
    window: float = 0.0


class ArithmeticCycles(KernelCost):
    """The cycles of a kernel on a core, in `arithmetic_cycles`."""

    def __init__(self, kernel: Kernel, core: Core) -> None:
        self._core = core
        super().__init__(kernel)

    def latency(self, loop: For | While) -> float:
        """The cycles from the first operand to the last result of an iteration without inner loops."""
        ready: dict[Value, float] = {}
        for one in loop.body.statements:
            if isinstance(one, Value):
                ready[one] = max((ready.get(arg, 0.0) for arg in one.args), default=0.0) + self._latency_of(one)
            elif isinstance(one, While):
                ready.update((carry.result, ready.get(carry.initial, 0.0)) for carry in one.carries if carry.result)
        return max(ready.values(), default=0.0)

    def _iteration(self, loop: For | While, times: float, unknown_extent: int) -> float:
        busy = super()._iteration(loop, times, unknown_extent)
        is_innermost = all(map(_is_straight, loop.body.statements))
        if not self._core.window or not isinstance(loop, For) or loop.width < 2 or not is_innermost:
            return busy
        instructions = busy / OPERATION_CYCLES
        return hypot(busy, self.latency(loop) * instructions / self._core.window)

    def _latency_of(self, value: Value) -> float:
        if value.op in _FREE:
            return 0.0
        if value.op == "load":
            return _LOAD_LATENCY
        if value.op in ("div", "sqrt") and value.attribute is None:
            return _LONG_LATENCY * self._long(value)
        return _OTHER_LATENCY if value.op in _BIT_OPERATIONS or value.attribute == "bitcast" else _FLOAT_LATENCY

    def _long(self, value: Value) -> float:
        """The cycles of a register of a division or a square root; elements of 8 bytes take as long as two of 4."""
        cycles = self._core.division if value.op == "div" else self._core.square_root
        return cycles * max(1.0, value.type.byte_size / 4)

    def _value(self, value: Value, times: float) -> float:
        if value.attribute == "bitcast" or _is_folded(value):
            return 0.0
        if value.op in ("div", "sqrt") and value.attribute is None and value.type.is_float:
            return self._long(value) * self._registers(value.type.byte_size)
        cycles = super()._value(value, times)
        return -cycles if _is_rotation(value) else cycles


def _is_straight(statement: Statement) -> bool:
    """Whether a statement runs at most once in an iteration, as the reduction of large arguments of functions."""
    if isinstance(statement, While):
        return statement.body.is_cold
    return isinstance(statement, Value | Store | If | Prefetch)


def _is_folded(value: Value) -> bool:
    """Whether compilers compute a value, or choose between the two that it selects from."""
    if value.op == "select":
        return _is_constant(value.args[0])
    return bool(value.args) and _is_constant(value)


def _is_constant(value: Value) -> bool:
    if value.op == "const":
        return True
    return value.op in ("compare", "select") and all(map(_is_constant, value.args))


def _chosen(value: Value) -> Value:
    """The value that a selection by a constant returns."""
    while value.op == "select" and _is_constant(value.args[0]):
        value = value.args[1]
    return value


def _is_rotation(value: Value) -> bool:
    """Whether an `or` joins two shifts of one value, which are one operation together. Both count already."""
    if value.op != "or":
        return False
    left, right = map(_chosen, value.args)
    return {left.op, right.op} == {"shl", "lshr"} and left.args[0] is right.args[0]
