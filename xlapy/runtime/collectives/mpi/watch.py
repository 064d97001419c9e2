"""`PeerWatch`: notices at once that a process has ended, by a connection to each of its neighbors.

Process *i* connects to process *i + 1*, and the last one to the first. The system closes the connections of a process
that ends, however it ends. What neighbors notice, they tell the others through the transport. MPI itself does not tell.

A process that is stopped keeps its connections. It is noticed by time-outs of exchanges, and at the end of the
processes by the lack of heartbeats.

Responsible for noticing. Does not depend on MPI, or on what a lost process means.
"""

from __future__ import annotations

import hmac
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from xlapy.base.logging import logger

HEARTBEAT_SECONDS: Final = 1.0
CONNECT_SECONDS: Final = 10.0

_SELECT_SECONDS: Final = 0.1
"""How soon watching ends."""

_ALIVE, _LEAVING, _FINALIZING, _GONE = b".", b"L", b"F", b"G"
"""What neighbors send: a heartbeat; that this process leaves the process group; then that it finalizes MPI, or ends
without, because it has not seen all processes leave."""

_TOKEN_BYTES: Final = 16


class PeerWatch:
    """The connections of this process to its neighbors.

    hosts: the names of the machines of all processes. allgather: returns the values that the processes give.
    on_lost: called with the index of a neighbor that has ended without leaving.
    """

    def __init__(
        self,
        process_index: int,
        hosts: Sequence[str],
        allgather: Callable[[Any], list[Any]],
        on_lost: Callable[[int], Any],
    ) -> None:
        self._index, self._count, self._hosts = process_index, len(hosts), hosts
        self._on_lost = on_lost
        self._connections: dict[socket.socket, int] = {}
        self._heard: dict[int, float] = {}
        self._left: set[int] = set()
        self._closed: set[int] = set()
        self._said: dict[int, bytes] = {}
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        if self._count == 1:
            return
        is_local = len(set(hosts)) == 1
        with socket.create_server(("127.0.0.1" if is_local else "", 0), backlog=8) as server:
            places = allgather((server.getsockname()[1], secrets.token_bytes(_TOKEN_BYTES)))
            try:
                self._connect(server, places)
            except OSError as error:
                logger.info("process %d has no connection to its neighbors: %s", process_index, error)
        self._thread = threading.Thread(target=self._run, name="xlapy-watch", daemon=True)
        self._thread.start()

    def _connect(self, server: socket.socket, places: Sequence[tuple[int, bytes]]) -> None:
        successor = (self._index + 1) % self._count
        port, token = places[successor]
        host = "127.0.0.1" if self._hosts[successor] == self._hosts[self._index] else self._hosts[successor]
        out = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
        out.sendall(token)
        self._connections[out] = successor
        deadline = time.monotonic() + CONNECT_SECONDS
        while time.monotonic() < deadline:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            accepted, _ = server.accept()
            accepted.settimeout(CONNECT_SECONDS)
            if hmac.compare_digest(accepted.recv(_TOKEN_BYTES, socket.MSG_WAITALL), places[self._index][1]):
                self._connections[accepted] = (self._index - 1) % self._count
                break
            accepted.close()
        for connection in self._connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(HEARTBEAT_SECONDS)

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
                    if peer not in self._left and not self._is_stopping:
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
