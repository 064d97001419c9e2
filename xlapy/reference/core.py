"""Evaluates a module by the definitions of its operations, one instruction after the other.

Responsible for the tables of definitions, for the order of evaluation, and for the state of a device that some
definitions use. Does not depend on what any op means (see `reference/<family>.py`), on how devices exchange values
(`hlo/communicator.py`), or on the interpreter.

A value is a NumPy array in row-major order whatever the layout, a tuple of values, or `TOKEN`. A definition is a
function that returns the value of an instruction. Its parameters are the instruction, one function for each computation
that it calls, and the values of its operands:

    def while_(instruction, condition, body, state): ...

Definitions of collectives take the operands of all members of a group and return one result per member. Definitions
that use the state of a device take the device first. A value with dynamic dimensions is a `DynamicArray`; definitions
see arrays of the actual sizes (see `reference/dynamic`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.execution import custom_calls as call_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.value import TOKEN as TOKEN
from xlapy.base.value import Value as Value
from xlapy.base.value import conform_to_shape
from xlapy.hlo.communicator import SINGLE_DEVICE, Communicator
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.registry import OpDef, Rules

Function = Callable[..., Any]
"""A called computation as a function of its parameters."""

Definition = Callable[..., Any]
Observer = Callable[[Instruction, Sequence[Value], Value], None]
ReplaceValue = Callable[[Instruction, Sequence[Value], Value], Value]
CallTarget = Callable[["Device", Instruction, Sequence[Value]], Value]

DEFINITIONS: Rules[Definition] = Rules("reference")
"""`(instruction, *functions, *operands) -> value`: ops whose result depends on their operands alone."""

GROUP_DEFINITIONS: Rules[Definition] = Rules("reference of collectives")
"""`(instruction, *functions, members) -> results`: `members` has the operands of each member of the group."""

DEVICE_DEFINITIONS: Rules[Definition] = Rules("reference of devices")
"""`(device, instruction, *functions, *operands) -> value`: ops that use the state of a device or its host."""

SOURCES: dict[OpDef, Definition] = {}
"""The function to show for each op; that of an elementwise op computes one element."""

OBSERVED_CALLERS = frozenset(
    {
        opcodes.ASYNC_START,
        opcodes.ASYNC_UPDATE,
        opcodes.CALL,
        opcodes.CONDITIONAL,
        opcodes.CUSTOM_CALL,
        opcodes.FUSION,
        opcodes.SCAN,
        opcodes.WHILE,
    }
)
"""The ops whose called computations are observed; others apply theirs to scalars, many times."""


def defines(
    *ops: OpDef, table: Rules[Definition] = DEFINITIONS, shown: Definition | None = None
) -> Callable[[Definition], Definition]:
    """Registers a function as the definition of ops; `shown` is the function to show if it is another one."""

    def register(definition: Definition) -> Definition:
        SOURCES.update(dict.fromkeys(ops, definition if shown is None else shown))
        return table.rule(*ops)(definition)

    return register


defines_for_group = partial(defines, table=GROUP_DEFINITIONS)
defines_on_device = partial(defines, table=DEVICE_DEFINITIONS)


def definition_of(op: OpDef) -> Definition:
    """Returns the function that defines an op, as its page shows it."""
    return SOURCES[op]


def _refuse_targets(device: Device, instruction: Instruction, operands: Sequence[Value]) -> Value:
    target = instruction.custom_call_target
    raise UnsupportedError(
        call_codes.TARGET_REGISTERED,
        f"{describe_instruction(instruction)}: {target!r} is not registered; run it with a Client",
    )


@dataclass(slots=True)
class Device:
    """The device that evaluates a module, with the state that its definitions use."""

    replica_id: int = 0
    partition_id: int = 0
    communicator: Communicator = SINGLE_DEVICE
    """Connects the device with the other devices and the host."""
    random_counter: int = 0
    """The counter of 128 bits from which `rng` draws."""
    call_target: CallTarget = _refuse_targets
    """Calls the function that is registered for a custom call."""
    observer: Observer | None = None
    """Called after each instruction, except in computations that are applied to scalars."""
    replace_value: ReplaceValue | None = None
    """Returns the value to use instead of that of an instruction, before the observer is called."""
    canceled: threading.Event = field(default_factory=threading.Event)

    @property
    def number(self) -> int:
        """The number of the device: replica * partitions + partition."""
        return self.replica_id * self.communicator.partition_count + self.partition_id


def evaluate_computation(
    device: Device, computation: Computation, arguments: Sequence[Value], observed: bool = True
) -> Value:
    """Returns the value of the root for one argument per parameter.

    Raises `ExecutionError` if the run was canceled, and `UnsupportedError` for an op without a definition.
    """
    if device.canceled.is_set():
        raise ExecutionError(codes.CANCELED, f"execution canceled in {computation.name}")
    values: dict[Instruction, Value] = {}
    for instruction in post_order(computation):
        if is_parameter(instruction):
            values[instruction] = conform_to_shape(arguments[instruction.parameter_number], instruction.shape)
            continue
        operands = [values[operand] for operand in instruction.operands]
        value = evaluate_instruction(device, instruction, operands)
        if observed and device.replace_value is not None:
            value = device.replace_value(instruction, operands, value)
        values[instruction] = value
        if observed and device.observer is not None:
            device.observer(instruction, operands, value)
    return values[computation.root_instruction]


def evaluate_instruction(device: Device, instruction: Instruction, operands: Sequence[Value]) -> Value:
    """Returns the value of an instruction for the given operands; the definition sees arrays of the actual sizes."""
    with np.errstate(all="ignore"):
        if not is_dynamic(instruction):
            return apply_definition(device, instruction, operands)
        rule = DYNAMIC_DEFINITIONS.find(instruction.op)
        return conform_to_shape(rule(device, instruction, operands), instruction.shape)


DYNAMIC_DEFINITIONS: Rules[Definition] = Rules("reference on dynamic dimensions")
"""`(device, instruction, operands) -> value`: the same for instructions with dynamic dimensions."""


def is_dynamic(instruction: Instruction) -> bool:
    """Returns whether a result, an operand or a called computation of an instruction has dynamic dimensions."""
    shapes = [instruction.shape, *instruction.operand_shapes]
    for computation in instruction.computations:
        shapes += [computation.root_instruction.shape, *(parameter.shape for parameter in computation.parameters)]
    return any(shape.is_dynamic for shape in shapes)


def apply_definition(device: Device, instruction: Instruction, operands: Sequence[Value]) -> Value:
    """Applies the definition of an op to operands without dynamic dimensions."""
    op, functions = instruction.op, functions_of(device, instruction)
    if op in GROUP_DEFINITIONS:
        return _apply_to_group(device, instruction, functions, operands)
    if op in DEVICE_DEFINITIONS:
        return DEVICE_DEFINITIONS.find(op)(device, instruction, *functions, *operands)
    return DEFINITIONS.find(op)(instruction, *functions, *operands)


def called_computations(instruction: Instruction) -> tuple[Computation, ...]:
    """Returns the computations that an instruction calls; an async-update calls that of its async-start."""
    while instruction.op is opcodes.ASYNC_UPDATE:
        instruction = instruction.operands[0]
    return instruction.computations


def functions_of(device: Device, instruction: Instruction) -> list[Function]:
    """Returns the computations that an instruction calls as functions."""
    observed = instruction.op in OBSERVED_CALLERS
    return [_function(device, computation, observed) for computation in called_computations(instruction)]


def _function(device: Device, computation: Computation, observed: bool) -> Function:
    def call(*arguments: Value) -> Value:
        return evaluate_computation(device, computation, arguments, observed)

    return call


GroupOf = Callable[[Device, Instruction], Sequence[int]]

GROUPS: dict[OpDef, GroupOf] = {}
"""For each collective, the function that returns the devices of a device's group, in the order of the group."""

ZEROS_OUTSIDE: dict[OpDef, Callable[[Instruction, Sequence[Value]], Value]] = {}
"""For collectives that devices in no group may execute: the result of these devices."""


def _apply_to_group(
    device: Device, instruction: Instruction, functions: Sequence[Function], operands: Sequence[Value]
) -> Value:
    """Collects the operands of all members of the device's group and returns the device's result."""
    group = GROUPS[instruction.op](device, instruction)
    if device.number in group:
        members = device.communicator.gather_operands(instruction, group, tuple(operands))
        results = GROUP_DEFINITIONS.find(instruction.op)(instruction, *functions, members)
        return results[group.index(device.number)]
    if instruction.op in ZEROS_OUTSIDE:
        return ZEROS_OUTSIDE[instruction.op](instruction, operands)
    raise ExecutionError(
        annotation_codes.GROUP_MEMBERS,
        f"{describe_instruction(instruction)}: device {device.number} is in none of its groups",
    )
