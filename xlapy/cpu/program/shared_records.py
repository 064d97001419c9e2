"""Layouts of the records in memory that native code shares with the host and with other devices.

All offsets and sizes are in bytes.

Responsible for the layouts. Does not depend on thunks, LLVM, or what the records are used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


def round_to_cache_lines(size: int) -> int:
    """Rounds a size up to a multiple of 64, the size of a cache line."""
    return -(-size // 64) * 64


# -- custom calls


class CallBlockField(IntEnum):
    """Offsets of the fields of a call block: the record through which native code calls a custom-call target.

    FAILURE: the status that the target returned, 0 for success. READY: 0 if native code must call the host first; if it
    is still 0 after that, the host has executed the call itself. OPERANDS, RESULTS: where native code stores the
    addresses of arrays. ARGUMENT: the address of the call frame. OPAQUE and LENGTH: the backend configuration of the
    instruction. AWAIT: the function that waits for an asynchronous call. STATUS: 64 bytes for the target's status.
    """

    CODE = 0
    FAILURE = 8
    READY = 16
    OPERANDS = 24
    ARGUMENT = 32
    RESULTS = 40
    OPAQUE = 48
    AWAIT = 48
    LENGTH = 56
    STATUS = 64


CALL_BLOCK_BYTES = 128
"""The size of a call block."""


# -- queues


QUEUE_BYTES = 128
"""The size of a queue's own record; messages are allocated separately."""


QUEUE_SENT_OFFSET = 16
"""The offset in a queue of its number of messages, on which devices wait."""


MESSAGE_HEADER_BYTES = 64
"""The size of a message's header; the arrays of the message follow it."""


def message_places(sizes: Sequence[int]) -> list[int]:
    """Returns the offsets of arrays in a message, and the size of the message. sizes: those of the arrays."""
    places = [MESSAGE_HEADER_BYTES]
    for size in sizes:
        places.append(places[-1] + round_to_cache_lines(size))
    return places


# -- rendezvous and waiting

ADDRESS_BYTES = 8
"""The size of an address in the staging memory of a direct rendezvous. Member m publishes array n of count at
m * count + n."""

RENDEZVOUS_HEADER_BYTES = 128
"""The size of a rendezvous record before its members' counters. It holds the number of completed rendezvous, of members
that have arrived, and of members that sleep."""


def rendezvous_header_bytes(members: int) -> int:
    """The size of a rendezvous record with its members' counters, before the staging memory for operands."""
    return RENDEZVOUS_HEADER_BYTES + round_to_cache_lines(4 * members)


EXCHANGE_SLOT_HEADER_BYTES = 192
"""The size of an exchange slot before its transfers: the launch, the step, and the request to the transport."""

TRANSFER_BYTES = 80
"""The size of the record of a transfer."""


def exchange_slot_bytes(transfers: int) -> int:
    """The size of an exchange slot, through which a group exchanges data with other processes."""
    return EXCHANGE_SLOT_HEADER_BYTES + TRANSFER_BYTES * transfers


LAUNCH_NUMBER_OFFSET = 8
"""The offset in shared memory of the number of the launch, which processes have agreed on."""

WAIT_RECORD_BYTES = 64
"""The size of the record that says what a device waits for. Shared memory starts with the cancellation word, padded to
this size, followed by one such record per device."""

HOST_WAIT_OFFSET = 1 << 32
"""Added to the number of a thunk in a wait record if the device waits for the host instead of another device."""
