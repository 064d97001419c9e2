"""What native code needs of custom-call targets: the block of each call, and the answer of one that has failed.

A place has blocks of its own, for one run at a time. A block says which code is called and where the addresses of
arrays go (`CallBlockField`). What has no native target, and the stages before a run, are left to the host: the block is not
ready. Targets that are registered anew make all blocks anew.

Owns: blocks, what calls are told of their run. Must not know: LLVM, what the host carries out.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.element_types import Array
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.cpu.program.thunks import BLOCK_BYTES, CallbackThunk, CallBlockField, NativeProgram
from xlapy.custom_calls.ffi import objects
from xlapy.custom_calls.ffi.calls import Frame, await_future
from xlapy.custom_calls.ffi.structures import Buffer, Stage
from xlapy.custom_calls.native import STATUS_BYTES, take_status_failure, target_error
from xlapy.custom_calls.registry import NativeTarget, TypedTarget, find_target, registry_generation
from xlapy.custom_calls.typed import TypedCallInstance, TypedCallRun, instantiate, prepare_run
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import Context
from xlapy.interpreter.custom import call_context, custom_call_rule, prepare_custom_call

_PLATFORM = "cpu"
_ALIGNMENT = 64
_AWAIT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_AWAITED_IN_VAIN = 1
_STAGES_OF_A_RUN = (Stage.PREPARE, Stage.INITIALIZE)

Table = Any
"""The table of addresses of a run, an array of ctypes."""


class Targets:
    """The native targets of a program's custom calls, as they were registered when this was made.

    kept: what instances of typed targets live in, as long as the program. Errors as of `prepare_custom_call`.
    """

    def __init__(self, program: NativeProgram, kept: dict[Any, Any]) -> None:
        self._changes = registry_generation()
        self._first = program.call_blocks_index
        self._calls = [thunk for thunk in program.callbacks if isinstance(thunk, CallbackThunk) and thunk.convention]
        self._found = [_found(thunk.instruction, kept) for thunk in self._calls]
        self.needs_host = len(self._calls) < len(program.callbacks) or any(map(_asks, self._found))
        """Whether runs are to have a host."""

    @property
    def outdated(self) -> bool:
        """Whether targets have been registered or forgotten since."""
        return self._changes != registry_generation()

    def place(self, table: Table) -> FrameTargets:
        """Blocks for runs with a table of addresses, which is told where they are."""
        place = FrameTargets()
        for thunk, found in zip(self._calls, self._found, strict=True):
            call = place.add(thunk, found)
            table[self._first + thunk.number] = call.address
        return place


def check_custom_call_targets(program: NativeProgram, kept: dict[Any, Any]) -> None:
    """Makes what custom calls need before a program runs; `UnsupportedError` names a target that is not registered."""
    for thunk in program.callbacks:
        if thunk.instruction.op is opcodes.CUSTOM_CALL:
            prepare_custom_call(thunk.instruction, kept, _PLATFORM)


_Found = NativeTarget | TypedCallInstance | None
"""None: the host carries out the call."""


def _found(instruction: Instruction, kept: dict[Any, Any]) -> _Found:
    target = find_target(instruction.custom_call_target, _PLATFORM)
    if not isinstance(target, NativeTarget | TypedTarget):
        return None
    try:
        custom_call_rule(instruction, _PLATFORM)
    except UnsupportedError:
        return None  # the host says so, when the call is reached
    return target if isinstance(target, NativeTarget) else instantiate(instruction, target, kept)


def _asks(found: _Found) -> bool:
    return found is None or _is_staged(found)


def _is_staged(found: NativeTarget | TypedCallInstance) -> bool:
    return isinstance(found, TypedCallInstance) and any(stage in found.target.handlers for stage in _STAGES_OF_A_RUN)


class FrameTargets:
    """The blocks of a place, and what the targets know of its run."""

    def __init__(self) -> None:
        self._calls: dict[int, _Block] = {}
        self._typed: list[_TypedCall] = []
        self._awaiting = _AWAIT(self._await)  # what native code calls must live as long as the place
        self._cancelled: Any = None
        self.abandoned = False
        """Whether a call goes on which nobody waits for any more: it may write to what it was given."""

    def add(self, thunk: CallbackThunk, found: _Found) -> _Block:
        """The block of a call, made."""
        made: _Block
        if isinstance(found, TypedCallInstance):
            made = typed = _TypedCall(thunk, found, ctypes.cast(self._awaiting, ctypes.c_void_p).value or 0)
            self._typed.append(typed)
        else:
            made = _Block(thunk) if found is None else _Call(thunk, found)
        self._calls[thunk.number] = made
        return made

    def begin(self, run_id: int, device: int, cancelled: Any = None) -> None:
        """A run begins. cancelled: the event that ends it early."""
        self._cancelled = cancelled
        for call in self._typed:
            call.begin(run_id, device)

    def end(self) -> None:
        """The run is over: what was kept for it goes."""
        for call in self._typed:
            call.end()

    def prepare(self, number: int, context: Context) -> bool:
        """Runs the stages before a call with this number; False if the host is to carry the call out."""
        call = self._calls.get(number)
        if not isinstance(call, _TypedCall):
            return False
        call.prepare(context)
        return True

    def failure(self) -> ExecutionError | None:
        """The error of the call that ended native code, if one did."""
        for call in self._calls.values():
            error = call.failure()
            if error is not None:
                return error
        return None

    def _await(self, number: int) -> int:
        """Waits for the end of a call that goes on after it has returned; 0, or its failure."""
        call = self._calls[number]
        assert isinstance(call, _TypedCall)
        try:
            await_future(call.frame, float(flags.get("collective_timeout")), self._cancelled)
        except BaseException as error:  # nothing may pass through native code
            self.abandoned |= call.frame.is_abandoned
            call.error = error
            return _AWAITED_IN_VAIN
        return 0


# -- blocks


class _Block:
    """The memory of a call, aligned: one that the host carries out, unless a subclass says otherwise."""

    def __init__(self, thunk: CallbackThunk) -> None:
        self._instruction: Instruction = thunk.instruction
        self._operands = _leaves(thunk.instruction.operand_shapes)
        self._results = _leaves([thunk.instruction.shape])
        self._memory = ctypes.create_string_buffer(BLOCK_BYTES + _ALIGNMENT)
        self.address = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self._unread = ctypes.create_string_buffer(
            ctypes.sizeof(Buffer) * max(1, len(self._operands), len(self._results))
        )
        self.set(CallBlockField.OPERANDS, ctypes.addressof(self._unread))
        self.set(CallBlockField.RESULTS, ctypes.addressof(self._unread))

    def set(self, place: CallBlockField, value: int) -> None:
        ctypes.c_int64.from_address(self.address + place).value = value

    def taken_failure(self) -> int:
        """What FAILURE says, which says so no more."""
        word = ctypes.c_int64.from_address(self.address + CallBlockField.FAILURE)
        failure, word.value = word.value, 0
        return failure

    def failure(self) -> ExecutionError | None:
        """The error of the call, if it has failed; it is forgotten then."""
        return None


class _Call(_Block):
    """A call by C's conventions."""

    def __init__(self, thunk: CallbackThunk, target: NativeTarget) -> None:
        super().__init__(thunk)
        self._target = target
        self._in, self._out = ((ctypes.c_void_p * max(1, len(leaves)))() for leaves in (self._operands, self._results))
        self._opaque = ctypes.create_string_buffer(thunk.instruction.backend_config.encode(errors="surrogateescape"))
        self.set(CallBlockField.OPERANDS, ctypes.addressof(self._in))
        self.set(CallBlockField.RESULTS, ctypes.addressof(self._out))
        self.set(CallBlockField.OPAQUE, ctypes.addressof(self._opaque))
        self.set(CallBlockField.LENGTH, len(self._opaque) - 1)
        self.set(CallBlockField.CODE, target.address)
        self.set(CallBlockField.READY, 1)

    def failure(self) -> ExecutionError | None:
        if not self.taken_failure():
            return None
        status = (ctypes.c_char * STATUS_BYTES).from_address(self.address + CallBlockField.STATUS)
        return target_error(self._instruction, take_status_failure(status) or "")


class _TypedCall(_Block):
    """A call of the typed interface, by a frame of its own."""

    def __init__(self, thunk: CallbackThunk, instance: TypedCallInstance, awaiting: int) -> None:
        super().__init__(thunk)
        self._instance = instance
        self._staged = _is_staged(instance)
        self.error: BaseException | None = None
        """Of waiting for it."""
        arguments, results = (list(map(_described, leaves)) for leaves in (self._operands, self._results))
        self.frame = Frame(instance.attributes, arguments, results)
        self._invocation = objects.Invocation()
        self._handle = objects.register_invocation(self._invocation)
        weakref.finalize(self, objects.unregister_invocation, self._handle)
        self._execute()
        self.set(CallBlockField.OPERANDS, self.frame.argument_buffers)
        self.set(CallBlockField.RESULTS, self.frame.result_buffers)
        self.set(CallBlockField.ARGUMENT, ctypes.addressof(self.frame.structure))
        self.set(CallBlockField.AWAIT, awaiting)
        self.set(CallBlockField.CODE, instance.target.handlers[Stage.EXECUTE])

    def _execute(self) -> None:
        """The frame is for calls of the stage EXECUTE from now on."""
        self.frame.structure.stage, self.frame.structure.ctx = Stage.EXECUTE, self._handle

    def begin(self, run_id: int, device: int) -> None:
        self._invocation.run_id, self._invocation.device_ordinal = run_id, device
        self._invocation.states = {Stage.INSTANTIATE: self._instance.state}
        self.set(CallBlockField.READY, not self._staged)

    def end(self) -> None:
        self._invocation.states = {}
        self._invocation.memory.clear()

    def prepare(self, context: Context) -> None:
        run = prepare_run(call_context(context), self._instruction, TypedCallRun(self._instance), self.frame)
        self._invocation.states = run.states()
        self._execute()
        self.set(CallBlockField.READY, 1)

    def failure(self) -> ExecutionError | None:
        failure = self.taken_failure()
        error, self.error = self.error, None
        if error is not None:
            if not isinstance(error, ExecutionError):
                raise error
            return target_error(self._instruction, str(error))
        return target_error(self._instruction, objects.take_error_text(failure)) if failure else None


def _leaves(shapes: Sequence[Shape]) -> list[Shape]:
    return [leaf for shape in shapes for _, leaf in shape.leaves()]


def _described(leaf: Shape) -> Array | None:
    """An array that has the element type and the dimensions, and no memory to speak of; None for a token."""
    return np.broadcast_to(np.zeros((), leaf.dtype), leaf.dimensions) if leaf.is_array else None
