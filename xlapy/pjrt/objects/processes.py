"""The processes of JAX: what `jax.distributed.initialize` passes to the client, and how they find each other.

JAX numbers its processes and gives their client a store of keys and values, which its coordination service shares
between them. The processes communicate through MPI: mpirun has started them, or they find each other through the store.

Responsible for reading the arguments of `PJRT_Client_Create`. Does not depend on the client's devices.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlapy import distributed
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import least_size, structure
from xlapy.pjrt.objects.records import read_bytes
from xlapy.pjrt.platform_name import PLATFORM_NAME
from xlapy.runtime.collectives.mpi.start import find_launcher
from xlapy.runtime.collectives.process_group import KeyValueStore, current_process_group
from xlapy.runtime.engine.launch_errors import error_record, take_error

_PROCESS_INDEX, _PROCESS_COUNT = "node_id", "num_nodes"
"""The options in which JAX passes the index of this process and the number of processes; their values are int64."""
_INT64 = 1
"""PJRT_NamedValue_kInt64."""
_KEY_PREFIX = f"{PLATFORM_NAME}:"
"""First characters of all keys, because plugins share one store."""

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MAKE_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_size_t)


@dataclass(frozen=True)
class CallbackStore:
    """The key-value store of a framework, reached through the callbacks of `PJRT_Client_Create`.

    get_callback, put_callback: addresses of functions. get_argument, put_argument: what they are passed.

    Valid while the framework keeps the client that it gave the store to.
    """

    get_callback: int
    get_argument: int
    put_callback: int
    put_argument: int

    def put(self, key: str, value: bytes) -> None:
        """Stores a value under a key that has none. Raises the store's error."""
        kept, address, size = _bytes_at((_KEY_PREFIX + key).encode())
        kept_value, value_address, value_size = _bytes_at(value)
        values = {"key": address, "key_size": size, "value": value_address, "value_size": value_size}
        self._call("KeyValuePutCallback", self.put_callback, self.put_argument, **values)
        del kept, kept_value

    def get(self, key: str, timeout: float) -> bytes:
        """Returns the value of a key; waits for it for `timeout` seconds. Raises the store's error."""
        kept, address, size = _bytes_at((_KEY_PREFIX + key).encode())
        milliseconds = max(1, min(int(timeout * 1e3), 2**31 - 1))
        values = {"key": address, "key_size": size, "timeout_in_ms": milliseconds}
        found = self._call("KeyValueGetCallback", self.get_callback, self.get_argument, **values)
        value = read_bytes(found.value, found.value_size)
        if found.value_deleter_callback:
            _DELETER(found.value_deleter_callback)(found.value)
        del kept
        return value

    def _call(self, name: str, callback: int, argument: int, **values: int) -> Any:
        make_error: Any = _MAKE_ERROR(_make_error)
        make_error_address = ctypes.c_void_p.from_buffer(make_error)
        arguments = structure(name)(
            struct_size=least_size(name),
            callback_error=ctypes.addressof(make_error_address),
            user_arg=argument,
            **values,
        )
        error = _CALLBACK(callback)(ctypes.addressof(arguments))
        if error:
            raise take_error(native(), error)
        return arguments


def _make_error(code: int, message: int | None, size: int) -> int:
    """Makes the error that a callback returns."""
    text = read_bytes(message or 0, size).decode("utf-8", "replace")
    return error_record(native(), RuntimeError(f"the key-value store of the framework failed ({code}): {text}"))


def _bytes_at(data: bytes) -> tuple[Any, int, int]:
    """Returns a copy of bytes that C code can read, its address and its size in bytes."""
    copy = ctypes.create_string_buffer(data, len(data) + 1)
    return copy, ctypes.addressof(copy), len(data)


@dataclass(frozen=True)
class FrameworkProcesses:
    """The processes of a framework: the index of this one and their number. store: None if it passes none."""

    index: int = 0
    count: int = 1
    store: KeyValueStore | None = None


_provided_stores: list[KeyValueStore] = []


def provide_store(store: KeyValueStore) -> None:
    """Sets the store to use in place of the callbacks that the framework passes to `PJRT_Client_Create`.

    The callbacks of jaxlib crash if it has no coordination service.
    """
    _provided_stores[:] = [store]


def read_processes(args: Any) -> FrameworkProcesses:
    """Reads the arguments of `PJRT_Client_Create`.

    Raises `InvalidArgumentError` if the index of this process is not less than the number of processes.
    """
    options = (structure("NamedValue") * args.num_options).from_address(args.create_options) if args.num_options else ()
    numbers = {
        read_bytes(option.name, option.name_size).decode("utf-8", "replace"): int(option.value)
        for option in options
        if option.type == _INT64
    }
    index, count = numbers.get(_PROCESS_INDEX, 0), max(1, numbers.get(_PROCESS_COUNT, 1))
    if not 0 <= index < count:
        raise InvalidArgumentError(
            codes.PROCESSES,
            f"the index of a process is less than the number of processes, given {index} of {count}: give "
            f"jax.distributed.initialize a process_id from 0 to {count - 1}",
        )
    if _provided_stores or not (args.kv_get_callback and args.kv_put_callback):
        return FrameworkProcesses(index, count, next(iter(_provided_stores), None))
    store = CallbackStore(args.kv_get_callback, args.kv_get_user_arg, args.kv_put_callback, args.kv_put_user_arg)
    return FrameworkProcesses(index, count, store)


def join_framework(
    processes: FrameworkProcesses, initialize: Callable[..., None] = distributed.initialize
) -> tuple[int, ...]:
    """Makes the processes of a framework one process group; returns the framework's index of each process of the group.

    A group that the program has initialized is used. mpirun may count the processes in another order.

    Raises `InvalidArgumentError` if there are more or fewer processes than the framework has, and the errors of
    `xlapy.distributed.initialize`.
    """
    if current_process_group() is None:
        _initialize(processes, initialize)
    group = current_process_group()
    count = 1 if group is None else group.process_count
    if group is None or count != processes.count:
        raise InvalidArgumentError(
            codes.PROCESSES,
            f"JAX runs {processes.count} processes (jax.distributed.initialize), but MPI connects {count}: start all "
            "with one mpirun, or give all the same coordinator address",
        )
    indices = tuple(group.allgather(processes.index, what="the indices of JAX's processes"))
    if sorted(indices) != list(range(count)):
        raise InvalidArgumentError(
            codes.PROCESSES,
            f"each of {count} processes has its own process_id in jax.distributed.initialize, given {list(indices)}: "
            f"give each process another number from 0 to {count - 1}",
        )
    return indices


def _initialize(processes: FrameworkProcesses, initialize: Callable[..., None]) -> None:
    """Initializes the process group: under mpirun from its environment, else through the store of the framework."""
    try:
        if find_launcher(os.environ) is not None:
            initialize(num_processes=processes.count)
        else:
            initialize(num_processes=processes.count, process_id=processes.index, key_value_store=processes.store)
    except SystemExit as error:  # an error of all processes is described by process 0 only
        raise InvalidArgumentError(
            codes.PROCESSES, "the processes cannot be connected; the error of process 0 says why"
        ) from error
