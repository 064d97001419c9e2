"""`HostRequest`: a request that the host fills, to exchange messages of any size.

Responsible for the memory of the request and of its messages. Does not depend on MPI.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

from xlapy.cpu.program.communication.exchange_records import ExchangeRequest, Transfer
from xlapy.runtime.collectives.process_group import Clique, ExchangeKey

_WORD, _POINTER = ctypes.c_int64, ctypes.c_void_p

_HOST_STEPS: Final = 1 << 62
"""Exchanges of the host have numbers from here on, so that they do not match those of compiled programs."""


class HostRequest:
    """A request of the host: it sends messages, and receives ones of any size."""

    def __init__(
        self,
        clique: Clique,
        program: int,
        key: ExchangeKey,
        messages: Mapping[int, bytes | memoryview],
        sources: Sequence[int],
    ) -> None:
        self._kept = [ctypes.create_string_buffer(bytes(data), len(data) + 1) for data in messages.values()]
        self._sources = tuple(sources)
        self._receive_begin = len(messages)
        count = len(messages) + len(self._sources)
        self._transfers = (_WORD * (max(1, count) * Transfer.byte_size() // 8))()
        for number, (peer, data) in enumerate(messages.items()):
            address = ctypes.addressof(self._kept[number])
            self._fill(number, is_receive=0, peer=peer, address=address, count=1, block_bytes=len(data))
        for number, peer in enumerate(self._sources, self._receive_begin):
            self._fill(number, is_receive=1, peer=peer)
        self._word = ctypes.c_int32(0)
        self._request = (_WORD * (ExchangeRequest.byte_size() // 8))()
        values = {
            "clique": clique.address,
            "program": program,
            "launch": key.launch,
            "exchange": key.exchange + _HOST_STEPS,
            "step": key.step,
            "transfers": ctypes.addressof(self._transfers),
            "transfer_count": count,
            "word": ctypes.addressof(self._word),
            "value": 1,
        }
        for name, value in values.items():
            self._request[ExchangeRequest.offsets()[name] // 8] = value

    @property
    def address(self) -> int:
        return ctypes.addressof(self._request)

    def _fill(self, number: int, **values: int) -> None:
        for name, value in values.items():
            self._transfers[(number * Transfer.byte_size() + Transfer.offsets()[name]) // 8] = value

    def _field(self, number: int, name: str) -> int:
        return self._transfers[(number * Transfer.byte_size() + Transfer.offsets()[name]) // 8]

    def take(self) -> dict[int, bytes]:
        """Returns the messages that have come, and frees their memory."""
        received: dict[int, bytes] = {}
        for number, peer in enumerate(self._sources, self._receive_begin):
            address = self._field(number, "address")
            if address:
                received[peer] = ctypes.string_at(address, self._field(number, "block_bytes"))
        self.free()
        return received

    def free(self) -> None:
        """Frees the memory of messages that have come. The transport must not access the request any more."""
        for number in range(self._receive_begin, self._receive_begin + len(self._sources)):
            address = self._field(number, "address")
            if address:
                _free(address)
                self._fill(number, address=0)


_free: Any = ctypes.CFUNCTYPE(None, _POINTER)(("free", ctypes.CDLL(None)))
