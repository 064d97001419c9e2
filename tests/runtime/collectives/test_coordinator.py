"""The server of the coordinator address, and connections that are not those of processes."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest

from xlapy.runtime.collectives.mpi.coordinator import Coordinator, serve


def answer(state: Coordinator, sent: bytes) -> bytes:
    """Returns what the server answers to a connection that sends something and ends."""
    own, other = socket.socketpair()
    with other:
        other.sendall(sent)
        other.shutdown(socket.SHUT_WR)
        serve(own, state)
        try:
            return other.recv(1000)
        except ConnectionResetError:  # the server has not read all that was sent
            return b""


def process(index: int) -> bytes:
    facts: dict[str, Any] = {"index": index, "count": 2, "version": "1", "host": "a", "machine": "b", "pid": 1}
    return f"{json.dumps(facts)}\n".encode()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"])
def test_a_stranger_does_not_end_the_job(sent: bytes) -> None:
    state = Coordinator(2, 20.0)
    assert answer(state, sent) == b""
    assert (state.connected, state.finished, state.is_lost, state.joined) == (0, 0, False, {})


def test_processes_join_while_strangers_connect() -> None:
    state = Coordinator(2, 20.0)
    answers: list[bytes] = []
    first = threading.Thread(target=lambda: answers.append(answer(state, process(0))))
    first.start()
    assert answer(state, b"") == b""
    answers.append(answer(state, process(1)))
    first.join()
    assert answers == [b"{}\n"] * 2


def test_an_mpi_library_that_ends_without_finalizing_is_lost() -> None:
    state = Coordinator(2, 20.0)
    assert answer(state, b"cmd=init pmi_version=1 pmi_subversion=1\n").startswith(b"cmd=response_to_init")
    assert (state.connected, state.finished, state.is_lost) == (1, 1, True)
