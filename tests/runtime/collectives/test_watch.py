"""The watch of neighboring processes: what their heartbeats, farewells and closed connections mean."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from xlapy.runtime.collectives.mpi.watch import PeerWatch

Ends = tuple[PeerWatch, socket.socket, list[int]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A watch with neighbor 7, the end of the neighbor's connection, and the processes that are lost."""
    lost: list[int] = []
    own, other = socket.socketpair()
    watch = PeerWatch({own: 7}, lost.append)
    yield watch, other, lost
    watch.stop()
    own.close()
    other.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_neighbor_that_ends_without_leaving_is_lost(ends: Ends) -> None:
    watch, other, lost = ends
    other.sendall(b".")
    other.close()
    wait_for(lambda: lost == [7])
    assert not watch.is_deserted(0)


def test_a_neighbor_that_has_left_deserts_when_it_ends(ends: Ends) -> None:
    watch, other, lost = ends
    other.sendall(b".L")
    time.sleep(0.05)
    assert not watch.is_deserted(0)
    other.close()
    wait_for(lambda: watch.is_deserted(0))
    assert not watch.is_deserted(100)
    assert lost == [] and not watch.can_finalize()


def test_a_neighbor_that_is_silent(ends: Ends) -> None:
    watch, other, _ = ends
    assert watch.silent(100) is None
    wait_for(lambda: watch.silent(0.2) == 7)
    other.sendall(b".")
    wait_for(lambda: watch.silent(0.2) is None)
    assert other.recv(100).startswith(b".")
