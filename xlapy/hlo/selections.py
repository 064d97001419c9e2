"""Recognizes reducers that select one of two tuples of values, as argmax and argmin do.

Such a reducer may combine elements in any order and any number of times, initial values included. The decision does not
depend on the form of the reducer. If it only compares parameters of the same tuple position, combines the outcomes and
selects, its result depends only on the order of its arguments. So its laws (associativity, commutativity, idempotence)
hold for all numbers if they hold for all triples of a few numbers, which are tried. Does not depend on loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.tuples import TUPLE

Array: TypeAlias = np.ndarray[Any, Any]
Parts: TypeAlias = tuple[Array, ...]

MAX_TUPLE_SIZE = 2
"""The largest number of values in a tuple. With two values, the number of triples is already the sixth power of the
number of values tried."""

_FLOATS: Final = np.array([np.copysign(np.nan, -1), -1.0, -0.0, 0.0, 1.0, 2.0, np.nan])
_INTEGERS: Final = np.array([0, 1, 2])

_COMPARISONS: Final[Mapping[ComparisonDirection, Callable[[Array, Array], Array]]] = {
    ComparisonDirection.EQ: np.equal,
    ComparisonDirection.NE: np.not_equal,
    ComparisonDirection.GE: np.greater_equal,
    ComparisonDirection.GT: np.greater,
    ComparisonDirection.LE: np.less_equal,
    ComparisonDirection.LT: np.less,
}
_JOINS: Final[Mapping[OpDef, Callable[..., Array]]] = {
    opcodes.AND: np.logical_and,
    opcodes.OR: np.logical_or,
    opcodes.XOR: np.logical_xor,
    opcodes.NOT: np.logical_not,
}
_EXTREMES: Final[Mapping[OpDef, Callable[..., Array]]] = {opcodes.MAXIMUM: np.maximum, opcodes.MINIMUM: np.minimum}

_TRUTH = -1
"""Marks an outcome of comparisons; other values are marked by their position in the tuple."""

_Step: TypeAlias = tuple[OpDef, tuple[int, ...], Any]


def is_selection(computation: Computation, ordered_by: int | None = None) -> bool:
    """Whether a computation of 2n scalars selects: it is associative, commutative and idempotent.

    ordered_by: a position in the tuples. The laws then need to hold only if the first tuple is the one with the smaller
    value at this position. -0 and +0 count as equal, as do all NaN, unless the computation distinguishes them.
    """
    types = _types(computation)
    steps = None if types is None else _steps(computation)
    return types is not None and steps is not None and _holds(steps, types, ordered_by)


def is_associative_selection(computation: Computation) -> bool:
    """Whether neighboring elements may be combined first: a selection that is associative bit for bit.

    Unlike `is_selection`, it distinguishes -0 from +0, and allows results that depend on the order of the arguments.
    """
    types = _types(computation)
    steps = None if types is None else _steps(computation)
    if types is None or steps is None or any(op in _EXTREMES for op, _, _ in steps):
        return False
    return _is_associative(steps, types)


def _types(computation: Computation) -> tuple[PrimitiveType, ...] | None:
    """The element types of the tuples; None if the parameters are not two tuples of numbers."""
    parameters = computation.parameters
    count = len(parameters) // 2
    types = tuple(p.shape.element_type if p.shape.is_array else PRED for p in parameters)
    if len(parameters) % 2 or not 1 <= count <= MAX_TUPLE_SIZE or types[:count] != types[count:]:
        return None
    if any(t is PRED or not (t.is_floating or t.is_integral) for t in types):
        return None
    return types[:count]


def _steps(computation: Computation) -> tuple[_Step, ...] | None:
    """The computation with numbers for instructions; None if it does more than a selection may."""
    order = post_order(computation)
    numbers = {instruction: number for number, instruction in enumerate(order)}
    steps: list[_Step] = []
    for instruction in order:
        operands = tuple(numbers[operand] for operand in instruction.operands)
        if is_parameter(instruction):
            steps.append((instruction.op, operands, instruction.parameter_number))
        elif instruction.op is opcodes.COMPARE:
            is_total = instruction.attributes_as(CompareAttributes).type is ComparisonType.TOTALORDER
            steps.append((instruction.op, operands, (instruction.attributes_as(CompareAttributes).direction, is_total)))
        elif instruction.op in _JOINS or instruction.op in _EXTREMES or instruction.op in (opcodes.SELECT, TUPLE):
            steps.append((instruction.op, operands, None))
        else:
            return None
    return tuple(steps)


@functools.lru_cache(maxsize=256)
def _holds(steps: tuple[_Step, ...], types: tuple[PrimitiveType, ...], ordered_by: int | None) -> bool:
    """Tries the laws on all triples of tuples."""
    is_total = any(op is opcodes.COMPARE and attribute[1] for op, _, attribute in steps)
    if _marks(steps, len(types)) is None or (is_total and any(op in _EXTREMES for op, _, _ in steps)):
        return False
    a, b, c = _triples(types)

    def apply(left: Parts, right: Parts) -> Parts:
        if ordered_by is not None:
            is_behind = left[ordered_by] > right[ordered_by]
            left, right = _chosen(is_behind, right, left), _chosen(is_behind, left, right)
        return _evaluate(steps, len(types), left, right)

    def same(left: Parts, right: Parts) -> bool:
        return all(_same(x, y, exactly=is_total) for x, y in zip(left, right, strict=True))

    return (
        same(apply(c, c), c)
        and same(apply(b, c), apply(c, b))
        and same(apply(apply(a, b), c), apply(a, apply(b, c)))
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _is_associative(steps: tuple[_Step, ...], types: tuple[PrimitiveType, ...]) -> bool:
    if _marks(steps, len(types)) is None:
        return False
    a, b, c = _triples(types)
    apply = functools.partial(_evaluate, steps, len(types))
    left, right = apply(apply(a, b), c), apply(a, apply(b, c))
    return all(_same(x, y, exactly=True) for x, y in zip(left, right, strict=True))


def _triples(types: Sequence[PrimitiveType]) -> tuple[Parts, Parts, Parts]:
    """Three axes with all tuples of the numbers that are tried."""
    grids = np.meshgrid(*[_FLOATS if t.is_floating else _INTEGERS for t in types], indexing="ij")
    tuples = [grid.reshape(-1) for grid in grids]
    count = len(tuples[0])
    a, b, c = (tuple(part.reshape(shape) for part in tuples) for shape in ((count, 1, 1), (count, 1), (count,)))
    return a, b, c


def _marks(steps: Sequence[_Step], count: int) -> list[int] | None:
    """The mark of each step's value; None if a step mixes positions of the tuple."""
    found: list[int] = []
    for op, operands, attribute in steps:
        marks = [found[operand] for operand in operands]
        if not operands:
            found.append(attribute % count)
        elif op is TUPLE:
            if len(found) != len(steps) - 1 or marks != list(range(count)):
                return None
            found.append(_TRUTH)
        elif op is opcodes.SELECT:
            if marks[0] != _TRUTH or marks[1] != marks[2]:
                return None
            found.append(marks[1])
        else:
            if len(set(marks)) > 1 or (marks[0] == _TRUTH) != (op in _JOINS):
                return None
            found.append(marks[0] if op in _EXTREMES else _TRUTH)
    is_scalar = steps[-1][0] is not TUPLE
    return None if is_scalar and (count > 1 or found[-1] != 0) else found


def _evaluate(steps: Sequence[_Step], count: int, left: Parts, right: Parts) -> Parts:
    given, values = (*left, *right), list[Array]()
    for op, operands, attribute in steps:
        arguments = [values[operand] for operand in operands]
        if op is TUPLE:
            return tuple(arguments)
        if not operands:
            values.append(given[attribute])
        elif op is opcodes.COMPARE:
            direction, is_total = attribute
            keys = [_total_order_key(x) for x in arguments] if is_total else arguments
            values.append(_COMPARISONS[direction](*keys))
        elif op is opcodes.SELECT:
            values.append(np.where(*arguments))
        else:
            values.append((_JOINS.get(op) or _EXTREMES[op])(*arguments))
    return (values[-1],)


def _chosen(condition: Array, on_true: Parts, on_false: Parts) -> Parts:
    return tuple(np.where(condition, x, y) for x, y in zip(on_true, on_false, strict=True))


def _total_order_key(x: Array) -> Array:
    bits: Array = np.ascontiguousarray(x).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _same(x: Array, y: Array, *, exactly: bool) -> bool:
    x, y = np.broadcast_arrays(x, y)
    if exactly and x.dtype.kind == "f":
        return bool(np.array_equal(np.ascontiguousarray(x).view(np.int64), np.ascontiguousarray(y).view(np.int64)))
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))
