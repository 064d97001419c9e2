"""Counts the arithmetic operations of a kernel: each operation times the iterations of the loops around it.

An operation on a vector counts once for each lane, and once in all if its value is the same in all lanes. A fused
multiply-add counts as two operations, and a dot instruction as two for each term of a group. A comparison and the
selection of one of the values compared are one operation, a minimum or maximum. A rounding to bf16 includes moving its
bits to those of a 16-bit number. Loads, stores and address arithmetic do not count. Branches count as taken, cold ones
as never taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from xlapy.loops.evaluate import operate
from xlapy.loops.ir import Affine, Block, For, If, Kernel, MatrixProduct, Scan, Statement, Value, While
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
    """The number of operations on each scalar type, by the name of the type or of the dot instruction."""

    counts: dict[str, float] = field(default_factory=dict[str, float])
    is_known: bool = True
    """Whether all trip counts are known at compile time."""

    def _add(self, name: str, count: float) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + count


def kernel_operations(kernel: Kernel) -> Operations:
    """The operations of one execution of a kernel."""
    found = Operations()
    _count(found, kernel.body, 1.0, _LoopContext())
    return found


@dataclass(frozen=True, slots=True)
class _LoopContext:
    """The loops around a statement."""

    axes: Mapping[Value, int | Value] = field(default_factory=dict[Value, int | Value])
    """The axes of the loops with their extents."""
    width: int = 1
    """The lanes of the vector axis around the statement; 1 if there is none."""
    varying: frozenset[Value] = frozenset()
    """The values that differ between these lanes. All others are computed once for a vector."""

    def inside(self, loop: For) -> _LoopContext:
        """What is around the body of a loop."""
        found = replace(self, axes={**self.axes, loop.axis: loop.extent})
        return replace(found, width=loop.width, varying=varying_values(loop)) if loop.width > 1 else found


def _count(found: Operations, block: Block, times: float, around: _LoopContext) -> None:
    for statement in block.statements:
        _count_statement(found, statement, times, around)


def _count_statement(found: Operations, statement: Statement, times: float, around: _LoopContext) -> None:
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
    elif isinstance(statement, MatrixProduct):
        rows, groups = (_extent(found, extent, around.axes) for extent in (statement.rows, statement.groups))
        instruction = statement.instruction
        found._add(instruction.tile_operations_name, 2 * times * rows * statement.columns * groups * instruction.terms)


def _count_value(found: Operations, value: Value, times: float) -> None:
    if value.op == "dot":
        found._add(value.attribute.operations_name, 2 * times * value.attribute.terms)
    elif value.op in _ARITHMETIC and not (_is_address_arithmetic(value) or _is_part_of_another(value)):
        type = value.args[0].type if value.op == "compare" else value.type
        found._add(type.name, 2 * times if value.op == "fma" else times)


def _is_address_arithmetic(value: Value) -> bool:
    """Whether a value is the quotient of a position, or only reinterprets bits."""
    return (value.op == "div" and value.attribute is not None) or value.attribute == "bitcast"


def _is_part_of_another(value: Value) -> bool:
    """Whether the instruction of an argument, a comparison or a rounding to bf16, computes a value."""
    if value.op == "select":
        condition, *chosen = value.args
        return condition.op == "compare" and set(condition.args) == set(chosen)
    rounded = value
    while rounded.op == "lshr" or rounded.attribute in ("trunc", "bitcast"):
        rounded = rounded.args[0]
    return rounded.op == "round_bf16" and rounded is not value


def _extent(found: Operations, extent: int | Value, axes: Mapping[Value, int | Value]) -> float:
    """Iterations of a loop; their mean if they vary with the positions of the loops around it.

    If they depend on anything else, such as data, they are not known, and count as the mean of the fewest and the most.
    """
    if isinstance(extent, int):
        return float(extent)
    mean = _mean_extent(extent, axes)
    if mean is not None:
        return mean
    found.is_known = False
    return 1.0 if extent.range is None else sum(extent.range) / 2


def _mean_extent(extent: Value, axes: Mapping[Value, int | Value]) -> float | None:
    """The mean of an extent over all positions of the loops around it; None if it depends on anything else."""
    used = _used_axes(extent, axes)
    sizes = [size for axis in used if (size := _largest(axes[axis])) is not None]
    if len(sizes) < len(used) or math.prod(sizes) > _MAX_POSITIONS:
        return None
    known: _Known = dict(zip(used, np.ix_(*map(np.arange, sizes)), strict=True))
    values, is_iteration = _evaluate(extent, known), np.array(True)
    for axis in used:
        limit, positions = axes[axis], known[axis]
        end = np.array(limit) if isinstance(limit, int) else _evaluate(limit, known)
        if end is None or positions is None:
            return None
        is_iteration = is_iteration & (positions < end)
    if values is None or not is_iteration.any():
        return None
    counts, weights = np.broadcast_arrays(np.maximum(values, 0), is_iteration)
    return float(np.average(counts, weights=weights))


def _used_axes(value: Value, axes: Mapping[Value, int | Value]) -> list[Value]:
    """The axes on which a value depends, also through the extents of their loops."""
    found, stack = dict[Value, None](), [value]
    while stack:
        current = stack.pop()
        if current not in found:
            found[current] = None
            limit = axes.get(current)
            stack += [*current.args, *([limit] if isinstance(limit, Value) else [])]
    return [value for value in found if value in axes]


def _largest(extent: int | Value) -> int | None:
    """The largest number of iterations of a loop; None if it is unknown."""
    if isinstance(extent, int):
        return extent
    return None if extent.range is None else extent.range[1]


_Integers = NDArray[np.int64]

_Known = dict[Value, _Integers | None]
"""Values at all positions of some axes; None for a value that depends on anything but these."""


def _evaluate(value: Value, known: _Known) -> _Integers | None:
    """The value at all positions of the axes that are known, to which it is added."""
    if value not in known:
        known[value] = _evaluate_operation(value, known)
    return known[value]


def _evaluate_operation(value: Value, known: _Known) -> _Integers | None:
    if value.op == "const":
        return np.array(value.attribute, np.int64)
    if value.op == "affine":
        return _evaluate_affine(value.attribute, known)
    if value.op in _POSITION_DIVISIONS and value.attribute is not None:
        dividend, divisor = value.attribute
        divided = _evaluate_affine(dividend, known)
        return None if divided is None else _POSITION_DIVISIONS[value.op](divided, divisor)
    if value.op not in _EXTENT_OPERATIONS:
        return None
    arguments = [_evaluate(argument, known) for argument in value.args]
    present = [argument for argument in arguments if argument is not None]
    return np.asarray(operate(value, present)) if len(present) == len(arguments) else None


def _evaluate_affine(position: Affine, known: _Known) -> _Integers | None:
    total: _Integers = np.array(position.constant, np.int64)
    for value, coefficient in position.terms:
        term = _evaluate(value, known)
        if term is None:
            return None
        total = total + coefficient * term
    return total
