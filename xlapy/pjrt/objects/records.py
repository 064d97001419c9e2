"""Records: what PJRT handles point to, arrays of 8-byte words that native code and Python share.

Word 0 of every record behind a handle is 0, where PJRT keeps a function table. A field that an entry only returns has
the name of the entry's argument, so that native code can copy it.

Responsible for the fields of each kind of record, and for the records that Python makes. Does not depend on entries.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

WORD: Final = 8

_RECORD_FIELDS = {
    "error": "zero code message_size message",
    # state: 0 while pending, or the first callback that waits; 1 when complete. error: an `error` record if the event
    # failed.
    "event": "zero state owners error",
    # A callback that waits for an event.
    "event_callback": "next callback argument",
    # The callback that tells the owner of foreign memory that a view of it has ended.
    "view_callback": "data callback argument",
    # A copy to the host that waits for its source.
    "pending_copy": "storage source target size event",
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
    # data: address of the first element. lock: 1 while a thread acquires or drops the storage; storage is 0 after
    # deletion. external_storage: the storage again, once NumPy arrays share it. record_bytes: size of this record with
    # its dimensions, which follow it. event: completes when the elements are ready.
    "buffer": "zero data storage lock external_storage event on_device_size_in_bytes device memory type num_dims dims "
    "is_on_cpu record_bytes layout",
    "layout": "zero serialized_bytes serialized_bytes_size serialized_layout serialized_layout_deleter "
    "minor_to_major rank",
    # owners: number of buffers and launches that use the storage. event: for borrowed host memory, completed when the
    # last owner releases it. external: number of NumPy arrays that share the memory. next: link in the cache's free
    # list. size: bytes, this record included. queued: how many of the owners are launches that have not finished.
    # failed: the event of the launch that failed to write it.
    "storage": "owners event external next size queued failed unused",
    # owners: number of handles that JAX holds. next: link in the list of destroyed executables. runs_natively: whether
    # native code runs the program without Python. is_asynchronous: whether calls return before the program has run.
    # checks_memory: whether a call first checks the available memory. device_programs: one record per device.
    # has_collectives: whether the devices synchronize with each other; wait_words: offsets of the futex words on which
    # they wait, in their shared memory. spare_shared: shared memory that no launch uses. instrumented: the executable
    # that runs instead while a trace is taken.
    "executable": "zero executable executable_name executable_name_size num_replicas num_partitions num_outputs "
    "addressable_devices num_addressable_devices addressable_device_logical_ids num_addressable_device_logical_ids "
    "is_deleted executable_fingerprint executable_fingerprint_size size_in_bytes output_types num_output_types dims "
    "dim_sizes num_parameters memory_kinds memory_kind_sizes output_memory_kinds output_memory_kind_sizes "
    "parameter_layouts output_layouts owners next runs_natively is_asynchronous checks_memory argument_count "
    "donated_count device_programs device_program_count has_collectives wait_words wait_word_count spare_shared "
    "shared_bytes instrumented",
    # An executable on one of its devices. number: index of the device within the executable. pending_launches: launches
    # that have not finished. spare_frame: a launch frame that no launch uses. table: initial contents of a frame's
    # address table. arguments: element type, size and layout of each. donated: numbers of the donated arguments.
    # outputs: a template record of each result buffer. aliases: the argument whose memory a result reuses, or -1.
    # shared_index: index in the address table of the memory that the devices share. trace_id: the number under which
    # launch times are recorded, or 0.
    "device_program": "number stream pending_launches entry spare_frame table table_bytes arena_bytes argument_count "
    "arguments donated_count donated result_count outputs aliases first_result shared_index trace_id",
    # The state of a launch on one device. The storages of its arguments, the storages of its results and its address
    # table follow the record. next: link in a stream's queue, or among the failed frames of a launch. error: why this
    # frame failed.
    "launch_frame": "next program event arena launch error",
    # A launch whose devices synchronize. remaining: number of devices that have not finished. is_open: 1 until the last
    # device finishes. failed_frames: frames of the devices that failed. error: the first error. A state word per device
    # follows the record: 0 not started, 1 running, 2 finished.
    "launch": "next number owners remaining is_open executable shared failed_frames error",
    # Times of instrumented launches. capacity: number of rows that follow the record. count: number of rows requested.
    "time_table": "capacity count",
    "time_row": "trace_id thread begin end",
    # sem_t of the C library.
    "semaphore": "word_0 word_1 word_2 word_3",
    # The stream of a device: a FIFO of launch frames and the thread that runs them. next: the next device's stream.
    # first, last: the queued frames. running: the frame that runs. wake: semaphore that counts queued frames.
    # free_slots: semaphore that bounds the queue.
    "stream": "next started first last running wake wake_1 wake_2 wake_3 free_slots free_slots_1 free_slots_2 "
    "free_slots_3",
}

OFFSETS: Mapping[str, Mapping[str, int]] = {
    kind: {name: WORD * place for place, name in enumerate(names.split())} for kind, names in _RECORD_FIELDS.items()
}
"""Offset of each field in bytes, by kind of record."""

SIZES: Mapping[str, int] = {kind: WORD * len(offsets) for kind, offsets in OFFSETS.items()}
"""Size of each kind of record in bytes."""

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
