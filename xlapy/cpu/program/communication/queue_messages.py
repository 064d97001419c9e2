"""The host's side of message queues: receives and frees the messages that native code leaves in them.

`QueueField` and `MessageField` define the layout; `cpu/llvm/communication/transfers.py` emits the other side.

Responsible for reading and freeing messages. Does not depend on what the messages are used for.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from xlapy.cpu.program.communication.wait_state import SharedMemory, queue_offsets
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import MESSAGE_HEADER_BYTES, QUEUE_BYTES, QueueField
from xlapy.cpu.program.thunks import HostThunk

_HEADER = struct.Struct("QIIqq")
_library: Any = ctypes.CDLL(None)


class Message(NamedTuple):
    """One message. `arrays` is the address of its first array, which is valid until the next message is received."""

    was_received: bool
    thunk: int
    """The number of the thunk that sent the message."""
    device: int
    arrays: int


def receive_messages(queue: int) -> Iterator[Message]:
    """Yields the messages of the queue at an address, including those that a device has received already."""
    done = ctypes.c_uint64.from_address(queue + QueueField.DONE)
    while address := ctypes.c_uint64.from_address(done.value or queue).value:
        _library.free(ctypes.c_void_p(done.value))
        done.value = address
        _, _, was_received, thunk, device = _HEADER.unpack((ctypes.c_char * _HEADER.size).from_address(address))
        yield Message(bool(was_received), thunk, device, address + MESSAGE_HEADER_BYTES)


def clear_queue(queue: int) -> None:
    """Frees all messages of a queue to which no device sends any more."""
    for _ in receive_messages(queue):
        pass
    _library.free(ctypes.c_void_p(ctypes.c_uint64.from_address(queue + QueueField.DONE).value))
    ctypes.memset(queue, 0, QUEUE_BYTES)


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
