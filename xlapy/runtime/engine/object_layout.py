"""Where objects of Python keep what native calls read: slots of `Buffer`, and fields of NumPy's arrays.

The places are found by looking for known values in an object, or checked that way, so that they are right for every
build of Python and NumPy.

Responsible for these places. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.runtime.buffer import Buffer
from xlapy.runtime.engine.native_engine import leak
from xlapy.runtime.engine.records import WORD, Record

_HEAD = object.__basicsize__
"""Bytes with which every object begins; the last of its words is the class."""

_ARRAY_FIELDS = {"elements": 0, "rank": 1, "dimensions": 2, "dtype": 5, "flags": 6}
"""Fields of an array: the number of the word after the head of the object. NumPy guarantees them to compiled code."""


@SingleFlight
def object_layout() -> int | None:
    """The address of the record `object_layout`; None if objects of this Python have another layout."""
    class_offset = _HEAD - WORD
    slots = _slots_of_buffer()
    if slots is None or any(_word(one, class_offset) != id(type(one)) for one in (_HEAD, "text", np.zeros(1))):
        return None
    record = Record(
        "object_layout",
        class_offset=class_offset,
        buffer_class=id(Buffer),
        none=id(None),
        not_implemented=id(NotImplemented),
        array_class=id(np.ndarray) if _are_array_fields_known() else 0,
    )
    for name in ("type", "handle", "array"):
        record[f"{name}_offset"] = slots[f"_{name}"]
    for name, number in _ARRAY_FIELDS.items():
        record[f"{name}_offset"] = _HEAD + number * WORD
    leak(Buffer, np.ndarray)
    return record.address


def _slots_of_buffer() -> dict[str, int] | None:
    """The offset of each slot of a buffer."""
    buffer = object.__new__(Buffer)
    offsets = range(_HEAD, Buffer.__basicsize__, WORD)
    slots: dict[str, int] = {}
    for name in ("_type", "_handle", "_array"):
        value: Any = object()
        setattr(buffer, name, value)
        found = [offset for offset in offsets if _word(buffer, offset) == id(value)]
        if len(found) != 1:
            return None
        slots[name] = found[0]
    return slots


def _are_array_fields_known() -> bool:
    """Whether the fields of some arrays are where they are expected."""
    row = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    arrays: list[np.ndarray[Any, Any]] = [
        row,
        row[:, 1:],
        row.T,
        row[0, 0, 0, None].reshape(()),
        np.zeros((0, 3), np.int8),
        np.frombuffer(b"12345678"),
    ]
    return np.ndarray.__basicsize__ >= _HEAD + 7 * WORD and all(map(_is_array_as_expected, arrays))


def _is_array_as_expected(array: np.ndarray[Any, Any]) -> bool:
    fields = {name: _word(array, _HEAD + number * WORD) for name, number in _ARRAY_FIELDS.items()}
    rank, flags = (fields[name] & 0xFFFFFFFF for name in ("rank", "flags"))
    sizes = tuple((ctypes.c_int64 * array.ndim).from_address(fields["dimensions"])) if array.ndim else ()
    is_dense = array.flags.c_contiguous, array.flags.aligned
    return (
        fields["elements"] == array.__array_interface__["data"][0]
        and fields["dtype"] == id(array.dtype)
        and (rank, sizes) == (array.ndim, array.shape)
        and is_dense == (bool(flags & 1), bool(flags & 0x100))
    )


def _word(value: Any, offset: int) -> int:
    return ctypes.c_uint64.from_address(id(value) + offset).value
