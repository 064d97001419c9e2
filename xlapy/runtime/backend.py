"""What a platform implements to run programs: the `Backend` and `Program` protocols, and the table of platforms.

Responsible for the protocols and the registry. Does not depend on any back end, beyond how to load it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from xlapy.base.arguments.checking import checked_arguments
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from xlapy.base.garbage_collection import gc_paused
from xlapy.base.logging import logger
from xlapy.hlo.module import Module
from xlapy.interpreter.checks import NO_CHECKS, Checks
from xlapy.runtime.values import Observer, Value

if TYPE_CHECKING:
    from xlapy.runtime.device import Device
    from xlapy.runtime.engine.donation import DonatedLeaf
    from xlapy.runtime.engine.memory import MemoryStats
    from xlapy.runtime.storage.lazy_module import LazyModule


class Program(Protocol):
    """A module compiled for one platform.

    fresh_results: whether results never share memory with arguments.
    """

    fresh_results: bool

    @property
    def fast_path(self) -> Callable[[Sequence[Any]], Any] | None:
        """A faster way to call a program on one device, or None. It takes the user's arguments, checks and donates them
        as `Executable.__call__` says, and returns buffers; or it returns NotImplemented, and `execute` is called.

        After a call, its attribute `native`, if there is one and it is not None, is a still faster way, which takes a
        tuple of arguments, and returns NotImplemented for those that it leaves to the fast path.
        """
        ...

    @property
    def sharded_fast_path(self) -> Callable[[Sequence[Sequence[Any]]], list[Any]] | None:
        """The same for a program on several devices, as `Executable.execute_sharded` says, or None."""
        ...

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the entry computation of a single-device program on values that match its parameters; returns the root's
        value.

        device: serves the program's transfers with its host queues. Without a device, transfers to and from the host
        fail.
        """
        ...

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs the program on all devices at once, each with its own arguments; returns the root's value on each.

        Device i is partition i % partitions of replica i // partitions. `observer` is called in the thread of the
        device, which carries its name: `device 1`. An `ExecutionError` names the device that failed.
        """
        ...

    @property
    def optimized_module(self) -> Module:
        """The module after the platform's passes."""
        ...

    def memory_stats(self) -> MemoryStats:
        """The memory that a run takes on one device, as far as it is known at compile time."""
        ...

    def stages(self) -> Mapping[str, str]:
        """The intermediate forms of the program as text, keyed by the suffix of their file names."""
        ...

    def serialize(self) -> bytes:
        """The program as bytes for `Backend.load` in another process; `UnsupportedError` if it depends on this
        process."""
        ...


@runtime_checkable
class DeviceBound(Protocol):
    """A program whose fast paths use the queues of devices."""

    def bind(self, devices: Sequence[Device]) -> None:
        """Sets the devices that calls of the fast paths run on. Called once, before the first call."""
        ...


class Backend(Protocol):
    """A platform."""

    name: str

    def compile(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        checks: Checks = NO_CHECKS,
        tuning_file: str | None = None,
    ) -> Program:
        """Compiles a verified module for replicas * partitions devices.

        checks: conditions on instructions' values (NaN, infinity) at which runs fail. tuning_file: a file with plans of
        kernels, for platforms that have kernels; it is passed only if the caller of `Client.compile` names one.

        `Program.execute` must not overwrite its arguments, donated or not: only `Program.fast_path` knows which memory
        it may reuse. Raises `UnsupportedError` for what the platform cannot run, and the errors of
        `check_partitioning`.
        """
        ...

    def load(
        self, serialized: bytes, source: LazyModule, partition_count: int = 1, donated: Sequence[DonatedLeaf] = ()
    ) -> Program:
        """Loads what `Program.serialize` returned for a program with the same devices and donations.

        source: the program's module, which is read on demand only.

        `InvalidArgumentError` or `UnsupportedError` for bytes that do not run here.
        """
        ...

    def trim(self) -> int:
        """Returns cached memory to the system; returns its size in bytes."""
        ...


@runtime_checkable
class MemoryLimited(Protocol):
    """A platform whose `compile` has a further argument, `memory_limit`: the bytes that a run on one device may need
    for arguments, results and temporaries; 0 if any."""

    limits_memory: bool


@runtime_checkable
class ProcessSpanning(Protocol):
    """A platform whose programs may span processes: `compile` and `load` have a further argument, `topology`, a
    `ProcessTopology`. Such a program runs on its local devices only: calls take and return one row for each. Its
    method `connect(group, device_ids)` connects it to the other processes before the first call."""

    spans_processes: bool


def _interpreter() -> Backend:
    from xlapy.runtime.backends.interpreter import InterpreterBackend

    return InterpreterBackend()


def _reference() -> Backend:
    from xlapy.runtime.backends.reference import ReferenceBackend

    return ReferenceBackend()


def _cpu() -> Backend:
    from xlapy.runtime.backends.cpu import CpuBackend

    return CpuBackend()


PLATFORMS: Mapping[str, Callable[[], Backend]] = MappingProxyType(
    {"cpu": _cpu, "interpreter": _interpreter, "reference": _reference}
)
"""Loaders of the built-in platforms. Other platforms are registered, or declared by packages as entry points."""

ENTRY_POINTS = "xlapy.backends"
"""Group of the entry points with which installed packages declare platforms. Each is a function that returns a
`Backend`."""

_registered: dict[str, Callable[[], Backend]] = {}


@checked_arguments
def register_backend(platform: str, load: Callable[[], Backend]) -> None:
    """Registers a platform in this process: `Client(platform)` calls `load` for its back end.

    A later registration of the same name replaces an earlier one. `InvalidArgumentError` for the name of a built-in
    platform, and for a name that is not a word (letters, digits, `-` and `_`).
    """
    if platform in PLATFORMS:
        raise InvalidArgumentError(
            codes.PLATFORM_NAME, f"the platform {platform!r} is built in: give yours another name"
        )
    if not re.fullmatch(r"[A-Za-z][\w\-]*", platform):
        raise InvalidArgumentError(
            codes.PLATFORM_NAME, f"{platform!r} is not the name of a platform, a word of letters, digits, - and _"
        )
    if not callable(load):
        raise ArgumentTypeError(
            call_codes.ARGUMENT_TYPE,
            f"register_backend: load must be a function that returns a back end, given {type(load).__name__} {load!r}",
        )
    _registered[platform] = load


def default_platform() -> str:
    """Returns `cpu` if the CPU compiler supports this machine, else `interpreter`, and logs why."""
    try:
        load_backend("cpu")
    except UnsupportedError as error:
        logger.info("the default platform is the interpreter: %s", error)
        return "interpreter"
    return "cpu"


def platform_names() -> list[str]:
    """The names of all platforms that `load_backend` finds."""
    return sorted({*PLATFORMS, *_registered, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def load_backend(platform: str) -> Backend:
    """Returns the back end of a platform. `InvalidArgumentError` lists the known platforms if there is none of that
    name."""
    known = PLATFORMS.get(platform) or _registered.get(platform)
    if known is not None:
        with gc_paused():  # importing a compiler creates many objects that stay alive
            return known()
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == platform:
            return _load_entry_point(entry)
    raise InvalidArgumentError(
        codes.PLATFORM, f"unknown platform {platform!r}; known platforms: {', '.join(platform_names())}"
    )


def _load_entry_point(entry: EntryPoint) -> Backend:
    try:
        load = entry.load()
    except Exception as error:  # importing the package may raise anything
        raise InvalidArgumentError(
            codes.PLATFORM_PACKAGE,
            f"the platform {entry.name!r} could not be loaded from {entry.value}: {type(error).__name__}: {error}",
        ) from error
    backend: Backend = load()
    return backend
