"""Verification of asynchronous operations: start / done pairs, transfers, and the channels of transfers.

Responsible for which ops may use a start op and which op a done op may use, for what an async chain declares, and for
the channels of transfers. The shape rules of single ops are in `xlapy.opcodes`. Does not depend on text.
Source: VerifyAsynchronousInstructionPairs, VerifyChannels and the checks of asynchronous operations of XLA's verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.error_codes.structure import asynchronous as async_codes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.verification.failure import fail
from xlapy.opcodes.collectives import (
    ALL_GATHER_DONE,
    ALL_GATHER_START,
    ALL_REDUCE_DONE,
    ALL_REDUCE_START,
    COLLECTIVE_PERMUTE_DONE,
    COLLECTIVE_PERMUTE_START,
)
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, ASYNC_UPDATE, MAIN_THREAD, AsyncStartAttributes
from xlapy.opcodes.custom import CUSTOM_CALL
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.requirements import compatible_ignoring_dynamic, is_prefix
from xlapy.opcodes.transfer import COPY_DONE, COPY_START, RECV, RECV_DONE, SEND, SEND_DONE, ChannelAttributes
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE

_ALLOWED_USERS: Mapping[OpDef, tuple[OpDef, ...]] = {
    ASYNC_START: (ASYNC_UPDATE, ASYNC_DONE),
    ASYNC_UPDATE: (ASYNC_UPDATE, ASYNC_DONE),
    ALL_REDUCE_START: (ALL_REDUCE_DONE,),
    ALL_GATHER_START: (ALL_GATHER_DONE,),
    COPY_START: (COPY_DONE,),
    COLLECTIVE_PERMUTE_START: (COLLECTIVE_PERMUTE_DONE,),
    SEND: (SEND_DONE, TUPLE),
    RECV: (RECV_DONE, TUPLE),
}
"""The ops that may use a start op, which has exactly one user."""

_ALLOWED_OPERANDS: Mapping[OpDef, tuple[OpDef, ...]] = {
    ASYNC_UPDATE: (ASYNC_START, ASYNC_UPDATE),
    ASYNC_DONE: (ASYNC_START, ASYNC_UPDATE),
    ALL_REDUCE_DONE: (ALL_REDUCE_START,),
    ALL_GATHER_DONE: (ALL_GATHER_START,),
    COPY_DONE: (COPY_START,),
    COLLECTIVE_PERMUTE_DONE: (COLLECTIVE_PERMUTE_START,),
    SEND_DONE: (SEND, GET_TUPLE_ELEMENT),
    RECV_DONE: (RECV, GET_TUPLE_ELEMENT),
}
"""The ops that a done or update op may have as operand 0."""

_ASYNC = frozenset([ASYNC_START, ASYNC_UPDATE, ASYNC_DONE])
_CONTROL_EDGE_TARGET = "control_dep"
"""The target of a custom call that represents a control edge and does not use the values of its operands."""
_COLLECTIVES_GROUP_ATTRIBUTE = "_collectives_group"
"""The frontend attribute of an async-start that runs several collectives as one."""


def verify_async(module: Module) -> None:
    """Raises `VerificationError` if a start op has no single done op, or one of the wrong kind."""
    host_channels: dict[int, Instruction] = {}
    starts: dict[Instruction, Instruction] = {}
    for computation in module.computations:
        for instruction in computation:
            if instruction.op in _ALLOWED_USERS:
                _verify_users(instruction)
            if instruction.op in _ALLOWED_OPERANDS:
                _verify_operand(instruction)
            if instruction.op in _ASYNC:
                _verify_chain(instruction, _start_of(instruction, starts))
            elif instruction.op in (SEND, RECV):
                _verify_channel(instruction, host_channels)


def _verify_users(instruction: Instruction) -> None:
    allowed = _ALLOWED_USERS[instruction.op]
    if instruction.op in (SEND, RECV) and instruction.is_root and is_async(instruction.parent):
        return
    readers = [user for user in instruction.users if not _is_control_edge(user)]
    if len(readers) != 1:
        names = f" ({', '.join(user.name for user in readers[:4])})" if readers else ""
        fail(
            instruction,
            async_codes.ASYNC_READER,
            f"must be read exactly once, by {_names(allowed)}; it has {len(readers)} readers{names}",
        )
    (reader,) = readers
    if reader.op not in allowed:
        fail(
            instruction,
            async_codes.ASYNC_READER,
            f"must be read by {_names(allowed)}, but is read by {describe_instruction(reader)}",
        )
    if instruction.op in (ASYNC_START, ASYNC_UPDATE) and instruction in reader.operands[1:]:
        fail(instruction, async_codes.ASYNC_READER, f"must be the first operand of {reader.name}")


def _verify_operand(instruction: Instruction) -> None:
    allowed = _ALLOWED_OPERANDS[instruction.op]
    source = instruction.operands[0]
    if source.op not in allowed:
        fail(
            instruction,
            async_codes.ASYNC_OPERAND,
            f"operand 0 must be {_names(allowed)}, but is {describe_instruction(source)}",
        )


def _names(ops: tuple[OpDef, ...]) -> str:
    return " or ".join(op.name for op in ops)


def _is_control_edge(user: Instruction) -> bool:
    return user.op is CUSTOM_CALL and user.custom_call_target == _CONTROL_EDGE_TARGET


def is_async(computation: Computation | None) -> bool:
    """Whether an async-start calls the computation."""
    return computation is not None and any(caller.op is ASYNC_START for caller in computation.callers)


# -- async-start, async-update, async-done


def _start_of(instruction: Instruction, starts: dict[Instruction, Instruction]) -> Instruction:
    """The async-start of a chain. `starts` caches results, so that long chains take linear time."""
    chain = [instruction]
    while chain[-1].op is not ASYNC_START and chain[-1] not in starts:
        _verify_operand(chain[-1])
        chain.append(chain[-1].operands[0])
    start = starts.get(chain[-1], chain[-1])
    starts.update(dict.fromkeys(chain, start))
    return start


def _verify_chain(instruction: Instruction, start: Instruction) -> None:
    """Verifies the declared shapes of a chain against the computation that its start calls."""
    (called,) = start.computations
    parameters, result = Shape.tuple(called.program_shape.parameters), called.program_shape.result
    if instruction.op is ASYNC_START:
        _verify_called_computation(instruction, called)
    elif instruction.op is ASYNC_UPDATE:
        _require_prefix(instruction, "operands", instruction.shape.tuple_shapes[0], parameters, called)
        _require_prefix(instruction, "result", instruction.shape.tuple_shapes[1], result, called)
    else:
        bound = instruction.operands[0].shape.tuple_shapes[0]
        if not compatible_ignoring_dynamic(bound, parameters):
            fail(
                instruction,
                async_codes.ASYNC_SHAPE,
                f"{called.name} takes {parameters.to_text(layout=False)}, "
                f"only {bound.to_text(layout=False)} is bound when it is done",
            )
        if not compatible_ignoring_dynamic(instruction.shape, result):
            fail(
                instruction,
                async_codes.ASYNC_SHAPE,
                f"has shape {instruction.shape.to_text(layout=False)}, "
                f"{called.name} returns {result.to_text(layout=False)}",
            )


def _require_prefix(update: Instruction, what: str, declared: Shape, whole: Shape, called: Computation) -> None:
    if not is_prefix(declared, whole):
        fail(
            update,
            async_codes.ASYNC_SHAPE,
            f"declares the {what} {declared.to_text(layout=False)}, {called.name} has {whole.to_text(layout=False)}",
        )


def _verify_called_computation(start: Instruction, called: Computation) -> None:
    """Verifies that a computation on the main thread holds one operation, or a group of collectives."""
    attributes = start.attributes_as(AsyncStartAttributes)
    if called.execution_thread != attributes.async_execution_thread:
        fail(
            start,
            annotation_codes.EXECUTION_THREAD,
            f"runs on thread {attributes.async_execution_thread}, {called.name} on {called.execution_thread}",
        )
    if called.execution_thread != MAIN_THREAD or _COLLECTIVES_GROUP_ATTRIBUTE in (start.frontend_attributes or {}):
        return
    root = called.root
    for instruction in called:
        if instruction is not root and not is_parameter(instruction) and instruction.op is not GET_TUPLE_ELEMENT:
            fail(
                start,
                async_codes.ASYNC_ONE_OPERATION,
                f"starts one operation, {called.name} also holds {describe_instruction(instruction)}",
            )


# -- channels of transfers


_COMPARED_ATTRIBUTES: Mapping[str, Callable[[Instruction], object]] = {
    "channel_id": lambda transfer: transfer.attributes_as(ChannelAttributes).channel_id,
    "is_host_transfer": lambda transfer: transfer.attributes_as(ChannelAttributes).is_host_transfer,
}


def _verify_channel(instruction: Instruction, host_channels: dict[int, Instruction]) -> None:
    attributes = instruction.attributes_as(ChannelAttributes)
    if attributes.channel_id is None:
        return
    done = SEND_DONE if instruction.op is SEND else RECV_DONE
    for user in instruction.users:
        for key, value in _COMPARED_ATTRIBUTES.items():
            if user.op is done and value(user) != value(instruction):
                fail(
                    user,
                    async_codes.CHANNEL_PAIR,
                    f"has {key}={value(user)}, {instruction.name} has {key}={value(instruction)}",
                )
    if attributes.is_host_transfer:
        first = host_channels.setdefault(attributes.channel_id, instruction)
        if not _same_transfer(first, instruction):
            fail(
                instruction,
                async_codes.HOST_CHANNEL,
                f"transfers with the host through channel {attributes.channel_id} as {first.name} does, "
                "but differs from it in more than operands",
            )


def _same_transfer(a: Instruction, b: Instruction) -> bool:
    return (a.op, a.attributes, a.shape, a.operand_shapes) == (b.op, b.attributes, b.shape, b.operand_shapes) and (
        a.frontend_attributes or {}
    ) == (b.frontend_attributes or {})
