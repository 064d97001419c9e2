"""Tolerances of whole programs, from the rounding errors of their instructions.

A program has no tolerance of its own: after a cancellation, one unit in the last place of a cosine may become any
difference, and a sum in bf16 is less accurate than one in f32. The interpreter therefore runs a program `RUNS` more
times. In each run it changes the value of every instruction by the largest error that the rule of the operation allows
(`comparison.TOLERANCES`), up or down at random. An element of the result may differ by as much as these runs differ
from the exact one. If no instruction may differ, nor may the result.

Example: f32 `sine(x) - sine(y)`, both sines close to 1. Each sine may be wrong by 4 units of 2^-24, so that runs differ
by up to 2^-21 from the exact result, whatever its size.

Responsible for the changes, their effect on results, and the comparison with it. Does not depend on implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.value import DynamicArray
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import TOKEN, Context
from xlapy.runtime import Client
from xlapy.runtime.backends.interpreter import InterpreterProgram
from xlapy.testing.comparison import (
    TOLERANCES,
    absolute_distance,
    assert_within,
    bits_differ,
    flushed,
    is_inexact,
    max_errors,
    rule_of_operation,
)
from xlapy.testing.sum_errors import Step, terms_and_magnitude

Array = np.ndarray[Any, Any]
Value = Any
Evaluate = Callable[[Context], Value]

RUNS = 3
"""The number of runs with changed values. An element whose changes cancel in all of them gets the deviation that is
usual in its array, see `_pooled`."""

CALLERS = frozenset({
    opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE,
    opcodes.ASYNC_START, opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE,
})  # fmt: skip
"""Operations whose called computations the interpreter evaluates one instruction at a time. They round nothing
themselves."""

_ROUNDED = frozenset({
    opcodes.ADD, opcodes.CONVERT, opcodes.DIVIDE, opcodes.MULTIPLY, opcodes.REDUCE_PRECISION, opcodes.REMAINDER,
    opcodes.SQRT, opcodes.SUBTRACT,
})  # fmt: skip
"""Operations that round correctly. All others with the rule "exact" choose an operand or give an integer."""


@dataclass(frozen=True, slots=True)
class ProgramTolerance:
    """The result of a program on the interpreter, and how far another result may be from it.

    expected: plain arrays, with None for tokens; tuples as the program returns them. deviations: for each array, the
    largest |actual - expected| of each element, as float64: inf where rounding errors decide what the element is.
    """

    expected: Value
    deviations: Value
    flush_denormals: bool = False

    def assert_close(self, actual: Value, where: str = "result") -> None:
        """Raises AssertionError unless a result is within the tolerance. NaN equals NaN, and -0 equals 0."""
        assert_within(actual, self.expected, self.deviations, flush_denormals=self.flush_denormals, where=where)


def program_tolerance(
    module: Module, arguments: Sequence[Value], *, flush_denormals: bool = False, excess_precision: bool = False
) -> ProgramTolerance:
    """Returns the tolerance of a program on one device; raises the errors of the interpreter.

    flush_denormals: the other implementation reads denormal numbers as 0. excess_precision: it may keep more bits of a
    value than its type has, as XLA does, or associate operations differently, so that operations that IEEE 754 rounds
    correctly may differ by a unit in the last place.
    """
    (tolerance,) = sharded_tolerances(
        module, [arguments], flush_denormals=flush_denormals, excess_precision=excess_precision
    )
    return tolerance


def sharded_tolerances(
    module: Module,
    arguments: Sequence[Sequence[Value]],
    replicas: int = 1,
    *,
    flush_denormals: bool = False,
    excess_precision: bool = False,
) -> list[ProgramTolerance]:
    """Returns the tolerances of a program on several devices, whose arguments are given for each device."""
    client = Client("interpreter", devices=len(arguments), single_process=True)
    executable = client.compile(module, replicas, len(arguments) // replicas)
    program = executable.program
    assert isinstance(program, InterpreterProgram)

    def results(given: Sequence[Sequence[Value]]) -> list[Value]:
        if len(given) == 1:
            return [_plain(executable(*given[0]))]
        return [_plain(result) for result in executable.execute_sharded(given)]

    expected = results(arguments)
    changed: list[list[Value]] = []
    for run in range(RUNS):
        errors = program.replace_value = RoundingErrors(run, flush_denormals, excess_precision)
        changed.append(results([[errors.of_argument(value) for value in given] for given in arguments]))
    return [
        ProgramTolerance(value, deviations(value, [run[device] for run in changed]), flush_denormals)
        for device, value in enumerate(expected)
    ]


def step_tolerance(
    evaluate: Evaluate, expected: Value, *, flush_denormals: bool = False, excess_precision: bool = False
) -> ProgramTolerance:
    """Returns the tolerance of a value that `evaluate` computes in a context."""
    with np.errstate(all="ignore"):
        changed = [
            _plain(evaluate(Context(replace_value=RoundingErrors(run, flush_denormals, excess_precision))))
            for run in range(RUNS)
        ]
    plain = _plain(expected)
    return ProgramTolerance(plain, deviations(plain, changed), flush_denormals)


# -- changes of values


class RoundingErrors:
    """Changes the value of each instruction by the largest error that its rule allows, up or down at random.

    Every second run also flushes denormal numbers if the other implementation does. Values that are not finite, and
    values that the change would make so, stay as they are.
    """

    def __init__(self, run: int, flush_denormals: bool = False, excess_precision: bool = False) -> None:
        self._rng = np.random.default_rng(run)
        self._flushes = flush_denormals and run % 2 == 0
        self._excess_precision = excess_precision

    def __call__(self, instruction: Instruction, operands: Sequence[Value], value: Value) -> Value:
        if instruction.op in CALLERS or not _has_inexact_leaf(value):
            return value
        rule = self._rule(instruction, operands)
        if rule == "bits":
            return value
        terms, magnitude = 1, None
        if TOLERANCES[rule].sums:
            terms, magnitude = terms_and_magnitude(Step(instruction, tuple(operands), value))
        return self._changed(value, rule, terms, magnitude)

    def of_argument(self, value: Value) -> Value:
        """Returns an argument of a program, whose denormal numbers are flushed in the runs that flush them."""
        if isinstance(value, tuple):
            return tuple(map(self.of_argument, value))
        return flushed(value) if self._flushes and isinstance(value, np.ndarray) and is_inexact(value.dtype) else value

    def _rule(self, instruction: Instruction, operands: Sequence[Value]) -> str:
        if instruction.op is opcodes.CUSTOM_CALL:  # linear algebra and transforms, for the most part
            return "norm"
        dtype = next((_array(operand).dtype for operand in operands if _is_array(operand)), np.float32)
        rule = rule_of_operation(instruction.op.name, dtype)
        if rule == "exact":
            return "rounded" if self._excess_precision and instruction.op in _ROUNDED else "bits"
        return "bits" if TOLERANCES[rule].sums and not _adds(instruction) else rule

    def _changed(self, value: Value, rule: str, terms: int, magnitude: Value) -> Value:
        if isinstance(value, tuple):
            sizes = magnitude if isinstance(magnitude, tuple) else (magnitude,) * len(value)
            return tuple(self._changed(v, rule, terms, size) for v, size in zip(value, sizes, strict=True))
        if isinstance(value, DynamicArray):
            size = magnitude.array if isinstance(magnitude, DynamicArray) else None
            return DynamicArray(self._changed_array(value.array, rule, terms, size), value.sizes)
        return self._changed_array(value, rule, terms, magnitude) if _is_array(value) else value

    def _changed_array(self, value: Array, rule: str, terms: int, magnitude: Any) -> Array:
        if not is_inexact(value.dtype):
            return value
        errors = max_errors(value, value.dtype, rule, terms=terms, magnitude=magnitude)
        wide = _wide(value)
        result = np.asarray((wide + errors * self._signs(wide)).astype(value.dtype))
        if self._flushes:
            result = flushed(result)
        return np.where(np.isfinite(result if result.dtype.isbuiltin else _wide(result)), result, value)

    def _signs(self, values: Array) -> Array:
        """Returns 1 or -1 for each element; for complex numbers one of the four diagonal directions of length 1."""
        signs = np.asarray(self._rng.integers(0, 2, values.shape) * 2 - 1)
        if values.dtype.kind != "c":
            return signs
        return (signs + 1j * (self._rng.integers(0, 2, values.shape) * 2 - 1)) * np.sqrt(0.5)


def _adds(instruction: Instruction) -> bool:
    """Whether a sum rounds: reductions by operations such as maximum choose one of their terms."""
    return not instruction.computations or any(
        i.op in _ROUNDED or rule_of_operation(i.op.name, np.float32) == "elementwise"
        for computation in instruction.computations
        for i in computation
    )


def _has_inexact_leaf(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_inexact_leaf, value))
    return (_is_array(value) or isinstance(value, DynamicArray)) and is_inexact(_array(value).dtype)


def _is_array(value: Value) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _array(value: Value) -> Array:
    return value.array if isinstance(value, DynamicArray) else np.asarray(value)


def _plain(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, DynamicArray):
        return value.actual
    return np.asarray(value) if value is not TOKEN and hasattr(value, "__array__") else None


# -- deviations


def deviations(expected: Value, changed: Sequence[Value]) -> Value:
    """Returns how far each element may be from `expected`, given results with changed values."""
    if isinstance(expected, tuple):
        return tuple(deviations(v, [run[i] for run in changed]) for i, v in enumerate(expected))
    if expected is None:
        return None
    if any(run.shape != expected.shape for run in changed):  # rounding errors decide the size of a dynamic dimension
        return np.full(expected.shape, np.inf)
    if not is_inexact(expected.dtype):
        return np.where(np.any([bits_differ(run, expected) for run in changed], axis=0), np.inf, 0.0)
    distances = np.stack([absolute_distance(run, expected) for run in changed])
    found = np.asarray(np.max(distances, axis=0) + _pooled(distances, np.abs(_wide(expected))))
    # What differs before the last rounding, however little, may round to neighbors.
    return np.where(found > 0, np.maximum(found, max_errors(expected, expected.dtype, "rounded")), found)


def _pooled(distances: Array, sizes: Array) -> Array:
    """Returns the root mean square of the distances in an array, absolute or relative to the size of the element,
    whichever is less: an estimate of the standard deviation from all elements."""
    finite = np.isfinite(distances)
    if not finite.any():
        return np.zeros(sizes.shape)
    absolute = _root_mean_square(distances[finite])
    usable = finite & np.isfinite(sizes) & (sizes > 0)
    if not usable.any():
        return np.full(sizes.shape, absolute)
    with np.errstate(all="ignore"):
        relative = _root_mean_square((distances / sizes)[usable])
        return np.minimum(absolute, np.where(np.isfinite(sizes), sizes, 0.0) * relative)


def _root_mean_square(values: Array) -> float:
    largest = float(np.max(values, initial=0.0))
    return largest * float(np.sqrt(np.mean((values / largest) ** 2))) if largest else 0.0


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
