"""Calls native code through XLA's typed interface: call frames, errors and futures.

Responsible for call frames, for attributes in memory, and for the query of a target's interface version. Does not
depend on instructions or the registry of targets. Source: xla/ffi/call_frame.cc, invoke.cc, ffi_registry.cc.

Buffers have the sizes of the logical array, whatever their layout: f32[2,3]{0,1} has the sizes 2 and 3 and its elements
column by column. A token is a buffer of type TOKEN without data.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.error_codes.code import split_code
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.custom_calls.ffi import objects
from xlapy.custom_calls.ffi import structures as c
from xlapy.custom_calls.ffi.api import ffi_api
from xlapy.custom_calls.ffi.attributes import Attribute
from xlapy.custom_calls.ffi.objects import Future, Invocation
from xlapy.custom_calls.ffi.structures import AttributeKind, Stage

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_POLL_SECONDS = 0.05

_abandoned: list[Frame] = []
"""Frames of calls that did not end in time: the target may still write to their memory."""


class Frame:
    """A call frame with all the memory that it points to.

    `arguments` and `results` are arrays in the layouts that the target requires, None for a token. Their buffers, one
    `c.Buffer` each, are consecutive at the addresses `argument_buffers` and `result_buffers`.
    """

    def __init__(
        self,
        attributes: Mapping[str, Attribute],
        arguments: Sequence[Array | None] = (),
        results: Sequence[Array | None] = (),
    ) -> None:
        self.is_abandoned = False
        """Whether its call still runs after the wait for it timed out."""
        self._kept_alive: list[Any] = [attributes, arguments, results]
        self.argument_buffers, self.result_buffers = self._buffers(arguments), self._buffers(results)
        self.structure = c.CallFrame(
            struct_size=c.CALL_FRAME_SIZE,
            api=ffi_api(),
            args=self._listed(self.argument_buffers, len(arguments)),
            rets=self._listed(self.result_buffers, len(results)),
            attrs=self._dictionary(attributes),
        )

    def _buffers(self, arrays: Sequence[Array | None]) -> int:
        return self._keep_alive((c.Buffer * max(1, len(arrays)))(*map(self._buffer, arrays)))

    def _listed(self, buffers: int, count: int) -> c.Arguments:
        places = self._addresses([buffers + number * ctypes.sizeof(c.Buffer) for number in range(count)])
        kinds = self._keep_alive((ctypes.c_int * max(1, count))(*[c.BUFFER_ARGUMENT] * count))
        return c.Arguments(c.size_up_to(c.Arguments, "args"), None, count, kinds, places)

    def _buffer(self, array: Array | None) -> c.Buffer:
        size = c.size_up_to(c.Buffer, "dims")
        if array is None:
            return c.Buffer(size, None, PrimitiveType.TOKEN.number, None, 0, self._keep_alive(ctypes.c_int64()))
        dims = self._keep_alive((ctypes.c_int64 * max(1, array.ndim))(*array.shape))
        number = PrimitiveType.from_dtype(array.dtype).number
        return c.Buffer(size, None, number, array.ctypes.data, array.ndim, dims)

    def _dictionary(self, attributes: Mapping[str, Attribute]) -> c.Attributes:
        """Returns the structure of attributes, which are sorted by name."""
        names = [self._keep_alive(self._span(name.encode(errors="surrogateescape"))) for name in attributes]
        values = [self._attribute(value) for value in attributes.values()]
        kinds = self._keep_alive((ctypes.c_int * max(1, len(values)))(*[kind for kind, _ in values]))
        places = self._addresses([address for _, address in values])
        size = c.size_up_to(c.Attributes, "attrs")
        return c.Attributes(size, None, len(values), kinds, self._addresses(names), places)

    def _attribute(self, value: Attribute) -> tuple[AttributeKind, int]:
        if isinstance(value, dict):
            return AttributeKind.DICTIONARY, self._keep_alive(self._dictionary(value))
        if isinstance(value, bytes):
            return AttributeKind.STRING, self._keep_alive(self._span(value))
        array = np.array(value)
        self._kept_alive.append(array)
        number = PrimitiveType.from_dtype(array.dtype).number
        if array.ndim:
            return AttributeKind.ARRAY, self._keep_alive(c.DenseArray(number, array.size, array.ctypes.data))
        return AttributeKind.SCALAR, self._keep_alive(c.Scalar(number, array.ctypes.data))

    def _span(self, text: bytes) -> c.ByteSpan:
        return c.ByteSpan(self._keep_alive(ctypes.create_string_buffer(text)), len(text))

    def _addresses(self, addresses: Sequence[int]) -> int:
        return self._keep_alive((ctypes.c_void_p * max(1, len(addresses)))(*addresses))

    def _keep_alive(self, value: Any) -> int:
        """Keeps a ctypes value alive as long as the frame and returns its address."""
        self._kept_alive.append(value)
        return ctypes.addressof(value)


def call_handler(
    handler: int,
    stage: Stage,
    frame: Frame,
    invocation: Invocation,
    timeout: float,
    canceled: threading.Event | None = None,
) -> None:
    """Calls the code at an address, and waits for its future if it returns one; `ExecutionError` with its error."""
    structure = frame.structure
    structure.stage, structure.ctx, structure.future = stage, objects.register_invocation(invocation), None
    try:
        error = _HANDLER(handler)(ctypes.addressof(structure))
        if error:
            raise ExecutionError(codes.FAILED_TARGET, split_code(objects.take_error_text(error))[0])
        if structure.future:
            await_future(frame, timeout, canceled)
    finally:
        objects.unregister_invocation(structure.ctx)


def await_future(frame: Frame, timeout: float, canceled: threading.Event | None) -> None:
    """Waits for the future of a call that still runs after its target has returned; `ExecutionError` with its error."""
    handle = frame.structure.future
    try:
        future = objects.find_future(handle)
    except objects.FfiError as error:
        raise ExecutionError(codes.TARGET_FUTURE, f"{error}: it returned one that it did not create") from error
    if not _wait_until_done(future, timeout, canceled):
        frame.is_abandoned = True
        _abandoned.append(frame)
        raise ExecutionError(codes.TARGET_FUTURE, f"its future was not completed within {timeout:g} seconds")
    objects.forget_future(handle)
    if future.error is not None:
        raise ExecutionError(codes.FAILED_TARGET, split_code(future.error)[0])


def _wait_until_done(future: Future, timeout: float, canceled: threading.Event | None) -> bool:
    deadline = time.monotonic() + timeout
    while not future.done.wait(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
        if time.monotonic() >= deadline or (canceled is not None and canceled.is_set()):
            return False
    return True


# -- the version of a target


def check_version(name: str, handler: int) -> None:
    """Queries the interface version of the code at an address; `InvalidArgumentError` if it is not supported."""
    metadata = c.Metadata(c.size_up_to(c.Metadata, "state_type_id"), c.ApiVersion(ctypes.sizeof(c.ApiVersion)))
    extension = c.MetadataExtension(
        ctypes.sizeof(c.MetadataExtension), c.METADATA_EXTENSION, None, ctypes.pointer(metadata)
    )
    frame = Frame({})
    frame.structure.extension_start = ctypes.addressof(extension)
    frame.structure.stage = Stage.EXECUTE
    error = _HANDLER(handler)(ctypes.addressof(frame.structure))
    if error:
        raise InvalidArgumentError(
            codes.INTERFACE_VERSION, f"target {name!r} does not report its version: {objects.take_error_text(error)}"
        )
    version = metadata.api_version.major_version, metadata.api_version.minor_version
    if not c.OLDEST_VERSION <= version <= c.API_VERSION:
        shown, oldest, newest = (".".join(map(str, v)) for v in (version, c.OLDEST_VERSION, c.API_VERSION))
        raise InvalidArgumentError(
            codes.INTERFACE_VERSION,
            f"target {name!r} is built for version {shown} of the typed interface; supported are {oldest} to {newest}",
        )
