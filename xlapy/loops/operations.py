"""Counts the arithmetic operations of a kernel: each operation times the iterations of the loops around it.

A fused multiply-add counts as two operations, and so does a dot instruction, which takes as long. Loads, stores and
address arithmetic do not count. Branches count as taken, cold paths as never taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from xlapy.loops.ir import Block, For, If, Kernel, Scan, Statement, Value, While

_FLOATS = "add sub mul neg abs min max fma div copysign sqrt floor ceil rint trunc ldexp round_bf16"
_INTEGERS = "sdiv udiv srem urem smin smax umin umax and or xor shl lshr ashr ctlz ctpop"
_ARITHMETIC: Final = frozenset(f"{_FLOATS} {_INTEGERS} compare select convert".split())


@dataclass(slots=True)
class Operations:
    """The number of operations on each scalar type, by the name of the type."""

    counts: dict[str, float] = field(default_factory=dict[str, float])
    is_known: bool = True
    """Whether all trip counts are known at compile time."""

    def _add(self, name: str, count: float) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + count


def kernel_operations(kernel: Kernel) -> Operations:
    """The operations of one execution of a kernel."""
    found = Operations()
    _count(found, kernel.body, 1.0)
    return found


def _count(found: Operations, block: Block, times: float) -> None:
    for statement in block.statements:
        _count_statement(found, statement, times)


def _count_statement(found: Operations, statement: Statement, times: float) -> None:
    if isinstance(statement, Value):
        if statement.op == "dot":
            found._add("f32", 2 * times)
        elif statement.op in _ARITHMETIC and not _is_address_arithmetic(statement):
            type = statement.args[0].type if statement.op == "compare" else statement.type
            found._add(type.name, 2 * times if statement.op == "fma" else times)
    elif isinstance(statement, For):
        _count(found, statement.body, times * _extent(found, statement.extent))
    elif isinstance(statement, While):
        _count(found, statement.test, times)
        if not statement.body.is_cold:
            found.is_known = False
            _count(found, statement.body, times)
    elif isinstance(statement, If):
        _count(found, statement.then, times)
    elif isinstance(statement, Scan):
        _count(found, statement.combine.block, times)


def _is_address_arithmetic(value: Value) -> bool:
    """Whether a value is the quotient of a position, or only reinterprets bits."""
    return (value.op == "div" and value.attribute is not None) or value.attribute == "bitcast"


def _extent(found: Operations, extent: int | Value) -> float:
    """Iterations of a loop; if they vary at an edge, the mean of the fewest and the most."""
    if isinstance(extent, int):
        return float(extent)
    if extent.range is None:
        found.is_known = False
        return 1.0
    return sum(extent.range) / 2
