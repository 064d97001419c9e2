"""`MpiLibrary`: the MPI library of this process, through mpi4py.

Responsible for initializing MPI and for what differs between its libraries: handles are an `int` in MPICH and a pointer
in Open MPI, and the fields of a status have other offsets. Does not depend on what is sent.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError
from xlapy.runtime.collectives.mpi.records import MPI_FUNCTIONS


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

    def error_text(self, error: int) -> str:
        """MPI's text for an error."""
        return str(self.mpi.Get_error_string(error))


def handle(mpi: Any, value: Any) -> int:
    """The handle of an MPI object as a word."""
    return int(mpi._handleof(value))


def open_library(mpi: Any) -> MpiLibrary:
    """Prepares MPI, which is initialized: a communicator of its own, whose errors are returned. Collective."""
    level = mpi.Query_thread()
    if level < mpi.THREAD_SERIALIZED:
        names = {mpi.THREAD_SINGLE: "MPI_THREAD_SINGLE", mpi.THREAD_FUNNELED: "MPI_THREAD_FUNNELED"}
        raise ExecutionError(
            codes.THREAD_LEVEL,
            f"MPI is initialized with {names.get(level, level)}, and MPI_THREAD_SERIALIZED is needed; "
            "mpi4py.rc.thread_level sets the level before mpi4py.MPI is imported",
        )
    communicator = mpi.COMM_WORLD.Dup()
    communicator.Set_errhandler(mpi.ERRORS_RETURN)
    extension = ctypes.CDLL(mpi.__file__)  # a library finds the functions of the libraries that it depends on
    functions = {name: int(ctypes.cast(getattr(extension, name), ctypes.c_void_p).value or 0) for name in MPI_FUNCTIONS}
    return MpiLibrary(mpi, communicator.Get_rank(), communicator.Get_size(), communicator, functions)
