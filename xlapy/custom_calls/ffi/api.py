"""The functions of XLA's typed interface that native targets call, and the function table `XLA_FFI_Api`.

Responsible for the C interface to the objects in `objects.py`. Does not depend on how a target is called.
Source: xla/ffi/ffi_api.cc.

Every failure in a function, including a Python exception, is returned as an error object. There is one device without
streams: targets allocate from the process's memory, and a task that they schedule runs immediately in the calling
thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from xlapy.base.errors import message_of
from xlapy.custom_calls.ffi import objects
from xlapy.custom_calls.ffi import structures as c
from xlapy.custom_calls.ffi.objects import FfiError, find_invocation
from xlapy.custom_calls.ffi.structures import ErrorCode, Stage

_Function = Callable[[Any], int | None]
"""Takes a structure, fills its result fields, and returns an error object or None."""

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_PROCEDURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_FUNCTIONS: dict[str, Any] = {}
"""The functions of the table by name, in the table's order.

Kept alive because native code may call them at any time.
"""


def _entry(
    name: str, structure: type[ctypes.Structure], last: str = "", prototype: Any = _FUNCTION
) -> Callable[[_Function], _Function]:
    """Adds a function to the table. The caller's structure must be complete up to its field `last`."""
    min_size = c.size_up_to(structure, last or c.last_field(structure))

    def decorate(function: _Function) -> _Function:
        def call(address: int | None) -> int | None:
            try:
                return function(_read_structure(name, structure, min_size, address))
            except FfiError as error:
                return objects.make_error(error.code, str(error).encode())
            except Exception as error:  # no exception may propagate through native code
                return objects.make_error(
                    ErrorCode.INTERNAL, f"{name}: {type(error).__name__}: {message_of(error)}".encode()
                )

        def proceed(address: int | None) -> None:
            objects.destroy_error(call(address))

        _FUNCTIONS[name] = prototype(call if prototype is _FUNCTION else proceed)
        return function

    return decorate


def _read_structure(name: str, structure: type[ctypes.Structure], min_size: int, address: int | None) -> Any:
    if not address:
        raise FfiError(ErrorCode.INVALID_ARGUMENT, f"{name} takes a structure, given a null pointer")
    given = ctypes.c_size_t.from_address(address).value
    if given < min_size:
        version = ".".join(map(str, c.API_VERSION))
        raise FfiError(
            ErrorCode.INVALID_ARGUMENT,
            f"{name}: its structure has {min_size} bytes in version {version} of the interface, given {given}",
        )
    return structure.from_address(address)


def _text(span: Any) -> str:
    return ctypes.string_at(span.ptr, span.len).decode(errors="surrogateescape") if span.len else ""


# -- errors, in the order of the table


@_entry("XLA_FFI_Error_Create", c.ErrorCreateArgs)
def _create_error(args: Any) -> int | None:
    known = args.errc in tuple(ErrorCode)
    return objects.make_error(ErrorCode(args.errc) if known else ErrorCode.UNKNOWN, args.message or b"")


@_entry("XLA_FFI_Error_GetDetails", c.ErrorDetailsArgs, last="message", prototype=_PROCEDURE)
def _error_details(args: Any) -> int | None:
    """Returns message and code; before version 0.4 the function was GetMessage, without the code."""
    error = objects.find_error(args.error)
    message = objects.UNKNOWN_ERROR if error is None else error.message
    args.message = ctypes.addressof(message)
    if args.struct_size >= c.size_up_to(c.ErrorDetailsArgs, "errc"):
        args.errc = ErrorCode.UNKNOWN if error is None else error.code
    return None


@_entry("XLA_FFI_Error_Destroy", c.ErrorDestroyArgs, prototype=_PROCEDURE)
def _destroy_error(args: Any) -> int | None:
    objects.destroy_error(args.error)
    return None


# -- handlers, streams


@_entry("XLA_FFI_Handler_Register", c.HandlerRegisterArgs, last="execute")
def _register_handler(args: Any) -> int | None:
    name = _text(args.name)
    raise FfiError(
        ErrorCode.UNIMPLEMENTED,
        f"target {name} cannot register itself; xlapy.register_custom_call_target registers it by its address",
    )


@_entry("XLA_FFI_Stream_Get", c.StreamGetArgs)
def _stream(_: Any) -> int | None:
    raise FfiError(ErrorCode.UNIMPLEMENTED, "there are no streams, the program runs on the host")


# -- types, states


@_entry("XLA_FFI_Type_Register", c.TypeRegisterArgs, last="type_id")
def _register_type(args: Any) -> int | None:
    has_info = args.struct_size >= c.size_up_to(c.TypeRegisterArgs, "type_info") and args.type_info
    deleter = (args.type_info[0].deleter or 0) if has_info else 0
    args.type_id[0] = objects.register_type(_text(args.name), args.type_id[0], deleter)
    return None


@_entry("XLA_FFI_ExecutionContext_Get", c.ContextGetArgs)
def _user_data(args: Any) -> int | None:
    raise FfiError(ErrorCode.NOT_FOUND, f"the run has no user data of the type id {args.type_id[0]}")


def _state_of(args: Any) -> tuple[Any, objects.State]:
    """Returns the structure in the caller's version, and the state of the stage that it names."""
    if args.struct_size == c.size_up_to(c.InstantiateStateArgs, "state"):
        args = c.InstantiateStateArgs.from_address(ctypes.addressof(args))
        stage = Stage.INSTANTIATE
    else:
        stage = args.stage
    state = find_invocation(args.ctx).states.get(stage)
    if state is None:
        raise FfiError(ErrorCode.FAILED_PRECONDITION, f"this call has no state of the stage {stage}")
    return args, state


@_entry("XLA_FFI_State_Set", c.StateArgs, last="type_id")
def _set_state(args: Any) -> int | None:
    args, state = _state_of(args)
    state.set(args.type_id[0], args.state or 0)
    return None


@_entry("XLA_FFI_State_Get", c.StateArgs, last="type_id")
def _get_state(args: Any) -> int | None:
    args, state = _state_of(args)
    args.state = state.get(args.type_id[0])
    return None


# -- memory, threads


@_entry("XLA_FFI_DeviceMemory_Allocate", c.MemoryAllocateArgs)
def _allocate(args: Any) -> int | None:
    args.data = find_invocation(args.ctx).allocate(args.size, args.alignment)
    return None


@_entry("XLA_FFI_DeviceMemory_Free", c.MemoryFreeArgs)
def _free(args: Any) -> int | None:
    if find_invocation(args.ctx).memory.pop(args.data or 0, None) is None:
        raise FfiError(ErrorCode.INVALID_ARGUMENT, "the memory to free was not allocated by this call")
    return None


@_entry("XLA_FFI_ThreadPool_Schedule", c.ScheduleArgs)
def _schedule(args: Any) -> int | None:
    if not args.task:
        raise FfiError(ErrorCode.INVALID_ARGUMENT, "a task must not be null")
    _PROCEDURE(args.task)(args.data)
    return None


@_entry("XLA_FFI_ThreadPool_NumThreads", c.NumThreadsArgs)
def _thread_count(args: Any) -> int | None:
    args.num_threads[0] = 1
    return None


# -- futures


@_entry("XLA_FFI_Future_Create", c.FutureCreateArgs, last="extension_start")
def _create_future(args: Any) -> int | None:
    """Creates a future. Callers pass a size without the structure's only field, although the field exists."""
    args.future = objects.make_future()
    return None


@_entry("XLA_FFI_Future_SetAvailable", c.FutureErrorArgs, last="future")
def _complete_future(args: Any) -> int | None:
    objects.find_future(args.future).done.set()
    return None


@_entry("XLA_FFI_Future_SetError", c.FutureErrorArgs)
def _fail_future(args: Any) -> int | None:
    if not args.error:
        raise FfiError(ErrorCode.INVALID_ARGUMENT, "the error of a future must not be null")
    future = objects.find_future(args.future)
    future.error = objects.take_error_text(args.error)
    future.done.set()
    return None


# -- run and device


@_entry("XLA_FFI_RunId_Get", c.RunIdArgs)
def _run_id(args: Any) -> int | None:
    args.run_id = find_invocation(args.ctx).run_id
    return None


@_entry("XLA_FFI_DeviceOrdinal_Get", c.DeviceOrdinalArgs)
def _device_ordinal(args: Any) -> int | None:
    args.device_ordinal = find_invocation(args.ctx).device_ordinal
    return None


@_entry("XLA_FFI_InvokeContext_FindExtension", c.FindExtensionArgs)
def _find_extension(args: Any) -> int | None:
    args.extension = None
    return None


# -- the tables


def _internal_function(_: int | None) -> int | None:
    message = b"XLA's internal interface is not available: build the target with xla/ffi/api/ffi.h alone"
    return objects.make_error(ErrorCode.UNIMPLEMENTED, message)


_internal = _FUNCTION(_internal_function)
_INTERNAL_FUNCTIONS = 64
"""More than the number of functions in the internal interface of any version."""


class _Api(c.Sized):
    _fields_ = (
        ("version", c.ApiVersion),
        ("internal_api", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * len(_FUNCTIONS)),
    )


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_internal_table = (ctypes.c_void_p * _INTERNAL_FUNCTIONS)(*[_address(_internal)] * _INTERNAL_FUNCTIONS)
_api = _Api(
    ctypes.sizeof(_Api),
    None,
    c.ApiVersion(ctypes.sizeof(c.ApiVersion), None, *c.API_VERSION),
    ctypes.addressof(_internal_table),
    (ctypes.c_void_p * len(_FUNCTIONS))(*map(_address, _FUNCTIONS.values())),
)


def ffi_api() -> int:
    """Returns the address of the `XLA_FFI_Api` that is passed to native targets."""
    return ctypes.addressof(_api)
