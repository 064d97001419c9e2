"""`PeerWatch`: notices at once that a process has ended, by a connection to each of its neighbors.

The processes form a ring (`neighbors`). The system closes the connections of a process that ends, however it ends.
Neighbors tell the other processes through the transport. MPI itself does not report a process that has ended.

A process that is stopped keeps its connections. It is noticed by time-outs of exchanges, and at the end of the
processes by the lack of heartbeats.

Responsible for noticing. Does not depend on MPI, or on what a lost process means.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

HEARTBEAT_SECONDS: Final = 1.0

_SELECT_SECONDS: Final = 0.1
"""How long the thread waits for data at a time, and so how soon `stop` ends it."""

_ALIVE, _LEAVING, _FINALIZING, _GONE = b".", b"L", b"F", b"G"
"""What neighbors send: a heartbeat; that this process leaves the process group; then that it finalizes MPI, or ends
without, because it has not seen all processes leave."""


class PeerWatch:
    """The connections of this process to its neighbors.

    connections: those that `connect_neighbors` has made, with the index of each neighbor. on_lost: called with the
    index of a neighbor that has ended without leaving.
    """

    def __init__(self, connections: Mapping[socket.socket, int], on_lost: Callable[[int], Any]) -> None:
        self._on_lost = on_lost
        self._connections = dict(connections)
        self._heard: dict[int, float] = {}
        self._left: set[int] = set()
        self._closed: set[int] = set()
        self._ended: dict[int, float] = {}
        self._said: dict[int, bytes] = {}
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        if not connections:
            return
        for connection in connections:
            connection.settimeout(HEARTBEAT_SECONDS)
        self._thread = threading.Thread(target=self._run, name="xlapy-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        for one, neighbor in self._connections.items():
            selector.register(one, selectors.EVENT_READ)
            self._heard[neighbor] = time.monotonic()
        beat = 0.0
        while self._connections and not self._is_stopping:
            if time.monotonic() - beat >= HEARTBEAT_SECONDS:
                beat = time.monotonic()
                self._send(_ALIVE)
            for key, _ in selector.select(_SELECT_SECONDS):
                connection: Any = key.fileobj
                peer = self._connections[connection]
                data = _received(connection)
                self._heard[peer] = time.monotonic()
                self._note(peer, data)
                if not data:
                    selector.unregister(connection)
                    del self._connections[connection]
                    self._closed.add(peer)
                    if peer in self._left:
                        self._ended[peer] = time.monotonic()
                    elif not self._is_stopping:
                        self._on_lost(peer)

    def _send(self, data: bytes) -> None:
        for connection in list(self._connections):
            try:
                connection.sendall(data)
            except OSError:  # what is to be read tells more
                continue

    def leave(self) -> None:
        """Tells the neighbors that this process will end."""
        self._send(_LEAVING)

    def silent(self, seconds: float) -> int | None:
        """Returns a neighbor that was not heard of for some seconds, or None."""
        limit = time.monotonic() - seconds
        present = {peer: heard for peer, heard in self._heard.items() if peer in self._connections.values()}
        return next((peer for peer, heard in present.items() if heard < limit), None)

    def is_deserted(self, seconds: float) -> bool:
        """Returns whether a neighbor that had left has ended some seconds ago. Either all processes have left, or the
        neighbor does not wait for one of them any more, of which this process may not hear in another way."""
        return any(ended <= time.monotonic() - seconds for ended in list(self._ended.values()))

    def _note(self, peer: int, data: bytes) -> None:
        if _LEAVING in data:
            self._left.add(peer)
        if _FINALIZING in data or _GONE in data:
            self._said[peer] = _GONE if _GONE in data else _FINALIZING

    def can_finalize(self) -> bool:
        """Returns whether the neighbors, which have left, finalize MPI or will do so. They have not waited for this
        process if it stood still. Watching has ended."""
        for connection, peer in self._connections.items():
            connection.setblocking(False)
            self._note(peer, _drained(connection))
            if _is_closed(connection):
                self._closed.add(peer)
        ended = self._closed - {peer for peer, said in self._said.items() if said == _FINALIZING}
        return not ended and _GONE not in self._said.values()

    def end(self, finalizes: bool) -> None:
        """Tells the neighbors how this process ends."""
        self._send(_FINALIZING if finalizes else _GONE)

    def stop(self) -> None:
        """Ends watching. The connections stay open until the process ends."""
        self._is_stopping = True
        if self._thread is not None:
            self._thread.join(2 * HEARTBEAT_SECONDS)


def _drained(connection: socket.socket) -> bytes:
    """What has come already."""
    data = b""
    try:
        while more := connection.recv(4096):
            data += more
    except OSError:
        pass
    return data


def _is_closed(connection: socket.socket) -> bool:
    """Whether nothing more can come. What has come is read already."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except OSError:
        return b""
