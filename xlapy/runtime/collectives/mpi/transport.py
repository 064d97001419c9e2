"""`MpiTransport`: the native functions of the transport, linked and called from Python.

Responsible for cliques, for the exchange of messages of the host, and for errors. Does not depend on how MPI is
initialized.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xlapy.base import flags
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError, XlaError
from xlapy.cpu.llvm.jit import Symbol, compile_unoptimized
from xlapy.cpu.program.communication.exchange_records import (
    PROGRAM_NAME_BYTES,
    ExchangeRequest,
    ExchangeStatus,
    ProgramIdentity,
    Transfer,
)
from xlapy.native.llvm import library_text
from xlapy.runtime.collectives.mpi.library import MpiLibrary
from xlapy.runtime.collectives.mpi.progress import FUNCTIONS
from xlapy.runtime.collectives.mpi.records import (
    FAILURE_TEXT_BYTES,
    LAUNCH_RING,
    CliqueRecord,
    FailureReason,
    LaunchProgram,
    Message,
    PeerState,
    Transport,
)
from xlapy.runtime.collectives.mpi.watch import PeerWatch
from xlapy.runtime.collectives.process_group import Clique, ExchangeKey

_WORD, _POINTER, _INT = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32

_SIGNATURES: Final[Mapping[str, tuple[Any, ...]]] = {
    "add_clique": (None, _POINTER),
    "await_exchange": (None, _POINTER, _POINTER),
    "await_word": (_INT, _POINTER, _WORD),
    "begin_launch": (_WORD, _POINTER, _POINTER, _POINTER),
    "cancel_receives": (ctypes.c_bool,),
    "clique_failure": (_INT, _POINTER),
    "fail_clique": (None, _POINTER, _POINTER, ctypes.c_char_p, _WORD),
    "is_idle": (ctypes.c_bool,),
    "leave": (None,),
    "lose_process": (None, _WORD),
    "missing_processes": (_WORD, _POINTER, _POINTER, _WORD),
    "peer_state": (_WORD, _WORD),
    "post_exchange": (None, _POINTER, _POINTER),
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

_NOTICE_SECONDS: Final = 0.3
"""How long after an error of MPI the end of the other process may be noticed: the system closes connections at once."""

_SILENCE_SECONDS: Final = 3.0
"""How long a process may be silent after a failure before it counts as lost: three heartbeats."""

_HOST_STEPS: Final = 1 << 62
"""Exchanges of the host have numbers from here on, so that they do not match those of compiled programs."""


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
        self._peers = (_WORD * library.process_count)()
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
        received = request.take()
        if status == ExchangeStatus.FAILED:
            raise clique.failure or ExecutionError(codes.PROCESS_FAILED, f"{what}: the exchange has failed")
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

    def shutdown(self) -> bool:
        """Leaves the other processes, once they leave, too. Returns whether all have, so that MPI can be finalized."""
        if self._watch is not None:
            self._watch.leave()
        self._wait_until(lambda: self.call("is_idle"), _EXIT_SECONDS)
        self.call("leave")
        others = [one for one in range(self._library.process_count) if one != self.process_index]
        has_left = self._wait_until(lambda: all(self._has_ended(one) for one in others), None)
        self.call("stop_progress")
        self._thread.join(_EXIT_SECONDS)
        are_left = all(self.call("peer_state", one) == PeerState.LEFT for one in others)
        can_finalize = has_left and are_left and bool(self.call("cancel_receives"))
        if self._watch is not None:
            self._watch.stop()
            can_finalize = can_finalize and self._watch.can_finalize()
            self._watch.end(can_finalize)
        return can_finalize

    def _has_ended(self, process: int) -> bool:
        return self.call("peer_state", process) != PeerState.PRESENT

    def _has_failed(self) -> bool:
        """Whether a clique has failed."""
        with self._lock:
            cliques = list(self._cliques.values())
        return any(self.call("clique_failure", one.address) != FailureReason.NONE for one in cliques)

    def _wait_until(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        """Waits for a condition. seconds: None to wait as long as the other processes live."""
        begin, pause = time.monotonic(), 0.0002
        while not condition():
            if seconds is not None and time.monotonic() - begin > seconds:
                return False
            if seconds is None and self._watch is not None:
                limit = _SILENCE_SECONDS if self._has_failed() else float(flags.get("collective_timeout"))
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


class MpiClique:
    """A clique of the transport over MPI."""

    def __init__(
        self, transport: MpiTransport, processes: tuple[int, ...], key: bytes, devices: Mapping[int, str]
    ) -> None:
        self.processes = processes
        self._devices = devices
        self._transport = transport
        self._programs = ctypes.create_string_buffer(LAUNCH_RING * LaunchProgram.byte_size())
        self._message = ctypes.create_string_buffer(Message.byte_size() + FAILURE_TEXT_BYTES)
        self._record = (_WORD * (CliqueRecord.byte_size() // 8 + len(processes)))()
        digest = hashlib.sha256(repr((processes, key)).encode()).digest()
        self._set("number", int.from_bytes(digest[:8], "little", signed=True))
        self._set("programs", ctypes.addressof(self._programs))
        self._set("failed_message", ctypes.addressof(self._message))
        self._set("member_count", len(processes))
        for position, process in enumerate(processes):
            self._record[CliqueRecord.byte_size() // 8 + position] = process

    @property
    def address(self) -> int:
        return ctypes.addressof(self._record)

    def _set(self, field: str, value: int) -> None:
        self._record[CliqueRecord.offsets()[field] // 8] = value

    def begin_launch(self, program: int) -> int:
        launch: int = self._transport.call("begin_launch", self._transport.address, self.address, program)
        if launch == 0:
            raise self.failure or ExecutionError(codes.PROCESS_FAILED, "the launch has failed")
        return launch

    def fail(self, message: str) -> None:
        data = message.encode("utf-8", "replace")[:FAILURE_TEXT_BYTES]
        self._transport.call("fail_clique", self._transport.address, self.address, data, len(data))

    @property
    def failure(self) -> XlaError | None:
        reason = self._transport.call("clique_failure", self.address)
        if reason == FailureReason.NONE:
            return None
        code, text = _DESCRIPTIONS[FailureReason(reason)](self)
        return ExecutionError(code, text)

    def name_of(self, process: int) -> str:
        """Names a process and its devices: `process 1 (cpu:2, cpu:3)`."""
        devices = self._devices.get(process)
        return f"process {process} ({devices})" if devices else f"process {process}"

    def names_of(self, processes: Sequence[int]) -> str:
        """Names some processes and their devices."""
        if not self._devices or len(processes) > 8:
            return processes_text(processes)
        return " and ".join(map(self.name_of, processes)) or "no process"

    # -- what the native functions have noted

    def word(self, field: str) -> int:
        """A field of the record."""
        return self._record[CliqueRecord.offsets()[field] // 8]

    def message_word(self, field: str) -> int:
        """A field of the message that made the clique fail."""
        return _WORD.from_buffer(self._message, Message.offsets()[field]).value

    @property
    def message_text(self) -> str:
        """The text of the message that made the clique fail."""
        begin = Message.byte_size()
        return self._message.raw[begin : begin + self.message_word("size")].decode("utf-8", "replace")

    @property
    def message_program(self) -> str:
        """The name of the program of the sender."""
        begin = Message.offsets()["name0"]
        name = self._message.raw[begin : begin + PROGRAM_NAME_BYTES].rstrip(b"\0").decode("utf-8", "replace")
        return f"{name} ({self.message_word('fingerprint') & (1 << 64) - 1:016x})"

    def own_program(self, launch: int) -> str:
        """The name of the program that this process executes as a launch."""
        begin = (launch % LAUNCH_RING) * LaunchProgram.byte_size()
        address = _WORD.from_buffer(self._programs, begin + LaunchProgram.offsets()["program"]).value
        if not address:
            return "no program"
        data = ctypes.string_at(address, ProgramIdentity.byte_size() + PROGRAM_NAME_BYTES)
        name = data[8:].rstrip(b"\0").decode("utf-8", "replace")
        return f"{name} ({int.from_bytes(data[:8], 'little'):016x})"

    @property
    def process_index(self) -> int:
        """The index of this process."""
        return self._transport.process_index

    def is_lost(self, process: int) -> bool:
        """Whether a process with which MPI has failed is lost. The watch tells that soon."""
        return self._transport.is_lost(process, _NOTICE_SECONDS)

    @property
    def mpi_error_text(self) -> str:
        """MPI's text for the error that made the clique fail."""
        text = self._transport.error_text(self.word("mpi_error") & 0x7FFFFFFF)
        return " ".join(line.strip() for line in text.splitlines()[-2:])


_Description = tuple[ErrorCode, str]


def _local(clique: MpiClique) -> _Description:
    return codes.PROCESS_FAILED, f"{clique.name_of(clique.process_index)} has failed: {clique.message_text}"


def _remote(clique: MpiClique) -> _Description:
    source, reason = clique.message_word("source"), FailureReason(clique.message_word("data_tag"))
    culprit = clique.message_word("exchange")
    if reason == FailureReason.LEFT:
        return _left_by(clique, culprit)
    if reason == FailureReason.LOST or (reason == FailureReason.MPI and clique.is_lost(culprit)):
        return _lost_of(clique, culprit)
    if reason == FailureReason.MPI:
        text = f"{clique.name_of(source)} has failed: a call of MPI for {clique.name_of(culprit)} has failed there"
        return codes.MPI_CALL, text
    why = {
        FailureReason.PROGRAM: ": it has received data of another program than it executes",
        FailureReason.SIZE: ": it has received data of another size than it expects",
        FailureReason.MEMORY: ": it has no memory left",
    }.get(reason, f": {clique.message_text}" if clique.message_text else "")
    return codes.PROCESS_FAILED, f"{clique.name_of(source)} has failed{why}"


def _left(clique: MpiClique) -> _Description:
    return _left_by(clique, clique.message_word("source"))


def _left_by(clique: MpiClique, process: int) -> _Description:
    return codes.PROCESS_LOST, f"{clique.name_of(process)} has left the process group: its program has ended"


def _lost(clique: MpiClique) -> _Description:
    return _lost_of(clique, clique.message_word("source"))


def _lost_of(clique: MpiClique, process: int) -> _Description:
    return codes.PROCESS_LOST, f"{clique.name_of(process)} has ended: it was killed, or has crashed"


def _program(clique: MpiClique) -> _Description:
    launch = clique.message_word("launch")
    return codes.DIFFERENT_PROGRAMS, (
        f"launch {launch}: {clique.name_of(clique.message_word('source'))} executes {clique.message_program}, "
        f"{clique.name_of(clique.process_index)} executes {clique.own_program(launch)}"
    )


def _size(clique: MpiClique) -> _Description:
    return codes.DIFFERENT_SIZES, (
        f"launch {clique.message_word('launch')} of {clique.message_program}: "
        f"{clique.name_of(clique.message_word('source'))} sends {clique.message_word('size')} bytes, "
        f"{clique.name_of(clique.process_index)} expects {clique.word('expected_size')}"
    )


def _mpi(clique: MpiClique) -> _Description:
    peer = clique.message_word("source")
    if clique.is_lost(peer):
        return _lost_of(clique, peer)
    return codes.MPI_CALL, f"a call of MPI for {clique.name_of(peer)} has failed: {clique.mpi_error_text}"


def _memory(clique: MpiClique) -> _Description:
    return codes.PROCESS_FAILED, f"process {clique.process_index} has no memory left for an exchange"


_DESCRIPTIONS: Final[Mapping[FailureReason, Callable[[MpiClique], _Description]]] = {
    FailureReason.LOCAL: _local,
    FailureReason.REMOTE: _remote,
    FailureReason.PROGRAM: _program,
    FailureReason.SIZE: _size,
    FailureReason.MPI: _mpi,
    FailureReason.MEMORY: _memory,
    FailureReason.LEFT: _left,
    FailureReason.LOST: _lost,
}


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


def processes_text(processes: Sequence[int]) -> str:
    """Names processes: `process 1`, `processes 0 and 2`."""
    if not processes:
        return "no process"
    if len(processes) == 1:
        return f"process {processes[0]}"
    shown = [str(one) for one in processes[:8]]
    if len(processes) > 8:
        shown[7] = f"{len(processes) - 7} more"
    return f"processes {', '.join(shown[:-1])} and {shown[-1]}"


def _word_bytes(value: int) -> bytes:
    return (value & (1 << 64) - 1).to_bytes(8, "little")
