"""What the machine can do at most, measured once by small kernels: operations and bytes a second.

The figures are kept in the user's private cache directory (the flag `cache_dir`, by default `~/.cache/xlapy`), a file
for each kind of processor and number of threads.

Owns: measuring, the file. Must not know: what programs do.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from xlapy.base import flags
from xlapy.base.logging import logger
from xlapy.cpu.llvm.jit import host_features, host_name
from xlapy.cpu.llvm.pool import parallel_function, thread_count
from xlapy.cpu.llvm.roofline_kernels import ARITHMETIC, BLOCK, OPERATIONS, STREAMS, lanes_of, roofline_kernels
from xlapy.runtime.engine import allocator

CACHES = (1 << 14, 1 << 18, 1 << 21)
"""Bytes that each thread goes through, of which today's processors have caches."""

MEMORY = 1 << 27
"""Bytes of all threads together that no cache holds, at least `_MOST_CACHE` each."""

_MOST_CACHE = 1 << 23

_LEAST = 0.002
"""Seconds that one measurement takes at least."""

_TRIES = 12
"""The best counts: others may be using the processor."""
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes a second, read and written, by arrays of `size` bytes for each thread."""

    size: int
    read: float
    write: float


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a number of threads. operations: a second, by the names of the types of loop IR."""

    threads: int
    operations: Mapping[str, float]
    bandwidths: tuple[Bandwidth, ...]

    def arithmetic_seconds(self, operations: Mapping[str, float]) -> float:
        """The least time for so many operations of each type; narrow floats count as f32."""
        return sum(count / self.operations.get(name, self.operations["f32"]) for name, count in operations.items())

    def memory_seconds(self, read: float, written: float, footprint: float | None = None) -> float:
        """The least time to read and write so many bytes that lie in `footprint` bytes (by default in as many)."""
        share = (read + written if footprint is None else footprint) / self.threads
        found = next((b for b in self.bandwidths if share <= 2 * b.size), self.bandwidths[-1])
        return read / found.read + written / found.write


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor, its limits on one thread and on all that programs use."""

    processor: str
    one: Limits
    all: Limits


def machine_limits(*, anew: bool = False) -> Machine:
    """The limits of this machine, out of the file if they were measured before; measuring takes about two seconds."""
    path = _path()
    found = None if anew or path is None else _read(path)
    if found is None:
        found = _measured()
        if path is not None:
            _write(path, found)
    return found


def ticks() -> int:
    """The processor's clock, which instrumented programs read."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(roofline_kernels().addresses["ticks"])())


# -- measuring


def _measured() -> Machine:
    threads = thread_count()
    one = _limits(1)
    return Machine(host_name(), one, _at_least(_limits(threads), one) if threads > 1 else one)


def _at_least(many: Limits, one: Limits) -> Limits:
    """Several threads can do what one can, whatever was in their way."""
    operations = {name: max(count, one.operations[name]) for name, count in many.operations.items()}
    pairs = zip(many.bandwidths, one.bandwidths, strict=True)
    bandwidths = [Bandwidth(m.size, max(m.read, o.read), max(m.write, o.write)) for m, o in pairs]
    return Limits(many.threads, operations, tuple(bandwidths))


def _limits(threads: int) -> Limits:
    operations = {type.name: _operations(name, threads) for name, type in ARITHMETIC.items()}
    sizes = (*CACHES, max(_MOST_CACHE, MEMORY // threads))
    return Limits(threads, operations, tuple(_bandwidth(size, threads) for size in sizes))


def _operations(name: str, threads: int) -> float:
    lanes, each = lanes_of(ARITHMETIC[name]), 1 << 14
    block = (ctypes.c_int64 * BLOCK)(each)
    pieces = 4 * threads
    return pieces * each * OPERATIONS * lanes / _best(partial(_run, name, block, pieces, threads))


def _bandwidth(size: int, threads: int) -> Bandwidth:
    """A copy takes the time of what it reads and of what it writes."""
    memory = allocator.results().allocate(2 * size * threads)
    memory[:] = 1
    start = memory.ctypes.data
    times = max(1, (1 << 22) // size)
    block = (ctypes.c_int64 * 4)(start, start + size * threads, size, times)
    read, copied = (_best(partial(_run, name, block, threads, threads)) / times for name in STREAMS)
    total = size * threads
    return Bandwidth(size, total / read, total / max(copied - read, copied / 4))


def _run(name: str, block: ctypes.Array[ctypes.c_int64], pieces: int, threads: int) -> None:
    address = roofline_kernels().addresses[name]
    if threads == 1:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)(
            ctypes.addressof(block), 0, pieces
        )
        return
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    parallel = ctypes.CFUNCTYPE(None, pointer, pointer, number, number, pointer, number, number)
    parallel(parallel_function())(address, ctypes.addressof(block), pieces, 1, None, 0, 0)


def _best(run: Callable[[], None]) -> float:
    """Seconds of a run, the best of several times that are long enough to be told."""
    run()
    best, count = float("inf"), 1
    for _ in range(_TRIES):
        begin = time.perf_counter()
        for _ in range(count):
            run()
        spent = (time.perf_counter() - begin) / count
        best = min(best, spent)
        count = max(1, round(_LEAST / best))
    return best


# -- the file


def _path() -> Path | None:
    """The file of this processor, flags and number of threads; None without a private directory to keep it in."""
    folder = Path(str(flags.get("cache_dir")) or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "xlapy")
    what = [host_name(), sorted(name for name, has in host_features().items() if has), os.cpu_count(), thread_count()]
    digest = hashlib.sha256(json.dumps([_FORMAT, what]).encode()).hexdigest()
    try:
        folder = folder.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        logger.info("the machine's limits are not kept: %s", error)
        return None
    return folder / f"machine-{digest[:16]}.json"


def _read(path: Path) -> Machine | None:
    try:
        data = json.loads(path.read_text("utf-8"))
        return Machine(data["processor"], _limits_of(data["one"]), _limits_of(data["all"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.info("the machine's limits are measured again, %s cannot be read: %s", path, error)
        return None


def _limits_of(data: Mapping[str, object]) -> Limits:
    operations, bandwidths = data["operations"], data["bandwidths"]
    assert isinstance(operations, dict) and isinstance(bandwidths, list)
    return Limits(
        int(str(data["threads"])),
        {str(name): float(count) for name, count in operations.items()},
        tuple(Bandwidth(int(b["size"]), float(b["read"]), float(b["write"])) for b in bandwidths),
    )


def _write(path: Path, machine: Machine) -> None:
    """Under another name first, so that nobody reads half of it."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(machine), file)
        os.replace(temporary, path)
    except OSError as error:
        logger.info("the machine's limits are not kept: %s", error)
        with suppress(OSError):
            os.unlink(temporary)
