"""A time limit for calls of MPI that wait for all processes: initializing MPI and finalizing it.

Both may wait for ever if a process has ended or stands still, and hold the interpreter's lock meanwhile. So a native
thread ends this process if the call has not returned in time.

    with time_limit(30, "process 0: MPI is not finalized in 30 seconds"):
        MPI.Finalize()

Responsible for the thread. Does not depend on what is limited.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm.jit import compile_unoptimized
from xlapy.native.function import Function, Static, external, native
from xlapy.native.ir import ACQUIRE, RELEASE
from xlapy.native.llvm import library_text
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.threads import start_thread
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.collectives.mpi.operations import now

SLICE_NANOSECONDS = 200_000_000
"""How long the thread sleeps at a time."""

_STANDARD_ERROR = 2


class Limit(Record):
    """A limit of a call. is_over: 1 once the call has returned. deadline: the time at which the process ends. text,
    size: what it prints then."""

    is_over: Atomic[Int32]
    deadline: Owned[Word]
    text: Owned[Nullable[Address]]
    size: Owned[Word]


LIMIT = Static("mpi_time_limit", Limit)


@external
def write(f: Function, file: Int32, text: Address, size: Word) -> Word:  # type: ignore[empty-body]
    """Writes to a file."""


@external
def _exit(f: Function, code: Int32) -> None:
    """Ends the process at once."""


@native
def begin_limit(f: Function, nanoseconds: Word, text: Nullable[Address], size: Word) -> None:
    """Begins a limit; there is one at a time. The text lives until `end_limit`."""
    limit = f.exclusive_access(f.static(LIMIT), "no thread waits for the end of a limit")
    limit.deadline = now(f) + nanoseconds
    limit.text = text
    limit.size = size
    limit.is_over.store(0, RELEASE)
    start_thread(f, f.address_of(await_end), limit)  # without memory for a thread, the call is not limited


@native
def end_limit(f: Function) -> None:
    """Ends the limit."""
    limit = f.static(LIMIT)
    limit.is_over.store(1, RELEASE)
    limit.is_over.wake()


@native
def await_end(f: Function, argument: Address) -> Nullable[Address]:
    """The thread: waits for the end of the limit, and ends the process if that does not come in time."""
    limit = argument.cast(Limit)
    with f.loop():
        with f.when(limit.is_over.load(ACQUIRE) != 0):
            f.ret(None)
        with f.when(now(f) > limit.deadline):
            with f.when(limit.text.is_present()):
                write(f, f.constant(Int32, _STANDARD_ERROR), limit.text.known("it is present"), limit.size)
            _exit(f, f.constant(Int32, 1))
        limit.is_over.wait(0, SLICE_NANOSECONDS)
    return f.null(Address)


@SingleFlight
def _functions() -> tuple[Any, Any, Any]:
    """The code, and the functions in it."""
    names = ["begin_limit", "end_limit"]
    code = compile_unoptimized(library_text([begin_limit, end_limit, await_end], names), names, {})
    begin = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)(code.addresses["begin_limit"])
    return code, begin, ctypes.CFUNCTYPE(None)(code.addresses["end_limit"])


@contextmanager
def time_limit(seconds: float, text: str) -> Iterator[None]:
    """Ends this process with code 1 if the body takes longer. text: a line that it prints then; empty for none."""
    _, begin, end = _functions()
    data = f"{text}\n".encode() if text else None
    begin(int(seconds * 1e9), data, len(data or b""))
    try:
        yield
    finally:
        end()
