"""Base classes of back ends that compile a module at once and run it in Python: the parts that most of them share.

A back end on these classes defines `BasicBackend.compile_module`, and a program `optimized_module` and `execute`.
Everything else is refused or empty, and can be defined when the platform has it. Does not depend on any platform.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.module import Module
from xlapy.interpreter.checks import NO_CHECKS, Checks
from xlapy.runtime.backend import Program
from xlapy.runtime.device import Device
from xlapy.runtime.engine.donation import DonatedLeaf
from xlapy.runtime.engine.memory import MemoryStats, value_bytes
from xlapy.runtime.storage.lazy_module import LazyModule
from xlapy.runtime.values import Observer, Value


class BasicProgram(ABC):
    """A program without native code, collectives or serialization.

    fresh_results: whether results never share memory with arguments. optimized_module: the module after the passes.
    """

    fresh_results: bool = False
    fast_path = None
    sharded_fast_path = None
    optimized_module: Module

    @abstractmethod
    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Returns the value of the root. Calls `observer`, if there is one, after each instruction."""

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs the devices one after the other, which is right for programs without collectives."""
        return [self.execute(given, observer, device) for given, device in zip(arguments, devices, strict=True)]

    def memory_stats(self) -> MemoryStats:
        """The bytes of arguments and results; temporaries are unknown, and count as 0."""
        shape = self.optimized_module.entry_computation.program_shape
        return MemoryStats(sum(map(value_bytes, shape.parameters)), value_bytes(shape.result), 0, 0, 0)

    def stages(self) -> Mapping[str, str]:
        """No intermediate forms."""
        return {}

    def serialize(self) -> bytes:
        """Raises `UnsupportedError`."""
        raise UnsupportedError(codes.SERIALIZABLE_PROGRAM, "programs of this platform are not serialized")


class BasicBackend(ABC):
    """A platform that runs programs on the host, without checks of values and tuned kernels."""

    name: str

    @abstractmethod
    def compile_module(self, module: Module) -> Program:
        """Returns a program of a verified module, which stays as it is. Raises `UnsupportedError` for what it cannot
        run."""

    def compile(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        checks: Checks = NO_CHECKS,
        tuning_file: str | None = None,
    ) -> Program:
        """Returns the program of `compile_module`. Raises `UnsupportedError` for checks and for a file of plans."""
        if checks:
            raise UnsupportedError(
                codes.PLATFORM_OPTION, f"{self.name} does not check for NaN or infinities: the interpreter and cpu do"
            )
        if tuning_file is not None:
            raise UnsupportedError(
                codes.PLATFORM_OPTION, f"{self.name} has no plans of kernels that {tuning_file} could set"
            )
        return self.compile_module(module)

    def load(
        self, serialized: bytes, source: LazyModule, partition_count: int = 1, donated: Sequence[DonatedLeaf] = ()
    ) -> Program:
        """Raises `UnsupportedError`."""
        raise UnsupportedError(codes.SERIALIZABLE_PROGRAM, f"programs of {self.name} are not serialized")

    def trim(self) -> int:
        """There is no cached memory."""
        return 0
