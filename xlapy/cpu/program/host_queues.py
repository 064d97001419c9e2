"""Messages that native code leaves in queues, as the host takes them.

`QueueField` and `MessageField` say what lies where; `cpu/llvm/transfers.py` is the other side.

Owns: reading and freeing them. Must not know: what becomes of them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from xlapy.cpu.program.thunks import MESSAGE_HEADER_BYTES, QUEUE_BYTES, NativeProgram, QueueField, TransferThunk
from xlapy.cpu.program.wait_state import Memory, queues_of

_HEADER = struct.Struct("QIIqq")
_library: Any = ctypes.CDLL(None)


class Message(NamedTuple):
    """One message: where its arrays begin, until the next one is taken."""

    is_taken: bool
    thunk: int
    device: int
    arrays: int


def take(queue: int) -> Iterator[Message]:
    """The messages of the queue at an address, those that a device has taken among them."""
    done = ctypes.c_uint64.from_address(queue + QueueField.DONE)
    while address := ctypes.c_uint64.from_address(done.value or queue).value:
        _library.free(ctypes.c_void_p(done.value))
        done.value = address
        _, _, is_taken, thunk, device = _HEADER.unpack((ctypes.c_char * _HEADER.size).from_address(address))
        yield Message(bool(is_taken), thunk, device, address + MESSAGE_HEADER_BYTES)


def clear(queue: int) -> None:
    """Gives back the last message; nobody sends to the queue any more."""
    for _ in take(queue):
        pass
    _library.free(ctypes.c_void_p(ctypes.c_uint64.from_address(queue + QueueField.DONE).value))
    ctypes.memset(queue, 0, QUEUE_BYTES)


def take_all(program: NativeProgram, shared: Memory) -> list[tuple[int, TransferThunk]]:
    """Gives back the memory of what devices sent to each other, when no native code runs.

    The senders of what nobody took, and where they sent it.
    """
    left: list[tuple[int, TransferThunk]] = []
    for place in sorted(queues_of(program)):
        queue = shared.ctypes.data + place
        for message in take(queue):
            thunk = program.callbacks[message.thunk]
            assert isinstance(thunk, TransferThunk)
            if not message.is_taken:
                left.append((message.device, thunk))
        clear(queue)
    return left
