"""`MpiClique`: a clique of the transport over MPI, and the errors of those that have failed.

Responsible for the record of a clique and for what a failure is called. Does not depend on how native code moves data.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError, XlaError
from xlapy.cpu.program.communication.exchange_records import PROGRAM_IDENTITY_BYTES, PROGRAM_NAME_BYTES
from xlapy.runtime.collectives.device_names import processes_text
from xlapy.runtime.collectives.mpi.records import (
    FAILURE_TEXT_BYTES,
    LAUNCH_RING,
    CliqueRecord,
    FailureReason,
    LaunchProgram,
    Message,
)

_WORD = ctypes.c_int64

_NOTICE_SECONDS: Final = 0.3
"""How long after an error of MPI the end of the other process may be noticed: the system closes connections at once."""


class CliqueTransport(Protocol):
    """What a clique needs of its transport."""

    @property
    def address(self) -> int: ...

    @property
    def process_index(self) -> int: ...

    def call(self, name: str, *arguments: Any) -> Any: ...

    def error_text(self, error: int) -> str: ...

    def is_lost(self, process: int, seconds: float) -> bool: ...


class MpiClique:
    """A clique of the transport over MPI."""

    def __init__(
        self, transport: CliqueTransport, processes: tuple[int, ...], key: bytes, devices: Mapping[int, str]
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

    @property
    def source_program(self) -> str:
        """The name of the program of a process that has failed the clique because another executes another program."""
        begin = Message.byte_size()
        return _program_name(self._message.raw[begin : begin + PROGRAM_IDENTITY_BYTES])

    def own_program(self, launch: int) -> str:
        """The name of the program that this process executes as a launch."""
        begin = (launch % LAUNCH_RING) * LaunchProgram.byte_size()
        address = _WORD.from_buffer(self._programs, begin + LaunchProgram.offsets()["program"]).value
        if not address:
            return "no program"
        return _program_name(ctypes.string_at(address, PROGRAM_IDENTITY_BYTES))

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


def _program_name(identity: bytes) -> str:
    """The name and the fingerprint in the bytes of a `ProgramIdentity`."""
    name = identity[8:].rstrip(b"\0").decode("utf-8", "replace")
    return f"{name} ({int.from_bytes(identity[:8], 'little'):016x})"


_Description = tuple[ErrorCode, str]


def _local(clique: MpiClique) -> _Description:
    return codes.PROCESS_FAILED, f"{clique.name_of(clique.process_index)} has failed: {clique.message_text}"


def _remote(clique: MpiClique) -> _Description:
    source, reason = clique.message_word("source"), FailureReason(clique.message_word("data_tag"))
    culprit = clique.message_word("exchange")
    if reason == FailureReason.PROGRAM:
        launch, programs = clique.message_word("launch"), (clique.message_program, clique.source_program)
        return _different_programs(clique, launch, (culprit, source), programs)
    if reason == FailureReason.SIZE:
        sizes = f"sends data of another size than {clique.name_of(source)} expects"
        return codes.DIFFERENT_SIZES, f"launch {clique.message_word('launch')}: {clique.name_of(culprit)} {sizes}"
    if reason == FailureReason.LEFT:
        return _left_by(clique, culprit)
    if reason == FailureReason.LOST or (reason == FailureReason.MPI and clique.is_lost(culprit)):
        return _lost_of(clique, culprit)
    if reason == FailureReason.MPI:
        text = f"{clique.name_of(source)} has failed: a call of MPI for {clique.name_of(culprit)} has failed there"
        return codes.MPI_CALL, text
    why = "it has no memory left" if reason == FailureReason.MEMORY else clique.message_text
    return codes.PROCESS_FAILED, f"{clique.name_of(source)} has failed" + (f": {why}" if why else "")


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
    processes = clique.message_word("source"), clique.process_index
    return _different_programs(clique, launch, processes, (clique.message_program, clique.own_program(launch)))


def _different_programs(
    clique: MpiClique, launch: int, processes: tuple[int, int], programs: tuple[str, str]
) -> _Description:
    described = [f"{clique.name_of(one)} executes {program}" for one, program in zip(processes, programs, strict=True)]
    rule = "launches of a client have the same order in all processes"
    return codes.DIFFERENT_PROGRAMS, f"launch {launch}: {', '.join(described)}; {rule}"


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
