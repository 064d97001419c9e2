"""The executable behind a PJRT handle: the compiled program, its options and the memory that its record points to.

PJRT distinguishes executables and loaded executables. Here both handles are the same record, which is freed with the
last of them.

Responsible for the data of an executable. Does not depend on how executables are compiled or run.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.cpu.program.counter_records import ProfilingCounters
from xlapy.cpu.program.targets.python_callbacks import PythonCallbacks
from xlapy.hlo.module import Module
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.compile.options import DeviceAssignment
from xlapy.pjrt.compile.program_loader import Placement
from xlapy.pjrt.objects.layouts import rank_of_parameter, row_major
from xlapy.pjrt.objects.platform import MEMORY_KINDS, PlatformDevice, platform
from xlapy.pjrt.objects.records import Record
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.engine.counters import CounterTable
from xlapy.runtime.engine.records import KeptObjects
from xlapy.runtime.engine.records import Record as EngineRecord
from xlapy.runtime.executable import Executable


@dataclass(frozen=True, slots=True)
class ExecutableTraits:
    """Properties of an executable that are determined at compile time and serialized with it.

    fingerprint: digest of the program and the compile options. is_long_running: whether calls return before the program
    has run.
    """

    fingerprint: str
    is_long_running: bool


@dataclass(eq=False)
class LoadedExecutable:
    """An executable behind its handle. kept: objects that its record points to, which are freed with it."""

    executable: Executable
    assignment: DeviceAssignment
    options_bytes: bytes
    traits: ExecutableTraits
    record: Record
    kept: KeptObjects = field(default_factory=KeptObjects)
    program_bytes: bytes | None = None
    placement: Placement = field(default_factory=Placement)
    device_programs: list[EngineRecord] = field(default_factory=list[EngineRecord])
    """One `device_program` record per device if native code runs the program, else empty."""
    python_callbacks: PythonCallbacks | None = None
    """The functions that native code calls for the program's callbacks, which must live as long as the records."""
    instrumented: InstrumentedExecutable | None = None
    """The executable that runs instead while a trace is taken; None until a trace first needs it."""

    is_loaded: bool = True
    """Whether it runs on devices of the client. One that was compiled for a topology does not."""
    first_number: int = 0
    """The number, among the devices of the compiled program, of the first device that this executable runs on."""
    root: LoadedExecutable | None = None
    """The executable of which this one is the form for a single device."""
    by_device: dict[int, LoadedExecutable] = field(default_factory=dict[int, "LoadedExecutable"])
    """What runs on a single device that a call names, by the device's number."""

    @property
    def devices(self) -> list[PlatformDevice]:
        """The devices of this process, in the order of the assignment."""
        if not self.is_loaded:
            return []
        devices = [platform().devices_by_number[number] for number in self.assignment.devices]
        return [device for device in devices if device.device.is_addressable]

    @property
    def logical_numbers(self) -> list[int]:
        """The number of each of `devices` among all devices of the assignment."""
        own = {device.number for device in self.devices}
        return [logical for logical, number in enumerate(self.assignment.devices) if number in own]

    @property
    def topology(self) -> ProcessTopology | None:
        """Which devices belong to which process; None if all are devices of this one."""
        if not self.is_loaded:
            return None
        devices = [platform().devices_by_number[number].device for number in self.assignment.devices]
        made = ProcessTopology(platform().client.process_index, tuple(device.process_index for device in devices))
        return made if made.spans_processes else None

    def memory_kind(self, result: int) -> str:
        """The memory kind of result number `result`."""
        return (self.placement.memory_kinds[result] if self.placement.memory_kinds else "") or MEMORY_KINDS[0]

    def parameter_memory_kind(self, parameter: int) -> str:
        """The memory kind of a parameter."""
        kinds = self.placement.parameter_memory_kinds
        return (kinds[parameter] if kinds else "") or MEMORY_KINDS[0]

    @property
    def is_running(self) -> bool:
        return any(native().pending_launches(program.address) for program in self.device_programs)

    @functools.cached_property
    def parameter_orders(self) -> Sequence[Order]:
        """The order of the dimensions of each parameter in memory."""
        shapes = self.executable.program_shape.parameters
        return self.placement.parameter_orders or [row_major(rank_of_parameter(shape)) for shape in shapes]

    @functools.cached_property
    def result_orders(self) -> Sequence[Order]:
        """The order of the dimensions of each result in memory."""
        return self.placement.result_orders or [row_major(shape.rank) for shape in result_leaves(self.executable)]


@dataclass(eq=False)
class InstrumentedExecutable:
    """What runs instead of an executable while a trace is taken: its instrumented copy, or itself if there is none."""

    number: int
    loaded: LoadedExecutable
    program: CpuProgram | None
    """The instrumented program; None if the trace can show whole launches only."""
    devices_by_trace_id: dict[int, int] = field(default_factory=dict[int, int])
    """The device of each `trace_id` under which native code records launch times."""
    counters_by_trace_id: dict[int, CounterTable] = field(default_factory=dict[int, CounterTable])
    """The counters that launches write on each device, by the same numbers."""

    @property
    def name(self) -> str:
        return self.loaded.executable.name

    @property
    def module(self) -> Module:
        """The module after optimization."""
        return self.loaded.executable.program.optimized_module

    @property
    def devices(self) -> list[int]:
        """The numbers of the devices of this process."""
        return [device.device.local_hardware_id for device in self.loaded.devices]

    @property
    def clocks(self) -> ProfilingCounters | None:
        return None if self.program is None else self.program.compiled.program.counters


def result_leaves(executable: Executable) -> list[Shape]:
    """The shapes of the result buffers, in order. `InvalidArgumentError` if a result is neither array nor token."""
    result = executable.program_shape.result
    shapes = list(result.tuple_shapes if result.is_tuple else (result,))
    if not all(shape.is_array or shape.is_token for shape in shapes):
        raise InvalidArgumentError(
            codes.RESULT_KIND, f"{executable.name}: results are arrays and tokens, not {result.to_text(layout=False)}"
        )
    return shapes


def donated_parameters(executable: Executable) -> list[int]:
    return [leaf.parameter for leaf in executable.donated]
