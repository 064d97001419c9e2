"""The C structures of XLA's typed interface to custom-call targets, as ctypes structures.

Responsible for their fields and for the values of their enumerations. Does not depend on their use.
Source: xla/ffi/api/c_api.h, version 0.4; its functions also accept the shorter structures of versions 0.1 to 0.3.

Every structure that is passed begins with its size, up to the end of its last field, without padding after it.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from enum import IntEnum
from typing import Any, ClassVar

API_VERSION = (0, 4)
OLDEST_VERSION = (0, 1)

METADATA_EXTENSION = 1
BUFFER_ARGUMENT = 1
ADDRESS_BYTES = ctypes.sizeof(c_void_p)


class Stage(IntEnum):
    """The stages of a target: once per program, twice before each run, and for each call."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class AttributeKind(IntEnum):
    ARRAY = 1
    DICTIONARY = 2
    SCALAR = 3
    STRING = 4


class ErrorCode(IntEnum):
    """Abseil's status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Sized(ctypes.Structure):
    """A structure that begins with its own size and a list of extensions."""

    _fields_: ClassVar[Any] = [("struct_size", c_size_t), ("extension_start", c_void_p)]


def size_up_to(structure: type[ctypes.Structure], last: str) -> int:
    """Returns the size in bytes of a structure up to the end of a field."""
    field = getattr(structure, last)
    return int(field.offset + field.size)


def last_field(structure: type[ctypes.Structure]) -> str:
    return str(structure._fields_[-1][0])


# -- call frames


class ByteSpan(ctypes.Structure):
    _fields_: ClassVar[Any] = [("ptr", c_void_p), ("len", c_size_t)]


class Scalar(ctypes.Structure):
    _fields_: ClassVar[Any] = [("dtype", c_int), ("value", c_void_p)]


class DenseArray(ctypes.Structure):
    _fields_: ClassVar[Any] = [("dtype", c_int), ("size", c_size_t), ("data", c_void_p)]


class Buffer(Sized):
    _fields_: ClassVar[Any] = [("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", c_void_p)]


class Arguments(Sized):
    """The arguments of a call; its results have a structure with the same fields."""

    _fields_: ClassVar[Any] = [("size", c_int64), ("types", c_void_p), ("args", c_void_p)]


class Attributes(Sized):
    _fields_: ClassVar[Any] = [("size", c_int64), ("types", c_void_p), ("names", c_void_p), ("attrs", c_void_p)]


class CallFrame(Sized):
    _fields_: ClassVar[Any] = [
        ("api", c_void_p),
        ("ctx", c_void_p),
        ("stage", c_int),
        ("args", Arguments),
        ("rets", Arguments),
        ("attrs", Attributes),
        ("future", c_void_p),
    ]


CALL_FRAME_SIZE = size_up_to(CallFrame, "attrs")
"""The size without `future`, which was added later: handlers compare the size with that of the older structure."""


class ApiVersion(Sized):
    _fields_: ClassVar[Any] = [("major_version", c_int), ("minor_version", c_int)]


class Metadata(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("struct_size", c_size_t),
        ("api_version", ApiVersion),
        ("traits", c_uint32),
        ("state_type_id", c_int64),
    ]


class MetadataExtension(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("struct_size", c_size_t),
        ("type", c_int),
        ("next", c_void_p),
        ("metadata", POINTER(Metadata)),
    ]


# -- arguments of the functions


class ErrorCreateArgs(Sized):
    _fields_: ClassVar[Any] = [("message", c_char_p), ("errc", c_int)]


class ErrorDetailsArgs(Sized):
    _fields_: ClassVar[Any] = [("error", c_void_p), ("message", c_void_p), ("errc", c_int)]


class ErrorDestroyArgs(Sized):
    _fields_: ClassVar[Any] = [("error", c_void_p)]


class HandlerRegisterArgs(Sized):
    """The structure before version 0.4, which added a fifth handler, `record`, before the traits."""

    _fields_: ClassVar[Any] = [
        ("name", ByteSpan),
        ("platform", ByteSpan),
        ("instantiate", c_void_p),
        ("prepare", c_void_p),
        ("initialize", c_void_p),
        ("execute", c_void_p),
        ("traits", c_uint32),
    ]


class StreamGetArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("stream", c_void_p)]


class TypeInfo(Sized):
    _fields_: ClassVar[Any] = [("deleter", c_void_p)]


class TypeRegisterArgs(Sized):
    _fields_: ClassVar[Any] = [("name", ByteSpan), ("type_id", POINTER(c_int64)), ("type_info", POINTER(TypeInfo))]


class ContextGetArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("type_id", POINTER(c_int64)), ("data", c_void_p)]


class StateArgs(Sized):
    _fields_: ClassVar[Any] = [
        ("ctx", c_void_p),
        ("stage", c_int),
        ("type_id", POINTER(c_int64)),
        ("state", c_void_p),
    ]


class InstantiateStateArgs(Sized):
    """The structure before version 0.3, when only the stage INSTANTIATE had a state."""

    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("type_id", POINTER(c_int64)), ("state", c_void_p)]


class MemoryAllocateArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("size", c_size_t), ("alignment", c_size_t), ("data", c_void_p)]


class MemoryFreeArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("size", c_size_t), ("data", c_void_p)]


class ScheduleArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("task", c_void_p), ("data", c_void_p)]


class NumThreadsArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("num_threads", POINTER(c_int64))]


class FutureCreateArgs(Sized):
    _fields_: ClassVar[Any] = [("future", c_void_p)]


class FutureErrorArgs(Sized):
    _fields_: ClassVar[Any] = [("future", c_void_p), ("error", c_void_p)]


class RunIdArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("run_id", c_int64)]


class DeviceOrdinalArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("device_ordinal", c_int32)]


class FindExtensionArgs(Sized):
    _fields_: ClassVar[Any] = [("ctx", c_void_p), ("extension_type", c_int64), ("extension", c_void_p)]
