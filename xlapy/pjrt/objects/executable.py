"""Executables as handles: compiled, described, serialized, ended.

PJRT has handles of executables and of loaded ones; here both are the same record, which ends with the last of them.

Owns: the records of executables and what native code reads in them. Must not know: how runs go.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.passes.layouts.entry_layouts import Order, declared
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.loaded import native
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.c_api.types import number_of
from xlapy.pjrt.compile.duration import is_long
from xlapy.pjrt.compile.options import CompileOptions, read_options, with_config, write_assignment
from xlapy.pjrt.compile.program_loader import Placement, read_program
from xlapy.pjrt.compile.targets import adopt_targets
from xlapy.pjrt.objects import records
from xlapy.pjrt.objects.layouts import layout_handle, logical, rank_of_parameter, row_major
from xlapy.pjrt.objects.parts import add_parts, is_plain
from xlapy.pjrt.objects.platform import MEMORY_KINDS, PlatformDevice, platform
from xlapy.pjrt.objects.records import Record, read_bytes
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.executable import Executable

if TYPE_CHECKING:
    from xlapy.pjrt.profiler.instrumented import Twin

_FLOAT = 3


@dataclass(frozen=True, slots=True)
class Traits:
    """What of an executable is found when it is compiled, and kept with its bytes.

    fingerprint: of what it was compiled from. is_long: whether runs go on behind the caller's back.
    """

    fingerprint: str
    is_long: bool


@dataclass(eq=False)
class Loaded:
    """An executable behind its handle. kept: what the record points to."""

    executable: Executable
    options: CompileOptions
    options_bytes: bytes
    traits: Traits
    record: Record
    kept: list[int] = field(default_factory=list[int])
    program_bytes: bytes | None = None
    placement: Placement = field(default_factory=Placement)
    parts: list[Record] = field(default_factory=list[Record])
    """What each device does, if native code runs it."""
    twin: Twin | None = None
    """What runs in its stead while a trace is taken, once it has."""

    @property
    def devices(self) -> list[PlatformDevice]:
        return [platform().devices[number] for number in self.options.devices]

    def kind(self, result: int) -> str:
        """The kind of memory of a result."""
        return (self.placement.kinds[result] if self.placement.kinds else "") or MEMORY_KINDS[0]

    @property
    def is_running(self) -> bool:
        return any(part["waiting"] for part in self.parts)

    @functools.cached_property
    def parameter_orders(self) -> Sequence[Order]:
        """How the dimensions of each parameter lie."""
        shapes = self.executable.program_shape.parameters
        return self.placement.parameter_orders or [row_major(rank_of_parameter(shape)) for shape in shapes]

    @functools.cached_property
    def result_orders(self) -> Sequence[Order]:
        """How the dimensions of each result lie."""
        return self.placement.result_orders or [row_major(shape.rank) for shape in result_leaves(self.executable)]

    def row(self, values: list[int]) -> int:
        """The address of a row of words that lives as long as the record."""
        self.kept.append(records.words(values))
        return self.kept[-1]

    def text(self, value: str) -> tuple[int, int]:
        address, size = records.text(value)
        self.kept.append(address)
        return address, size

    def bytes(self, data: bytes) -> tuple[int, int]:
        return self.keep(ctypes.create_string_buffer(data, len(data) + 1)), len(data)

    def keep(self, value: Any) -> int:
        self.kept.append(records.keep(value))
        return self.kept[-1]


_loaded: dict[int, Loaded] = {}
_ending: list[Loaded] = []
"""What nobody has any more: it goes when its last run has ended, and the next one after it does."""

_lock = threading.Lock()
_traced = False


def loaded_at(handle: int) -> Loaded:
    return _loaded[handle]


def running_at(handle: int) -> Loaded | None:
    """The same, also of one that nobody has any more, as long as it runs."""
    with _lock:
        return _loaded.get(handle) or next((one for one in _ending if one.record.address == handle), None)


def put_twins_in(traced: bool) -> None:
    """Whether twins run instead of executables from now on, those that are made later included."""
    global _traced
    with _lock:
        _traced = traced
        for loaded in _loaded.values():
            _put(loaded, _left_to_python())


def put_in(loaded: Loaded, twin: Record) -> None:
    """Has native code run a twin instead of an executable, if twins run."""
    with _lock:
        _put(loaded, twin.address)


def _put(loaded: Loaded, twin: int) -> None:
    loaded.record["twin"] = twin if _traced and not loaded.record["is_deleted"] else 0


@functools.cache
def _left_to_python() -> int:
    """A record that native code does not run: an executable with such a twin runs by way of Python."""
    return Record("executable").address


def result_leaves(executable: Executable) -> list[Shape]:
    """The shapes of the buffers of the results as they lie: one each in a program's tuple of results."""
    result = executable.program_shape.result
    shapes = list(_elements(result))
    if not all(shape.is_array or shape.is_token for shape in shapes):
        raise InvalidArgumentError(f"{executable.name}: results are arrays and tokens, not {result.brief}")
    return shapes


def _elements(result: Shape) -> Sequence[Shape]:
    return result.tuple_shapes if result.is_tuple else (result,)


def donated_parameters(executable: Executable) -> list[int]:
    return [leaf.parameter for leaf in executable.donated]


# -- making one


def load(
    executable: Executable, options: CompileOptions, options_bytes: bytes, placement: Placement, traits: Traits
) -> Loaded:
    """Gives an executable a handle."""
    for number in options.devices:
        if not 0 <= number < len(platform().devices):
            raise InvalidArgumentError(
                f"{executable.name} is to run on device {number}: there are {len(platform().devices)} "
                f"(the flag num_devices)"
            )
    if unknown := [kind for kind in placement.kinds if kind and kind not in MEMORY_KINDS]:
        raise InvalidArgumentError(
            f"{executable.name}: there is no memory of the kind {unknown[0]!r}, only {', '.join(MEMORY_KINDS)}"
        )
    loaded = Loaded(executable, options, options_bytes, traits, Record("executable"), placement=placement)
    loaded.kept.append(loaded.record.address)
    _describe(loaded)
    program = executable.program
    if isinstance(program, CpuProgram) and is_plain(program):
        add_parts(loaded, program, result_leaves(executable))
    with _lock:
        _loaded[loaded.record.address] = loaded
        _put(loaded, _left_to_python())
    return loaded


def _describe(loaded: Loaded) -> None:
    """What JAX asks of an executable."""
    record, executable, options = loaded.record, loaded.executable, loaded.options
    record["executable"], record["owners"] = record.address, 1
    record["executable_name"], record["executable_name_size"] = loaded.text(executable.name)
    record["num_replicas"], record["num_partitions"] = options.num_replicas, options.num_partitions
    record["addressable_devices"] = loaded.row([device.handle for device in loaded.devices])
    logical = (structure("LogicalDeviceIds") * len(options.devices))()
    for number, row in enumerate(logical):
        row.replica, row.partition = divmod(number, options.num_partitions)
    record["addressable_device_logical_ids"] = loaded.keep(logical)
    record["num_addressable_devices"] = record["num_addressable_device_logical_ids"] = len(options.devices)
    record["size_in_bytes"] = executable.memory_analysis().generated_code_size_in_bytes
    fingerprint, size = loaded.text(loaded.traits.fingerprint)
    record["executable_fingerprint"], record["executable_fingerprint_size"] = fingerprint, size
    _describe_results(loaded, result_leaves(executable))


def _describe_results(loaded: Loaded, shapes: list[Shape]) -> None:
    record, parameters = loaded.record, loaded.executable.program_shape.parameters
    record["num_outputs"] = record["num_output_types"] = len(shapes)
    types = (ctypes.c_int32 * max(1, len(shapes)))(*[number_of(shape.element_type) for shape in shapes])
    record["output_types"] = loaded.keep(types)
    dimensions = map(logical, [shape.dimensions for shape in shapes], loaded.result_orders)
    record["dims"] = loaded.row([size for row in dimensions for size in row])
    record["output_layouts"] = loaded.row(list(map(layout_handle, loaded.result_orders)))
    record["parameter_layouts"] = loaded.row(list(map(layout_handle, loaded.parameter_orders)))
    record["dim_sizes"] = loaded.row([shape.rank for shape in shapes])
    record["num_parameters"], record["argument_count"] = len(parameters), len(parameters)
    kind, size = loaded.text(MEMORY_KINDS[0])
    record["memory_kinds"] = loaded.row([kind] * len(parameters))
    record["memory_kind_sizes"] = loaded.row([size] * len(parameters))
    kinds = [loaded.text(loaded.kind(number)) for number in range(len(shapes))]
    record["output_memory_kinds"] = loaded.row([kind for kind, _ in kinds])
    record["output_memory_kind_sizes"] = loaded.row([size for _, size in kinds])


# -- entries


@entry("Client_Compile")
def client_compile(args: Any) -> None:
    program = structure("Program").from_address(args.program)
    code = read_bytes(program.code, program.code_size)
    options_bytes = read_bytes(args.compile_options, args.compile_options_size)
    options = read_options(options_bytes)
    format = read_bytes(program.format, program.format_size).decode("utf-8", "replace")
    intake = read_program(code, format, options.num_partitions)
    adopt_targets(intake.module)
    executable = platform().client.compile(intake.module, options.num_replicas, options.num_partitions)
    fingerprint = hashlib.sha256(options_bytes + code).hexdigest()
    traits = Traits(fingerprint, is_long(executable.program.optimised, len(options.devices)))
    args.executable = load(executable, options, options_bytes, intake.placement, traits).record.address


@entry("sweep", "Executable_Destroy")
def sweep(_: Any) -> None:
    """Ends the executables that nobody has any more and that are not running."""
    handle = native().take_ended()
    with _lock:
        while handle:
            loaded = _loaded.pop(handle)
            _ending.append(loaded)
            if loaded.twin is not None and loaded.twin.loaded is not loaded:
                _ending.append(_loaded.pop(loaded.twin.loaded.record.address))
            handle = loaded.record["next"]
        ended = [one for one in _ending if not one.is_running]
        _ending[:] = [one for one in _ending if one not in ended]
    for one in ended:
        native().end_parts(one.record.address)
        records.forget(*one.kept)


@entry("LoadedExecutable_Delete")
def loaded_executable_delete(args: Any) -> None:
    record = Record("executable", args.executable)
    record["is_deleted"], record["fast"], record["twin"] = 1, 0, 0


@entry("LoadedExecutable_GetDeviceAssignment")
def loaded_executable_get_device_assignment(args: Any) -> None:
    loaded = _loaded[args.executable]
    args.serialized_bytes, args.serialized_bytes_size = loaded.bytes(write_assignment(loaded.options))
    args.serialized_device_assignment = args.executable
    args.serialized_device_assignment_deleter = native().address("nothing")


@entry("Executable_OptimizedProgram")
def executable_optimized_program(args: Any) -> None:
    """The module behind the passes as an HloModuleProtoWithConfig; the first of two calls asks for its size."""
    loaded = _loaded[args.executable]
    if loaded.program_bytes is None:
        module = loaded.executable.program.optimised
        if loaded.placement.parameter_orders:
            module = declared(module, loaded.parameter_orders, loaded.result_orders)
        loaded.program_bytes = with_config(module.to_proto(), loaded.placement.parameters, loaded.placement.results)
    program = structure("Program").from_address(args.program)
    format, size = loaded.bytes(b"hlo_with_config")
    program.format, program.format_size = format, size
    if program.code:
        if program.code_size < len(loaded.program_bytes):
            raise InvalidArgumentError(
                f"the program has {len(loaded.program_bytes)} bytes, there is room for {program.code_size}"
            )
        ctypes.memmove(program.code, loaded.program_bytes, len(loaded.program_bytes))
    program.code_size = len(loaded.program_bytes)


@entry("Executable_GetCostAnalysis")
def executable_get_cost_analysis(args: Any) -> None:
    loaded = _loaded[args.executable]
    costs = loaded.executable.cost_analysis()
    rows = (structure("NamedValue") * len(costs))()
    for row, (name, cost) in zip(rows, costs.items(), strict=True):
        row.struct_size, row.type, row.value_size = ctypes.sizeof(row), _FLOAT, 1
        row.name, row.name_size = loaded.text(name)
        row.value = int.from_bytes(struct.pack("<f", cost), "little")
    args.num_properties, args.properties = len(costs), loaded.keep(rows)


@entry("Executable_GetCompiledMemoryStats")
def executable_get_compiled_memory_stats(args: Any) -> None:
    stats = _loaded[args.executable].executable.memory_analysis()
    for name, _ in structure("Executable_GetCompiledMemoryStats")._fields_[3:]:
        setattr(args, name, getattr(stats, name, 0))
    args.total_size_in_bytes = args.total_allocation_bytes = stats.peak_memory_in_bytes
