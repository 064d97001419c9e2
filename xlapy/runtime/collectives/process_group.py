"""`ProcessGroup`: the processes that execute programs together, and what they agree on.

`xlapy.distributed.initialize` sets the process group. A `Transport` moves bytes between its processes: those of
compiled programs through `post_exchange`, a native function, and those of the host through `exchange_messages`. A
`Clique` is the set of processes that take part in the launches of some devices.

    group = current_process_group()
    devices = group.allgather(4, what="the number of devices")      # [4, 4, 4, 4]: one value per process
    clique = group.transport.clique((0, 1), key=b"devices 0 to 7")

Responsible for the interface between processes and for what the host exchanges. Does not depend on MPI.
"""

from __future__ import annotations

import itertools
import os
import pickle
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError, XlaError


@dataclass(frozen=True, slots=True)
class ExchangeKey:
    """Identifies an exchange between processes. All processes that take part give equal keys.

    launch: number of the launch, from `Clique.begin_launch`. exchange: number of the instruction. step: how often it
    was executed in the launch.
    """

    launch: int
    exchange: int
    step: int = 0


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """What a process tells of an error that ends it. key: equal for equal errors. is_shown: whether it is shown."""

    key: int
    is_shown: bool


class Clique(Protocol):
    """Processes that execute launches together. A clique that has failed stays so."""

    @property
    def address(self) -> int:
        """The record of the clique, for `ExchangeRequest.clique`."""
        ...

    @property
    def processes(self) -> Sequence[int]:
        """The indices of the processes, ascending."""
        ...

    @property
    def failure(self) -> XlaError | None:
        """Why the clique has failed, or None."""
        ...

    def name_of(self, process: int) -> str:
        """Names a process and its devices: `process 1 (cpu:2, cpu:3)`."""
        ...

    def names_of(self, processes: Sequence[int]) -> str:
        """Names some processes and their devices."""
        ...

    def begin_launch(self, program: int) -> int:
        """Returns the number of a new launch, from 1 on. program: see `Transport.program_identity`.

        The processes of a clique begin the same launches in the same order. If another process begins another program
        as this launch, the clique fails. Raises the clique's failure if it has failed.
        """
        ...

    def fail(self, message: str) -> None:
        """Fails the clique in all of its processes. Pending exchanges end with `ExchangeStatus.FAILED`."""
        ...


class Transport(Protocol):
    """Moves bytes between processes. One thread or another moves data while exchanges are pending."""

    @property
    def address(self) -> int:
        """The record of the transport, the first argument of the native functions."""
        ...

    @property
    def post_exchange_address(self) -> int:
        """The native function `void post_exchange(ptr transport, ptr request)`; any thread may call it."""
        ...

    @property
    def start_exchange_address(self) -> int:
        """The native function `void start_exchange(ptr transport, ptr request)`: `post_exchange` without polling, for
        asynchronous operations."""
        ...

    @property
    def drive_exchanges_address(self) -> int:
        """The native function `void drive_exchanges(ptr transport, ptr word, i32 seen)`: moves data for a short time,
        until a word that the completion of a request changes differs from the value seen."""
        ...

    @property
    def await_exchange_address(self) -> int:
        """The native function `void await_exchange(ptr transport, ptr request)`, which waits until the transport no
        longer accesses a request. After `fail_clique` that takes a second at most."""
        ...

    @property
    def begin_launch_address(self) -> int:
        """The native function `i64 begin_launch(ptr transport, ptr clique, ptr program)`: `Clique.begin_launch`, with 0
        for a clique that has failed."""
        ...

    @property
    def fail_clique_address(self) -> int:
        """The native function `void fail_clique(ptr transport, ptr clique, ptr text, i64 length)`: `Clique.fail`."""
        ...

    def clique(self, processes: Sequence[int], key: bytes = b"", devices: Mapping[int, str] | None = None) -> Clique:
        """Returns the clique of some processes, this one included.

        key: tells cliques of the same processes apart, such as those of different devices, whose launches have no
        common order. devices: the names of the devices of each process, for errors. Equal processes and keys return the
        same clique. A clique that has failed is returned as such.
        """
        ...

    def program_identity(self, fingerprint: int, name: str) -> int:
        """Returns the address of the `ProgramIdentity` of a program. It lives as long as the process."""
        ...

    def exchange_messages(
        self,
        clique: Clique,
        program: int,
        key: ExchangeKey,
        messages: Mapping[int, bytes | memoryview],
        sources: Sequence[int],
        *,
        what: str,
        timeout: float | None = None,
    ) -> dict[int, bytes]:
        """Sends a message to each process of `messages`; returns one from each of `sources`.

        what: describes the exchange in errors. timeout: seconds; None: the flag `collective_timeout`. A time-out fails
        the clique. Raises the clique's failure.
        """
        ...

    def await_exchange(self, request: int) -> None:
        """Waits until the transport no longer accesses a request, given by its address. `Clique.fail` comes first if
        the launch is canceled."""
        ...

    def missing_processes(self, request: int) -> tuple[int, ...]:
        """Returns the processes that a pending request, given by its address, still waits for."""
        ...

    def check_process(self) -> None:
        """Raises `ExecutionError` in the child of a fork, which cannot use the transport."""
        ...

    def report_error(self, key: int, *, is_shown: bool) -> None:
        """Tells the other processes that an error ends this one, and whether it is shown. key: 1 to 2^62 - 1, equal
        for equal errors."""
        ...

    def reported_error(self, process: int) -> ErrorReport | None:
        """Returns what a process has told by `report_error`, or None."""
        ...

    def is_present(self, process: int) -> bool:
        """Whether a process has neither left the process group nor ended."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether a clique of this process has failed."""
        ...

    def shutdown(self) -> bool:
        """Leaves the other processes, once they leave, too. Returns whether all have."""
        ...


class KeyValueStore(Protocol):
    """A store of keys and values that all processes reach, such as that of JAX's coordination service."""

    def put(self, key: str, value: bytes) -> None:
        """Stores a value under a key that has none. Raises the store's error."""
        ...

    def get(self, key: str, timeout: float) -> bytes:
        """Returns the value of a key; waits for it for `timeout` seconds. Raises the store's error."""
        ...


CONTROL_PROGRAM_NAME: Final = "xlapy.distributed"


class ProcessGroup:
    """The processes of a program that was started several times. Processes call the methods in the same order."""

    def __init__(self, process_index: int, process_count: int, transport: Transport) -> None:
        self.process_index = process_index
        self.process_count = process_count
        self.transport = transport
        self._clique = transport.clique(range(process_count), b"control")
        self._program = transport.program_identity(0, CONTROL_PROGRAM_NAME)
        self._launch = self._clique.begin_launch(self._program)
        self._steps = itertools.count()
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def allgather(self, value: Any, *, what: str, timeout: float | None = None) -> list[Any]:
        """Returns the values that the processes give, in the order of their indices. Values are pickled.

        what: names the value in errors, such as "the number of devices". timeout: seconds; None: the flag
        `collective_timeout`. Raises `ExecutionError` if a process fails, does not call this in time, or calls it for
        something else.
        """
        self.transport.check_process()
        with self._lock:
            others = [one for one in range(self.process_count) if one != self.process_index]
            key = ExchangeKey(self._launch, 0, next(self._steps))
            data = pickle.dumps((what, value))
            received = self.transport.exchange_messages(
                self._clique, self._program, key, dict.fromkeys(others, data), others, what=what, timeout=timeout
            )
        given = {one: pickle.loads(data) for one, data in received.items()} | {self.process_index: (what, value)}
        if any(other != what for other, _ in given.values()):
            described = "; ".join(f"process {one}: {given[one][0]}" for one in sorted(given))
            raise ExecutionError(codes.DIFFERENT_PROGRAMS, f"the processes exchange different values: {described}")
        return [given[one][1] for one in range(self.process_count)]

    def barrier(self, *, what: str = "a barrier", timeout: float | None = None) -> None:
        """Waits until all processes call this."""
        self.allgather(None, what=what, timeout=timeout)

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that is the member, by a fork."""
        return os.getpid() != self._pid

    def close(self) -> bool:
        """Leaves the group once the other processes leave it, too. Returns whether all have, and none was lost."""
        return self.transport.shutdown()


_current: list[ProcessGroup] = []


def current_process_group() -> ProcessGroup | None:
    """Returns the process group, or None if this process is alone."""
    return _current[0] if _current else None


def set_process_group(group: ProcessGroup | None) -> None:
    """Sets what `current_process_group` returns."""
    _current[:] = [group] if group is not None else []
