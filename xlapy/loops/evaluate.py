"""Evaluates kernels of loop IR, one scalar at a time: the reference semantics of the IR, for tests of its users.

Defines the meaning of every operation of `loops.builder`. Slow, for clarity. Does not depend on HLO or LLVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import ml_dtypes
import numpy as np

from xlapy.loops.dot_instructions import TILE_SIDE, evaluate_dot, evaluate_tiles
from xlapy.loops.ir import (
    Affine,
    AxisKind,
    Block,
    Carry,
    For,
    Kernel,
    MatrixProduct,
    Prefetch,
    Scan,
    SelectPositions,
    Store,
    TransposeStatement,
    Value,
    While,
)
from xlapy.loops.types import I1, ScalarType

Scalar = Any
_UNDEFINED = np.uint8(0xAB)
"""The initial bytes of scratch memory: a pattern that shows in results if it is read before it is written."""

Memory = Mapping[str, np.ndarray[Any, Any]]


def evaluate(kernel: Kernel, memory: Memory) -> None:
    """Executes a kernel on 1-D arrays, given by the names of its buffers; changes the arrays that it writes."""
    scratch = {b.name: np.full(b.size * b.type.byte_size, _UNDEFINED).view(b.type.dtype) for b in kernel.scratch}
    with np.errstate(all="ignore"):
        _Evaluator({**memory, **scratch}).block(kernel.body)


class _Evaluator:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.values: dict[Value, Scalar] = {}

    def block(self, block: Block) -> None:
        for statement in block.statements:
            if isinstance(statement, Value):
                self.values[statement] = self.value(statement)
            elif isinstance(statement, Store):
                self.store(statement)
            elif isinstance(statement, Prefetch):
                continue
            elif isinstance(statement, TransposeStatement):
                self.transpose(statement)
            elif isinstance(statement, MatrixProduct):
                self.matrix_product(statement)
            elif isinstance(statement, SelectPositions):
                self.select_positions(statement)
            elif isinstance(statement, For):
                self.loop(statement)
            elif isinstance(statement, While):
                self.repeat(statement)
            elif isinstance(statement, Scan):
                self.scan(statement)
            elif self.get(statement.condition):
                self.block(statement.then)

    def get(self, value: Value) -> Scalar:
        if value.op == "const":
            return value.type.dtype.type(value.attribute)
        return self.values[value]

    def position(self, affine: Affine) -> int:
        return affine.constant + sum(int(self.get(v)) * c for v, c in affine.terms)

    def value(self, value: Value) -> Scalar:
        if value.op == "load":
            location, masked = value.attribute
            if masked and not self.get(value.args[-2]):
                return self.get(value.args[-1])
            memory, first = self.memory[location.buffer.name], self.position(location.offset)
            count = value.type.byte_size // location.buffer.type.byte_size
            if count == 1:
                return value.type.dtype.type(memory[first])
            return memory[first : first + count].copy().view(value.type.dtype)[0]
        if value.op == "affine":
            return np.int64(self.position(value.attribute))
        if value.attribute is not None and value.op in ("div", "mod"):
            dividend, divisor = value.attribute
            quotient, rest = divmod(self.position(dividend), divisor)
            return np.int64(quotient if value.op == "div" else rest)
        return operate(value, [self.get(arg) for arg in value.args])

    def store(self, store: Store) -> None:
        if store.mask is None or self.get(store.mask):
            self.memory[store.location.buffer.name][self.position(store.location.offset)] = self.get(store.value)

    def transpose(self, statement: TransposeStatement) -> None:
        source, target = self.memory[statement.source.buffer.name], self.memory[statement.target.buffer.name]
        begin, end = self.position(statement.source.offset), self.position(statement.target.offset)
        for row in range(self.extent(statement.rows)):
            for column in range(self.extent(statement.columns)):
                for part in range(statement.parts):
                    offset = end + column * statement.target_pitch + row * statement.parts + part
                    target[offset] = source[begin + row * statement.source_pitch + column * statement.parts + part]

    def matrix_product(self, statement: MatrixProduct) -> None:
        left, right, sums = (
            self.memory[place.buffer.name][self.position(place.offset) :]
            for place in (statement.left, statement.right, statement.sums)
        )
        rows, columns = np.arange(self.extent(statement.rows))[:, None], np.arange(statement.columns)
        places = rows * statement.sums_pitch + columns
        totals = sums[places] if self.get(statement.accumulates) else np.zeros(places.shape, sums.dtype)
        for step in range(0, self.extent(statement.groups), TILE_SIDE):
            groups = np.arange(step, step + TILE_SIDE)
            tiles = left[rows * statement.left_pitch + groups], right[groups[:, None] * statement.right_pitch + columns]
            totals = evaluate_tiles(statement.instruction, *tiles, totals, _fused)
        sums[places] = totals

    def select_positions(self, statement: SelectPositions) -> None:
        begin, end = self.position(statement.source.offset), self.position(statement.target.offset)
        values = self.memory[statement.source.buffer.name][begin : begin + self.extent(statement.count)]
        offsets = values.astype(np.int64) - self.get(statement.first)
        (found,) = np.nonzero((offsets >= 0) & (offsets < self.get(statement.extent)))
        self.memory[statement.target.buffer.name][end : end + len(found)] = found
        self.values[statement.result] = np.int64(len(found))

    def extent(self, extent: int | Value) -> int:
        return extent if isinstance(extent, int) else int(self.get(extent))

    def loop(self, loop: For) -> None:
        extent = self.extent(loop.extent)
        if loop.kind is AxisKind.VECTOR and loop.carries and not isinstance(loop.extent, int):
            step = loop.width * loop.accumulators
            assert extent > 0 and extent % step == 0, f"a vector loop with carries ends at {extent}, not {step} * n"
        self.begin(loop.carries)
        for position in range(extent):
            self.values[loop.axis] = np.int64(position)
            self.block(loop.body)
            self.advance(loop.carries)
        self.finish(loop.carries)

    def repeat(self, loop: While) -> None:
        assert loop.condition is not None
        self.begin(loop.carries)
        self.block(loop.test)
        while self.get(loop.condition):
            self.block(loop.body)
            self.advance(loop.carries)
            self.block(loop.test)
        self.finish(loop.carries)

    def scan(self, scan: Scan) -> None:
        given = [*(carry.variable for carry in scan.carries), *scan.inputs]
        for parameter, value in zip(scan.combine.parameters, given, strict=True):
            self.values[parameter] = self.get(value)
        self.block(scan.combine.block)
        for result, value in zip(scan.results, scan.combine.results, strict=True):
            self.values[result] = self.get(value)

    def begin(self, carries: Sequence[Carry]) -> None:
        for carry in carries:
            self.values[carry.variable] = self.get(carry.initial)

    def advance(self, carries: Sequence[Carry]) -> None:
        after = [self.get(carry.next) for carry in carries if carry.next is not None]
        for carry, value in zip(carries, after, strict=True):
            self.values[carry.variable] = value

    def finish(self, carries: Sequence[Carry]) -> None:
        for carry in carries:
            if carry.result is not None:
                self.values[carry.result] = self.values[carry.variable]


def operate(value: Value, args: Sequence[Scalar]) -> Scalar:
    """The result of an operation, given its arguments as scalars or arrays."""
    if value.op == "compare":
        return (
            np.bool_(_COMPARISONS[value.attribute](*args))
            if np.ndim(args[0]) == 0
            else _COMPARISONS[value.attribute](*args)
        )
    if value.op == "convert":
        return _converted(value, args[0])
    if value.op == "any":
        return args[0]
    if value.op == "dot":
        return evaluate_dot(value.attribute, args, _fused)
    if value.op == "select":
        return np.asarray(np.where(args[0], args[1], args[2]))[()]
    table = _FLOAT if value.type.is_float else _INTEGER
    return np.asarray(table[value.op](*args)).astype(value.type.dtype)[()]


def _unsigned(array: Scalar) -> Scalar:
    array = np.asarray(array)
    return array if array.dtype == np.bool_ else array.view(f"u{array.itemsize}")


def _as_unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    """Applies a function to the arguments as unsigned integers; the result is signed again."""

    def apply(*args: Scalar) -> Scalar:
        result = np.asarray(function(*map(_unsigned, args)))
        return result if result.dtype == np.bool_ else result.view(f"i{result.itemsize}")

    return apply


def _fused(left: Scalar, right: Scalar, addend: Scalar) -> Scalar:
    """left * right + addend, rounded once: to float32 by way of a float64 that is rounded to odd."""
    if np.asarray(left).dtype == np.float64:
        return np.frompyfunc(_fused_double, 3, 1)(left, right, addend)
    product, term = np.multiply(left, right, dtype=np.float64), np.float64(addend)
    total = product + term
    share = total - product
    lost = (product - (total - share)) + (term - share)
    is_even = (np.asarray(total).view(np.int64) & 1) == 0
    toward = np.nextafter(total, np.copysign(np.inf, lost))
    return np.where(np.isfinite(total) & (lost != 0) & is_even, toward, total)


def _fused_double(left: float, right: float, addend: float) -> float:
    if not (math.isfinite(left) and math.isfinite(right) and math.isfinite(addend)):
        return left * right + addend
    exact = Fraction(left) * Fraction(right) + Fraction(addend)
    if not exact:
        return left * right + addend if left == 0 or right == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _leading_zeros(operand: Scalar) -> Scalar:
    bits = np.asarray(operand).itemsize * 8
    return bits - int(_unsigned(operand)).bit_length()


def _truncated_quotient(left: Scalar, right: Scalar) -> Scalar:
    quotient = abs(int(left)) // abs(int(right))
    return quotient if (left < 0) == (right < 0) else -quotient


_FLOAT: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "min": lambda a, b: np.where((a == b) & (np.signbit(a)), a, np.minimum(b, a)),
    "max": lambda a, b: np.where((a == b) & (np.signbit(b)), a, np.maximum(b, a)),
    "fma": _fused,
    "copysign": np.copysign,
    "ldexp": lambda x, n: np.ldexp(x, np.asarray(n, np.int32)),
    "round_bf16": lambda x: np.asarray(x, ml_dtypes.bfloat16),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
}

_INTEGER: Final[Mapping[str, Callable[..., Any]]] = {
    "add": lambda a, b: a ^ b if np.asarray(a).dtype == np.bool_ else a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": np.negative,
    "sdiv": _truncated_quotient,
    "srem": lambda a, b: int(a) - int(b) * _truncated_quotient(a, b),
    "udiv": _as_unsigned(np.floor_divide),
    "urem": _as_unsigned(np.remainder),
    "smin": np.minimum,
    "smax": np.maximum,
    "umin": _as_unsigned(np.minimum),
    "umax": _as_unsigned(np.maximum),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: np.left_shift(a, b),
    "lshr": _as_unsigned(np.right_shift),
    "ashr": np.right_shift,
    "ctlz": _leading_zeros,
    "ctpop": _as_unsigned(np.bitwise_count),
}

_COMPARISONS: Final[Mapping[str, Callable[..., Any]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": lambda a, b: _unsigned(a) < _unsigned(b),
    "ule": lambda a, b: _unsigned(a) <= _unsigned(b),
    "ugt": lambda a, b: _unsigned(a) > _unsigned(b),
    "uge": lambda a, b: _unsigned(a) >= _unsigned(b),
    "oeq": np.equal,
    "one": lambda a, b: (a < b) | (a > b),
    "une": np.not_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "ord": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
}


def _converted(value: Value, operand: Scalar) -> Scalar:
    how, target = value.attribute, value.type
    if how == "bitcast":
        return np.asarray(operand).view(target.dtype)[()]
    if how in ("fptosi", "fptoui"):
        return _saturated(operand, target, signed=how == "fptosi")
    if how in ("zext", "uitofp"):
        operand = _unsigned(operand)
    if how == "sext" and np.asarray(operand).dtype == np.bool_:
        return np.where(operand, -1, 0).astype(target.dtype)[()]
    if how == "trunc" and target is I1:
        return (np.asarray(operand) & 1).astype(np.bool_)[()]
    return np.asarray(operand).astype(target.dtype)[()]


def _saturated(operand: Scalar, target: ScalarType, *, signed: bool) -> Scalar:
    low, high = (-(2 ** (target.bits - 1)), 2 ** (target.bits - 1) - 1) if signed else (0, 2**target.bits - 1)
    number = float(operand)
    whole = 0 if number != number else int(min(max(number, low), high))
    return np.array(min(max(whole, low), high), f"{'i' if signed else 'u'}{target.byte_size}").view(target.dtype)[()]
