"""`MpiTransport`: the native functions of the transport, linked and called from Python.

Responsible for cliques, for the exchange of messages of the host, and for errors. Does not depend on how MPI is
initialized.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xlapy.base import flags
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError, XlaError
from xlapy.cpu.llvm.jit import Symbol, compile_unoptimized
from xlapy.cpu.program.communication.exchange_records import (
    PROGRAM_NAME_BYTES,
    ExchangeStatus,
)
from xlapy.native.llvm import library_text
from xlapy.runtime.collectives.mpi.cliques import MpiClique
from xlapy.runtime.collectives.mpi.host_requests import HostRequest
from xlapy.runtime.collectives.mpi.library import MpiLibrary
from xlapy.runtime.collectives.mpi.progress import FUNCTIONS
from xlapy.runtime.collectives.mpi.records import (
    FailureReason,
    PeerState,
    PeerWord,
    Transport,
)
from xlapy.runtime.collectives.mpi.watch import PeerWatch
from xlapy.runtime.collectives.process_group import Clique, ErrorReport, ExchangeKey

_WORD, _POINTER, _INT = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32

_SIGNATURES: Final[Mapping[str, tuple[Any, ...]]] = {
    "add_clique": (None, _POINTER),
    "announce_end": (None,),
    "await_exchange": (None, _POINTER, _POINTER),
    "await_word": (_INT, _POINTER, _WORD),
    "begin_launch": (_WORD, _POINTER, _POINTER, _POINTER),
    "cancel_receives": (ctypes.c_bool,),
    "clique_failure": (_INT, _POINTER),
    "drive_exchanges": (None, _POINTER, _POINTER, _INT),
    "fail_clique": (None, _POINTER, _POINTER, ctypes.c_char_p, _WORD),
    "is_idle": (ctypes.c_bool,),
    "leave": (None,),
    "lose_process": (None, _WORD),
    "missing_processes": (_WORD, _POINTER, _POINTER, _WORD),
    "peer_report": (_WORD, _WORD),
    "peer_state": (_WORD, _WORD),
    "post_exchange": (None, _POINTER, _POINTER),
    "report_error": (None, _WORD),
    "run_progress": (None,),
    "start_exchange": (None, _POINTER, _POINTER),
    "start_transport": (None,),
    "stop_progress": (None,),
    "transport_address": (_POINTER,),
}

_SLICE_SECONDS: Final = 0.2
"""How long Python sleeps at a time, so that Ctrl-C takes effect."""

_EXIT_SECONDS: Final = 2.0
"""How long outgoing data may take when the transport ends."""

_ANNOUNCEMENT_SECONDS: Final = 0.5
"""How long the last messages to other processes may take, some of which do not answer."""

_SILENCE_SECONDS: Final = 3.0
"""How long a process may be silent after a failure before it counts as lost: three heartbeats."""


class MpiTransport:
    """The transport of this process; there is one, which lives as long as the process."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._pid = os.getpid()
        names = list(_SIGNATURES)
        imports = {name: Symbol(address, None) for name, address in library.functions.items()}
        self._code = compile_unoptimized(library_text(FUNCTIONS, names), names, imports)
        self._functions = {
            name: ctypes.CFUNCTYPE(result, *arguments)(self._code.addresses[name])
            for name, (result, *arguments) in _SIGNATURES.items()
        }
        self.address: int = self._functions["transport_address"]()
        self._peers = (_WORD * (library.process_count * PeerWord.byte_size() // 8))()
        self._describe_library()
        self._watch: PeerWatch | None = None
        self._lock = fork_safe_lock()
        self._cliques: dict[tuple[tuple[int, ...], bytes], MpiClique] = {}
        self._identities: dict[tuple[int, str], Any] = {}
        self._functions["start_transport"]()
        self._thread = threading.Thread(target=self._functions["run_progress"], name="xlapy-progress", daemon=True)
        self._thread.start()

    def _describe_library(self) -> None:
        offsets, library = Transport.offsets(), self._library
        values = {
            "process": library.process_index,
            "communicator": library.communicator,
            "byte_type": library.byte_type,
            "any_source": library.any_source,
            "message_tag": 0,
            "next_tag": 1,
            "last_tag": library.last_tag,
            "handle_bytes": library.handle_bytes,
            "status_bytes": library.status_bytes,
            "error_offset": library.error_offset,
            "error_in_status": library.error_in_status,
            "peers": ctypes.addressof(self._peers),
            "peer_count": library.process_count,
        }
        for name, value in values.items():
            _WORD.from_address(self.address + offsets[name]).value = value

    # -- addresses for native code

    @property
    def post_exchange_address(self) -> int:
        return self._code.addresses["post_exchange"]

    @property
    def start_exchange_address(self) -> int:
        return self._code.addresses["start_exchange"]

    @property
    def drive_exchanges_address(self) -> int:
        return self._code.addresses["drive_exchanges"]

    @property
    def await_exchange_address(self) -> int:
        return self._code.addresses["await_exchange"]

    @property
    def begin_launch_address(self) -> int:
        return self._code.addresses["begin_launch"]

    @property
    def fail_clique_address(self) -> int:
        return self._code.addresses["fail_clique"]

    # -- cliques and programs

    def clique(self, processes: Sequence[int], key: bytes = b"", devices: Mapping[int, str] | None = None) -> MpiClique:
        self.check_process()
        members = tuple(sorted(set(processes)))
        with self._lock:
            found = self._cliques.get((members, key))
            if found is None:
                found = self._cliques[members, key] = MpiClique(self, members, key, devices or {})
                self.call("add_clique", found.address)
        return found

    def program_identity(self, fingerprint: int, name: str) -> int:
        with self._lock:
            made = self._identities.get((fingerprint, name))
            if made is None:
                data = name.encode()[: PROGRAM_NAME_BYTES - 1].ljust(PROGRAM_NAME_BYTES, b"\0")
                made = ctypes.create_string_buffer(_word_bytes(fingerprint) + data, 8 + PROGRAM_NAME_BYTES)
                self._identities[fingerprint, name] = made
        return ctypes.addressof(made)

    # -- exchanges of the host

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
        self.check_process()
        request = HostRequest(clique, program, key, messages, sources)
        seconds = float(flags.get("collective_timeout")) if timeout is None else timeout
        deadline = time.monotonic() + seconds
        self.call("post_exchange", self.address, request.address)
        try:
            status = self._await(request, clique, deadline, seconds, what)
        except BaseException as error:  # such as Ctrl-C
            text = error.message if isinstance(error, XlaError) else f"{what}: {error or type(error).__name__}"
            clique.fail(text)
            self.call("await_exchange", self.address, request.address)
            request.free()
            raise
        self.call("await_exchange", self.address, request.address)
        missing = self.missing_processes(request.address) if status == ExchangeStatus.FAILED else ()
        received = request.take()
        if status == ExchangeStatus.FAILED:
            failure = clique.failure or ExecutionError(codes.PROCESS_FAILED, "the exchange has failed")
            waited = f": it has waited for {clique.names_of(missing)}" if missing else ""
            raise ExecutionError(failure.code, f"{failure.message}; {what}{waited}")
        return received

    def _await(self, request: HostRequest, clique: Clique, deadline: float, seconds: float, what: str) -> int:
        while True:
            left = deadline - time.monotonic()
            nanoseconds = int(max(0.001, min(_SLICE_SECONDS, left)) * 1e9)
            status: int = self.call("await_word", request.address, nanoseconds)
            if status != ExchangeStatus.PENDING:
                return status
            if left <= 0:
                missing = self.missing_processes(request.address)
                if clique.failure is not None or not missing:  # it ends just now
                    self.call("await_exchange", self.address, request.address)
                    return int(self.call("await_word", request.address, 0))
                raise ExecutionError(
                    codes.PROCESS_TIMEOUT,
                    f"{what}: {clique.name_of(self.process_index)} has waited {seconds:g} seconds for "
                    f"{clique.names_of(missing)}",
                )

    def missing_processes(self, request: int) -> tuple[int, ...]:
        room = 1024
        numbers = (_WORD * room)()
        count = self.call("missing_processes", request, ctypes.addressof(numbers), room)
        return tuple(sorted({int(numbers[k]) & 0xFFFFFFFF for k in range(count)}))

    def await_exchange(self, request: int) -> None:
        """Waits until the transport no longer accesses a request, given by its address."""
        self.call("await_exchange", self.address, request)

    # -- ends

    def watch(self, watch: PeerWatch) -> None:
        """Takes over the watch of the other processes, which says how long to wait for them at the end."""
        self._watch = watch

    def lose_process(self, process: int) -> None:
        """Notes that a process has ended without leaving."""
        self.call("lose_process", process)

    def is_lost(self, process: int, seconds: float) -> bool:
        """Returns whether a process has ended without leaving. Waits some seconds for the notice of that."""
        return self._wait_until(lambda: self.call("peer_state", process) == PeerState.LOST, seconds)

    # -- errors that end processes

    def report_error(self, key: int, *, is_shown: bool) -> None:
        """Tells the other processes that an error ends this one, and whether it is shown."""
        self.call("report_error", 2 * key + is_shown)

    def reported_error(self, process: int) -> ErrorReport | None:
        """Returns what a process has told."""
        report = self.call("peer_report", process)
        return ErrorReport(report // 2, bool(report % 2)) if report else None

    def is_present(self, process: int) -> bool:
        """Whether a process has neither left nor ended."""
        return not self._has_ended(process)

    @property
    def has_failed(self) -> bool:
        """Whether a clique has failed."""
        with self._lock:
            cliques = list(self._cliques.values())
        return any(self.call("clique_failure", one.address) != FailureReason.NONE for one in cliques)

    def shutdown(self) -> bool:
        """Leaves the other processes, once they leave, too. Returns whether all have, so that MPI can be finalized."""
        if self._watch is not None:
            self._watch.leave()
        self._wait_until(lambda: self.call("is_idle"), _EXIT_SECONDS)
        have_all_left = not self._is_deserted() and self._leave()
        if not have_all_left and not self._is_deserted():
            self.call("announce_end")
            self._wait_until(lambda: self.call("is_idle"), _ANNOUNCEMENT_SECONDS)
        self.call("stop_progress")
        self._thread.join(_EXIT_SECONDS)
        can_finalize = have_all_left and bool(self.call("cancel_receives"))
        if self._watch is not None:
            self._watch.stop()
            can_finalize = can_finalize and self._watch.can_finalize()
            self._watch.end(can_finalize)
        return can_finalize

    def _leave(self) -> bool:
        """Sends the last messages and waits for those of the other processes. Returns whether all have left."""
        self.call("leave")
        others = [one for one in range(self._library.process_count) if one != self.process_index]
        has_left = self._wait_until(lambda: all(self._has_ended(one) for one in others), None)
        return has_left and all(self.call("peer_state", one) == PeerState.LEFT for one in others)

    def _is_deserted(self) -> bool:
        """Whether a neighbor has left and ended. Then the others end, too, and MPI may crash in a send to them."""
        return self._watch is not None and self._watch.is_deserted(0)

    def _has_ended(self, process: int) -> bool:
        return self.call("peer_state", process) != PeerState.PRESENT

    def _wait_until(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        """Waits for a condition. seconds: None to wait as long as the other processes live."""
        begin, pause = time.monotonic(), 0.0002
        while not condition():
            if seconds is not None and time.monotonic() - begin > seconds:
                return False
            if seconds is None and self._watch is not None:
                limit = _SILENCE_SECONDS if self.has_failed else float(flags.get("collective_timeout"))
                if self._watch.is_deserted(limit):
                    return False
                silent = self._watch.silent(limit)
                if silent is not None:
                    self.lose_process(silent)
                    return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        return True

    def check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ExecutionError(
                codes.PROCESS_FORKED,
                f"process {os.getpid()} is a child of process {self._pid}, which has called "
                "xla.distributed.initialize: MPI cannot be used after a fork",
            )

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a native function without the interpreter's lock."""
        return self._functions[name](*arguments)

    def error_text(self, error: int) -> str:
        """MPI's text for an error that a call has returned."""
        return self._library.error_text(error)

    @property
    def process_index(self) -> int:
        """The index of this process."""
        return self._library.process_index


def _word_bytes(value: int) -> bytes:
    return (value & (1 << 64) - 1).to_bytes(8, "little")
