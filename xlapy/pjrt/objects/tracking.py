"""What frameworks register with devices without effect on programs: host memory for DMA, and names of work to track.

Devices use the memory of the host, so every range is mapped already.

Responsible for checking that each registration ends once. Does not depend on buffers or programs.
"""

from __future__ import annotations

from typing import Any

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.objects.handles import HandleTable
from xlapy.pjrt.objects.records import read_bytes

_mapped: dict[int, int] = {}
"""The sizes of mapped ranges, by address."""
_lock = fork_safe_lock()


@entry("Client_DmaMap")
def client_dma_map(args: Any) -> None:
    """Registers a range of host memory."""
    if not args.data or not args.size:
        raise InvalidArgumentError(
            codes.MAPPED_MEMORY, f"{args.size} bytes at {args.data or 0:#x} are not a range of memory"
        )
    with _lock:
        for address, size in _mapped.items():
            if args.data < address + size and address < args.data + args.size:
                raise InvalidArgumentError(
                    codes.MAPPED_MEMORY,
                    f"{args.size} bytes at {args.data:#x} overlap {size} bytes at {address:#x}, which are mapped",
                )
        _mapped[args.data] = args.size


@entry("Client_DmaUnmap")
def client_dma_unmap(args: Any) -> None:
    """Ends a registration, which must have begun at the same address."""
    with _lock:
        if _mapped.pop(args.data, None) is None:
            raise InvalidArgumentError(codes.MAPPED_MEMORY, f"no memory is mapped at {args.data or 0:#x}")


_events: HandleTable[str] = HandleTable("tracking event")
"""Descriptions of work that a framework tracks."""


@entry("Device_CreateAsyncTrackingEvent")
def device_create_async_tracking_event(args: Any) -> None:
    args.event = _events.add(read_bytes(args.description, args.description_size).decode("utf-8", "replace"))


@entry("AsyncTrackingEvent_Destroy")
def async_tracking_event_destroy(args: Any) -> None:
    _events.remove(args.event)
