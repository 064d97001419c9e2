"""The machine's roofline: peak operations per second, and bytes per second by working set, measured once by small
kernels.

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
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from math import log2
from pathlib import Path

from xlapy.base import flags
from xlapy.base.logging import logger
from xlapy.cpu.llvm.pool import parallel_function, thread_count
from xlapy.cpu.llvm.processor import host_processor, target_processor
from xlapy.cpu.llvm.roofline_kernels import (
    ARITHMETIC,
    BLOCK,
    OPERATIONS,
    STREAM_STEP,
    STREAMS,
    lanes_of,
    roofline_kernels,
)
from xlapy.cpu.target import host_caches
from xlapy.loops.dot_instructions import DOT_TERMS
from xlapy.runtime.engine import allocator

SMALLEST_BYTES = 1 << 14
"""The smallest working set of a thread that is measured, which fits every level-1 cache. Further ones are multiples of
it by powers of two."""

MEMORY_BYTES = 1 << 27
"""The largest working set of all threads together; at least `_CACHE_MULTIPLE` times the last cache."""

_MIN_SECONDS = 0.001
"""Minimum duration of one measurement."""

_MEASUREMENTS = 10
"""Number of measurements. The best one counts, because other processes may use the processor."""
_MAX_SECONDS = 0.1
"""Duration from which on fewer measurements suffice, but at least `_MIN_MEASUREMENTS`."""

_MIN_MEASUREMENTS = 3

_CACHE_MULTIPLE = 4
"""How much larger than the last cache a working set is whose data lie in memory."""

_FORMAT = 3

_KEPT_BEYOND = 2**0.5
"""How many times the bytes of a cache a working set may have that is read as fast as one that fits: caches do not
strictly replace what was used longest ago, and data are used in both directions. A loop of copies and reversals of
400 kB each runs at 1.13 times the rate of a working set of 1.2 MB with 1 MB of level 2 (1.01 with this factor)."""

_RATES = ("read", "write", "copy", "add", "update", "accumulate")

_SHARED_LEVEL = 3
"""The first level of caches that cores share."""

_BYTES_PER_RUN = 1 << 22
"""A kernel goes through small working sets so often that it moves at least this many bytes, some 50 microseconds."""

_MIN_BYTES_PAST_CACHES = 1 << 20
"""The smallest working set for which stores past the caches are measured; below, they are never faster."""

_PADDING = 17 * 64
"""Bytes between arrays, so that they do not begin at multiples of a page from each other: processors compare only the
last bits of addresses when a load follows a store."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The bytes per second of threads that each go through a working set of `size` bytes again and again.

    Each rate counts the bytes read plus the bytes written, for another mixture of both: of reading, of writing, of
    copying an array (one byte read per byte written), of adding two (two bytes read), of updating an array in place and
    of adding one to it in place. A rate of 0 is unknown: the time is then that of reading plus that of writing.
    """

    size: int
    read: float
    write: float
    copy: float = 0.0
    add: float = 0.0
    update: float = 0.0
    accumulate: float = 0.0

    def seconds(self, read: float, written: float, in_place: float = 0.0) -> float:
        """The least time to read and write so many bytes. in_place: the bytes written to memory that is also read.

        The mixture is composed of the two measured ones that are nearest to it.
        """
        in_place = min(in_place, written)
        if not in_place:
            return self._mixed(read, written, self.copy, self.add)
        read_in_place = max(in_place, read * in_place / written)
        apart = self._mixed(max(0.0, read - read_in_place), written - in_place, self.copy, self.add)
        return apart + self._mixed(read_in_place, in_place, self.update, self.accumulate)

    def _mixed(self, read: float, written: float, copy: float, add: float) -> float:
        if not copy or not add or not written:
            return read / self.read + written / self.write
        if read >= 2 * written:
            return 3 * written / add + (read - 2 * written) / self.read
        if read >= written:
            return 3 * (read - written) / add + 2 * (2 * written - read) / copy
        return 2 * read / copy + (written - read) / self.write


@dataclass(frozen=True, slots=True)
class Roofline:
    """Peak rates of a number of threads. operations: operations per second by the name of the loop IR's scalar type."""

    threads: int
    operations: Mapping[str, float]
    bandwidths: tuple[Bandwidth, ...]
    """By working set, the smallest first. A larger working set is never faster."""

    def arithmetic_seconds(self, operations: Mapping[str, float]) -> float:
        """The least time for a number of operations of each type. Types without a measurement count as f32.

        A dot instruction takes as long as a multiply-add of f32.
        """
        f32 = self.operations["f32"]
        rates = {name: self.operations.get(name, f32 * DOT_TERMS.get(name, 1)) for name in operations}
        return sum(count / rates[name] for name, count in operations.items())

    def memory_seconds(
        self, read: float, written: float, footprint: float | None = None, in_place: float = 0.0
    ) -> float:
        """The least time to read and write so many bytes with a working set of `footprint` bytes (by default their
        sum). in_place: the bytes written to memory that is also read.

        Between two measured working sets, the time changes in proportion to the logarithm of the size.
        """
        share = (read + written if footprint is None else footprint) / self.threads / _KEPT_BEYOND
        sizes = [bandwidth.size for bandwidth in self.bandwidths]
        above = bisect_right(sizes, share)
        if above == 0 or above == len(sizes):
            return self.bandwidths[max(0, above - 1)].seconds(read, written, in_place)
        below, over = (b.seconds(read, written, in_place) for b in self.bandwidths[above - 1 : above + 1])
        part = log2(share / sizes[above - 1]) / log2(sizes[above] / sizes[above - 1])
        return below + part * (over - below)


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor and its rooflines: of one thread, of all threads that programs use, and of numbers of threads between
    them. caches: the bytes of the caches of level 1 and 2 of a core, and of the cache of level 3 that cores share; as
    many as are known."""

    processor: str
    one: Roofline
    all: Roofline
    between: tuple[Roofline, ...] = ()
    caches: tuple[int, ...] = ()

    def of_threads(self, threads: float) -> Roofline:
        """Returns the roofline of the smallest measured number of threads that is not below a number."""
        measured = (self.one, *self.between, self.all)
        return next((roofline for roofline in measured if roofline.threads >= threads - 0.05), self.all)

    def level(self, footprint: float, threads: int) -> str:
        """Returns the name of the smallest cache that holds a working set of all threads together: `L1`, `L2`, `L3`;
        otherwise `memory`."""
        for number, size in enumerate(self.caches, 1):
            if footprint <= size * (threads if number < _SHARED_LEVEL else 1):
                return f"L{number}"
        return "memory"

    def levels(self, roofline: Roofline) -> list[tuple[str, Bandwidth]]:
        """Returns the bandwidth of each level of memory: of the largest measured working set that fills at most half of
        a cache, and of the largest one of all."""
        found: dict[str, Bandwidth] = {}
        for bandwidth in roofline.bandwidths:
            level = self.level(2.0 * bandwidth.size * roofline.threads, roofline.threads)
            if level != "memory":
                found[level] = bandwidth
        return [*found.items(), ("memory", roofline.bandwidths[-1])]


def machine_roofline(*, anew: bool = False) -> Machine:
    """Returns the machine's rooflines from the file, or measures them, which takes some ten seconds. anew: always
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
    counts = [1 << n for n in range(threads.bit_length()) if 1 << n < threads] + [threads]
    rooflines: list[Roofline] = []
    for count in counts:
        found = _measure_roofline(count)
        rooflines.append(_at_least(found, rooflines[-1]) if rooflines else found)
    caches = host_caches()
    known = tuple(caches[level] for level in range(1, 1 + len(caches)) if level in caches)
    return Machine(host_processor().name, rooflines[0], rooflines[-1], tuple(rooflines[1:-1]), known)


def _at_least(many: Roofline, few: Roofline) -> Roofline:
    """Raises the rates of threads to at least those of fewer threads, in case a measurement was disturbed."""
    operations = {name: max(count, few.operations[name]) for name, count in many.operations.items()}
    pairs = zip(many.bandwidths, few.bandwidths, strict=False)
    return Roofline(many.threads, operations, tuple(_fastest(m, f) for m, f in pairs))


def _fastest(one: Bandwidth, other: Bandwidth) -> Bandwidth:
    """Returns the higher of two rates each, for the working set of the first."""
    rates = {name: max(getattr(one, name), getattr(other, name)) for name in _RATES}
    return Bandwidth(one.size, **rates)


def _measure_roofline(threads: int) -> Roofline:
    operations = {type.name: measure_operations(type.name, threads) for type in ARITHMETIC.values()}
    sizes = [SMALLEST_BYTES]
    while sizes[-1] * threads < max(MEMORY_BYTES, _CACHE_MULTIPLE * max(host_caches().values(), default=0)):
        sizes.append(2 * sizes[-1])
    found = [measure_bandwidth(sizes[-1], threads)]
    for size in reversed(sizes[:-1]):
        found.append(_fastest(measure_bandwidth(size, threads), found[-1]))
    return Roofline(threads, operations, tuple(reversed(found)))


def measure_operations(name: str, threads: int) -> float:
    """Measures the operations per second on elements of a scalar type of the loop IR, such as "f32"."""
    name = f"arithmetic_{name}"
    lanes, each = lanes_of(ARITHMETIC[name]), 1 << 14
    block = (ctypes.c_int64 * BLOCK)(each)
    pieces = 4 * threads
    return pieces * each * OPERATIONS * lanes / _best(partial(_run, name, block, pieces, threads))


def measure_bandwidth(size: int, threads: int) -> Bandwidth:
    """Measures threads that go through `size` bytes each."""
    memory = allocator.result_allocator().allocate(size * threads + 4 * _PADDING)
    memory[:] = 1
    start = memory.ctypes.data
    rates: dict[str, float] = {}
    for name, stream in STREAMS.items():
        if stream.past_caches and size * threads < _MIN_BYTES_PAST_CACHES:
            continue
        chunk = max(STREAM_STEP, size // stream.arrays // STREAM_STEP * STREAM_STEP)
        times = max(1, _BYTES_PER_RUN // size)
        places = [start + number * (chunk * threads + _PADDING) for number in range(stream.arrays)]
        read = (places + places)[:2]
        block = (ctypes.c_int64 * 5)(*read, places[-1], chunk, times)
        seconds = _best(partial(_run, name, block, threads, threads)) / times
        kind, _, _ = name.partition("_")
        rates[kind] = max(rates.get(kind, 0.0), stream.moved * chunk * threads / seconds)
    return Bandwidth(size, **rates)


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
    best, count, first = float("inf"), 1, time.perf_counter()
    for number in range(_MEASUREMENTS):
        begin = time.perf_counter()
        if number >= _MIN_MEASUREMENTS and begin - first > _MAX_SECONDS:
            break
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
        between = tuple(map(_roofline_of, data["between"]))
        caches = tuple(map(int, data["caches"]))
        return Machine(data["processor"], _roofline_of(data["one"]), _roofline_of(data["all"]), between, caches)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.info("the machine's roofline is measured again, %s cannot be read: %s", path, error)
        return None


def _roofline_of(data: Mapping[str, object]) -> Roofline:
    operations, bandwidths = data["operations"], data["bandwidths"]
    if not isinstance(operations, dict) or not isinstance(bandwidths, list):
        raise TypeError("operations are an object, and bandwidths a list")
    return Roofline(
        int(str(data["threads"])),
        {str(name): float(count) for name, count in operations.items()},
        tuple(Bandwidth(int(b["size"]), **{name: float(b[name]) for name in _RATES}) for b in bandwidths),
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
