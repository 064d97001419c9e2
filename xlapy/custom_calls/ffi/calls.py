"""Calls of native code through XLA's typed interface: the frames that it is given, and what becomes of its answer.

Owns: frames, attributes in memory, the question for the version of a target. Must not know: instructions, which target
is meant. Source: xla/ffi/call_frame.cc, invoke.cc, ffi_registry.cc.

Buffers are given with the sizes of the logical array, whatever their layout: f32[2,3]{0,1} has the sizes 2 and 3 and
its elements column by column. A token is a buffer of type TOKEN without data.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import Array, PrimitiveType
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
"""Frames of calls that never ended: their memory may still be written to."""


class Frame:
    """A call frame with all the memory that it points to.

    `arguments` and `results` are arrays that lie in memory as the target wants them, None for a token. Their buffers,
    a `c.Buffer` each, lie one behind the other at the addresses `argument_buffers` and `result_buffers`.
    """

    def __init__(
        self,
        attributes: Mapping[str, Attribute],
        arguments: Sequence[Array | None] = (),
        results: Sequence[Array | None] = (),
    ) -> None:
        self.is_abandoned = False
        """Whether its call goes on though nobody waits for it any more."""
        self._kept: list[Any] = [attributes, arguments, results]
        self.argument_buffers, self.result_buffers = self._buffers(arguments), self._buffers(results)
        self.structure = c.CallFrame(
            struct_size=c.CALL_FRAME_SIZE,
            api=ffi_api(),
            args=self._listed(self.argument_buffers, len(arguments)),
            rets=self._listed(self.result_buffers, len(results)),
            attrs=self._dictionary(attributes),
        )

    def _buffers(self, arrays: Sequence[Array | None]) -> int:
        return self._place((c.Buffer * max(1, len(arrays)))(*map(self._buffer, arrays)))

    def _listed(self, buffers: int, count: int) -> c.Arguments:
        places = self._addresses([buffers + number * ctypes.sizeof(c.Buffer) for number in range(count)])
        kinds = self._place((ctypes.c_int * max(1, count))(*[c.BUFFER_ARGUMENT] * count))
        return c.Arguments(c.size_up_to(c.Arguments, "args"), None, count, kinds, places)

    def _buffer(self, array: Array | None) -> c.Buffer:
        size = c.size_up_to(c.Buffer, "dims")
        if array is None:
            return c.Buffer(size, None, PrimitiveType.TOKEN.number, None, 0, self._place(ctypes.c_int64()))
        dims = self._place((ctypes.c_int64 * max(1, array.ndim))(*array.shape))
        number = PrimitiveType.from_dtype(array.dtype).number
        return c.Buffer(size, None, number, array.ctypes.data, array.ndim, dims)

    def _dictionary(self, attributes: Mapping[str, Attribute]) -> c.Attributes:
        """Sorted by name, as `attributes` are."""
        names = [self._place(self._span(name.encode(errors="surrogateescape"))) for name in attributes]
        values = [self._attribute(value) for value in attributes.values()]
        kinds = self._place((ctypes.c_int * max(1, len(values)))(*[kind for kind, _ in values]))
        places = self._addresses([address for _, address in values])
        size = c.size_up_to(c.Attributes, "attrs")
        return c.Attributes(size, None, len(values), kinds, self._addresses(names), places)

    def _attribute(self, value: Attribute) -> tuple[AttributeKind, int]:
        if isinstance(value, dict):
            return AttributeKind.DICTIONARY, self._place(self._dictionary(value))
        if isinstance(value, bytes):
            return AttributeKind.STRING, self._place(self._span(value))
        array = np.array(value)
        self._kept.append(array)
        number = PrimitiveType.from_dtype(array.dtype).number
        if array.ndim:
            return AttributeKind.ARRAY, self._place(c.DenseArray(number, array.size, array.ctypes.data))
        return AttributeKind.SCALAR, self._place(c.Scalar(number, array.ctypes.data))

    def _span(self, text: bytes) -> c.ByteSpan:
        return c.ByteSpan(self._place(ctypes.create_string_buffer(text)), len(text))

    def _addresses(self, addresses: Sequence[int]) -> int:
        return self._place((ctypes.c_void_p * max(1, len(addresses)))(*addresses))

    def _place(self, value: Any) -> int:
        """The address of a ctypes value, which lives as long as the frame."""
        self._kept.append(value)
        return ctypes.addressof(value)


def call_handler(
    handler: int,
    stage: Stage,
    frame: Frame,
    invocation: Invocation,
    timeout: float,
    cancelled: threading.Event | None = None,
) -> None:
    """Calls the code at an address, and waits for its future if it makes one; `ExecutionError` with its error."""
    structure = frame.structure
    structure.stage, structure.ctx, structure.future = stage, objects.register_invocation(invocation), None
    try:
        error = _HANDLER(handler)(ctypes.addressof(structure))
        if error:
            raise ExecutionError(objects.take_error_text(error))
        if structure.future:
            await_future(frame, timeout, cancelled)
    finally:
        objects.unregister_invocation(structure.ctx)


def await_future(frame: Frame, timeout: float, cancelled: threading.Event | None) -> None:
    """Waits until a call has ended that goes on after its target has returned; `ExecutionError` with its error."""
    handle = frame.structure.future
    try:
        future = objects.find_future(handle)
    except objects.FfiError as error:
        raise ExecutionError(f"{error}: it gave one that it did not create") from error
    if not _ends(future, timeout, cancelled):
        frame.is_abandoned = True
        _abandoned.append(frame)
        raise ExecutionError(f"its future was not completed within {timeout:g} seconds")
    objects.forget_future(handle)
    if future.error is not None:
        raise ExecutionError(future.error)


def _ends(future: Future, timeout: float, cancelled: threading.Event | None) -> bool:
    deadline = time.monotonic() + timeout
    while not future.done.wait(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
        if time.monotonic() >= deadline or (cancelled is not None and cancelled.is_set()):
            return False
    return True


# -- the version of a target


def check_version(name: str, handler: int) -> None:
    """Asks the code at an address for its version of the interface; `InvalidArgumentError` if it is not served."""
    metadata = c.Metadata(c.size_up_to(c.Metadata, "state_type_id"), c.ApiVersion(ctypes.sizeof(c.ApiVersion)))
    extension = c.MetadataExtension(
        ctypes.sizeof(c.MetadataExtension), c.METADATA_EXTENSION, None, ctypes.pointer(metadata)
    )
    frame = Frame({})
    frame.structure.extension_start = ctypes.addressof(extension)
    frame.structure.stage = Stage.EXECUTE
    error = _HANDLER(handler)(ctypes.addressof(frame.structure))
    if error:
        raise InvalidArgumentError(f"target {name!r} does not tell its version: {objects.take_error_text(error)}")
    version = metadata.api_version.major_version, metadata.api_version.minor_version
    if not c.OLDEST_VERSION <= version <= c.API_VERSION:
        shown, oldest, newest = (".".join(map(str, v)) for v in (version, c.OLDEST_VERSION, c.API_VERSION))
        raise InvalidArgumentError(
            f"target {name!r} is built for version {shown} of the typed interface; served are {oldest} to {newest}"
        )
