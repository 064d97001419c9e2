"""How much arithmetic a kernel does, by its loop IR: each operation as often as the loops around it say.

A fused multiply-add is two operations; loads, stores and what finds places in memory are none. Branches count as taken,
and what is seldom repeated as never.

Owns: that count. Must not know: how long operations take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from xlapy.loops.ir import Block, For, If, Kernel, Scan, Statement, Value, While

_FLOATS = "add sub mul neg abs min max fma div copysign sqrt floor ceil rint trunc ldexp"
_INTEGERS = "sdiv udiv srem urem smin smax umin umax and or xor shl lshr ashr ctlz ctpop"
_ARITHMETIC: Final = frozenset(f"{_FLOATS} {_INTEGERS} compare select convert".split())


@dataclass(slots=True)
class Operations:
    """How many there are of each type, by its name. is_known: whether no loop depends on data."""

    counts: dict[str, float] = field(default_factory=dict[str, float])
    is_known: bool = True

    def _add(self, name: str, count: float) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + count


def kernel_operations(kernel: Kernel) -> Operations:
    """The operations of one run of a kernel."""
    found = Operations()
    _count(found, kernel.body, 1.0)
    return found


def _count(found: Operations, block: Block, times: float) -> None:
    for statement in block.statements:
        _count_statement(found, statement, times)


def _count_statement(found: Operations, statement: Statement, times: float) -> None:
    if isinstance(statement, Value):
        if statement.op in _ARITHMETIC and not _finds_places(statement):
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


def _finds_places(value: Value) -> bool:
    """Whether it is the quotient of a position, or moves bits only."""
    return (value.op == "div" and value.attribute is not None) or value.attribute == "bitcast"


def _extent(found: Operations, extent: int | Value) -> float:
    """Iterations of a loop; of one that ends at an edge, the mean of the least and the most."""
    if isinstance(extent, int):
        return float(extent)
    if extent.range is None:
        found.is_known = False
        return 1.0
    return sum(extent.range) / 2
