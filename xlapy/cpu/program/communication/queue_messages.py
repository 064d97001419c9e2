"""The host's side of message queues: receives and frees the messages that native code leaves in them.

`cpu.llvm.communication.queues` defines the messages and both sides of the protocol.

Responsible for reading messages. Does not depend on what the messages are used for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from xlapy.cpu.llvm.communication.host_functions import host_functions
from xlapy.cpu.llvm.communication.queues import Message as MessageRecord
from xlapy.cpu.program.communication.wait_state import SharedMemory, queue_offsets
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import MESSAGE_HEADER_BYTES
from xlapy.cpu.program.thunks import HostThunk

_OFFSETS = MessageRecord.unshared_offsets()


class Message(NamedTuple):
    """One message. `arrays` is the address of its first array, which is valid until the next message is received."""

    was_received: bool
    thunk: int
    """The number of the thunk that sent the message."""
    device: int
    arrays: int


def receive_messages(queue: int) -> Iterator[Message]:
    """Yields the messages of the queue at an address, including those that a device has received already."""
    take = host_functions().take_message
    while address := take(queue):
        taken, thunk, device = (_field(address, name) for name in ("is_taken", "thunk", "device"))
        yield Message(bool(taken), thunk, device, address + MESSAGE_HEADER_BYTES)


def _field(message: int, name: str) -> int:
    return ctypes.c_int64.from_address(message + _OFFSETS[name]).value


def clear_queue(queue: int) -> None:
    """Frees all messages of a queue to which no device sends any more."""
    host_functions().clear_queue(queue)


def clear_all_queues(program: NativeProgram, shared: SharedMemory) -> list[tuple[int, HostThunk]]:
    """Frees the messages between devices after all native code has ended.

    Returns the sending device and thunk of each message that was not received.
    """
    unreceived: list[tuple[int, HostThunk]] = []
    for offset in sorted(queue_offsets(program)):
        queue = shared.ctypes.data + offset
        for message in receive_messages(queue):
            thunk = program.host_calling_thunks[message.thunk]
            if not message.was_received:
                unreceived.append((message.device, thunk))
        clear_queue(queue)
    return unreceived
