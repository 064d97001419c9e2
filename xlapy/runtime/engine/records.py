"""Records of the engine as Python reads and makes them: arrays of 8-byte words that native code and Python share.

Responsible for access to fields by name, and for the records that Python makes. Does not depend on what records mean.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from xlapy.native.ir import NativeTypeError
from xlapy.native.records import Record as NativeRecord
from xlapy.runtime.engine.core.buffers import Buffer
from xlapy.runtime.engine.core.events import Error, Event
from xlapy.runtime.engine.core.launch_records import Argument, DeviceProgram, Executable, Launch, LaunchFrame, Stream
from xlapy.runtime.engine.core.launch_times import TimeRow, TimeTable
from xlapy.runtime.engine.core.memory import Storage
from xlapy.runtime.engine.core.python_dispatch import CallPlan, ExpectedArray, ObjectLayout

WORD: Final = 8

ENGINE_RECORDS: Mapping[str, type[NativeRecord]] = {
    "error": Error,
    "event": Event,
    "buffer": Buffer,
    "storage": Storage,
    "executable": Executable,
    "argument": Argument,
    "device_program": DeviceProgram,
    "launch": Launch,
    "launch_frame": LaunchFrame,
    "stream": Stream,
    "object_layout": ObjectLayout,
    "expected_array": ExpectedArray,
    "call_plan": CallPlan,
    "time_table": TimeTable,
    "time_row": TimeRow,
}

_kept: dict[int, Any] = {}
"""Objects that records point to, and records themselves, by address. They live as long as the process, or until
`forget`."""


def keep(value: Any) -> int:
    """Keeps a `ctypes` object alive; returns its address."""
    address = ctypes.addressof(value)
    _kept[address] = value
    return address


def forget(*addresses: int) -> None:
    """Releases objects that `keep` kept alive."""
    for address in addresses:
        _kept.pop(address, None)


def words(values: Sequence[int]) -> int:
    """Returns the address of an array of words, kept alive. An empty array has an address too."""
    return keep((ctypes.c_int64 * max(1, len(values)))(*values))


def text(value: str) -> tuple[int, int]:
    """Returns the address of a string, kept alive, and its length in bytes."""
    data = value.encode("utf-8", "replace")
    return keep(ctypes.create_string_buffer(data, len(data) + 1)), len(data)


class Record:
    """A record at an address, or a new one; fields are accessed by name."""

    __slots__ = ("_offsets", "address")

    offsets: ClassVar[Mapping[str, Mapping[str, int]]] = {
        kind: record.unshared_offsets() for kind, record in ENGINE_RECORDS.items()
    }
    """Offset of each field in bytes, by kind of record. Fields that threads share are not listed: only native functions
    access them."""

    sizes: ClassVar[Mapping[str, int]] = {kind: record.byte_size() for kind, record in ENGINE_RECORDS.items()}
    """Size of each kind of record in bytes, without what follows it."""

    def __init__(self, kind: str, address: int = 0, **values: int) -> None:
        self._offsets = self.offsets[kind]
        self.address = address or keep((ctypes.c_int64 * (self.sizes[kind] // WORD))())
        for name, value in values.items():
            self[name] = value

    def __getitem__(self, name: str) -> int:
        return int(ctypes.c_int64.from_address(self.address + self._offset(name)).value)

    def __setitem__(self, name: str, value: int) -> None:
        ctypes.c_int64.from_address(self.address + self._offset(name)).value = value

    def _offset(self, name: str) -> int:
        try:
            return self._offsets[name]
        except KeyError:
            message = f"records of this kind have no field {name} that Python may access: threads share it"
            raise NativeTypeError(message) from None

    def set_text(self, name: str, value: str) -> None:
        """Sets the fields `name` and `name`_size."""
        self[name], self[f"{name}_size"] = text(value)


class KeptObjects:
    """Objects that records point to, which are freed together."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._addresses: list[int] = []

    def keep(self, value: Any) -> int:
        """Keeps a `ctypes` object alive; returns its address."""
        self._objects.append(value)
        return ctypes.addressof(value)

    def hold(self, value: Any) -> None:
        """Keeps an object alive to whose memory records point."""
        self._objects.append(value)

    def record(self, kind: str, **values: int) -> Record:
        """Makes a record of the engine."""
        return Record(kind, self.keep((ctypes.c_int64 * (Record.sizes[kind] // WORD))()), **values)

    def words(self, values: Sequence[int]) -> int:
        """Returns the address of an array of words. An empty array has an address too."""
        return self.keep((ctypes.c_int64 * max(1, len(values)))(*values))

    def text(self, value: str) -> tuple[int, int]:
        """Returns address and size of a string."""
        return self.bytes(value.encode("utf-8", "replace"))

    def bytes(self, data: bytes) -> tuple[int, int]:
        """Returns address and size of a copy of `data`."""
        return self.keep(ctypes.create_string_buffer(data, len(data) + 1)), len(data)

    def add(self, address: int) -> None:
        """Frees an object that the function `keep` keeps alive together with the others."""
        self._addresses.append(address)

    def forget(self) -> None:
        """Frees the objects."""
        forget(*self._addresses)
        self._addresses.clear()
        self._objects.clear()


def read_bytes(address: int, size: int) -> bytes:
    """Returns the bytes at an address; none for a null pointer."""
    return ctypes.string_at(address, size) if address else b""


def read_words(address: int, count: int) -> list[int]:
    """Returns the signed words at an address."""
    return list((ctypes.c_int64 * count).from_address(address)) if count else []
