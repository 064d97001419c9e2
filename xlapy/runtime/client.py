"""The door for users: `Client` compiles programs for a platform, `Executable` runs them.

Owns: what may be compiled, how results reach the user. Must not know: how a back end works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.builder import XlaComputation
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.runtime import allocator
from xlapy.runtime.arguments import check_arguments, wrap_result
from xlapy.runtime.backend import Observer, Program, load_backend
from xlapy.runtime.device import Device
from xlapy.runtime.dump import dump_module, dump_stages
from xlapy.runtime.replicas import counts
from xlapy.text import parse_hlo


class Executable:
    """A program ready to run: call it with one argument a parameter, or, on several devices, `execute_sharded`.

    `devices` are those it runs on: `devices[i]` is partition `i % num_partitions` of replica `i // num_partitions`.
    """

    def __init__(
        self,
        module: Module,
        program: Program,
        platform: str,
        devices: Sequence[Device],
        num_replicas: int = 1,
        num_partitions: int = 1,
    ) -> None:
        self.module = module
        self.platform = platform
        self.devices = tuple(devices)
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        self._program = program

    @property
    def name(self) -> str:
        return self.module.name

    @property
    def program_shape(self) -> ProgramShape:
        return self.module.entry_computation.program_shape

    def __call__(self, *arguments: Any, observer: Observer | None = None) -> Any:
        """Runs the program, which must be one for a single device.

        Arguments are NumPy arrays, buffers, anything with `__array__` or DLPack, of exactly the parameter's dimensions
        (any size up to the bound where one is dynamic) and element type; Python numbers and lists, which take the
        parameter's element type; and tuples of these for tuple parameters. Returns a `Buffer` of the actual sizes, or
        nested tuples of them. `InvalidArgumentError` names the parameter that
        does not fit. `observer` is called after each instruction.
        """
        if len(self.devices) != 1:
            raise InvalidArgumentError(
                f"{self.name} runs on {len(self.devices)} devices: give each its arguments by execute_sharded"
            )
        values = check_arguments(self.program_shape, arguments)
        result = self._program.execute(values, observer, self.devices[0])
        return wrap_result(result, () if self._program.fresh_results else values)

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
        results = self._program.execute_sharded(values, self.devices, observer)
        everything = [] if self._program.fresh_results else [value for given in values for value in given]
        return [wrap_result(result, everything) for result in results]

    def _values_of(self, device: int, arguments: Sequence[Any]) -> list[Any]:
        if isinstance(arguments, str) or not isinstance(arguments, Sequence):
            raise InvalidArgumentError(
                f"execute_sharded takes a list of arguments a device, given {type(arguments).__name__} for {device}"
            )
        try:
            return check_arguments(self.program_shape, arguments)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"device {device}: {error}") from error

    def as_hlo_text(self, **options: bool) -> str:
        """The module as HLO text; options as in `xlapy.text.PrintOptions`; large constants are shortened by default."""
        return self.module.to_text(**options)

    def __repr__(self) -> str:
        return f"<Executable {self.name} on {self.platform}: {self.program_shape.to_text()}>"


class Client:
    """A platform and its `devices`, as many as are asked for: they are threads of this process.

    >>> client = Client("interpreter")
    >>> axpy = client.compile(computation)
    >>> axpy(x, y)
    """

    def __init__(self, platform: str = "interpreter", devices: int = 1) -> None:
        if devices < 1:
            raise InvalidArgumentError(f"a client has at least 1 device, given devices={devices}")
        self.platform = platform
        self._backend = load_backend(platform)
        self.devices = tuple([Device(number, platform) for number in range(devices)])

    def compile(
        self,
        program: XlaComputation | Module | str,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
    ) -> Executable:
        """Verifies a program and makes it ready to run, on the first `num_replicas` * `num_partitions` devices.

        `program` is what `XlaBuilder.build` returns, a `Module`, or HLO text. Its own replica_count and num_partitions
        count where none are given. Raises `ParseError`, `VerificationError`, `InvalidArgumentError` if there are too
        few devices, or `UnsupportedError` for operations that the platform cannot run and for shardings: a program
        for several partitions is what each of them runs.
        """
        module = _module(program)
        verify(module)
        dumped = dump_module(module)
        replicas, partitions = counts(module, num_replicas, num_partitions, len(self.devices))
        compiled = self._backend.compile(module, replicas, partitions)
        if dumped is not None:
            dump_stages(dumped, compiled.stages())
        devices = self.devices[: replicas * partitions]
        return Executable(module, compiled, self.platform, devices, replicas, partitions)

    def trim(self) -> int:
        """Gives memory that is kept for results to come back to the system; how many bytes that were."""
        return allocator.results().trim()

    def __repr__(self) -> str:
        return f"<Client {self.platform}>"


def _module(program: XlaComputation | Module | str) -> Module:
    if isinstance(program, XlaComputation):
        return program.module
    if isinstance(program, Module):
        return program
    if isinstance(program, str):
        return parse_hlo(program, verify=False)
    raise InvalidArgumentError(f"compile takes an XlaComputation, a Module or HLO text, given {type(program).__name__}")
