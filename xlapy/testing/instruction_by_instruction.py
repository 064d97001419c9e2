"""Compares the interpreter with another implementation one instruction at a time, each on the same operands.

A whole floating-point program is ill-conditioned: after a cancellation, a difference of one bit in a cosine may become
arbitrarily large. Therefore the interpreter evaluates a module once and records the operands of every instruction of
the entry. One flat module then computes each instruction from parameters of its own, and the other implementation runs
this module. Each difference is therefore due to one instruction.

Responsible for the steps of a run and the flat module. Does not depend on the implementation that
runs the flat module or on its known divergences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.interpreter import TOKEN, Context, rule_of
from xlapy.opcodes.control import AFTER_ALL
from xlapy.opcodes.registry import AsyncRole
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.opcodes.tuples import TUPLE
from xlapy.testing.comparison import TOLERANCES, assert_close, rule_of_operation
from xlapy.testing.program_tolerance import CALLERS, step_tolerance
from xlapy.testing.sum_errors import Step, canceling_magnitude, cannot_overflow, terms_and_magnitude

Array = np.ndarray[Any, Any]
Value = Any
Adjust = Callable[[Array], Array]


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


def assert_step(
    step: Step,
    actual: Value,
    *,
    rule: str | None = None,
    flush_denormals: bool = False,
    excess_precision: bool = False,
) -> None:
    """Raises AssertionError unless `actual` is the value of a step by `rule`, by default the rule of the operation.

    A fusion, a call or another instruction that runs a computation has the tolerance of a program.
    """
    if rule is None and step.instruction.op in CALLERS and not any(isinstance(v, Unfinished) for v in step.operands):
        tolerance = step_tolerance(
            lambda context: rule_of(step.instruction)(context, step.instruction, step.operands),
            step.value,
            flush_denormals=flush_denormals,
            excess_precision=excess_precision,
        )
        tolerance.assert_close(actual, describe(step.instruction))
        return
    chosen = rule or _rule(step)
    terms, magnitude = terms_and_magnitude(step) if TOLERANCES[chosen].sums else (1, canceling_magnitude(step))
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
        checked = cannot_overflow(magnitude, right.dtype)
        left, right, magnitude = left[checked], right[checked], magnitude[checked]
    assert_close(left, right, rule=rule, terms=terms, magnitude=magnitude, flush_denormals=flush, where=where)
