"""Compares the interpreter with another implementation one instruction at a time, each on the same operands.

A whole program in floating point is ill-conditioned: a difference of one bit in a cosine may become any difference
behind a cancellation. Here the interpreter evaluates a module once and records the operands of every instruction of the
entry; then one flat module computes each instruction from parameters of its own, and the other implementation runs
that. What differs is the fault of the instruction named, within the bounds of `testing.comparison`.

Owns: the steps of a run, the flat module, the bounds of sums. Must not know: which implementation runs the flat module,
or what is excused there.
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
    """What an instruction started with its operands, before another ends it; `value` is the interpreter's own."""

    operands: tuple[Value, ...]
    value: Value


_UNFINISHED = (AsyncRole.START, AsyncRole.UPDATE)


def steps_of(module: Module, arguments: Sequence[Value], adjust: Adjust = lambda array: array) -> list[Step]:
    """What the interpreter computes in the entry, instruction by instruction.

    `adjust` replaces every array before another instruction uses it: by one without denormals, say. What is started
    and not done yet has no value of its own: the step is that which ends it.
    """
    context = Context()
    values: dict[Instruction, Value] = {}
    steps: list[Step] = []
    with np.errstate(all="ignore"):
        for instruction in post_order(module.entry_computation):
            if is_parameter(instruction):
                values[instruction] = _adjusted(arguments[instruction.parameter_number], adjust)
                continue
            operands = tuple(values[operand] for operand in instruction.operands)
            value = rule_of(instruction)(context, instruction, [_bare(operand) for operand in operands])
            if instruction.op.async_role in _UNFINISHED:
                values[instruction] = Unfinished(operands, value)
                continue
            steps.append(Step(instruction, operands, value))
            values[instruction] = _adjusted(value, adjust)
    return steps


def _bare(value: Value) -> Value:
    return value.value if isinstance(value, Unfinished) else value


def _adjusted(value: Value, adjust: Adjust) -> Value:
    if isinstance(value, tuple):
        return tuple(_adjusted(element, adjust) for element in value)
    return value if value is TOKEN else adjust(np.asarray(value))


def flat_module(steps: Sequence[Step]) -> tuple[Module, list[Value]]:
    """A module that computes every step from parameters, and returns them all in a tuple; and its arguments.

    The steps share a parameter where they share an operand. What a step ends (an async-done, say) is started there too.
    """
    module = Module("flat")
    entry = edit.add_computation(module, "entry", entry=True)
    flat = _Flat(entry, _copied_callees(module, steps))
    results = [flat.copy(step.instruction, step.operands) for step in steps]
    edit.set_root(entry, edit.create(entry, TUPLE, results))
    edit.reorder_computations(module, [c for c in module.computations if c is not entry] + [entry])
    module.config.entry_computation_layout = entry.program_shape
    return module, flat.arguments


@dataclass(slots=True)
class _Flat:
    """The entry of a flat module while steps are copied into it."""

    entry: Computation
    callees: Mapping[Computation, Computation]
    arguments: list[Value] = field(default_factory=list[Value])
    made: dict[Instruction, Instruction] = field(default_factory=dict[Instruction, Instruction])

    def copy(self, instruction: Instruction, values: Sequence[Value]) -> Instruction:
        operands = [self.operand(o, value) for o, value in zip(instruction.operands, values, strict=True)]
        computations = [self.callees[c] for c in instruction.computations]
        return edit.clone_instruction(instruction, self.entry, operands, computations)

    def operand(self, operand: Instruction, value: Value) -> Instruction:
        if operand not in self.made:
            self.made[operand] = self._new_operand(operand, value)
        return self.made[operand]

    def _new_operand(self, operand: Instruction, value: Value) -> Instruction:
        if isinstance(value, Unfinished):
            return self.copy(operand, value.operands)
        if value is TOKEN:
            return edit.create(self.entry, AFTER_ALL, ())
        attributes = ParameterAttributes.make(number=len(self.arguments))
        self.arguments.append(value)
        return edit.create(self.entry, PARAMETER, (), attributes, shape=operand.shape, name=operand.name)


def _copied_callees(module: Module, steps: Sequence[Step]) -> Mapping[Computation, Computation]:
    """Copies of all computations that the steps call, directly or not."""
    wanted = {c for step in steps for instruction in _chain(step) for c in instruction.computations}
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


def _chain(step: Step) -> Iterator[Instruction]:
    """The instruction of a step, and those that started what it ends."""
    yield step.instruction
    for operand, value in zip(step.instruction.operands, step.operands, strict=True):
        if isinstance(value, Unfinished):
            yield from _chain(Step(operand, value.operands, value.value))


def assert_step(step: Step, actual: Value, *, rule: str | None = None, flush_denormals: bool = False) -> None:
    """Raises AssertionError unless `actual` is the value of a step by `rule`, by default that of the operation."""
    chosen = rule or _rule(step)
    terms, magnitude = _size_of_sums(step) if chosen == "accumulation" else (1, _size_of_terms(step))
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
        certain = _is_certain(magnitude, right.dtype)
        left, right, magnitude = left[certain], right[certain], magnitude[certain]
    assert_close(left, right, rule=rule, terms=terms, magnitude=magnitude, flush_denormals=flush, where=where)


# The bounds of sums


def _size_of_sums(step: Step) -> tuple[int, Value]:
    """How many terms a result element has, and the step's value for the absolute values of its operands."""
    instruction = step.instruction
    operands = tuple(_absolute(value) for value in step.operands)
    if instruction.op in (DOT, CONVOLUTION):
        instruction = _widened(instruction)
    with np.errstate(all="ignore"):
        magnitude = RULES.find(instruction.op)(Context(), instruction, operands)
    return _terms(step), magnitude


def _size_of_terms(step: Step) -> Value:
    """The size of what cancels in a batch norm: the squares that a variance is the difference of, the terms of sums."""
    if step.instruction.op is BATCH_NORM_TRAINING:
        return _sizes_of_training(step)
    if step.instruction.op is not BATCH_NORM_GRAD:
        return None
    operand, scale, mean, variance, gradient = step.operands
    root = np.sqrt(_least(variance) + step.instruction.attributes_as(BatchNormAttributes).epsilon)
    deviation = (_largest(operand) + _largest(mean)) / root
    total = float(np.sum(np.abs(gradient.astype(np.float64))))
    factor = _largest(scale) * _largest(gradient) / root
    sizes = (factor * (2 + deviation**2), total * deviation, total)
    return tuple(np.full(part.shape, size) for part, size in zip(step.value, sizes, strict=True))


def _sizes_of_training(step: Step) -> Value:
    """The squares are in mean and variance as they are; what is divided by the root of the variance multiplies them."""
    operand, scale, offset = map(_largest, step.operands)
    variance = _least(step.value[2]) + step.instruction.attributes_as(BatchNormAttributes).epsilon
    normalized = scale * operand / np.sqrt(variance) * (1 + operand**2 / variance) + offset
    sizes = (normalized, operand**2, operand**2)
    return tuple(np.full(part.shape, size) for part, size in zip(step.value, sizes, strict=True))


def _least(array: Array) -> float:
    return float(np.min(array.astype(np.float64), initial=np.inf))


def _largest(array: Array) -> float:
    return float(np.max(np.abs(array.astype(np.float64)), initial=0.0))


def _absolute(value: Value) -> Value:
    """Absolute values of finite floats, 0 for others; integers (positions, or exact) as they are."""
    if isinstance(value, tuple):
        return tuple(map(_absolute, value))
    if not isinstance(value, np.ndarray) or not _is_inexact(value.dtype):
        return value
    finite = np.isfinite(value.astype(np.complex128) if value.dtype.kind == "c" else value.astype(np.float64))
    with np.errstate(all="ignore"):
        return np.where(finite, np.abs(value), np.zeros((), value.dtype)).astype(value.dtype)


def _is_inexact(dtype: np.dtype[Any]) -> bool:
    t = PrimitiveType.from_dtype(dtype)
    return t.is_floating or t.is_complex


def _widened(instruction: Instruction) -> Instruction:
    """The instruction with a result that does not overflow."""
    if not _is_inexact(instruction.shape.dtype):
        return instruction
    shape = instruction.shape.with_element_type(C128 if instruction.shape.element_type.is_complex else F64)
    return Instruction(
        instruction.op, shape, instruction.operands, instruction.attributes, (), instruction.name, instruction.metadata
    )


def _terms(step: Step) -> int:
    """An upper bound: all elements of the first operand, or those that a dot or convolution sums."""
    shape: Shape = step.instruction.operands[0].shape
    if step.instruction.op is DOT:
        return prod(shape.dimensions[d] for d in step.instruction.attributes_as(DotAttributes).lhs_contracting_dims)
    if step.instruction.op is CONVOLUTION:
        return max(1, step.instruction.operands[1].shape.size)
    return max(1, shape.size)


def _is_certain(magnitude: Array, result: np.dtype[Any]) -> Array:
    """Where a sum of absolute values stays clear of overflow, so that the order of its terms does not matter."""
    if not _is_inexact(result):
        return np.ones(np.shape(magnitude), np.bool_)
    return np.abs(magnitude.astype(np.complex128)) < float(ml_dtypes.finfo(result).max) / 2
