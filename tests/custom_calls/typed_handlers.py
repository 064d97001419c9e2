"""Handlers of XLA's typed FFI, written in Python: they use a call frame as native code would."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

import xlapy as xla
from tests.interpreter.runners.custom import entry
from xlapy.base.element_types import PrimitiveType
from xlapy.custom_calls.ffi import structures as c

FUNCTIONS = (
    "Error_Create",
    "Error_GetDetails",
    "Error_Destroy",
    "Handler_Register",
    "Stream_Get",
    "Type_Register",
    "ExecutionContext_Get",
    "State_Set",
    "State_Get",
    "DeviceMemory_Allocate",
    "DeviceMemory_Free",
    "ThreadPool_Schedule",
    "ThreadPool_NumThreads",
    "Future_Create",
    "Future_SetAvailable",
    "Future_SetError",
    "RunId_Get",
    "DeviceOrdinal_Get",
    "FindExtension",
)
"""The functions of XLA_FFI_Api in the order of c_api.h; they follow four fields and a version."""

HANDLER = CFUNCTYPE(c_void_p, c_void_p)
_FIRST_FUNCTION = 16 + ctypes.sizeof(c.ApiVersion) + 8


class Frame:
    """A call frame, as its handler receives it."""

    def __init__(self, address: int) -> None:
        self.structure = c.CallFrame.from_address(address)
        self.stage = self.structure.stage

    def arguments(self) -> list[Any]:
        return [_buffer(a) for a in _pointers(self.structure.args.args, self.structure.args.size)]

    def results(self) -> list[Any]:
        return [_buffer(a) for a in _pointers(self.structure.rets.args, self.structure.rets.size)]

    def attributes(self) -> dict[str, Any]:
        return _dictionary(self.structure.attrs)

    def call(self, name: str, structure: type[ctypes.Structure], **fields: Any) -> tuple[Any, int | None]:
        """Calls a function of the interface; returns its argument structure after the call, and the error."""
        address = self.structure.api + _FIRST_FUNCTION + 8 * FUNCTIONS.index(name)
        fields.setdefault("struct_size", c.size_up_to(structure, c.last_field(structure)))
        args = structure(**fields)
        return args, HANDLER(c_void_p.from_address(address).value)(ctypes.addressof(args))

    def ask(self, name: str, structure: type[ctypes.Structure], **fields: Any) -> Any:
        """Calls a function that must succeed, for this call; returns its argument structure."""
        args, error = self.call(name, structure, ctx=self.structure.ctx, **fields)
        assert error is None, self.message(error)
        return args

    def error(self, code: int, message: bytes) -> int | None:
        return self.call("Error_Create", c.ErrorCreateArgs, message=message, errc=code)[1]

    def message(self, error: int) -> tuple[int, str]:
        """Returns the code and text of an error, and destroys the error."""
        args = c.ErrorDetailsArgs(c.size_up_to(c.ErrorDetailsArgs, "errc"), None, error)
        self._procedure("Error_GetDetails", args)
        text = ctypes.string_at(args.message).decode()
        self._procedure("Error_Destroy", c.ErrorDestroyArgs(c.size_up_to(c.ErrorDestroyArgs, "error"), None, error))
        return args.errc, text

    def _procedure(self, name: str, args: ctypes.Structure) -> None:
        address = self.structure.api + _FIRST_FUNCTION + 8 * FUNCTIONS.index(name)
        CFUNCTYPE(None, c_void_p)(c_void_p.from_address(address).value)(ctypes.addressof(args))


@dataclass(frozen=True)
class Token:
    """A buffer of type TOKEN."""


def handler(function: Callable[[Frame], int | None], version: Sequence[int] = (0, 3)) -> Any:
    """Makes a native handler that answers the version query itself and otherwise calls `function`."""

    def call(address: int) -> int | None:
        frame = Frame(address)
        assert frame.structure.struct_size == 5 * 8 + 2 * 40 + 48
        if not frame.structure.extension_start:
            return function(frame)
        extension = c.MetadataExtension.from_address(frame.structure.extension_start)
        assert (extension.struct_size, extension.type) == (32, 1)
        metadata = extension.metadata[0]
        metadata.api_version.major_version, metadata.api_version.minor_version = version
        return None

    return HANDLER(call)


def _pointers(address: int, count: int) -> list[int]:
    return list((c_void_p * count).from_address(address)) if count else []


def _buffer(address: int) -> Any:
    buffer = c.Buffer.from_address(address)
    assert buffer.struct_size == 48
    kind = PrimitiveType.from_number(buffer.dtype)
    if kind is PrimitiveType.TOKEN:
        assert (buffer.data, buffer.rank) == (None, 0)
        return Token()
    sizes = tuple((c_int64 * buffer.rank).from_address(buffer.dims))
    return _array(buffer.data, kind, sizes)


def _array(address: int, kind: PrimitiveType, sizes: Sequence[int]) -> Any:
    count = int(np.prod(sizes)) * kind.dtype.itemsize
    return np.frombuffer((ctypes.c_char * count).from_address(address), kind.dtype).reshape(sizes)


def _dictionary(attributes: Any) -> dict[str, Any]:
    assert attributes.struct_size == 48
    kinds = (c_int * attributes.size).from_address(attributes.types) if attributes.size else []
    names = [_span(a).decode() for a in _pointers(attributes.names, attributes.size)]
    values = [_attribute(k, a) for k, a in zip(kinds, _pointers(attributes.attrs, attributes.size), strict=True)]
    return dict(zip(names, values, strict=True))


def _attribute(kind: int, address: int) -> Any:
    if kind == c.AttributeKind.DICTIONARY:
        return _dictionary(c.Attributes.from_address(address))
    if kind == c.AttributeKind.STRING:
        return _span(address)
    if kind == c.AttributeKind.ARRAY:
        array = c.DenseArray.from_address(address)
        return _array(array.data, PrimitiveType.from_number(array.dtype), (array.size,)).copy()
    scalar = c.Scalar.from_address(address)
    return _array(scalar.value, PrimitiveType.from_number(scalar.dtype), ())[()]


def _span(address: int) -> bytes:
    span = c.ByteSpan.from_address(address)
    return ctypes.string_at(span.ptr, span.len)


# -- the target and the operand of most tests

NO_TYPE = ctypes.pointer(ctypes.c_int64(4711))
TYPED = {"api_version": xla.CustomCallApiVersion.TYPED_FFI}
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def call(config: str = "", result: str = "f32[2,3]", more: str = "") -> str:
    attributes = f", api_version=API_VERSION_TYPED_FFI{config and f', backend_config={config}'}{more}"
    return entry(
        f'x = f32[2,3] parameter(0)\nROOT r = {result} custom-call(x), custom_call_target="target"{attributes}'
    )


def double(frame: Frame) -> int | None:
    frame.results()[0][...] = 2 * frame.arguments()[0]
    return None
