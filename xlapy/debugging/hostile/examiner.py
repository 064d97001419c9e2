"""Runs hostile inputs in this process, which may die, and measures the time and the memory of each.

Responsible for the limits, for the measurements, and for what counts as a fault. Does not depend on formats, nor on
the process that asks.
"""

from __future__ import annotations

import gc
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType, TracebackType

from xlapy.base.errors import XlaError
from xlapy.debugging.hostile.formats import HostileFormat, corpus_of, find_format, input_of

SECONDS = 1.0
"""CPU seconds that an input may take."""
HANG_SECONDS = 5.0
"""CPU seconds after which an input is given up."""
MEMORY = 200 << 20
"""Bytes by which an input may raise the peak of resident memory."""
MEMORY_LIMIT = 1 << 30
"""Bytes of address space that an input can have; a demand for more is a MemoryError."""

_STATUS = Path("/proc/self/status")
_CLEAR_REFERENCES = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""What the kernel is told, by `clear_refs`, to set the peak of resident memory to its present value."""


class OutOfTime(BaseException):
    """Raised in a reader when the time is over. Not an Exception, so that no handler of the reader takes it."""


class Verdict(Enum):
    """What an input led to."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RAW_ERROR = "raw error"
    SLOW = "slow"
    LARGE = "large"
    HANG = "hang"
    DIED = "died"

    @property
    def is_fault(self) -> bool:
        return self not in (Verdict.ACCEPTED, Verdict.REJECTED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an input led to.

    seconds: CPU time. memory: bytes by which the peak of resident memory rose. cause: the class of a raw error and the
    place in the code, which identify the fault. message: what a person reads.
    """

    verdict: Verdict
    seconds: float = 0.0
    memory: int = 0
    cause: str = ""
    message: str = ""

    def is_like(self, other: Outcome) -> bool:
        """Whether two faults are probably the same."""
        return (self.verdict, self.cause) == (other.verdict, other.cause)


# -- called in a child process


def examine_seeds(name: str, first: int, count: int, *, emit: Callable[[Outcome], None]) -> None:
    """Emits the outcome of each input of a range of seeds."""
    format_ = _prepared(name)
    for seed in range(first, first + count):
        emit(examine(format_, input_of(name, seed)))


def examine_bytes(name: str, data: bytes) -> Outcome:
    """Returns the outcome of one input."""
    return examine(_prepared(name), data)


def _prepared(name: str) -> HostileFormat:
    """Reads one valid input, which imports the reader's modules, and limits the memory of this process."""
    format_ = find_format(name)
    with suppress(XlaError):
        format_.consume(corpus_of(name)[0])
    gc.collect()
    gc.freeze()  # the corpus is not traversed for each input
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + MEMORY_LIMIT, hard))
    return format_


# -- one input


def examine(format_: HostileFormat, data: bytes) -> Outcome:
    """Reads an input and returns the outcome. What is slow is measured twice, because the first time may pay for the
    collection of earlier garbage."""
    outcome = _measured(format_, data)
    if outcome.verdict in (Verdict.SLOW, Verdict.LARGE):
        gc.collect()
        return min(outcome, _measured(format_, data), key=lambda one: (one.verdict.is_fault, one.seconds))
    return outcome


def _measured(format_: HostileFormat, data: bytes) -> Outcome:
    before = _reset_peak()
    start = time.process_time()
    verdict, cause, message = _consumed(format_, data)
    seconds, memory = time.process_time() - start, max(0, _peak() - before)
    if not verdict.is_fault and seconds > SECONDS:
        verdict, message = Verdict.SLOW, f"took {seconds:.2f} s of CPU time: {message}"
    elif not verdict.is_fault and memory > MEMORY:
        verdict, message = Verdict.LARGE, f"took {memory >> 20} MiB: {message}"
    return Outcome(verdict, seconds, memory, cause, message)


def _consumed(format_: HostileFormat, data: bytes) -> tuple[Verdict, str, str]:
    try:
        with _time_limit():
            format_.consume(data)
    except XlaError as error:
        return Verdict.REJECTED, "", f"{type(error).__name__}: {str(error)[:300]}"
    except OutOfTime as error:
        return Verdict.HANG, "", "".join(traceback.format_tb(error.__traceback__)[-6:])
    except BaseException as error:
        return Verdict.RAW_ERROR, f"{type(error).__name__} {_place(error.__traceback__)}", _told(error)
    return Verdict.ACCEPTED, "", ""


def _told(error: BaseException) -> str:
    with suppress(Exception):
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        return "".join(lines[-6:])[:3000]
    return type(error).__name__


def _place(trace: TracebackType | None) -> str:
    """Returns the function of xlapy nearest to where an exception was raised; `recursion` if the stack is deep, because
    a recursion may end in any of its functions."""
    place, depth = "", 0
    while trace is not None:
        code = trace.tb_frame.f_code
        if "xlapy" in Path(code.co_filename).parts and "hostile" not in Path(code.co_filename).parts:
            place = f"{Path(code.co_filename).name}:{code.co_qualname}"
        trace, depth = trace.tb_next, depth + 1
    return "recursion" if depth > sys.getrecursionlimit() // 2 else place


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raises `OutOfTime` in the body after `HANG_SECONDS` of CPU time (main thread only)."""

    def ring(_: int, __: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS, 0.5)  # again, if something swallows it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# -- memory of this process


def _reset_peak() -> int:
    """Makes the peak of resident memory the present value where the system can, and returns it in bytes."""
    with suppress(OSError):
        _CLEAR_REFERENCES.write_text(_RESET_PEAK)
    return _peak()


def _peak() -> int:
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _status(key: str) -> int:
    """Returns a figure of the process's status in bytes; 0 where there is none."""
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) << 10
    return 0
