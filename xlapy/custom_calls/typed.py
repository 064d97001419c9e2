"""Calls native targets of API_VERSION_TYPED_FFI: their attributes, their stages, and the states between stages.

Responsible for the time at which each stage runs, and for the lifetime of states. Does not depend on the memory layout
of call frames (`ffi/calls.py`).
Source: XLA Custom Calls; xla/ffi/api/c_api.h (call frame); custom_call_thunk.cc.

`instantiate` runs once per program, when the program is compiled; its state lives as long as the program. `prepare` and
`initialize` run once per run and device, when the call is first reached; their states live as long as the run.
`execute` runs for each call, and only it may read the operands.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xlapy.base import flags
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError, ParseError, message_of
from xlapy.base.value import Value
from xlapy.custom_calls.context import CallContext
from xlapy.custom_calls.ffi.attributes import Attribute, read_attributes
from xlapy.custom_calls.ffi.calls import Frame, call_handler
from xlapy.custom_calls.ffi.objects import Invocation, State
from xlapy.custom_calls.ffi.structures import Stage
from xlapy.custom_calls.native import operand_buffers, result_buffers, result_value, target_error
from xlapy.custom_calls.registry import TypedTarget
from xlapy.hlo.instruction import Instruction, describe_instruction

_instantiating = fork_safe_lock()


@dataclass(slots=True)
class TypedCallInstance:
    """A custom call of a program: its target, its attributes, and the state of the stage INSTANTIATE."""

    target: TypedTarget
    attributes: dict[str, Attribute]
    state: State = field(default_factory=State)


@dataclass(slots=True)
class TypedCallRun:
    """The states of a custom call during one run on one device."""

    instance: TypedCallInstance
    prepared: State = field(default_factory=State)
    initialized: State = field(default_factory=State)

    def states(self) -> dict[Stage, State]:
        """Returns the states that the stage EXECUTE may read."""
        return {
            Stage.INSTANTIATE: self.instance.state,
            Stage.PREPARE: self.prepared,
            Stage.INITIALIZE: self.initialized,
        }


def call_attributes(instruction: Instruction) -> dict[str, Attribute]:
    """Parses the attributes in `backend_config`.

    Raises `InvalidArgumentError` if it is not a dictionary of attributes.
    """
    try:
        return read_attributes(instruction.backend_config)
    except ParseError as error:
        raise InvalidArgumentError(
            codes.CALL_ATTRIBUTES,
            f"{describe_instruction(instruction)}: the backend_config of a call of API_VERSION_TYPED_FFI is a "
            f"dictionary of attributes: {message_of(error)}",
        ) from error


def instantiate(instruction: Instruction, target: TypedTarget, program_state: dict[Any, Any]) -> TypedCallInstance:
    """Returns the call's instance from `program_state`; creates it, by the stage INSTANTIATE, if needed."""
    with _instantiating:
        instance = program_state.get(instruction)
        if isinstance(instance, TypedCallInstance) and instance.target is target:
            return instance
        created = TypedCallInstance(target, call_attributes(instruction))
        _call_stage(instruction, created, Stage.INSTANTIATE, Frame(created.attributes), Invocation(), created.state)
        program_state[instruction] = created
        return created


def call_typed(context: CallContext, instruction: Instruction, target: TypedTarget, values: Sequence[Value]) -> Value:
    """Calls the target and returns the results that it wrote; raises `ExecutionError` with the target's error."""
    instance = instantiate(instruction, target, context.program_state)
    operands = operand_buffers(instruction, values)
    results = result_buffers(instruction, operands)
    frame = Frame(instance.attributes, tuple(operands.arrays.values()), tuple(results.arrays.values()))
    run = context.run_state.get(instruction)
    if run is None or run.instance is not instance:
        run = context.run_state[instruction] = prepare_run(context, instruction, TypedCallRun(instance), frame)
    invocation = _invocation(context, run)
    _call_stage(instruction, instance, Stage.EXECUTE, frame, invocation, None, context.canceled)
    return result_value(instruction.shape, results)


def prepare_run(context: CallContext, instruction: Instruction, run: TypedCallRun, frame: Frame) -> TypedCallRun:
    """Calls the stages PREPARE and INITIALIZE, which set the states of the run; `ExecutionError` if one fails."""
    for stage, state in ((Stage.PREPARE, run.prepared), (Stage.INITIALIZE, run.initialized)):
        invocation = _invocation(context, run)
        _call_stage(instruction, run.instance, stage, frame, invocation, state, context.canceled)
    return run


def _invocation(context: CallContext, run: TypedCallRun) -> Invocation:
    return Invocation(context.run_id, context.device_ordinal, run.states())


def _call_stage(
    instruction: Instruction,
    instance: TypedCallInstance,
    stage: Stage,
    frame: Frame,
    invocation: Invocation,
    state: State | None,
    canceled: threading.Event | None = None,
) -> None:
    """Calls the target's handler for a stage, if it has one; the handler may set `state`."""
    handler = instance.target.handlers.get(stage)
    if handler is None:
        return
    if state is not None:
        invocation.states[stage] = state
    try:
        call_handler(handler, stage, frame, invocation, float(flags.get("collective_timeout")), canceled)
    except ExecutionError as error:
        where = "" if stage is Stage.EXECUTE else f" in its stage {stage.name.lower()}"
        raise target_error(instruction, error.message, where, error.code) from error
