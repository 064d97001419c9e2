"""What a platform must offer to run programs: the `Backend` protocol, and the table of platforms.

Owns: the protocol and the registry. Must not know: any particular back end beyond how to load it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.logging import logger
from xlapy.hlo.module import Module
from xlapy.interpreter.checks import NO_CHECKS, Checks
from xlapy.runtime.values import Observer, Value

if TYPE_CHECKING:
    from xlapy.runtime.device import Device
    from xlapy.runtime.engine.donation import Donated
    from xlapy.runtime.engine.memory import MemoryStats
    from xlapy.runtime.storage.lazy_module import Unread


class Program(Protocol):
    """A module made ready to run on one platform.

    fresh_results: whether results never share memory with arguments.
    """

    fresh_results: bool

    @property
    def direct(self) -> Callable[[Sequence[Any]], Any] | None:
        """A shorter way for a program on one device, from the arguments that a user gives, checked and donated as
        `Executable.__call__` says, to the buffers that the user gets; None if there is none."""
        ...

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the entry computation on values that fit its parameters; returns the root's value.

        The program is one for a single device, whose host queues serve its transfers; without it there is no host.
        """
        ...

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs on every device its own arguments, at once; returns the root's value on each.

        Device i is partition i % partitions of replica i // partitions. `observer` is called in the thread of the
        device, which has its name: `device 1`. `ExecutionError` names the device that fails.
        """
        ...

    @property
    def optimised(self) -> Module:
        """The module as it runs, behind the platform's passes."""
        ...

    def memory(self) -> MemoryStats:
        """What a run on one device takes, as far as it is known before."""
        ...

    def stages(self) -> Mapping[str, str]:
        """The forms that the program had on its way, by how the names of their files end."""
        ...

    def image(self) -> bytes:
        """The program as `Backend.load` takes it in another process; `UnsupportedError` if it cannot leave this one."""
        ...


class Backend(Protocol):
    """One platform."""

    name: str

    def compile(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[Donated] = (),
        checks: Checks = NO_CHECKS,
    ) -> Program:
        """Makes a verified module ready to run on replicas * partitions devices.

        checks: what its runs look for in the values of instructions, and fail at.

        What `execute` is given may not be overwritten, donated or not: whose memory may be, only `direct` knows.
        Raises `UnsupportedError` for what the platform cannot do, and what `check_partitioning` raises.
        """
        ...

    def load(self, image: bytes, source: Unread, partition_count: int = 1, donated: Sequence[Donated] = ()) -> Program:
        """What `Program.image` gave for a program, compiled for the same devices and donations.

        source: its module, which need not be read for that.

        `InvalidArgumentError` or `UnsupportedError` for bytes that do not run here.
        """
        ...

    def trim(self) -> int:
        """Gives memory that is kept for use to come back to the system; how many bytes that were."""
        ...


def _interpreter() -> Backend:
    from xlapy.runtime.backends.interpreter import InterpreterBackend

    return InterpreterBackend()


def _cpu() -> Backend:
    from xlapy.runtime.backends.cpu import CpuBackend

    return CpuBackend()


PLATFORMS: Mapping[str, Callable[[], Backend]] = MappingProxyType({"cpu": _cpu, "interpreter": _interpreter})
"""Loaders of the built-in platforms. Others are registered, or named by packages in the entry-point group."""

ENTRY_POINTS = "xlapy.backends"
"""Group of the entry points by which installed packages name platforms: each a function that returns a `Backend`."""

_registered: dict[str, Callable[[], Backend]] = {}


def register_backend(platform: str, load: Callable[[], Backend]) -> None:
    """Makes a platform known to this process: `Client(platform)` calls `load` for its back end.

    A later registration of the same name takes the place of an earlier one. `InvalidArgumentError` for the name of a
    built-in platform, and for one that is no word (letters, digits, `-` and `_`).
    """
    if platform in PLATFORMS:
        raise InvalidArgumentError(f"the platform {platform!r} is built in: give yours another name")
    if not re.fullmatch(r"[A-Za-z][\w\-]*", platform):
        raise InvalidArgumentError(f"{platform!r} is not the name of a platform, a word of letters, digits, - and _")
    _registered[platform] = load


def default_platform() -> str:
    """`cpu` on machines that it compiles for, else `interpreter`; the log says why."""
    try:
        load_backend("cpu")
    except UnsupportedError as error:
        logger.info("the default platform is the interpreter: %s", error)
        return "interpreter"
    return "cpu"


def platform_names() -> list[str]:
    """Every platform that `load_backend` knows."""
    return sorted({*PLATFORMS, *_registered, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def load_backend(platform: str) -> Backend:
    """The back end of a platform; `InvalidArgumentError` naming the known ones if there is none."""
    known = PLATFORMS.get(platform) or _registered.get(platform)
    if known is not None:
        return known()
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == platform:
            return _loaded(entry)
    raise InvalidArgumentError(f"unknown platform {platform!r}; known platforms: {', '.join(platform_names())}")


def _loaded(entry: EntryPoint) -> Backend:
    try:
        load = entry.load()
    except Exception as error:  # whatever the package raises when it is imported
        raise InvalidArgumentError(
            f"the platform {entry.name!r} could not be loaded from {entry.value}: {type(error).__name__}: {error}"
        ) from error
    backend: Backend = load()
    return backend
