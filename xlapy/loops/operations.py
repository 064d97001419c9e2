"""Counts the arithmetic operations of a kernel: each operation times the iterations of the loops around it.

An operation on a vector counts once for each lane, and once in all if its value is the same in all lanes. A fused
multiply-add counts as two operations, and so does a dot instruction, which takes as long. Loads, stores and
address arithmetic do not count. Branches count as taken, cold ones as never taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from xlapy.loops.evaluate import operate
from xlapy.loops.ir import Affine, Block, For, If, Kernel, Scan, Statement, Value, While
from xlapy.loops.lane_dependence import varying_values

_FLOATS = "add sub mul neg abs min max fma div copysign sqrt floor ceil rint trunc ldexp round_bf16"
_INTEGERS = "sdiv udiv srem urem smin smax umin umax and or xor shl lshr ashr ctlz ctpop"
_ARITHMETIC: Final = frozenset(f"{_FLOATS} {_INTEGERS} compare select convert".split())

_MAX_POSITIONS: Final = 1 << 16
"""The largest number of positions of the loops around an extent at which it is evaluated."""

_EXTENT_OPERATIONS: Final = frozenset({"smin", "smax", "select", "compare"})
"""The operations, besides affine functions and their quotients, of which extents at the edges of blocks consist."""

_POSITION_DIVISIONS: Final[Mapping[str, Any]] = {"div": np.floor_divide, "mod": np.mod}


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
    _count(found, kernel.body, 1.0, _Surroundings())
    return found


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The loops around a statement."""

    axes: Mapping[Value, int] = field(default_factory=dict[Value, int])
    """The axes of the loops whose extents are numbers, with their extents."""
    width: int = 1
    """The lanes of the vector axis around the statement; 1 if there is none."""
    varying: frozenset[Value] = frozenset()
    """The values that differ between these lanes. All others are computed once for a vector."""

    def inside(self, loop: For) -> _Surroundings:
        """What is around the body of a loop."""
        found = self
        if isinstance(loop.extent, int):
            found = replace(found, axes={**self.axes, loop.axis: loop.extent})
        return replace(found, width=loop.width, varying=varying_values(loop)) if loop.width > 1 else found


def _count(found: Operations, block: Block, times: float, around: _Surroundings) -> None:
    for statement in block.statements:
        _count_statement(found, statement, times, around)


def _count_statement(found: Operations, statement: Statement, times: float, around: _Surroundings) -> None:
    if isinstance(statement, Value):
        _count_value(found, statement, times if statement in around.varying else times / around.width)
    elif isinstance(statement, For):
        extent = _extent(found, statement.extent, around.axes)
        _count(found, statement.body, times * extent, around.inside(statement))
    elif isinstance(statement, While):
        _count(found, statement.test, times, around)
        if not statement.body.is_cold:
            found.is_known = False
            _count(found, statement.body, times, around)
    elif isinstance(statement, If):
        if not statement.then.is_cold:
            _count(found, statement.then, times, around)
    elif isinstance(statement, Scan):
        _count(found, statement.combine.block, times, replace(around, width=1))


def _count_value(found: Operations, value: Value, times: float) -> None:
    if value.op == "dot":
        found._add("f32", 2 * times)
    elif value.op in _ARITHMETIC and not _is_address_arithmetic(value):
        type = value.args[0].type if value.op == "compare" else value.type
        found._add(type.name, 2 * times if value.op == "fma" else times)


def _is_address_arithmetic(value: Value) -> bool:
    """Whether a value is the quotient of a position, or only reinterprets bits."""
    return (value.op == "div" and value.attribute is not None) or value.attribute == "bitcast"


def _extent(found: Operations, extent: int | Value, axes: Mapping[Value, int]) -> float:
    """Iterations of a loop; their mean if they vary with the positions of the loops around it.

    If they depend on anything else, the mean of the fewest and the most.
    """
    if isinstance(extent, int):
        return float(extent)
    used = [axis for axis in axes if _depends_on(extent, axis)]
    if math.prod(axes[axis] for axis in used) <= _MAX_POSITIONS:
        grid = np.ogrid[tuple([slice(axes[axis]) for axis in used])] if used else ()
        values = _evaluate(extent, dict(zip(used, grid, strict=True)))
        if values is not None and np.size(values):
            return float(np.mean(np.maximum(values, 0)))
    if extent.range is None:
        found.is_known = False
        return 1.0
    return sum(extent.range) / 2


def _depends_on(value: Value, axis: Value) -> bool:
    return value is axis or any(_depends_on(argument, axis) for argument in value.args)


_Integers = NDArray[np.int64]


def _evaluate(value: Value, positions: Mapping[Value, _Integers]) -> _Integers | None:
    """The values at all positions of some axes; None if the value depends on anything but these."""
    if value in positions:
        return positions[value]
    if value.op == "const":
        return np.array(value.attribute, np.int64)
    if value.op == "affine":
        return _evaluate_affine(value.attribute, positions)
    if value.op in _POSITION_DIVISIONS and value.attribute is not None:
        dividend, divisor = value.attribute
        divided = _evaluate_affine(dividend, positions)
        return None if divided is None else _POSITION_DIVISIONS[value.op](divided, divisor)
    if value.op not in _EXTENT_OPERATIONS:
        return None
    arguments = [_evaluate(argument, positions) for argument in value.args]
    known = [argument for argument in arguments if argument is not None]
    return np.asarray(operate(value, known)) if len(known) == len(arguments) else None


def _evaluate_affine(position: Affine, positions: Mapping[Value, _Integers]) -> _Integers | None:
    total: _Integers = np.array(position.constant, np.int64)
    for value, coefficient in position.terms:
        term = _evaluate(value, positions)
        if term is None:
            return None
        total = total + coefficient * term
    return total
