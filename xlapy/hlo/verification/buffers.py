"""Verification of values of buffer type, such as `b(f32[2])`: where they are allowed, and that each is written once.

Responsible for the custom calls that pin, unpin and create buffers, and for the flow of buffers through other ops. Does
not depend on memory, layouts or text. Source: VerifyBuffers of XLA's verifier.

A buffer value is a state of memory. An op that writes the buffer takes it as an operand and returns the next state as a
result that is aliased with the operand. A value that two ops write would have two next states, which is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from xlapy.base.error_codes.structure import asynchronous as codes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ShapeIndex
from xlapy.hlo.verification.asynchronous import is_async
from xlapy.hlo.verification.failure import fail
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, ASYNC_UPDATE, CALL, CONDITIONAL, FUSION, WHILE
from xlapy.opcodes.custom import CREATE_BUFFER_TARGET, CUSTOM_CALL, PIN_TARGET, UNPIN_TARGET, CustomCallAttributes
from xlapy.opcodes.sources import PARAMETER
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE

_BUFFER_TARGETS = frozenset([PIN_TARGET, UNPIN_TARGET, CREATE_BUFFER_TARGET])
_STREAM_ATTRIBUTE = "_xla_stream_annotation"
"""The frontend attribute of a call that becomes asynchronous and runs on a stream."""

_FORWARDING_OPS = frozenset([GET_TUPLE_ELEMENT, TUPLE, ASYNC_START, ASYNC_UPDATE, ASYNC_DONE])
"""Ops that forward buffers without writing them."""
_WRITING_OPS = frozenset([FUSION, CALL, CUSTOM_CALL, WHILE, CONDITIONAL])
"""Ops that are assumed to write every buffer operand."""


def verify_buffers(module: Module) -> None:
    """Raises `VerificationError` where a buffer is not allowed, not aliased once, or written more than once."""
    if not any(map(_involves_buffers, module.instructions())):
        return
    for computation in module.computations:
        if not is_async(computation):
            for instruction in computation:
                _verify_instruction(instruction)
        elif computation.root_instruction.op is CUSTOM_CALL:
            _verify_custom_call(computation.root_instruction)


def _involves_buffers(instruction: Instruction) -> bool:
    if instruction.op is CUSTOM_CALL and instruction.custom_call_target in _BUFFER_TARGETS:
        return True
    shape = instruction.shape
    return shape.is_buffer or (shape.is_tuple and any(leaf.is_buffer for _, leaf in shape.leaves()))


def _verify_instruction(instruction: Instruction) -> None:
    op = instruction.op
    if op in _FORWARDING_OPS or (op is CALL and _STREAM_ATTRIBUTE in (instruction.frontend_attributes or {})):
        return
    if op is CUSTOM_CALL:
        _verify_custom_call(instruction)
    elif op is WHILE or (op is PARAMETER and not _is_entry_parameter(instruction)):
        _verify_written_once(instruction)
    else:
        _verify_no_buffers(instruction)


def _is_entry_parameter(parameter: Instruction) -> bool:
    parent = parameter.parent
    return parent is not None and parent.module is not None and parent is parent.module.entry


def _verify_no_buffers(instruction: Instruction) -> None:
    for value in (*instruction.operands, instruction):
        if any(_buffers(value.shape)):
            fail(
                instruction,
                codes.BUFFER_PLACE,
                f"must not have buffers here, but {value.name} is {value.shape.to_text(layout=False)}",
            )


def _buffers(shape: Shape) -> Iterator[tuple[ShapeIndex, Shape]]:
    return ((tuple(index), leaf) for index, leaf in shape.leaves() if leaf.is_buffer)


# -- custom calls


def _verify_custom_call(call: Instruction) -> None:
    target = call.custom_call_target
    if target == CREATE_BUFFER_TARGET:
        _verify_creation(call)
    elif target in _BUFFER_TARGETS:
        _verify_pinning(call, to_buffer=target == PIN_TARGET)
    else:
        _verify_buffer_aliases(call)
    if target != UNPIN_TARGET:
        _verify_written_once(call)


def _verify_creation(call: Instruction) -> None:
    if call.operands or not call.shape.is_buffer:
        given = ", ".join(operand.shape.to_text(layout=False) for operand in call.operands)
        fail(
            call,
            codes.BUFFER_CALL,
            f"CreateBuffer has no operands and returns a buffer: ({given}) -> {call.shape.to_text(layout=False)}",
        )


def _verify_pinning(call: Instruction, to_buffer: bool) -> None:
    """Verifies that Pin converts an array to a buffer, and Unpin a buffer to an array, of the same shape."""
    given = [operand.shape for operand in call.operands]
    array, buffer = (given, [call.shape]) if to_buffer else ([call.shape], given)
    fits = len(given) == 1 and array[0].is_array and buffer[0].buffer_shape is not None
    if not fits or not array[0].compatible(buffer[0].buffer_shape or buffer[0]):
        form = "f32[2] to b(f32[2])" if to_buffer else "b(f32[2]) to f32[2]"
        shown = ", ".join(shape.to_text(layout=False) for shape in given)
        fail(
            call,
            codes.BUFFER_CALL,
            f"{call.custom_call_target} goes from {form}, keeping the "
            f"shape: ({shown}) -> {call.shape.to_text(layout=False)}",
        )


def _verify_buffer_aliases(call: Instruction) -> None:
    aliases = call.attributes_as(CustomCallAttributes).output_to_operand_aliasing
    taken = Counter((alias.operand, alias.operand_index) for alias in aliases)
    given = Counter(alias.output_index for alias in aliases)
    for number, operand in enumerate(call.operands):
        for index, _ in _buffers(operand.shape):
            _verify_alias_count(call, f"operand {number} at {list(index)}", "result", taken[number, index])
    for index, _ in _buffers(call.shape):
        _verify_alias_count(call, f"the result at {list(index)}", "operand", given[index])


def _verify_alias_count(call: Instruction, what: str, partner: str, count: int) -> None:
    if count != 1:
        fail(
            call,
            codes.BUFFER_ALIAS,
            f"{what} is a buffer, which output_to_operand_aliasing must pair with one {partner}; it has {count}",
        )


# -- one writer


def _verify_written_once(value: Instruction) -> None:
    for index, buffer in _buffers(value.shape):
        writers = _writers(value, index)
        if len(writers) > 1:
            names = ", ".join(writer.name for writer in writers[:4])
            fail(
                value,
                codes.BUFFER_WRITERS,
                f"the buffer {buffer.to_text(layout=False)} at "
                f"{list(index)} is written {len(writers)} times, by {names}",
            )


def _writers(value: Instruction, index: ShapeIndex) -> list[Instruction]:
    """The instructions that write a buffer, found through tuples and their elements. The end of a loop body counts."""
    found: list[Instruction] = []
    pending = [(value, index)]
    while pending:
        source, path = pending.pop()
        for user in source.users:
            if user.op in _WRITING_OPS:
                found.append(user)
            elif user.op is GET_TUPLE_ELEMENT and path[:1] == (user.tuple_index,):
                pending.append((user, path[1:]))
            elif user.op is TUPLE and not user.is_root:
                pending.append((user, (user.operands.index(source), *path)))
            elif user.op is TUPLE and _ends_loop(user):
                found.append(user)
    return found


def _ends_loop(root: Instruction) -> bool:
    return root.parent is not None and any(caller.op is WHILE for caller in root.parent.callers)
