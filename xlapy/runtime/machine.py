"""The machine's roofline: peak operations and bytes per second, measured once by small kernels.

The figures are cached in the user's private cache directory (the flag `cache_dir`, by default `~/.cache/xlapy`), one
file per processor model and number of threads.

Responsible for measuring and for the file. Does not depend on programs.
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
from xlapy.cpu.llvm.pool import parallel_function, thread_count
from xlapy.cpu.llvm.processor import host_processor, target_processor
from xlapy.cpu.llvm.roofline_kernels import ARITHMETIC, BLOCK, OPERATIONS, STREAMS, lanes_of, roofline_kernels
from xlapy.runtime.engine import allocator

CACHE_BYTES = (1 << 14, 1 << 18, 1 << 21)
"""Working-set sizes per thread in bytes, chosen to fit the L1, L2 and L3 caches of current processors."""

MEMORY_BYTES = 1 << 27
"""Working-set size of all threads together in bytes that exceeds every cache; at least `_MIN_MEMORY_PER_THREAD` per
thread."""

_MIN_MEMORY_PER_THREAD = 1 << 23

_MIN_SECONDS = 0.002
"""Minimum duration of one measurement."""

_MEASUREMENTS = 12
"""Number of measurements. The best one counts, because other processes may use the processor."""
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes read and bytes written per second by threads that each use arrays of `size` bytes."""

    size: int
    read: float
    write: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """Peak rates of a number of threads. operations: operations per second by the name of the loop IR's scalar type."""

    threads: int
    operations: Mapping[str, float]
    bandwidths: tuple[Bandwidth, ...]

    def arithmetic_seconds(self, operations: Mapping[str, float]) -> float:
        """The least time for a number of operations of each type. Types without a measurement count as f32."""
        return sum(count / self.operations.get(name, self.operations["f32"]) for name, count in operations.items())

    def memory_seconds(self, read: float, written: float, footprint: float | None = None) -> float:
        """The least time to read and write so many bytes with a working set of `footprint` bytes (by default their
        sum)."""
        share = (read + written if footprint is None else footprint) / self.threads
        bandwidth = next((b for b in self.bandwidths if share <= 2 * b.size), self.bandwidths[-1])
        return read / bandwidth.read + written / bandwidth.write


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor and its rooflines: of one thread, and of all threads that programs use."""

    processor: str
    one: Roofline
    all: Roofline


def machine_roofline(*, anew: bool = False) -> Machine:
    """Returns the machine's rooflines from the file, or measures them, which takes about two seconds. anew: always
    measure."""
    path = _path()
    machine = None if anew or path is None else _read(path)
    if machine is None:
        machine = _measure()
        if path is not None:
            _write(path, machine)
    return machine


def ticks() -> int:
    """The processor's tick counter, which instrumented programs read."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(roofline_kernels().addresses["ticks"])())


# -- measuring


def _measure() -> Machine:
    threads = thread_count()
    one = _measure_roofline(1)
    return Machine(host_processor().name, one, _at_least(_measure_roofline(threads), one) if threads > 1 else one)


def _at_least(many: Roofline, one: Roofline) -> Roofline:
    """Raises the rates of several threads to at least those of one thread, in case a measurement was disturbed."""
    operations = {name: max(count, one.operations[name]) for name, count in many.operations.items()}
    pairs = zip(many.bandwidths, one.bandwidths, strict=True)
    bandwidths = [Bandwidth(m.size, max(m.read, o.read), max(m.write, o.write)) for m, o in pairs]
    return Roofline(many.threads, operations, tuple(bandwidths))


def _measure_roofline(threads: int) -> Roofline:
    operations = {type.name: measure_operations(type.name, threads) for type in ARITHMETIC.values()}
    sizes = (*CACHE_BYTES, max(_MIN_MEMORY_PER_THREAD, MEMORY_BYTES // threads))
    return Roofline(threads, operations, tuple(measure_bandwidth(size, threads) for size in sizes))


def measure_operations(name: str, threads: int) -> float:
    """Measures the operations per second on elements of a scalar type of the loop IR, such as "f32"."""
    name = f"arithmetic_{name}"
    lanes, each = lanes_of(ARITHMETIC[name]), 1 << 14
    block = (ctypes.c_int64 * BLOCK)(each)
    pieces = 4 * threads
    return pieces * each * OPERATIONS * lanes / _best(partial(_run, name, block, pieces, threads))


def measure_bandwidth(size: int, threads: int) -> Bandwidth:
    """Measures threads that each read and copy `size` bytes, a multiple of 512.

    The time of a copy is that of reading plus that of writing.
    """
    memory = allocator.result_allocator().allocate(2 * size * threads)
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
    parallel(parallel_function().address)(address, ctypes.addressof(block), pieces, 1, None, 0, 0)


def _best(run: Callable[[], None]) -> float:
    """Returns the seconds of one run, as the minimum over several measurements of at least `_MIN_SECONDS`."""
    run()
    best, count = float("inf"), 1
    for _ in range(_MEASUREMENTS):
        begin = time.perf_counter()
        for _ in range(count):
            run()
        spent = (time.perf_counter() - begin) / count
        best = min(best, spent)
        count = max(1, round(_MIN_SECONDS / best))
    return best


# -- the file


def _path() -> Path | None:
    """The file for this processor, the features that code uses and the number of threads; None if no directory is
    private."""
    folder = Path(str(flags.get("cache_dir")) or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "xlapy")
    what = [host_processor().name, sorted(target_processor().features), os.cpu_count(), thread_count()]
    digest = hashlib.sha256(json.dumps([_FORMAT, what]).encode()).hexdigest()
    try:
        folder = folder.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        logger.info("the machine's roofline is not cached: %s", error)
        return None
    return folder / f"machine-{digest[:16]}.json"


def _read(path: Path) -> Machine | None:
    try:
        data = json.loads(path.read_text("utf-8"))
        return Machine(data["processor"], _roofline_of(data["one"]), _roofline_of(data["all"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.info("the machine's roofline is measured again, %s cannot be read: %s", path, error)
        return None


def _roofline_of(data: Mapping[str, object]) -> Roofline:
    operations, bandwidths = data["operations"], data["bandwidths"]
    assert isinstance(operations, dict) and isinstance(bandwidths, list)
    return Roofline(
        int(str(data["threads"])),
        {str(name): float(count) for name, count in operations.items()},
        tuple(Bandwidth(int(b["size"]), float(b["read"]), float(b["write"])) for b in bandwidths),
    )


def _write(path: Path, machine: Machine) -> None:
    """Writes to a temporary name first, so that readers never see a partial file."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(machine), file)
        os.replace(temporary, path)
    except OSError as error:
        logger.info("the machine's roofline is not cached: %s", error)
        with suppress(OSError):
            os.unlink(temporary)
