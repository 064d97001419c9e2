"""The objects behind the opaque pointers of XLA's typed interface: errors, types, states, futures, invocations.

Responsible for these objects and for the handles that identify them in native code. Does not depend on the C functions
that use them.
Source: xla/ffi/execution_state.cc, type_registry.cc, ffi_api.cc.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from dataclasses import dataclass, field

import numpy as np

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.element_types import Array
from xlapy.base.garbage_collection import when_collected
from xlapy.custom_calls.ffi.structures import ErrorCode, Stage

_handles = itertools.count(0x1000, 16)
_lock = fork_safe_lock()


class FfiError(Exception):
    """Raised in a function of the interface, which then returns an error object with this code and message."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


# -- errors


@dataclass(slots=True)
class ErrorObject:
    code: ErrorCode
    message: ctypes.Array[ctypes.c_char]

    def text(self) -> str:
        return f"{self.code.name}: {self.message.value.decode(errors='replace')}"


_errors: dict[int, ErrorObject] = {}

UNKNOWN_ERROR = ctypes.create_string_buffer(b"an error that another library created")
"""The message for errors whose own message cannot be read."""


def make_error(code: ErrorCode, message: bytes) -> int:
    handle = next(_handles)
    _errors[handle] = ErrorObject(code, ctypes.create_string_buffer(message))
    return handle


def find_error(handle: int | None) -> ErrorObject | None:
    """Returns the error of a handle; None if another library created it, or it does not exist."""
    return _errors.get(handle or 0)


def destroy_error(handle: int | None) -> None:
    _errors.pop(handle or 0, None)


def take_error_text(handle: int) -> str:
    """Destroys an error and returns its code and message."""
    error = find_error(handle)
    destroy_error(handle)
    return "it returned an error that another library created" if error is None else error.text()


# -- types of states


@dataclass(frozen=True, slots=True)
class RegisteredType:
    number: int
    deleter: int
    """The address of `void (void* object)`, 0 if there is none."""


_types: dict[str, RegisteredType] = {}


def register_type(name: str, number: int, deleter: int) -> int:
    """Registers a type and returns its id, a new one if `number` is 0; `FfiError` if the name has another id."""
    with _lock:
        known = _types.get(name)
        if known is not None:
            if known.number == number:
                return number
            raise FfiError(ErrorCode.INTERNAL, f"type {name} is registered already, with the type id {known.number}")
        used = {registered.number for registered in _types.values()}
        chosen = number or next(n for n in itertools.count(1) if n not in used)
        _types[name] = RegisteredType(chosen, deleter)
        return chosen


def find_type(number: int) -> RegisteredType:
    for registered in tuple(_types.values()):
        if registered.number == number:
            return registered
    raise FfiError(ErrorCode.INTERNAL, f"no type is registered with the type id {number}")


# -- states


class State:
    """An object that a target creates in one stage for later stages; the deleter of its type destroys it."""

    def __init__(self) -> None:
        self._type = 0
        self._pointer = 0

    def set(self, number: int, pointer: int) -> None:
        deleter = find_type(number).deleter
        if not pointer:
            raise FfiError(ErrorCode.INVALID_ARGUMENT, "a state must not be null")
        if not deleter:
            raise FfiError(ErrorCode.INVALID_ARGUMENT, f"the type with the type id {number} has no deleter")
        if self._pointer:
            raise FfiError(ErrorCode.FAILED_PRECONDITION, f"the state is set already, with the type id {self._type}")
        self._type, self._pointer = number, pointer
        when_collected(self, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter), pointer)

    def get(self, number: int) -> int:
        if not self._pointer:
            raise FfiError(ErrorCode.NOT_FOUND, "the state is not set")
        if self._type != number:
            raise FfiError(ErrorCode.INVALID_ARGUMENT, f"the state has the type id {self._type}, not {number}")
        return self._pointer


# -- futures


class Future:
    """The completion of a call that still runs after its target has returned."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: str | None = None


_futures: dict[int, Future] = {}


def make_future() -> int:
    handle = next(_handles)
    _futures[handle] = Future()
    return handle


def find_future(handle: int | None) -> Future:
    future = _futures.get(handle or 0)
    if future is None:
        raise FfiError(ErrorCode.INVALID_ARGUMENT, "there is no such future")
    return future


def forget_future(handle: int) -> None:
    _futures.pop(handle, None)


# -- invocations


@dataclass(slots=True)
class Invocation:
    """The execution context of a call: its run, its device, and the states that it may read or set."""

    run_id: int = 0
    device_ordinal: int = 0
    states: dict[Stage, State] = field(default_factory=dict[Stage, State])
    memory: dict[int, Array] = field(default_factory=dict[int, Array])
    """The memory blocks that the target has allocated, by address."""

    def allocate(self, size: int, alignment: int) -> int:
        if alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 12:
            raise FfiError(ErrorCode.INVALID_ARGUMENT, f"memory cannot be aligned to {alignment} bytes")
        try:
            block = np.empty(size + alignment, np.uint8)
        except (MemoryError, ValueError) as error:
            raise FfiError(ErrorCode.RESOURCE_EXHAUSTED, f"there is no memory for {size} bytes") from error
        address = int(block.ctypes.data + -block.ctypes.data % alignment)
        self.memory[address] = block
        return address


_invocations: dict[int, Invocation] = {}


def register_invocation(invocation: Invocation) -> int:
    handle = next(_handles)
    _invocations[handle] = invocation
    return handle


def unregister_invocation(handle: int) -> None:
    _invocations.pop(handle, None)


def find_invocation(handle: int | None) -> Invocation:
    invocation = _invocations.get(handle or 0)
    if invocation is None:
        raise FfiError(ErrorCode.FAILED_PRECONDITION, "there is no such call in progress")
    return invocation
