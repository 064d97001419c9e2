"""The reference interpreter: evaluates a computation instruction by instruction on NumPy arrays.

Owns: the table of rules, the execution context, the order of evaluation and the release of dead values.
Must not know: what any op means (that is `interpreter/<family>.py`), devices, how values reach it.

A rule is `rule(context, instruction, values) -> value`. A value is a NumPy array of the instruction's element type in
logical (row-major) order whatever the layout, a tuple of values, or `TOKEN`; where the shape has dynamic dimensions, a
`DynamicArray`, which only the rules of `DYNAMIC_RULES` meet. Rules never write into their operands.
Rules of elementwise ops read only element types from the instruction, never dimensions: they are also evaluated on
whole arrays of scalars when a reducer, comparator or map body is applied (`interpreter/batched.py`). Other rules take
the dimensions of operands from the values, not from the operands' shapes (bitcast and get-dimension-size, which ask for
what is declared, aside): `interpreter/lifting` gives them values with one dimension more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy.base.element_types import Array as Array
from xlapy.base.errors import ExecutionError, ShapeError
from xlapy.base.shape import Shape
from xlapy.base.value import TOKEN as TOKEN
from xlapy.base.value import Value as Value
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.interpreter.communicator import SINGLE_DEVICE, Communicator
from xlapy.interpreter.dynamic_array import conform_to_shape
from xlapy.interpreter.kernels.random_state import RandomState
from xlapy.opcodes.registry import AsyncRole, Rules

InterpreterRule = Callable[["Context", Instruction, Sequence[Value]], Value]
Observer = Callable[[Instruction, Sequence[Value], Value], None]

RULES: Rules[InterpreterRule] = Rules("interpreter")

DYNAMIC_RULES: Rules[InterpreterRule] = Rules("interpreter on dynamic dimensions")
"""Rules for instructions that meet dynamic dimensions. A value has a `DynamicArray` where the shape of its instruction
has dynamic dimensions, and nowhere else: what a rule returns is made so."""


@dataclass(slots=True)
class Step:
    """One instruction of a plan: where its operands are found, and which values die after it."""

    instruction: Instruction
    rule: InterpreterRule
    operands: tuple[int, ...]
    result: int
    dead: tuple[int, ...]


@dataclass(slots=True)
class Plan:
    """A computation made ready for evaluation: its steps in order, a slot for the value of each instruction."""

    parameters: tuple[tuple[int, int], ...]
    """Pairs (parameter number, slot)."""
    steps: list[Step]
    slots: int
    root: int
    bounds: tuple[Shape, ...] = ()
    """The shapes of the parameters, by number, where arguments may have other dynamic dimensions than these."""


@dataclass(slots=True)
class Context:
    """What a rule may know beyond its operands: the device it runs on, who watches, whether to stop."""

    replica_id: int = 0
    partition_id: int = 0
    seed: int = 0
    """What the random numbers of the run follow from, together with the two ids."""
    communicator: Communicator = SINGLE_DEVICE
    """Connects the device with the other devices and the host."""
    observer: Observer | None = None
    """Called after every instruction of every computation evaluated on its own (not of batched scalar ones)."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    plans: dict[Computation, Plan] = field(default_factory=dict[Computation, Plan])
    max_batch_sizes: dict[Computation, int | None] = field(default_factory=dict[Computation, "int | None"])
    """On how many instances a scalar computation can be evaluated at once (kept by `interpreter/batched.py`)."""
    platform: str = "interpreter"
    """On which platform's behalf rules run: its custom-call targets count."""
    run_id: int = 0
    """The same on all devices of a run, another one in every run."""
    program_state: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])
    """State that an instruction's rule keeps for all runs of a program, shared by all devices."""
    run_state: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])
    """State that an instruction's rule keeps during this run on this device."""
    _random_state: RandomState | None = None

    def random_state(self) -> RandomState:
        """The random numbers of this run, from which the rules of `rng` and `rng-get-and-update-state` draw."""
        if self._random_state is None:
            self._random_state = RandomState.of(self.seed, self.replica_id, self.partition_id)
        return self._random_state

    def plan(self, computation: Computation) -> Plan:
        found = self.plans.get(computation)
        if found is None:
            found = self.plans[computation] = make_plan(computation)
        return found


def make_plan(computation: Computation) -> Plan:
    """Orders a computation and finds where each value is last used; `UnsupportedError` for an op without a rule."""
    order = post_order(computation)
    slot = {instruction: index for index, instruction in enumerate(order)}
    root = slot[computation.root_instruction]
    last_use = {operand: index for index, instruction in enumerate(order) for operand in instruction.operands}
    steps: list[Step] = []
    parameters: list[tuple[int, int]] = []
    for index, instruction in enumerate(order):
        if is_parameter(instruction):
            parameters.append((instruction.attributes.number, index))
            continue
        operands = tuple(slot[operand] for operand in instruction.operands)
        dead = {slot[o] for o in instruction.operands if last_use[o] == index and slot[o] != root}
        steps.append(Step(instruction, rule_of(instruction), operands, index, tuple(dead)))
    return Plan(tuple(parameters), steps, len(order), root, _bounds(computation))


def _bounds(computation: Computation) -> tuple[Shape, ...]:
    shapes = tuple(parameter.shape for parameter in computation.parameters)
    callers = computation.callers
    varies = any(is_dynamic(caller) or caller.op.async_role is not AsyncRole.NONE for caller in callers)
    return shapes if varies or any(shape.is_dynamic for shape in shapes) else ()


def rule_of(instruction: Instruction) -> InterpreterRule:
    """What evaluates an instruction; `UnsupportedError` if nothing does."""
    return _dynamic_rule(instruction) if is_dynamic(instruction) else RULES.find(instruction.op)


def is_dynamic(instruction: Instruction) -> bool:
    """Whether an instruction reads, makes or hands on an array of dynamic dimensions."""
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
            raise ExecutionError(f"{instruction.name}, of the sizes that it meets: {error}") from error
        return conform_to_shape(value, instruction.shape)

    return evaluate


def evaluate_computation(context: Context, computation: Computation, arguments: Sequence[Value]) -> Value:
    """The value of the root for the given arguments, one a parameter.

    Errors that a rule raises name the instruction; `ExecutionError` if the run was cancelled.
    """
    plan = context.plan(computation)
    values: list[Value] = [None] * plan.slots
    for number, slot in plan.parameters:
        values[slot] = conform_to_shape(arguments[number], plan.bounds[number]) if plan.bounds else arguments[number]
    observer = context.observer
    if context.cancelled.is_set():
        raise ExecutionError(f"execution cancelled in {computation.name}")
    with np.errstate(all="ignore"):
        for step in plan.steps:
            operands = [values[i] for i in step.operands]
            value = values[step.result] = _apply(step, context, operands)
            if observer is not None:
                observer(step.instruction, operands, value)
            for dead in step.dead:
                values[dead] = None
    return values[plan.root]


def _apply(step: Step, context: Context, operands: Sequence[Value]) -> Value:
    instruction = step.instruction
    try:
        return step.rule(context, instruction, operands)
    except MemoryError as error:
        where = f"{instruction.name} ({instruction.op.name})"
        raise ExecutionError(
            f"{where}: out of memory for a value of shape {instruction.shape.to_text(layout=False)}"
        ) from error
