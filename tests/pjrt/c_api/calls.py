"""Calls of entries as a framework makes them: through the function table, with structures of arguments."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from xlapy.base.error_codes.code import split_code
from xlapy.base.error_codes.execution.running import FOREIGN_ERROR
from xlapy.base.errors import XlaError
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import ENTRIES, EXTENSION_HEADER_BYTES, EXTENSIONS, HEADER_BYTES, least_size, structure
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import Record, read_bytes, read_words

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

F32, S32 = 11, 4
"""PJRT's numbers of element types."""


class PjrtError(XlaError):
    """An error that an entry returned.

    status: the code of absl::Status. code: the code at the end of the message; FOREIGN_ERROR if the client gave
    a message without one.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(split_code(message)[1] or FOREIGN_ERROR, message)
        self.status = status
        self.args = (f"{status}: {message}",)


def call(name: str, **values: int) -> Any:
    """Calls an entry of the table or of an extension; returns its arguments, or raises `PjrtError`."""
    arguments = structure(name)(**{"struct_size": least_size(name), **values})
    raise_error(call_with(name, ctypes.addressof(arguments)))
    return arguments


def call_with(name: str, address: int) -> int | None:
    """Calls an entry with the address of its arguments; returns the address of the error."""
    return _ENTRY(address_of(name))(address)


def address_of(name: str) -> int:
    """The address of an entry of the table or of an extension."""
    if name in ENTRIES:
        return read_words(native().table + HEADER_BYTES + 8 * ENTRIES.index(name), 1)[0]
    number, names = next(item for item in EXTENSIONS.items() if name in item[1])
    at = read_words(native().table + 8, 1)[0]
    while read_words(at, 2)[1] != number:
        at = read_words(at, 3)[2]
    assert read_words(at, 1) == [EXTENSION_HEADER_BYTES + 8 * len(names)]
    return read_words(at + EXTENSION_HEADER_BYTES, len(names))[names.index(name)]


def raise_error(error: int | None) -> None:
    """Raises the error at an address, which it destroys; nothing for null."""
    if not error:
        return
    record = Record("error", error)
    code, message = record["code"], read_bytes(record["message"], record["message_size"]).decode()
    call("Error_Destroy", error=error)
    raise PjrtError(code, message)


def default_memory(device: int = 0) -> int:
    return platform().devices[device].memories["device"]


def buffer_of(array: np.ndarray[Any, Any], device: int = 0, semantics: int = 0) -> int:
    """Copies an array of F32 or S32 to a buffer; returns its handle."""
    dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    made = call(
        "Client_BufferFromHostBuffer",
        client=platform().handle,
        data=array.ctypes.data,
        type=F32 if array.dtype == np.float32 else S32,
        dims=ctypes.addressof(dims),
        num_dims=array.ndim,
        host_buffer_semantics=semantics,
        memory=default_memory(device),
    )
    call("Event_Destroy", event=made.done_with_host_buffer)
    return int(made.buffer)


def array_of(buffer: int) -> np.ndarray[Any, Any]:
    """Copies a buffer of F32 or S32 to the host; raises its error."""
    dims = call("Buffer_Dimensions", buffer=buffer)
    dtype = np.float32 if call("Buffer_ElementType", buffer=buffer).type == F32 else np.int32
    array = np.empty(read_words(dims.dims, dims.num_dims), dtype)
    copied = call("Buffer_ToHostBuffer", src=buffer, dst=array.ctypes.data, dst_size=array.nbytes)
    await_event(copied.event)
    return array


def await_event(event: int) -> None:
    """Waits for an event and destroys it; raises its error."""
    try:
        call("Event_Await", event=event)
    finally:
        call("Event_Destroy", event=event)


def ready(buffer: int) -> None:
    """Waits until the elements of a buffer are ready; raises its error."""
    await_event(call("Buffer_ReadyEvent", buffer=buffer).event)


def destroy(*buffers: int) -> None:
    for buffer in buffers:
        call("Buffer_Destroy", buffer=buffer)


def bytes_at(data: bytes) -> tuple[Any, int, int]:
    """A copy of bytes that C code can read, its address and its size."""
    copy = ctypes.create_string_buffer(data, len(data) + 1)
    return copy, ctypes.addressof(copy), len(data)


def compile_program(text: str, options: bytes = b"") -> int:
    """Compiles StableHLO; returns the handle of the loaded executable."""
    code, address, size = bytes_at(text.encode())
    format, format_address, format_size = bytes_at(b"mlir")
    kept, options_address, options_size = bytes_at(options)
    program = structure("Program")(
        struct_size=least_size("Program"), code=address, code_size=size, format=format_address, format_size=format_size
    )
    made = call(
        "Client_Compile",
        client=platform().handle,
        program=ctypes.addressof(program),
        compile_options=options_address,
        compile_options_size=options_size,
    )
    del code, format, kept
    return int(made.executable)


def execute(executable: int, *rows: list[int], results: int = 1, device: int = 0, **options: int) -> list[list[int]]:
    """Runs an executable with a row of arguments for each device; returns the rows of its results."""
    outputs, events = execute_with_events(executable, *rows, results=results, device=device, **options)
    for event in events:
        call("Event_Destroy", event=event)
    return outputs


def execute_with_events(
    executable: int, *rows: list[int], results: int = 1, device: int = 0, **options: int
) -> tuple[list[list[int]], list[int]]:
    """As `execute`; also returns the events that complete when the devices do."""
    chosen = structure("ExecuteOptions")(**{"struct_size": least_size("ExecuteOptions"), **options})
    arguments = [(ctypes.c_uint64 * max(1, len(row)))(*row) for row in rows]
    outputs = [(ctypes.c_uint64 * max(1, results))() for _ in rows]
    argument_lists = (ctypes.c_uint64 * len(rows))(*map(ctypes.addressof, arguments))
    output_lists = (ctypes.c_uint64 * len(rows))(*map(ctypes.addressof, outputs))
    events = (ctypes.c_uint64 * len(rows))()
    call(
        "LoadedExecutable_Execute",
        executable=executable,
        options=ctypes.addressof(chosen),
        argument_lists=ctypes.addressof(argument_lists),
        num_devices=len(rows),
        num_args=len(rows[0]),
        output_lists=ctypes.addressof(output_lists),
        device_complete_events=ctypes.addressof(events),
        execute_device=device,
    )
    return [list(row)[:results] for row in outputs], list(events)
