"""Call blocks of custom calls: what native code needs to call a target, and the error of a call that has failed.

Each launch frame has call blocks of its own, for one run at a time. A call block says which code to call and where to
store the addresses of arrays (`CallBlockField`). Calls without a native target, and the stages of a typed target before
execution, are left to the host: their block is not ready. All blocks are created anew if targets are registered.

Responsible for call blocks and for what targets are told about their run. Does not depend on LLVM or on what the host
executes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.element_types import Array
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.garbage_collection import when_collected
from xlapy.base.shape import Shape
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import CALL_BLOCK_BYTES, CallBlockField
from xlapy.cpu.program.thunks import HostThunk
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
_AWAIT_FAILED = 1
_STAGES_BEFORE_EXECUTION = (Stage.PREPARE, Stage.INITIALIZE)

AddressTable = Any
"""The address table of a run, a ctypes array."""


class CustomCallTargets:
    """The native targets of a program's custom calls, as registered when this object was created.

    instances: holds the instances of typed targets as long as the program lives. Raises the errors of
    `prepare_custom_call`.
    """

    def __init__(self, program: NativeProgram, instances: dict[Any, Any]) -> None:
        self._generation = registry_generation()
        self._first = program.call_blocks_index
        self._calls = [thunk for thunk in program.host_calling_thunks if thunk.calling_convention]
        self._found = [_find(thunk.instruction, instances) for thunk in self._calls]
        self.needs_host = len(self._calls) < len(program.host_calling_thunks) or any(map(_needs_host, self._found))
        """Whether a run needs a host callback handler."""

    @property
    def is_outdated(self) -> bool:
        """Whether targets have been registered or removed since."""
        return self._generation != registry_generation()

    def allocate_blocks(self, table: AddressTable) -> FrameTargets:
        """Returns call blocks for runs with an address table, and stores their addresses in the table."""
        frame = FrameTargets()
        for thunk, found in zip(self._calls, self._found, strict=True):
            call = frame.add(thunk, found)
            table[self._first + thunk.number] = call.address
        return frame


class HostCallBlocks:
    """Call blocks of a program all of whose custom calls are executed by the host, for all of its launches.

    addresses: entries of the address table. Native code stores the addresses of arrays in these blocks, which nobody
    reads.
    """

    def __init__(self, program: NativeProgram) -> None:
        blocks = {thunk.number: _CallBlock(thunk) for thunk in program.host_calling_thunks if thunk.calling_convention}
        self._blocks = blocks
        self.addresses = {program.call_blocks_index + number: block.address for number, block in blocks.items()}


def check_custom_call_targets(program: NativeProgram, instances: dict[Any, Any]) -> None:
    """Prepares the custom calls of a program; raises `UnsupportedError` for a target that is not registered."""
    for thunk in program.host_calling_thunks:
        if thunk.instruction.op is opcodes.CUSTOM_CALL:
            prepare_custom_call(thunk.instruction, instances, _PLATFORM)


_Target = NativeTarget | TypedCallInstance | None
"""None if the host executes the call."""


def _find(instruction: Instruction, instances: dict[Any, Any]) -> _Target:
    target = find_target(instruction.custom_call_target, _PLATFORM)
    if not isinstance(target, NativeTarget | TypedTarget):
        return None
    try:
        custom_call_rule(instruction, _PLATFORM)
    except UnsupportedError:
        return None  # the host raises the error when the call is reached
    return target if isinstance(target, NativeTarget) else instantiate(instruction, target, instances)


def _needs_host(found: _Target) -> bool:
    return found is None or _has_earlier_stages(found)


def _has_earlier_stages(found: NativeTarget | TypedCallInstance) -> bool:
    return isinstance(found, TypedCallInstance) and any(
        stage in found.target.handlers for stage in _STAGES_BEFORE_EXECUTION
    )


class FrameTargets:
    """The call blocks of a launch frame, and the state of its current run."""

    def __init__(self) -> None:
        self._calls: dict[int, _CallBlock] = {}
        self._typed: list[_TypedCall] = []
        self._awaiting = _AWAIT(self._await)  # native code calls it, so it must live as long as the frame
        self._canceled: Any = None
        self.has_abandoned_call = False
        """Whether an asynchronous call is still running although the run has ended: it may write to its arrays."""

    def add(self, thunk: HostThunk, found: _Target) -> _CallBlock:
        """Creates the block of a call."""
        block: _CallBlock
        if isinstance(found, TypedCallInstance):
            block = typed = _TypedCall(thunk, found, ctypes.cast(self._awaiting, ctypes.c_void_p).value or 0)
            self._typed.append(typed)
        else:
            block = _CallBlock(thunk) if found is None else _ConventionalCall(thunk, found)
        self._calls[thunk.number] = block
        return block

    def begin_run(self, run_id: int, device: int, canceled: Any = None) -> None:
        """Starts a run. canceled: the event that ends the run early."""
        self._canceled = canceled
        for call in self._typed:
            call.begin_run(run_id, device)

    def end_run(self) -> None:
        """Releases the state of the run."""
        for call in self._typed:
            call.end_run()

    def prepare(self, number: int, context: Context) -> bool:
        """Runs the stages of a call before execution; returns False if the host has to execute the call."""
        call = self._calls.get(number)
        if not isinstance(call, _TypedCall):
            return False
        call.prepare(context)
        return True

    def failure(self) -> ExecutionError | None:
        """Returns the error of the call that ended native code, if there is one."""
        for call in self._calls.values():
            error = call.failure()
            if error is not None:
                return error
        return None

    def _await(self, number: int) -> int:
        """Waits for an asynchronous call to finish; returns 0, or 1 if waiting failed."""
        call = self._calls[number]
        assert isinstance(call, _TypedCall)
        try:
            await_future(call.frame, float(flags.get("collective_timeout")), self._canceled)
        except BaseException as error:  # no exception may pass through native code
            self.has_abandoned_call |= call.frame.is_abandoned
            call.error = error
            return _AWAIT_FAILED
        return 0


# -- call blocks


class _CallBlock:
    """A call block in aligned memory. This class is for calls that the host executes."""

    def __init__(self, thunk: HostThunk) -> None:
        self._instruction: Instruction = thunk.instruction
        self._operands = _leaves(thunk.instruction.operand_shapes)
        self._results = _leaves([thunk.instruction.shape])
        self._memory = ctypes.create_string_buffer(CALL_BLOCK_BYTES + _ALIGNMENT)
        self.address = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self._unused = ctypes.create_string_buffer(
            ctypes.sizeof(Buffer) * max(1, len(self._operands), len(self._results))
        )
        self.set(CallBlockField.OPERANDS, ctypes.addressof(self._unused))
        self.set(CallBlockField.RESULTS, ctypes.addressof(self._unused))

    def set(self, field: CallBlockField, value: int) -> None:
        ctypes.c_int64.from_address(self.address + field).value = value

    def _take_failure(self) -> int:
        """Returns the FAILURE field and resets it."""
        word = ctypes.c_int64.from_address(self.address + CallBlockField.FAILURE)
        failure, word.value = word.value, 0
        return failure

    def failure(self) -> ExecutionError | None:
        """Returns and forgets the error of the call, if it has failed."""
        return None


class _ConventionalCall(_CallBlock):
    """A call with one of the C signatures."""

    def __init__(self, thunk: HostThunk, target: NativeTarget) -> None:
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
        if not self._take_failure():
            return None
        status = (ctypes.c_char * STATUS_BYTES).from_address(self.address + CallBlockField.STATUS)
        return target_error(self._instruction, take_status_failure(status) or "")


class _TypedCall(_CallBlock):
    """A call of the typed (FFI) interface, with a call frame of its own."""

    def __init__(self, thunk: HostThunk, instance: TypedCallInstance, awaiting: int) -> None:
        super().__init__(thunk)
        self._instance = instance
        self._has_earlier_stages = _has_earlier_stages(instance)
        self.error: BaseException | None = None
        """The error of waiting for the call."""
        arguments, results = (list(map(_placeholder, leaves)) for leaves in (self._operands, self._results))
        self.frame = Frame(instance.attributes, arguments, results)
        self._invocation = objects.Invocation()
        self._handle = objects.register_invocation(self._invocation)
        when_collected(self, objects.unregister_invocation, self._handle)
        self._set_execute_stage()
        self.set(CallBlockField.OPERANDS, self.frame.argument_buffers)
        self.set(CallBlockField.RESULTS, self.frame.result_buffers)
        self.set(CallBlockField.ARGUMENT, ctypes.addressof(self.frame.structure))
        self.set(CallBlockField.AWAIT, awaiting)
        self.set(CallBlockField.CODE, instance.target.handlers[Stage.EXECUTE])

    def _set_execute_stage(self) -> None:
        """Prepares the frame for calls of the stage EXECUTE."""
        self.frame.structure.stage, self.frame.structure.ctx = Stage.EXECUTE, self._handle

    def begin_run(self, run_id: int, device: int) -> None:
        self._invocation.run_id, self._invocation.device_ordinal = run_id, device
        self._invocation.states = {Stage.INSTANTIATE: self._instance.state}
        self.set(CallBlockField.READY, not self._has_earlier_stages)

    def end_run(self) -> None:
        self._invocation.states = {}
        self._invocation.memory.clear()

    def prepare(self, context: Context) -> None:
        run = prepare_run(call_context(context), self._instruction, TypedCallRun(self._instance), self.frame)
        self._invocation.states = run.states()
        self._set_execute_stage()
        self.set(CallBlockField.READY, 1)

    def failure(self) -> ExecutionError | None:
        failure = self._take_failure()
        error, self.error = self.error, None
        if error is not None:
            if not isinstance(error, ExecutionError):
                raise error
            return target_error(self._instruction, error.message, code=error.code)
        return target_error(self._instruction, objects.take_error_text(failure)) if failure else None


def _leaves(shapes: Sequence[Shape]) -> list[Shape]:
    return [leaf for shape in shapes for _, leaf in shape.leaves()]


def _placeholder(leaf: Shape) -> Array | None:
    """Returns an array with the element type and dimensions of a leaf and a single element; None for a token."""
    return np.broadcast_to(np.zeros((), leaf.dtype), leaf.dimensions) if leaf.is_array else None
