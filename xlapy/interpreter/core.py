"""Evaluates a computation instruction by instruction on NumPy arrays.

Responsible for the table of rules, the execution context, the order of evaluation and the release of dead values. Does
not depend on what any op means (see `interpreter/<family>.py`), on devices, or on the source of the arguments.

A rule has the form `rule(context, instruction, values) -> value`. A value is a NumPy array of the instruction's element
type in logical (row-major) order, whatever the layout; a tuple of values; or `TOKEN`. Where the shape has dynamic
dimensions, the value is a `DynamicArray`, which only rules in `DYNAMIC_RULES` accept. Rules never write into operands.

Rules of elementwise ops read only element types from the instruction, never dimensions, because they are also evaluated
on arrays of scalars when a reducer, comparator or map body is applied (`batching/scalar_computations.py`). Other rules
read the dimensions of operands from the values, not from the declared shapes, because `interpreter/batching` calls them
with values of one dimension more. The exceptions are bitcast and get-dimension-size, which need the declared shape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy.base.element_types import Array as Array
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, ShapeError
from xlapy.base.shape import Shape
from xlapy.base.value import TOKEN as TOKEN
from xlapy.base.value import Value as Value
from xlapy.base.value import conform_to_shape
from xlapy.hlo.communicator import SINGLE_DEVICE, Communicator
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.traverse import post_order
from xlapy.interpreter.kernels.random_state import RandomState
from xlapy.opcodes.registry import AsyncRole, Rules

InterpreterRule = Callable[["Context", Instruction, Sequence[Value]], Value]
Observer = Callable[[Instruction, Sequence[Value], Value], None]
ReplaceValue = Callable[[Instruction, Sequence[Value], Value], Value]

RULES: Rules[InterpreterRule] = Rules("interpreter")

DYNAMIC_RULES: Rules[InterpreterRule] = Rules("interpreter on dynamic dimensions")
"""Rules for instructions with a dynamic dimension in a result, operand or called computation.

A value is a `DynamicArray` exactly where its shape has dynamic dimensions; the result of a rule is converted to that.
"""


@dataclass(slots=True)
class EvaluationStep:
    """One instruction of a plan: the slots of its operands and result, and the slots that are dead after it."""

    instruction: Instruction
    rule: InterpreterRule
    operands: tuple[int, ...]
    result: int
    dead: tuple[int, ...]


@dataclass(slots=True)
class EvaluationPlan:
    """The order of evaluation of a computation: its steps, and a slot for the value of each instruction."""

    parameters: tuple[tuple[int, int], ...]
    """Pairs (parameter number, slot)."""
    steps: list[EvaluationStep]
    slots: int
    root: int
    bounds: tuple[Shape, ...] = ()
    """The shapes of the parameters by number, or () if arguments always have the same dynamic dimensions as these."""


@dataclass(slots=True)
class Context:
    """What a rule can use besides its operands: the device, the run's state, the observer, the cancellation event."""

    replica_id: int = 0
    partition_id: int = 0
    seed: int = 0
    """Seeds the random numbers of the run, together with the two ids."""
    communicator: Communicator = SINGLE_DEVICE
    """Connects the device with the other devices and the host."""
    observer: Observer | None = None
    """Called after every instruction, except in scalar computations, which are evaluated in batches."""
    replace_value: ReplaceValue | None = None
    """Returns the value to use instead of that of an instruction, before the observer is called; not called in scalar
    computations either."""
    canceled: threading.Event = field(default_factory=threading.Event)
    plans: dict[Computation, EvaluationPlan] = field(default_factory=dict[Computation, EvaluationPlan])
    max_batch_sizes: dict[Computation, int | None] = field(default_factory=dict[Computation, "int | None"])
    """The largest batch on which each scalar computation is evaluated; see `batching/scalar_computations.py`."""
    platform: str = "interpreter"
    """The platform whose custom-call targets are called."""
    run_id: int = 0
    """Identifies the run: equal on all its devices, different in every run."""
    program_state: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])
    """State that an instruction's rule keeps for all runs of a program, shared by all devices."""
    run_state: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])
    """State that an instruction's rule keeps during this run on this device."""
    _random_state: RandomState | None = None

    def random_state(self) -> RandomState:
        """Returns the state of the run's random numbers, which `rng` and `rng-get-and-update-state` advance."""
        if self._random_state is None:
            self._random_state = RandomState.initial(self.seed, self.replica_id, self.partition_id)
        return self._random_state

    def plan(self, computation: Computation) -> EvaluationPlan:
        """Returns the plan of a computation, which is created at the first call."""
        found = self.plans.get(computation)
        if found is None:
            found = self.plans[computation] = make_plan(computation)
        return found


def make_plan(computation: Computation, are_dynamic: dict[Instruction, bool] | None = None) -> EvaluationPlan:
    """Orders the instructions and finds the last use of each value; `UnsupportedError` for an op without a rule.

    are_dynamic: what `is_dynamic` gave for callers, for the plans of one module: a conditional has many branches and
    operands.
    """
    order = post_order(computation)
    slot = {instruction: index for index, instruction in enumerate(order)}
    root = slot[computation.root_instruction]
    last_use = {operand: index for index, instruction in enumerate(order) for operand in instruction.operands}
    steps: list[EvaluationStep] = []
    parameters: list[tuple[int, int]] = []
    for index, instruction in enumerate(order):
        if is_parameter(instruction):
            parameters.append((instruction.parameter_number, index))
            continue
        operands = tuple(slot[operand] for operand in instruction.operands)
        dead = {slot[o] for o in instruction.operands if last_use[o] == index and slot[o] != root}
        steps.append(EvaluationStep(instruction, rule_of(instruction), operands, index, tuple(dead)))
    return EvaluationPlan(
        tuple(parameters),
        steps,
        len(order),
        root,
        _parameter_bounds(computation, {} if are_dynamic is None else are_dynamic),
    )


def _parameter_bounds(computation: Computation, are_dynamic: dict[Instruction, bool]) -> tuple[Shape, ...]:
    """Returns the shapes of the parameters, or () if arguments need no conversion to their dynamic dimensions."""
    shapes = tuple(parameter.shape for parameter in computation.parameters)
    callers = computation.callers
    for caller in callers:
        if caller not in are_dynamic:
            are_dynamic[caller] = is_dynamic(caller)
    varies = any(are_dynamic[caller] or caller.op.async_role is not AsyncRole.NONE for caller in callers)
    return shapes if varies or any(shape.is_dynamic for shape in shapes) else ()


def rule_of(instruction: Instruction) -> InterpreterRule:
    """Returns the rule that evaluates an instruction; raises `UnsupportedError` if there is none."""
    return _dynamic_rule(instruction) if is_dynamic(instruction) else RULES.find(instruction.op)


def is_dynamic(instruction: Instruction) -> bool:
    """Returns whether a result, an operand or a called computation of an instruction has dynamic dimensions."""
    shapes = [instruction.shape, *instruction.operand_shapes]
    for computation in instruction.computations:
        shapes += [computation.root_instruction.shape, *(parameter.shape for parameter in computation.parameters)]
    return any(shape.is_dynamic for shape in shapes)


def _dynamic_rule(instruction: Instruction) -> InterpreterRule:
    rule = DYNAMIC_RULES.find(instruction.op)

    def evaluate(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
        try:
            value = rule(context, instruction, values)
        except ShapeError as error:
            raise ExecutionError(
                error.code, f"{describe_instruction(instruction)}, with the sizes at run time: {error.message}"
            ) from error
        return conform_to_shape(value, instruction.shape)

    return evaluate


def evaluate_computation(context: Context, computation: Computation, arguments: Sequence[Value]) -> Value:
    """Evaluates a computation for one argument per parameter and returns the value of its root.

    Errors that a rule raises name the instruction. Raises `ExecutionError` if the run was canceled.
    """
    plan = context.plan(computation)
    values: list[Value] = [None] * plan.slots
    for number, slot in plan.parameters:
        values[slot] = conform_to_shape(arguments[number], plan.bounds[number]) if plan.bounds else arguments[number]
    observer, replace_value = context.observer, context.replace_value
    if context.canceled.is_set():
        raise ExecutionError(codes.CANCELED, f"execution canceled in {computation.name}")
    with np.errstate(all="ignore"):
        for step in plan.steps:
            operands = [values[i] for i in step.operands]
            value = values[step.result] = _apply_rule(step, context, operands)
            if replace_value is not None:
                value = values[step.result] = replace_value(step.instruction, operands, value)
            if observer is not None:
                observer(step.instruction, operands, value)
            for dead in step.dead:
                values[dead] = None
    return values[plan.root]


def _apply_rule(step: EvaluationStep, context: Context, operands: Sequence[Value]) -> Value:
    instruction = step.instruction
    try:
        return step.rule(context, instruction, operands)
    except MemoryError as error:
        where = describe_instruction(instruction)
        raise ExecutionError(
            codes.OUT_OF_MEMORY,
            f"{where}: out of memory for a value of shape {instruction.shape.to_text(layout=False)}",
        ) from error
