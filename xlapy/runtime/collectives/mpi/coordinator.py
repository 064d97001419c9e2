"""The server of the coordinator address: processes that are started by hand find each other through it.

Process 0 runs this file as a program of its own, because MPI holds Python's lock while it initializes. First, each
process joins: it says its index, the number of processes and its version, and waits until all have joined or the time
is over. Then the MPI libraries of the processes connect, and the server is their process manager: it speaks PMI-1, the
line protocol by which MPICH's libraries exchange addresses (`PMI_PORT`).

The server ends when all MPI libraries have closed their connections. If process 0 ends first, which the end of the
standard input tells, because that is a pipe from it, the others have `LINGER_SECONDS`.

Responsible for both protocols on the side of the server. Depends only on the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

KEY_BYTES, VALUE_BYTES, NAME_BYTES = 64, 1024, 256
"""The limits that PMI-1 announces: of keys, of values, and of the name of the store."""

LINGER_SECONDS = 60.0
"""How long the server survives process 0. MPI libraries crash if it is missing when they are finalized, so it does not
end at once."""


class Coordinator:
    """What the connections share. name: that of the store, which no other job has. joined: what each process has said
    about itself, by index. connected: the number of connections of MPI libraries. finished: how many of these have
    ended. is_lost: whether one has ended without saying so."""

    def __init__(self, process_count: int, timeout: float) -> None:
        self.process_count = process_count
        self.deadline = time.monotonic() + timeout
        self.timeout = timeout
        self.name = f"xlapy_{uuid.uuid4().hex}"  # MPICH names shared memory after it
        self.values: dict[str, str] = {}
        self.joined: dict[int, dict[str, Any]] = {}
        self.error: dict[str, str] | None = None
        self.changed = threading.Condition()
        self.connected = 0
        self.finished = 0
        self.is_lost = False
        self._arrived = 0
        self._barriers = 0

    # -- joining

    def join(self, process: dict[str, Any]) -> dict[str, str] | None:
        """Waits until all processes have joined; returns None, or an error: its kind and its message."""
        with self.changed:
            self._note(self._check(process))
            self.joined.setdefault(int(process["index"]), process)
            self.changed.notify_all()
            while self.error is None and len(self.joined) < self.process_count:
                if not self.changed.wait(max(0.0, self.deadline - time.monotonic())):
                    self._note(self._missing())
                    self.changed.notify_all()
            return self.error

    def _note(self, error: dict[str, str] | None) -> None:
        """Keeps the first error."""
        if self.error is None:
            self.error = error

    def _check(self, process: dict[str, Any]) -> dict[str, str] | None:
        index, count = int(process["index"]), int(process["count"])
        first = self.joined.get(min(self.joined, default=0))
        if count != self.process_count:
            return _error(
                "count", f"process {index} is one of {count} processes, process 0 one of {self.process_count}"
            )
        if index in self.joined:
            other = self.joined[index]
            return _error("count", f"two processes have the index {index}: {_place(other)} and {_place(process)}")
        for other in self.joined.values():
            if other["host"] == process["host"] and other["machine"] != process["machine"]:
                return _error(
                    "host",
                    f"process {other['index']} and process {index} are on different machines, or in containers that "
                    f"share no memory, and both have the host name {process['host']}",
                )
        if first is not None and first["version"] != process["version"]:
            return _error(
                "version",
                f"process {first['index']} runs xlapy {first['version']}, process {index} xlapy {process['version']}",
            )
        return None

    def _missing(self) -> dict[str, str]:
        missing = [str(k) for k in range(self.process_count) if k not in self.joined]
        return _error("missing", f"of {self.process_count} processes, {', '.join(missing)} did not join in "
                      f"{self.timeout:g} seconds")  # fmt: skip

    # -- PMI-1

    def barrier(self) -> bool:
        """Waits until all MPI libraries have come; returns whether they have, and none was lost."""
        with self.changed:
            number = self._barriers
            self._arrived += 1
            if self._arrived == self.process_count:
                self._arrived = 0
                self._barriers += 1
                self.changed.notify_all()
            while self._barriers == number and not self.is_lost:
                self.changed.wait()
            return self._barriers != number

    def lose(self) -> None:
        """Ends the barriers, because a process has ended before its MPI library was finalized."""
        with self.changed:
            self.is_lost = True
            self.changed.notify_all()


def _error(kind: str, message: str) -> dict[str, str]:
    return {"kind": kind, "message": message}


def _place(process: dict[str, Any]) -> str:
    return f"{process['host']}, process id {process['pid']}"


def serve(connection: socket.socket, state: Coordinator) -> None:
    """Answers a process that joins, or its MPI library. Other connections are closed."""
    with connection, contextlib.suppress(OSError, ValueError, KeyError):
        stream = connection.makefile("rwb", buffering=0)

        def answer(line: str) -> None:
            stream.write(f"{line}\n".encode())

        line = stream.readline().decode()
        if line.startswith("{"):
            answer(json.dumps(state.join(json.loads(line)) or {}))
            return
        if not line.startswith("cmd="):  # a connection of another program, such as a port scanner
            return
        with state.changed:
            state.connected += 1
        try:
            while line and _answer_pmi(line.rstrip("\n"), state, answer):
                line = stream.readline().decode()
            if not line:
                state.lose()
        finally:
            with state.changed:
                state.finished += 1
                state.changed.notify_all()
                is_last = state.finished >= state.process_count
            if is_last:
                os._exit(0)


def _answer_pmi(line: str, state: Coordinator, answer: Callable[[str], None]) -> bool:
    """Answers a command of PMI-1. Returns whether more may follow."""
    words = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
    match words["cmd"]:
        case "initack":
            answer("cmd=initack rc=0")
            answer(f"cmd=set size={state.process_count}")
            answer(f"cmd=set rank={words['pmiid']}")
            answer("cmd=set debug=0")
        case "init":
            answer("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
        case "get_maxes":
            answer(f"cmd=maxes kvsname_max={NAME_BYTES} keylen_max={KEY_BYTES} vallen_max={VALUE_BYTES} rc=0")
        case "get_appnum":
            answer("cmd=appnum appnum=0 rc=0")
        case "get_my_kvsname":
            answer(f"cmd=my_kvsname kvsname={state.name} rc=0")
        case "get_universe_size":
            answer(f"cmd=universe_size size={state.process_count} rc=0")
        case "put":
            state.values[words["key"]] = line.split(" value=", 1)[1]
            answer("cmd=put_result rc=0 msg=success")
        case "get" if words["key"] in state.values:
            answer(f"cmd=get_result rc=0 msg=success value={state.values[words['key']]}")
        case "get":
            answer("cmd=get_result rc=-1 msg=unknown value=unknown")
        case "barrier_in":
            is_complete = state.barrier()
            answer(f"cmd=barrier_out rc={0 if is_complete else -1}")
        case "finalize":
            answer("cmd=finalize_ack rc=0")
            return False
        case command:
            answer(f"cmd={command}_result rc=-1 msg=unsupported")
    return True


def _end_with_parent(state: Coordinator) -> None:
    """Ends the server after process 0 has ended, once no MPI library is connected."""
    while os.read(0, 4096):
        pass
    with state.changed:
        state.changed.wait_for(lambda: state.finished >= state.connected, LINGER_SECONDS)
    os._exit(0)


def main(host: str, port: int, process_count: int, timeout: float) -> None:
    """Serves an address. Prints the port, or why it cannot be served."""
    try:
        server = socket.create_server((host, port), backlog=min(process_count * 2, 4096))
    except OSError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"port": server.getsockname()[1]}), flush=True)
    state = Coordinator(process_count, timeout)
    threading.Thread(target=_end_with_parent, args=(state,), daemon=True).start()
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection, state), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
