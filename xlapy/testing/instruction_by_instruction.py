"""Compares the interpreter with another implementation one instruction at a time, each on the same operands.

A whole floating-point program is ill-conditioned: after a cancellation, a difference of one bit in a cosine may become
arbitrarily large. Therefore the interpreter evaluates a module once and records the operands of every instruction of
the entry. One flat module then computes each instruction from parameters of its own, and the other implementation runs
this module. Each difference is therefore due to one instruction.

Responsible for the steps of a run, the flat module, and the bounds of sums. Does not depend on the implementation that
runs the flat module or on its known divergences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from xlapy.base.element_types import C128, F64, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.interpreter import RULES, TOKEN, Context, rule_of
from xlapy.opcodes.contraction import DOT, DotAttributes
from xlapy.opcodes.control import AFTER_ALL
from xlapy.opcodes.convolution import CONVOLUTION
from xlapy.opcodes.normalization import BATCH_NORM_GRAD, BATCH_NORM_TRAINING, BatchNormAttributes
from xlapy.opcodes.registry import AsyncRole
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.opcodes.tuples import TUPLE
from xlapy.testing.comparison import assert_close, rule_of_operation

Array = np.ndarray[Any, Any]
Value = Any
Adjust = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction with the values of its operands and its own value."""

    instruction: Instruction
    operands: tuple[Value, ...]
    value: Value


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The operands and the value of an asynchronous start or update, whose done has not been executed."""

    operands: tuple[Value, ...]
    value: Value


_UNFINISHED = (AsyncRole.START, AsyncRole.UPDATE)


def steps_of(module: Module, arguments: Sequence[Value], adjust: Adjust = lambda array: array) -> list[Step]:
    """Evaluates the entry and returns a step for each instruction except parameters.

    `adjust` is applied to every array before another instruction uses it, for example to flush denormals. Asynchronous
    starts and updates have no step of their own; the step of their done includes them.
    """
    context = Context()
    values: dict[Instruction, Value] = {}
    steps: list[Step] = []
    with np.errstate(all="ignore"):
        for instruction in post_order(module.entry_computation):
            if is_parameter(instruction):
                values[instruction] = _adjust_leaves(arguments[instruction.parameter_number], adjust)
                continue
            operands = tuple(values[operand] for operand in instruction.operands)
            value = rule_of(instruction)(context, instruction, [_without_operands(operand) for operand in operands])
            if instruction.op.async_role in _UNFINISHED:
                values[instruction] = Unfinished(operands, value)
                continue
            steps.append(Step(instruction, operands, value))
            values[instruction] = _adjust_leaves(value, adjust)
    return steps


def _without_operands(value: Value) -> Value:
    return value.value if isinstance(value, Unfinished) else value


def _adjust_leaves(value: Value, adjust: Adjust) -> Value:
    if isinstance(value, tuple):
        return tuple(_adjust_leaves(element, adjust) for element in value)
    return value if value is TOKEN else adjust(np.asarray(value))


def flat_module(steps: Sequence[Step]) -> tuple[Module, list[Value]]:
    """Returns a module that computes every step from parameters and returns all results in a tuple, and its arguments.

    Steps that share an operand share a parameter. The step of an asynchronous done includes its start and updates.
    """
    module = Module("flat")
    entry = edit.add_computation(module, "entry", entry=True)
    flat = _FlatEntry(entry, _copy_callees(module, steps))
    results = [flat.copy(step.instruction, step.operands) for step in steps]
    edit.set_root(entry, edit.create(entry, TUPLE, results))
    edit.reorder_computations(module, [c for c in module.computations if c is not entry] + [entry])
    module.config.entry_computation_layout = entry.program_shape
    return module, flat.arguments


@dataclass(slots=True)
class _FlatEntry:
    """The entry of a flat module while steps are copied into it."""

    entry: Computation
    callees: Mapping[Computation, Computation]
    arguments: list[Value] = field(default_factory=list[Value])
    copies_of_operands: dict[Instruction, Instruction] = field(default_factory=dict[Instruction, Instruction])

    def copy(self, instruction: Instruction, values: Sequence[Value]) -> Instruction:
        operands = [self.operand(o, value) for o, value in zip(instruction.operands, values, strict=True)]
        computations = [self.callees[c] for c in instruction.computations]
        return edit.clone_instruction(instruction, self.entry, operands, computations)

    def operand(self, operand: Instruction, value: Value) -> Instruction:
        if operand not in self.copies_of_operands:
            self.copies_of_operands[operand] = self._new_operand(operand, value)
        return self.copies_of_operands[operand]

    def _new_operand(self, operand: Instruction, value: Value) -> Instruction:
        if isinstance(value, Unfinished):
            return self.copy(operand, value.operands)
        if value is TOKEN:
            return edit.create(self.entry, AFTER_ALL, ())
        attributes = ParameterAttributes.make(number=len(self.arguments))
        self.arguments.append(value)
        return edit.create(self.entry, PARAMETER, (), attributes, shape=operand.shape, name=operand.name)


def _copy_callees(module: Module, steps: Sequence[Step]) -> Mapping[Computation, Computation]:
    """Returns copies of all computations that the steps call, directly or indirectly."""
    wanted = {c for step in steps for instruction in _async_chain(step) for c in instruction.computations}
    copies: dict[Computation, Computation] = {}
    if not wanted:
        return copies
    source = next(iter(wanted)).module
    assert source is not None
    order = computation_post_order(source)
    for computation in reversed(order):
        if computation in wanted:
            wanted.update(c for instruction in computation for c in instruction.computations)
    for computation in order:
        if computation in wanted:
            copies[computation] = edit.clone_computation(computation, module, copies)
    return copies


def _async_chain(step: Step) -> Iterator[Instruction]:
    """Yields the instruction of a step and, if it is asynchronous, its start and updates."""
    yield step.instruction
    for operand, value in zip(step.instruction.operands, step.operands, strict=True):
        if isinstance(value, Unfinished):
            yield from _async_chain(Step(operand, value.operands, value.value))


def assert_step(step: Step, actual: Value, *, rule: str | None = None, flush_denormals: bool = False) -> None:
    """Raises AssertionError unless `actual` is the value of a step by `rule`, by default the rule of the operation."""
    chosen = rule or _rule(step)
    terms, magnitude = _terms_and_magnitude(step) if chosen == "accumulation" else (1, _batch_norm_magnitude(step))
    _assert_leaves(step.value, actual, magnitude, terms, chosen, flush_denormals, describe(step.instruction))


def describe(instruction: Instruction) -> str:
    operands = ", ".join(operand.shape.to_text(layout=False) for operand in instruction.operands)
    return f"{instruction.name}: {instruction.shape.to_text(layout=False)} {instruction.op.name}({operands})"


def _rule(step: Step) -> str:
    arrays = [value for value in step.operands if isinstance(value, np.ndarray)]
    return rule_of_operation(step.instruction.op.name, arrays[0].dtype if arrays else np.float32)


def _assert_leaves(
    ours: Value, theirs: Value, magnitude: Value, terms: int, rule: str, flush: bool, where: str
) -> None:
    if isinstance(ours, tuple):
        parts = magnitude if isinstance(magnitude, tuple) else (magnitude,) * len(ours)
        for i, (left, right, part) in enumerate(zip(ours, theirs, parts, strict=True)):
            _assert_leaves(left, right, part, terms, rule, flush, f"{where} [{i}]")
        return
    if ours is TOKEN:
        return
    left, right = np.asarray(theirs), np.asarray(ours)
    if magnitude is not None and left.shape == right.shape:
        checked = _cannot_overflow(magnitude, right.dtype)
        left, right, magnitude = left[checked], right[checked], magnitude[checked]
    assert_close(left, right, rule=rule, terms=terms, magnitude=magnitude, flush_denormals=flush, where=where)


# The bounds of sums


def _terms_and_magnitude(step: Step) -> tuple[int, Value]:
    """Returns the number of terms of each result element, and the step's value for the absolute values of its
    operands."""
    instruction = step.instruction
    operands = tuple(_absolute_values(value) for value in step.operands)
    if instruction.op in (DOT, CONVOLUTION):
        instruction = _with_wide_result(instruction)
    with np.errstate(all="ignore"):
        magnitude = RULES.find(instruction.op)(Context(), instruction, operands)
    return _max_terms(step), magnitude


def _batch_norm_magnitude(step: Step) -> Value:
    """Returns the magnitude of the terms that cancel in a batch norm: squares in a variance, terms of sums. None for
    other ops.
    """
    if step.instruction.op is BATCH_NORM_TRAINING:
        return _batch_norm_training_magnitude(step)
    if step.instruction.op is not BATCH_NORM_GRAD:
        return None
    operand, scale, mean, variance, gradient = step.operands
    root = np.sqrt(_smallest(variance) + step.instruction.attributes_as(BatchNormAttributes).epsilon)
    deviation = (_largest(operand) + _largest(mean)) / root
    total = float(np.sum(np.abs(gradient.astype(np.float64))))
    factor = _largest(scale) * _largest(gradient) / root
    sizes = (factor * (2 + deviation**2), total * deviation, total)
    return tuple(np.full(part.shape, size) for part, size in zip(step.value, sizes, strict=True))


def _batch_norm_training_magnitude(step: Step) -> Value:
    """Returns the magnitudes for batch-norm-training.

    The squares enter the mean and the variance directly; in the normalized result they are divided by the variance.
    """
    operand, scale, offset = map(_largest, step.operands)
    variance = _smallest(step.value[2]) + step.instruction.attributes_as(BatchNormAttributes).epsilon
    normalized = scale * operand / np.sqrt(variance) * (1 + operand**2 / variance) + offset
    sizes = (normalized, operand**2, operand**2)
    return tuple(np.full(part.shape, size) for part, size in zip(step.value, sizes, strict=True))


def _smallest(array: Array) -> float:
    return float(np.min(array.astype(np.float64), initial=np.inf))


def _largest(array: Array) -> float:
    return float(np.max(np.abs(array.astype(np.float64)), initial=0.0))


def _absolute_values(value: Value) -> Value:
    """Returns absolute values of finite floats and 0 for others. Integers are unchanged: they are positions, or
    exact."""
    if isinstance(value, tuple):
        return tuple(map(_absolute_values, value))
    if not isinstance(value, np.ndarray) or not _is_inexact(value.dtype):
        return value
    finite = np.isfinite(value.astype(np.complex128) if value.dtype.kind == "c" else value.astype(np.float64))
    with np.errstate(all="ignore"):
        return np.where(finite, np.abs(value), np.zeros((), value.dtype)).astype(value.dtype)


def _is_inexact(dtype: np.dtype[Any]) -> bool:
    t = PrimitiveType.from_dtype(dtype)
    return t.is_floating or t.is_complex


def _with_wide_result(instruction: Instruction) -> Instruction:
    """Returns the instruction with a wider result type that does not overflow."""
    if not _is_inexact(instruction.shape.dtype):
        return instruction
    shape = instruction.shape.with_element_type(C128 if instruction.shape.element_type.is_complex else F64)
    return Instruction(
        instruction.op, shape, instruction.operands, instruction.attributes, (), instruction.name, instruction.metadata
    )


def _max_terms(step: Step) -> int:
    """Returns an upper bound: the elements that a dot or convolution sums, or all elements of the first operand."""
    shape: Shape = step.instruction.operands[0].shape
    if step.instruction.op is DOT:
        return prod(shape.dimensions[d] for d in step.instruction.attributes_as(DotAttributes).lhs_contracting_dims)
    if step.instruction.op is CONVOLUTION:
        return max(1, step.instruction.operands[1].shape.size)
    return max(1, shape.size)


def _cannot_overflow(magnitude: Array, result: np.dtype[Any]) -> Array:
    """Whether a sum of absolute values cannot overflow, so that the order of its terms does not matter."""
    if not _is_inexact(result):
        return np.ones(np.shape(magnitude), np.bool_)
    return np.abs(magnitude.astype(np.complex128)) < float(ml_dtypes.finfo(result).max) / 2
