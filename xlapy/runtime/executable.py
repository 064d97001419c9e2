"""A compiled program as users have it: `Executable`.

Owns: how arguments reach a program and results the user, what a program tells of itself. Must not know: back ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.analysis.cost import module_cost
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.module import Module
from xlapy.runtime.backend import Program
from xlapy.runtime.device import Device
from xlapy.runtime.engine.arguments import check_arguments, wrap_result
from xlapy.runtime.engine.donation import Donated, donated_buffers
from xlapy.runtime.engine.memory import MemoryStats
from xlapy.runtime.storage.lazy_module import Unread
from xlapy.runtime.storage.serialized import write_executable
from xlapy.runtime.values import Observer


class Executable:
    """A program ready to run: call it with one argument a parameter, or, on several devices, `execute_sharded`.

    `devices` are those it runs on: `devices[i]` is partition `i % num_partitions` of replica `i // num_partitions`.
    `program` is what the back end made of the module, for tools that know it.
    """

    def __init__(
        self,
        source: Module | Unread,
        program: Program,
        platform: str,
        devices: Sequence[Device],
        num_replicas: int = 1,
        num_partitions: int = 1,
        donated: Sequence[Donated] = (),
    ) -> None:
        self._source = source
        self.platform = platform
        self.devices = tuple(devices)
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        self.program = program
        """What runs it; for those who bring values and devices of their own."""
        self.donated = tuple(donated)
        self._direct = program.direct if len(devices) == 1 else None

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def module(self) -> Module:
        """The module as it was given."""
        return self._source.module if isinstance(self._source, Unread) else self._source

    @property
    def program_shape(self) -> ProgramShape:
        source = self._source
        return source.program_shape if isinstance(source, Unread) else source.entry_computation.program_shape

    def __call__(self, *arguments: Any, observer: Observer | None = None) -> Any:
        """Runs the program, which must be one for a single device.

        Arguments are NumPy arrays, buffers, anything with `__array__` or DLPack, of exactly the parameter's dimensions
        (any size up to the bound where one is dynamic) and element type; Python numbers and lists, which take the
        parameter's element type; and tuples of these for tuple parameters. Returns a `Buffer` of the actual sizes, or
        nested tuples of them. `InvalidArgumentError` names the parameter that
        does not fit. `observer` is called after each instruction.
        """
        if self._direct is not None and observer is None:
            return self._direct(arguments)
        if len(self.devices) != 1:
            raise InvalidArgumentError(
                f"{self.name} runs on {len(self.devices)} devices: give each its arguments by execute_sharded"
            )
        values = self.values_of(arguments)
        self._end_donated(arguments)
        result = self.program.execute(values, observer, self.devices[0])
        return wrap_result(result, () if self.program.fresh_results else values)

    def execute_sharded(self, arguments: Sequence[Sequence[Any]], observer: Observer | None = None) -> list[Any]:
        """Runs the program on all its devices at once: `arguments[i]` are those of `devices[i]`, as a call takes them.

        Returns the result of each device. An `ExecutionError` names the device that failed first; programs that can
        never finish (devices that wait for each other, a send nobody receives) are such errors. `observer` is called in
        the threads of the devices, which have their names: `device 1`.
        """
        if len(arguments) != len(self.devices):
            raise InvalidArgumentError(
                f"{self.name} runs on {len(self.devices)} devices, given arguments for {len(arguments)}"
            )
        values = [self._values_of(device, given) for device, given in enumerate(arguments)]
        for given in arguments:
            self._end_donated(given)
        results = self.program.execute_sharded(values, self.devices, observer)
        everything = [] if self.program.fresh_results else [value for given in values for value in given]
        return [wrap_result(result, everything) for result in results]

    def _end_donated(self, arguments: Sequence[Any]) -> None:
        for leaf, buffer in donated_buffers(self.donated, arguments):
            buffer.end_by_donation(leaf.fate)

    def values_of(self, arguments: Sequence[Any]) -> list[Any]:
        """The values of the parameters, as `program` takes them; errors as of a call."""
        return check_arguments(self.program_shape, arguments)

    def _values_of(self, device: int, arguments: Sequence[Any]) -> list[Any]:
        if isinstance(arguments, str) or not isinstance(arguments, Sequence):
            raise InvalidArgumentError(
                f"execute_sharded takes a list of arguments a device, given {type(arguments).__name__} for {device}"
            )
        try:
            return self.values_of(arguments)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"device {device}: {error}") from error

    def as_hlo_text(self, *, optimized: bool = False, **options: bool) -> str:
        """The module as it was given, or, `optimized`, as it runs: behind the passes of the platform, its fusions made.

        Options as in `xlapy.text.PrintOptions`; large constants are shortened by default.
        """
        return (self.program.optimised if optimized else self.module).to_text(**options)

    def cost_analysis(self) -> dict[str, float]:
        """What a run costs by the shapes of the optimized module, under XLA's names.

        `flops`, `transcendentals` and `bytes accessed`; `bytes accessed0{}` ... are the bytes read as operand 0 ... of
        all instructions, `bytes accessedout{}` those written. `xlapy.analysis.cost` says what counts.
        """
        return module_cost(self.program.optimised).named()

    def serialize(self) -> bytes:
        """The compiled program as bytes, which `Client.deserialize` makes ready to run without compiling.

        They run with this version of xlapy, on processors that have what this one has; targets of custom calls must be
        registered there under the same names. `UnsupportedError` for programs of the interpreter.
        """
        return write_executable(
            self.platform, self.module, self.num_replicas, self.num_partitions, self.donated, self.program.image()
        )

    def memory_analysis(self) -> MemoryStats:
        """The bytes that a run takes on one device, under JAX's names."""
        return self.program.memory()

    def __repr__(self) -> str:
        return f"<Executable {self.name} on {self.platform}: {self.program_shape.to_text()}>"
