"""`MpiLibrary`: the MPI library of this process, through mpi4py.

Responsible for initializing MPI and for what differs between its libraries: handles are an `int` in MPICH and a pointer
in Open MPI, and the fields of a status have other offsets. Does not depend on what is sent.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError
from xlapy.runtime.collectives.mpi.records import MPI_FUNCTIONS

_TEXT_BYTES: Final = 200
_POLL_SECONDS: Final = 0.0005


@dataclass(frozen=True)
class MpiLibrary:
    """Facts about the MPI library. functions: the addresses of the functions that native code calls. communicator,
    byte_type: handles."""

    mpi: Any
    process_index: int
    process_count: int
    communicator_object: Any
    functions: Mapping[str, int]

    @property
    def communicator(self) -> int:
        return handle(self.mpi, self.communicator_object)

    @property
    def byte_type(self) -> int:
        return handle(self.mpi, self.mpi.BYTE)

    @property
    def any_source(self) -> int:
        return int(self.mpi.ANY_SOURCE)

    @property
    def last_tag(self) -> int:
        return int(self.communicator_object.Get_attr(self.mpi.TAG_UB))

    @property
    def handle_bytes(self) -> int:
        return int(self.mpi._sizeof(self.mpi.Request))

    @property
    def status_bytes(self) -> int:
        return int(self.mpi._sizeof(self.mpi.Status))

    @property
    def error_offset(self) -> int:
        """The offset of the error in a status."""
        status = self.mpi.Status()
        memory = (ctypes.c_char * self.status_bytes).from_address(self.mpi._addressof(status))
        mark = 0x1234567
        status.Set_error(mark)
        return bytes(memory).index(mark.to_bytes(4, "little"))

    @property
    def error_in_status(self) -> int:
        return int(self.mpi.ERR_IN_STATUS)

    def exchange_texts(self, text: str, timeout: float) -> list[str]:
        """Returns the texts, of at most 200 bytes, that the processes give. Collective, before the transport starts."""
        communicator = self.communicator_object
        own = bytearray(text.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0"))
        every = bytearray(_TEXT_BYTES * self.process_count)
        request = communicator.Iallgather([own, self.mpi.BYTE], [every, self.mpi.BYTE])
        await_requests([request], time.monotonic() + timeout, "the start of MPI", self.process_index)
        texts = [every[k * _TEXT_BYTES : (k + 1) * _TEXT_BYTES] for k in range(self.process_count)]
        return [bytes(one).rstrip(b"\0").decode("utf-8", "replace") for one in texts]

    def error_text(self, error: int) -> str:
        """MPI's text for an error."""
        return str(self.mpi.Get_error_string(error))


def handle(mpi: Any, value: Any) -> int:
    """The handle of an MPI object as a word."""
    return int(mpi._handleof(value))


def open_library(mpi: Any, timeout: float = 30) -> MpiLibrary:
    """Prepares MPI, which is initialized: a communicator of its own, whose errors are returned. Collective."""
    communicator, request = mpi.COMM_WORLD.Idup()
    await_requests([request], time.monotonic() + timeout, "the start of MPI", mpi.COMM_WORLD.Get_rank())
    communicator.Set_errhandler(mpi.ERRORS_RETURN)
    extension = ctypes.CDLL(mpi.__file__)  # a library finds the functions of the libraries that it depends on
    functions = {name: int(ctypes.cast(getattr(extension, name), ctypes.c_void_p).value or 0) for name in MPI_FUNCTIONS}
    return MpiLibrary(mpi, communicator.Get_rank(), communicator.Get_size(), communicator, functions)


def await_requests(requests: Sequence[Any], deadline: float, what: str, process_index: int) -> None:
    """Waits for requests of mpi4py."""
    while not all(one.Test() for one in requests):
        if time.monotonic() > deadline:
            raise ExecutionError(
                codes.PROCESS_TIMEOUT, f"{what}: process {process_index} has waited for the other processes in vain"
            )
        time.sleep(_POLL_SECONDS)
