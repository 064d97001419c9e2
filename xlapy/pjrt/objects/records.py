"""Records: what PJRT handles point to, arrays of 8-byte words that native code and Python share.

Word 0 of every record behind a handle is 0, where PJRT keeps a function table. A field that an entry only returns has
the name of the entry's argument, so that native code can copy it.

Responsible for the fields of each kind of record, and for the records that Python makes. Does not depend on entries.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

from xlapy.native.records import Record as NativeRecord
from xlapy.runtime.engine.core.buffers import Buffer
from xlapy.runtime.engine.core.events import Error, Event
from xlapy.runtime.engine.core.launch_records import Argument, DeviceProgram, Executable, Launch, Stream
from xlapy.runtime.engine.core.launch_times import TimeRow, TimeTable
from xlapy.runtime.engine.core.memory import Storage

WORD: Final = 8

_PJRT_FIELDS = {
    # The callback that tells the owner of foreign memory that a view of it has ended.
    "view_callback": "data callback argument",
    "client": "zero platform_name platform_name_size process_index platform_version platform_version_size devices "
    "num_devices addressable_devices num_addressable_devices addressable_memories num_addressable_memories topology",
    "topology": "zero platform_name platform_name_size platform_version platform_version_size descriptions "
    "num_descriptions attributes num_attributes",
    "description": "zero id process_index num_attributes attributes device_kind device_kind_size debug_string "
    "debug_string_size to_string to_string_size",
    "device": "zero device_description is_addressable local_hardware_id memories num_memories memory attributes "
    "num_attributes device_attributes attributes_deleter",
    "memory": "zero id kind kind_size kind_id debug_string debug_string_size to_string to_string_size devices "
    "num_devices",
    "layout": "zero serialized_bytes serialized_bytes_size serialized_layout serialized_layout_deleter "
    "minor_to_major rank",
}
"""Records that only entries use."""

_ENGINE_RECORDS: Mapping[str, type[NativeRecord]] = {
    "error": Error,
    "event": Event,
    "buffer": Buffer,
    "storage": Storage,
    "executable": Executable,
    "argument": Argument,
    "device_program": DeviceProgram,
    "launch": Launch,
    "stream": Stream,
    "time_table": TimeTable,
    "time_row": TimeRow,
}
"""Records of the engine."""

_EXECUTABLE_FIELDS = (
    "executable executable_name executable_name_size num_replicas num_partitions num_outputs addressable_devices "
    "num_addressable_devices addressable_device_logical_ids num_addressable_device_logical_ids is_deleted "
    "executable_fingerprint executable_fingerprint_size size_in_bytes output_types num_output_types dims dim_sizes "
    "num_parameters memory_kinds memory_kind_sizes output_memory_kinds output_memory_kind_sizes parameter_layouts "
    "output_layouts"
)
"""What PJRT returns of an executable: the fields after those of the engine."""


def _offsets() -> dict[str, Mapping[str, int]]:
    made = {
        kind: {name: WORD * index for index, name in enumerate(names.split())} for kind, names in _PJRT_FIELDS.items()
    }
    made |= {kind: dict(record.offsets()) for kind, record in _ENGINE_RECORDS.items()}
    begin = Executable.byte_size()
    made["executable"] |= {name: begin + WORD * index for index, name in enumerate(_EXECUTABLE_FIELDS.split())}
    return dict(made)


OFFSETS: Mapping[str, Mapping[str, int]] = _offsets()
"""Offset of each field in bytes, by kind of record."""

SIZES: Mapping[str, int] = {
    **{kind: WORD * len(offsets) for kind, offsets in OFFSETS.items()},
    **{kind: record.byte_size() for kind, record in _ENGINE_RECORDS.items() if kind != "executable"},
}
"""Size of each kind of record in bytes, without what follows it."""

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

    def __init__(self, kind: str, address: int = 0, **values: int) -> None:
        self._offsets = OFFSETS[kind]
        self.address = address or keep((ctypes.c_int64 * (SIZES[kind] // WORD))())
        for name, value in values.items():
            self[name] = value

    def __getitem__(self, name: str) -> int:
        return int(ctypes.c_int64.from_address(self.address + self._offsets[name]).value)

    def __setitem__(self, name: str, value: int) -> None:
        ctypes.c_int64.from_address(self.address + self._offsets[name]).value = value

    def set_text(self, name: str, value: str) -> None:
        """Sets the fields `name` and `name`_size."""
        self[name], self[f"{name}_size"] = text(value)


def read_bytes(address: int, size: int) -> bytes:
    """Returns the bytes at an address; none for a null pointer."""
    return ctypes.string_at(address, size) if address else b""


def read_words(address: int, count: int) -> list[int]:
    """Returns the signed words at an address."""
    return list((ctypes.c_int64 * count).from_address(address)) if count else []
