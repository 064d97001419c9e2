"""Records: what PJRT handles point to, arrays of 8-byte words that native code and Python share.

Word 0 of every record behind a handle is 0, where PJRT keeps a function table. A field that an entry only returns has
the name of the entry's argument, so that native code can copy it.

Responsible for the fields of each kind of record, and for the records that Python makes. Does not depend on entries.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlapy.runtime.engine.records import WORD, forget, keep, read_bytes, read_words, text, words
from xlapy.runtime.engine.records import Record as EngineRecord

__all__ = ["OFFSETS", "SIZES", "WORD", "Record", "forget", "keep", "read_bytes", "read_words", "text", "words"]

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

_EXECUTABLE_FIELDS = (
    "executable executable_name executable_name_size num_replicas num_partitions num_outputs addressable_devices "
    "num_addressable_devices addressable_device_logical_ids num_addressable_device_logical_ids is_deleted "
    "executable_fingerprint executable_fingerprint_size size_in_bytes output_types num_output_types dims dim_sizes "
    "num_parameters memory_kinds memory_kind_sizes output_memory_kinds output_memory_kind_sizes parameter_layouts "
    "output_layouts"
)
"""What PJRT returns of an executable: the fields after those of the engine."""


def _offsets() -> Mapping[str, Mapping[str, int]]:
    made = {
        kind: {name: WORD * index for index, name in enumerate(names.split())} for kind, names in _PJRT_FIELDS.items()
    }
    begin = EngineRecord.sizes["executable"]
    executable = {name: begin + WORD * index for index, name in enumerate(_EXECUTABLE_FIELDS.split())}
    return {**made, **EngineRecord.offsets, "executable": {**EngineRecord.offsets["executable"], **executable}}


OFFSETS: Mapping[str, Mapping[str, int]] = _offsets()
"""Offset of each field in bytes, by kind of record."""

SIZES: Mapping[str, int] = {
    **{kind: WORD + max(offsets.values(), default=-WORD) for kind, offsets in OFFSETS.items()},
    **{kind: size for kind, size in EngineRecord.sizes.items() if kind != "executable"},
}
"""Size of each kind of record in bytes, without what follows it."""


class Record(EngineRecord):
    """A record at an address, or a new one; fields are accessed by name."""

    __slots__ = ()
    offsets = OFFSETS
    sizes = SIZES
