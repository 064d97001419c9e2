"""Handles: what a PJRT handle points to is a record, a row of words that native code reads and Python fills.

Word 0 of every record is 0, where PJRT would have a table of functions. A field that an entry only hands out has the
name that it has in the entry's arguments, so that native code copies it.

Owns: which words a record has, records that Python makes, what they point to. Must not know: entries.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

WORD: Final = 8

_KINDS = {
    "error": "zero code message_size message",
    # error: a record, if what was waited for has failed.
    "event": "zero state owners error",
    "waiter": "next callback argument",
    # Whom memory belongs to that a buffer shows.
    "owner": "data callback argument",
    # A copy to the host that waits for its elements.
    "transfer": "storage source target size event",
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
    # data: of the first element. lock: 1 while a thread takes or gives up the storage, which is 0 after the end.
    # shown: the storage again, once NumPy arrays have been made of it. bytes: of the record, its dimensions included,
    # which lie behind it. event: happens when the elements are there.
    "buffer": "zero data storage lock shown event on_device_size_in_bytes device memory type num_dims dims is_on_cpu "
    "bytes layout",
    "layout": "zero serialized_bytes serialized_bytes_size serialized_layout serialized_layout_deleter "
    "minor_to_major rank",
    # owners: how many buffers and runs use it. event: of host memory that is lent, set when the last owner goes.
    # external: how many NumPy arrays show it. next: in the list of kept memory. size: bytes, this record included.
    # queued: how many of the owners are runs that wait for their turn, or for that one. failed: the event of the run
    # that was to write it and failed.
    "storage": "owners event external next size queued failed unused",
    # owners: how many handles of it JAX has. next: in the list of what nobody has any more. fast: whether native code
    # runs it alone. long: whether behind the caller's back, by workers. large: whether it asks for memory first. parts:
    # what each device does. meets: whether these meet, by words at those offsets of the memory that they share. shared:
    # such memory that no run uses. twin: the executable that runs in its stead.
    "executable": "zero executable executable_name executable_name_size num_replicas num_partitions num_outputs "
    "addressable_devices num_addressable_devices addressable_device_logical_ids num_addressable_device_logical_ids "
    "is_deleted executable_fingerprint executable_fingerprint_size size_in_bytes output_types num_output_types dims "
    "dim_sizes num_parameters memory_kinds memory_kind_sizes output_memory_kinds output_memory_kind_sizes "
    "parameter_layouts output_layouts owners next fast long large argument_count donated_count parts part_count meets "
    "words word_count shared shared_bytes twin",
    # What one device does. number: of the device in the run. waiting: how many runs have not ended. place: memory of a
    # run that no run uses. table: what the table of a run begins as. arguments: type, size and layout each. donated:
    # numbers of arguments. outputs: a record of a buffer each. aliases: the argument whose memory an output takes, or
    # -1. shared_index: where the table has what the devices of a run share. instrumented: the number under which its
    # times are noted, or 0.
    "part": "number worker waiting entry place table table_bytes arena_bytes argument_count arguments donated_count "
    "donated result_count outputs aliases first_result shared_index instrumented",
    # A part of a run: what it needs when its turn comes. Behind it storages of its arguments, those of its results, the
    # table. next: in a queue, or among the failed parts of a run. error: of a failed one.
    "place": "next part event arena run error",
    # A run whose devices meet. left: how many parts have not ended. open: whether one has not. failed: the places of
    # parts that have failed. error: the first. Behind it a word for each part: 0 before it runs, 1 meanwhile, 2 then.
    "run": "next number owners left open executable shared failed error",
    # The table of times: how many rows it has, and how many were to be noted. Behind it the rows.
    "times": "places count",
    "time": "part thread begin end",
    # Of C's library.
    "semaphore": "word_0 word_1 word_2 word_3",
    # The thread of a device. next: of another one. first, last: places of runs that wait; running: of the one that does
    # not. wake, room: semaphores.
    "worker": "next started first last running wake wake_1 wake_2 wake_3 room room_1 room_2 room_3",
}

OFFSETS: Mapping[str, Mapping[str, int]] = {
    kind: {name: WORD * place for place, name in enumerate(names.split())} for kind, names in _KINDS.items()
}
"""Where the fields of each kind of record lie, in bytes."""

SIZES: Mapping[str, int] = {kind: WORD * len(offsets) for kind, offsets in OFFSETS.items()}
"""Bytes of each kind of record."""

_kept: dict[int, Any] = {}
"""What records point to, and records themselves: they live as long as the process, or until `forget`."""


def keep(value: Any) -> int:
    """Keeps a `ctypes` object where it is; its address."""
    address = ctypes.addressof(value)
    _kept[address] = value
    return address


def forget(*addresses: int) -> None:
    """Ends what `keep` began."""
    for address in addresses:
        _kept.pop(address, None)


def words(values: Sequence[int]) -> int:
    """The address of a row of words, kept; there is one even if it has none."""
    return keep((ctypes.c_int64 * max(1, len(values)))(*values))


def text(value: str) -> tuple[int, int]:
    """The address of a text, kept, and its length in bytes."""
    data = value.encode("utf-8", "replace")
    return keep(ctypes.create_string_buffer(data, len(data) + 1)), len(data)


class Record:
    """A record that Python has made, or found at an address; fields by name."""

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
        """Fills `name` and `name`_size."""
        self[name], self[f"{name}_size"] = text(value)


def read_bytes(address: int, size: int) -> bytes:
    """Bytes at an address; none at 0."""
    return ctypes.string_at(address, size) if address else b""


def read_words(address: int, count: int) -> list[int]:
    """Signed words at an address."""
    return list((ctypes.c_int64 * count).from_address(address)) if count else []
