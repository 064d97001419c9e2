"""Connections between neighboring processes, whose addresses may be unknown to others or those of other programs."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from xlapy.runtime.collectives.mpi import neighbors
from xlapy.runtime.collectives.mpi.neighbors import Endpoint, connect_neighbors, network_name, own_hosts

NOWHERE = "256.256.256.256"


class Ring:
    """Processes in threads. networks, hosts: those that each process gives."""

    def __init__(self, networks: Sequence[str], hosts: Sequence[tuple[str, ...]]) -> None:
        self.networks, self.hosts = networks, hosts
        self.count = len(networks)
        self.barrier = threading.Barrier(self.count)
        self.given: list[Any] = [None] * self.count
        self.connections: list[dict[socket.socket, int]] = [{}] * self.count

    def connect(self) -> list[list[int]]:
        """Connects the processes; returns the neighbors that each has."""
        threads = [threading.Thread(target=self._run, args=(index,)) for index in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [sorted(found.values()) for found in self.connections]

    def _run(self, index: int) -> None:
        def allgather(value: Any) -> list[Any]:
            self.given[index] = value
            self.barrier.wait()
            values = list(self.given)
            self.barrier.wait()
            return values

        self.connections[index] = connect_neighbors(
            index, self.count, allgather, self.networks[index], self.hosts[index]
        )

    def close(self) -> None:
        for found in self.connections:
            for one in found:
                one.close()


@contextmanager
def ring(networks: Sequence[str], hosts: Sequence[tuple[str, ...]]) -> Iterator[Ring]:
    made = Ring(networks, hosts)
    try:
        yield made
    finally:
        made.close()


def test_processes_of_one_machine_use_its_loopback_address() -> None:
    with ring(["a"] * 3, [(NOWHERE,)] * 3) as made:
        assert made.connect() == [[1, 2], [0, 2], [0, 1]]
        for index, found in enumerate(made.connections):
            assert {one.getpeername()[0] for one in found} == {"127.0.0.1"}
            (out,) = [one for one, neighbor in found.items() if neighbor == (index + 1) % 3]
            out.sendall(bytes([index]))
        for index, found in enumerate(made.connections):
            (entry,) = [one for one, neighbor in found.items() if neighbor == (index - 1) % 3]
            assert entry.recv(1) == bytes([(index - 1) % 3])


def test_two_processes_have_two_connections() -> None:
    with ring("ab", [("127.0.0.1",)] * 2) as made:
        assert made.connect() == [[1, 1], [0, 0]]


def test_a_process_is_found_at_any_of_its_addresses() -> None:
    """A name that nobody knows comes first, then the address of another program, which does not answer as it should."""
    with socket.create_server(("127.0.0.2", 0)) as other, pytest.MonkeyPatch.context() as patch:
        port = other.getsockname()[1]
        served = neighbors._listen

        def listen(is_local: bool) -> socket.socket:
            assert not is_local
            return socket.create_server(("127.0.0.1", port)) if threading.current_thread() is first else served(False)

        patch.setattr(neighbors, "_listen", listen)
        made = Ring("ab", [(NOWHERE, "127.0.0.2", "127.0.0.1"), ("127.0.0.1",)])
        first = threading.Thread(target=made._run, args=(0,))
        second = threading.Thread(target=made._run, args=(1,))
        answer = threading.Thread(target=answer_wrongly, args=(other,))
        for thread in (first, second, answer):
            thread.start()
        for thread in (first, second, answer):
            thread.join()
        assert [sorted(found.values()) for found in made.connections] == [[1, 1], [0, 0]]
        made.close()


def answer_wrongly(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        assert len(connection.recv(100)) == 16
        connection.sendall(b"wrong" * 10)


def test_a_process_that_cannot_be_reached_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Process 0 cannot be reached: its predecessor, process 2, has no connection to it, and all others have theirs."""
    monkeypatch.setattr(neighbors, "CONNECT_SECONDS", 0.5)
    with ring("abc", [(NOWHERE,), ("127.0.0.1",), ("127.0.0.1",)]) as made, caplog.at_level(logging.WARNING):
        assert made.connect() == [[1], [0, 2], [1]]
        for found in made.connections:
            for one in found:
                one.setblocking(False)
                with pytest.raises(BlockingIOError):
                    one.recv(1)
    assert "process 2 cannot connect to process 0" in caplog.text and NOWHERE in caplog.text


def test_a_stranger_is_not_a_neighbor() -> None:
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = Endpoint(server.getsockname()[1], "a", ())
        thread = threading.Thread(
            target=neighbors._accept, args=(server, endpoint.token, time.monotonic() + 60, accepted)
        )
        thread.start()
        with socket.create_connection(server.getsockname()) as stranger:
            stranger.sendall(b"0" * 16)
            assert stranger.recv(1) == b""
        with socket.create_connection(server.getsockname()) as gone:
            gone.sendall(b"1")
        found = neighbors._connect(endpoint, "a", time.monotonic() + 60)
        thread.join()
    assert found is not None and len(accepted) == 1
    found.close()
    accepted[0].close()


def test_own_addresses_are_not_loopback_addresses() -> None:
    assert network_name() == network_name() != ""
    hosts = own_hosts()
    assert hosts[-1] == socket.gethostname()
    assert not any(host.startswith("127.") or host == "::1" for host in hosts[:-1])
