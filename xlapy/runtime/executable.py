"""`Executable`: a compiled program, as users call and inspect it.

Responsible for passing arguments to a program and results to the user, and for inspecting a program. Does not depend on
back ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Never

from xlapy.analysis.cost import module_cost
from xlapy.base.arguments.checking import checked_class
from xlapy.base.arguments.copying import copied_by_reference
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.errors import ArgumentTypeError, InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.module import Module
from xlapy.runtime.backend import DeviceBound, Program
from xlapy.runtime.device import Device
from xlapy.runtime.engine.arguments import check_arguments, check_list, check_lists, wrap_result
from xlapy.runtime.engine.donation import DonatedLeaf, donated_buffers
from xlapy.runtime.engine.memory import MemoryStats
from xlapy.runtime.storage.lazy_module import LazyModule
from xlapy.runtime.storage.serialized import write_executable
from xlapy.runtime.values import Observer

if TYPE_CHECKING:
    from xlapy.spmd.entry.shardings import EntryShardings


@copied_by_reference("use serialize() and Client.deserialize, which loads machine code and therefore must be asked for")
@checked_class
class Executable:
    """A compiled program. Call it with one argument per parameter, or, on several devices, use `execute_sharded`.

    A program that `Client.compile` has partitioned can be called with global arrays.

    `devices[i]` is partition `i % num_partitions` of replica `i // num_partitions`. `addressable_devices` are those of
    this process, in the same order: each process launches the program on its own. `program` is the back end's form of
    the module, for tools that know it.

    >>> negate = xla.Client().compile("ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }")
    >>> negate.program_shape
    ProgramShape.parse('(x: f32[2]{0}) -> f32[2]{0}')
    >>> negate(np.float32([1, -2]))
    Buffer(f32[2], [-1.  2.])
    """

    def __init__(
        self,
        source: Module | LazyModule,
        program: Program,
        platform: str,
        devices: Sequence[Device],
        num_replicas: int = 1,
        num_partitions: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        entry_shardings: EntryShardings | None = None,
    ) -> None:
        self._source = source
        self.platform = platform
        self.devices = tuple(devices)
        self.addressable_devices = tuple(device for device in devices if device.is_addressable)
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        self.program = program
        """The back end's program, for callers that supply values and devices of their own."""
        self.donated = tuple(donated)
        self.entry_shardings = entry_shardings
        """How arguments and results are distributed over the partitions, if `Client.compile` has partitioned the
        program; otherwise None."""
        if isinstance(program, DeviceBound):
            program.bind(self.addressable_devices)
        self._fast_path = program.fast_path if len(devices) == len(self.addressable_devices) == 1 else None
        self._native_call: Callable[[tuple[Any, ...]], Any] | None = None

    def on_devices(self, program: Program, devices: Sequence[Device]) -> Executable:
        """Returns an executable of the same module whose program runs on other devices."""
        return Executable(
            self._source, program, self.platform, devices, self.num_replicas, self.num_partitions, self.donated,
            self.entry_shardings,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._source.name

    @property
    def module(self) -> Module:
        """The module as it was passed to `Client.compile`, or as `Client.compile` has partitioned it."""
        return self._source.module if isinstance(self._source, LazyModule) else self._source

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes of the parameters and of the result on one device."""
        source = self._source
        return source.program_shape if isinstance(source, LazyModule) else source.entry_computation.program_shape

    def __call__(self, *arguments: Any, observer: Observer | None = None, **unknown: Never) -> Any:
        """Runs a program on one device, or, with global arrays, a program that `Client.compile` has partitioned.

        Arguments are NumPy arrays, buffers, anything with `__array__` or DLPack, of exactly the parameter's dimensions
        (any size up to the bound where one is dynamic) and element type; Python numbers and lists, which are converted
        to the parameter's element type; and tuples of these for tuple parameters. Returns a `Buffer` of the actual
        sizes, or nested tuples of buffers. On cpu, a call of a program that is long, or that calls the host, returns
        before it has run: see `Buffer`.
        `InvalidArgumentError` names the parameter that does not match. `observer`
        is called after each instruction. Arguments have no names: `ArgumentTypeError` for any other keyword.
        """
        if unknown:
            raise ArgumentTypeError(
                call_codes.CALL_SIGNATURE,
                f"Executable.__call__: got an unexpected keyword argument {next(iter(unknown))!r}; arguments are given "
                "by position, and the only keyword is observer",
            )
        if observer is None:
            if self._native_call is not None:
                results = self._native_call(arguments)
                if results is not NotImplemented:
                    return results
            if self._fast_path is not None:
                results = self._fast_path(arguments)
                self._native_call = getattr(self._fast_path, "native", None)
                if results is not NotImplemented:
                    return results
        if len(self.devices) != 1:
            return self._call_with_global_arrays(arguments, observer)
        if not self.addressable_devices:
            raise InvalidArgumentError(
                device_codes.ADDRESSABLE_DEVICE,
                f"{self.name} runs on device {self.devices[0].id} of process {self.devices[0].process_index}: only "
                "that process can call it",
            )
        values = self.parameter_values(arguments)
        self._delete_donated(arguments)
        result = self.program.execute(values, observer, self.devices[0])
        return wrap_result(result, () if self.program.fresh_results else values)

    def _call_with_global_arrays(self, arguments: Sequence[Any], observer: Observer | None) -> Any:
        shardings = self.entry_shardings
        if shardings is None or self.num_replicas > 1 or len(self.addressable_devices) < len(self.devices):
            limit = "" if shardings is None else "; global arrays are for one replica, in one process"
            raise InvalidArgumentError(
                codes.DEVICE_ARGUMENTS,
                f"{self.name} runs on {self._devices_text()}: give each its arguments by execute_sharded{limit}",
            )
        values = check_arguments(shardings.program_shape, arguments)
        local = [shardings.local_arguments(values, partition) for partition in range(self.num_partitions)]
        made = shardings.global_result(self.execute_sharded(local, observer))
        return wrap_result(made, values)

    def execute_sharded(self, arguments: Sequence[Sequence[Any]], observer: Observer | None = None) -> list[Any]:
        """Runs the program on all devices of this process at once: `arguments[i]` are those of
        `addressable_devices[i]`, as for a call. If the program runs on devices of several processes, each of them makes
        the call, and in the same order as other calls on these devices.

        Returns the result of each device of this process. `ExecutionError` names the device that failed first, and is
        also raised for programs that can never finish (devices that wait for each other, a send without a receive). If
        the call returns before the program has run, the results raise it when they are read. `observer` is called in
        the threads of the devices, which carry their names: `device 1`.

        >>> text = "ENTRY e { id = u32[] replica-id()  x = u32[] parameter(0)  ROOT y = u32[] add(x, id) }"
        >>> program = xla.Client(devices=2).compile(text, num_replicas=2)
        >>> program.execute_sharded([[10], [20]])
        [Buffer(u32[], 10), Buffer(u32[], 21)]
        """
        check_lists(arguments)
        if len(arguments) != len(self.addressable_devices):
            raise InvalidArgumentError(
                codes.DEVICE_ARGUMENTS,
                f"{self.name} runs on {self._devices_text()}, given arguments for {len(arguments)}",
            )
        if not self.addressable_devices:
            return []  # other processes launch the program
        if self.program.sharded_fast_path is not None and observer is None:
            results = self.program.sharded_fast_path(arguments)
            if results is not NotImplemented:
                return list(results)
        values = [self._device_values(device, own) for device, own in enumerate(arguments)]
        for device_arguments in arguments:
            self._delete_donated(device_arguments)
        made = self.program.execute_sharded(values, self.addressable_devices, observer)
        all_values = [] if self.program.fresh_results else [value for own in values for value in own]
        return [wrap_result(result, all_values) for result in made]

    def _devices_text(self) -> str:
        count, own = len(self.devices), len(self.addressable_devices)
        return f"{count} devices" if own == count else f"{own} devices of this process ({count} of all processes)"

    def _delete_donated(self, arguments: Sequence[Any]) -> None:
        for leaf, buffer in donated_buffers(self.donated, arguments):
            buffer.take(leaf.deletion_reason)

    def parameter_values(self, arguments: Sequence[Any]) -> list[Any]:
        """Converts arguments to the values that `program` takes; raises the errors of a call."""
        return check_arguments(self.program_shape, arguments)

    def _device_values(self, device: int, arguments: Sequence[Any]) -> list[Any]:
        check_list(device, arguments)
        try:
            return self.parameter_values(arguments)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(error.code, f"device {device}: {error.message}") from error

    def as_hlo_text(self, *, optimized: bool = False, **options: bool) -> str:
        """The module as HLO text: as it was given, or, if `optimized`, after the platform's passes and fusion.

        Options as in `xlapy.text.PrintOptions`; large constants are elided by default.
        """
        return (self.program.optimized_module if optimized else self.module).to_text(**options)

    def cost_analysis(self) -> dict[str, float]:
        """The cost of a run, computed from the shapes of the optimized module, under XLA's names.

        `flops`, `transcendentals` and `bytes accessed`; `bytes accessed0{}` ... are the bytes read as operand 0 ... of
        all instructions, `bytes accessedout{}` those written. `xlapy.analysis.cost` defines what counts.

        >>> negate = xla.Client().compile("ENTRY e { x = f32[4] parameter(0)  ROOT y = negate(x) }")
        >>> negate.cost_analysis()["bytes accessed"]
        32.0
        """
        return module_cost(self.program.optimized_module).properties()

    def serialize(self) -> bytes:
        """Serializes the compiled program for `Client.deserialize`, which loads it without compiling.

        It runs with this version of xlapy on processors with the same features; custom-call targets must be registered
        there under the same names. `UnsupportedError` for programs of the interpreter.
        """
        return write_executable(
            self.platform, self.module, self.num_replicas, self.num_partitions, self.donated, self.program.serialize(),
            self.entry_shardings,
        )  # fmt: skip

    def memory_analysis(self) -> MemoryStats:
        """The bytes that a run takes on one device, under JAX's names."""
        return self.program.memory_stats()

    def _repr_html_(self) -> str:
        """The program as notebooks show it: its platform, its memory, and what it runs."""
        from xlapy.runtime.program_html import program_to_html  # only notebooks need it

        return program_to_html(self.program, self.name, self.program_shape, self.platform, len(self.devices))

    def __repr__(self) -> str:
        return f"<Executable {self.name} on {self.platform}: {self.program_shape.to_text()}>"
