"""Executables as PJRT handles: compiling, describing, serializing and destroying them.

Responsible for the table of executables and for what native code reads in their records. Does not depend on how
programs run.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from typing import Any

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.error_codes.interfaces import pjrt as pjrt_codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.passes.layouts.entry_layouts import with_declared_layouts
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.c_api.types import number_of
from xlapy.pjrt.compile.options import (
    DeviceAssignment,
    write_device_assignment,
    write_module_with_config,
)
from xlapy.pjrt.compile.program_loader import Placement
from xlapy.pjrt.objects.device_programs import add_device_programs, runs_natively
from xlapy.pjrt.objects.layouts import layout_handle, logical
from xlapy.pjrt.objects.loaded_executable import ExecutableTraits, LoadedExecutable, result_leaves
from xlapy.pjrt.objects.platform import MEMORY_KINDS, PlatformDevice, platform
from xlapy.pjrt.objects.records import Record
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.engine.device_programs import remove_runnable
from xlapy.runtime.executable import Executable

_FLOAT = 3
"""PJRT_NamedValue_kFloat."""

_executables: dict[int, LoadedExecutable] = {}
_destroyed: list[LoadedExecutable] = []
"""Executables without handles that still run. Each is freed by the first sweep after its last launch has finished."""

_lock = fork_safe_lock()
_derivation_lock = fork_safe_lock()
_is_tracing = False


def executable_at(handle: int) -> LoadedExecutable:
    return _executables[handle]


def set_tracing(is_tracing: bool) -> None:
    """Says whether instrumented executables run instead of the original ones, including those loaded later."""
    global _is_tracing
    with _lock:
        _is_tracing = is_tracing
        for loaded in _executables.values():
            _set_instrumented(loaded, _python_marker())


def run_instrumented(loaded: LoadedExecutable, instrumented: Record) -> None:
    """Makes native code run an instrumented executable instead of the original one while a trace is taken."""
    with _lock:
        _set_instrumented(loaded, instrumented.address)


def _set_instrumented(loaded: LoadedExecutable, instrumented: int) -> None:
    is_used = _is_tracing and not loaded.record["is_deleted"]
    native().set_instrumented(loaded.record.address, instrumented if is_used else None)


@SingleFlight
def _python_marker() -> int:
    """An empty record, which native code cannot run: an executable that it instruments runs through Python."""
    return Record("executable").address


# -- loading


def load_executable(
    executable: Executable,
    assignment: DeviceAssignment,
    options_bytes: bytes,
    placement: Placement,
    traits: ExecutableTraits,
    first_number: int = 0,
    is_loaded: bool = True,
) -> LoadedExecutable:
    """Gives a compiled executable a handle. `InvalidArgumentError` for unknown devices and memory kinds.

    first_number, is_loaded: see `LoadedExecutable`.
    """
    if is_loaded:
        platform().client_devices(assignment.devices)
    named = (*placement.memory_kinds, *placement.parameter_memory_kinds)
    if unknown := [kind for kind in named if kind and kind not in MEMORY_KINDS]:
        raise InvalidArgumentError(
            codes.MEMORY_KIND,
            f"{executable.name}: there is no memory of the kind {unknown[0]!r}, only {', '.join(MEMORY_KINDS)}",
        )
    record = Record("executable")
    loaded = LoadedExecutable(
        executable,
        assignment,
        options_bytes,
        traits,
        record,
        placement=placement,
        first_number=first_number,
        is_loaded=is_loaded,
    )
    loaded.kept.add(loaded.record.address)
    _freeing_thread()
    _describe(loaded)
    program = executable.program
    if is_loaded and isinstance(program, CpuProgram) and runs_natively(program):
        add_device_programs(loaded, program, result_leaves(executable))
    with _lock:
        _executables[loaded.record.address] = loaded
        _set_instrumented(loaded, _python_marker())
    return loaded


def single_device_executable(loaded: LoadedExecutable, device: PlatformDevice) -> LoadedExecutable:
    """What runs on one device that a call names: a program for one device runs on any; of a program for several
    devices, the part of that device. `InvalidArgumentError` if the device has no part, `UnsupportedError` if the
    devices depend on each other."""
    name, devices = loaded.executable.name, loaded.assignment.devices
    if len(devices) == 1:
        number = 0
        if devices[0] == device.number:
            return loaded
    elif device.number not in devices:
        raise InvalidArgumentError(
            codes.DEVICE_NUMBER, f"{name} runs on the devices {list(devices)}, not on device {device.number}"
        )
    elif not loaded.device_programs or loaded.record["has_collectives"] or loaded.topology is not None:
        raise UnsupportedError(
            pjrt_codes.SINGLE_CALL,
            f"the devices of {name} depend on each other or on the host: call it once for all of them",
        )
    else:
        number = devices.index(device.number)
    with _derivation_lock:
        made = loaded.by_device.get(device.number)
        if made is None:
            made = load_executable(
                loaded.executable,
                DeviceAssignment(1, 1, (device.number,)),
                loaded.options_bytes,
                loaded.placement,
                loaded.traits,
                number,
            )
            made.root = loaded
            loaded.by_device[device.number] = made
    return made


def _describe(loaded: LoadedExecutable) -> None:
    """Fills in the fields that PJRT entries hand out."""
    record, executable, assignment = loaded.record, loaded.executable, loaded.assignment
    record["executable"] = record.address
    native().retain_executable(record.address)
    record["executable_name"], record["executable_name_size"] = loaded.kept.text(executable.name)
    record["num_replicas"], record["num_partitions"] = assignment.num_replicas, assignment.num_partitions
    record["addressable_devices"] = loaded.kept.words([device.handle for device in loaded.devices])
    logical = (structure("LogicalDeviceIds") * len(loaded.devices))()
    for number, row in zip(loaded.logical_numbers, logical, strict=True):
        row.replica, row.partition = divmod(number, assignment.num_partitions)
    record["addressable_device_logical_ids"] = loaded.kept.keep(logical)
    record["num_addressable_devices"] = record["num_addressable_device_logical_ids"] = len(loaded.devices)
    record["size_in_bytes"] = executable.memory_analysis().generated_code_size_in_bytes
    fingerprint, size = loaded.kept.text(loaded.traits.fingerprint)
    record["executable_fingerprint"], record["executable_fingerprint_size"] = fingerprint, size
    _describe_results(loaded, result_leaves(executable))


def _describe_results(loaded: LoadedExecutable, shapes: list[Shape]) -> None:
    record, parameters = loaded.record, loaded.executable.program_shape.parameters
    record["num_outputs"] = record["num_output_types"] = len(shapes)
    types = (ctypes.c_int32 * max(1, len(shapes)))(*[number_of(shape.element_type) for shape in shapes])
    record["output_types"] = loaded.kept.keep(types)
    dimensions = map(logical, [shape.dimensions for shape in shapes], loaded.result_orders)
    record["dims"] = loaded.kept.words([size for row in dimensions for size in row])
    record["output_layouts"] = loaded.kept.words(list(map(layout_handle, loaded.result_orders)))
    record["parameter_layouts"] = loaded.kept.words(list(map(layout_handle, loaded.parameter_orders)))
    record["dim_sizes"] = loaded.kept.words([shape.rank for shape in shapes])
    record["num_parameters"], record["argument_count"] = len(parameters), len(parameters)
    given = [loaded.kept.text(loaded.parameter_memory_kind(number)) for number in range(len(parameters))]
    record["memory_kinds"] = loaded.kept.words([kind for kind, _ in given])
    record["memory_kind_sizes"] = loaded.kept.words([size for _, size in given])
    kinds = [loaded.kept.text(loaded.memory_kind(number)) for number in range(len(shapes))]
    record["output_memory_kinds"] = loaded.kept.words([kind for kind, _ in kinds])
    record["output_memory_kind_sizes"] = loaded.kept.words([size for _, size in kinds])


# -- entries


def _free_forever() -> None:
    """Frees executables when they have lost their last handle."""
    while True:
        _free_destroyed(native().await_destroyed())


@SingleFlight
def _freeing_thread() -> threading.Thread:
    """The thread that frees executables: whoever destroys the last handle, perhaps within Python code that holds locks,
    does not run Python for it."""
    thread = threading.Thread(target=_free_forever, name="xlapy: freeing executables", daemon=True)
    thread.start()
    return thread


os.register_at_fork(after_in_child=_freeing_thread.cache_clear)


def free_destroyed() -> None:
    """Frees the executables that have no handles and no running launches now."""
    _free_destroyed(native().take_destroyed())


def _free_destroyed(handle: int | None) -> None:
    """handle: the first of a list of executables without handles."""
    with _lock:
        while handle:
            loaded = _executables.pop(handle)
            _destroyed.append(loaded)
            _destroyed.extend(_executables.pop(one.record.address) for one in _derived(loaded))
            handle = loaded.record["next"]
        ended = [one for one in _destroyed if not one.is_running]
        _destroyed[:] = [one for one in _destroyed if one not in ended]
    for one in ended:
        native().free_spare_memory(one.record.address)
        remove_runnable(one.record.address)
        one.kept.forget()


def _derived(loaded: LoadedExecutable) -> list[LoadedExecutable]:
    """The executables that are freed with another one: its forms for single devices, and all instrumented copies."""
    forms = [loaded, *loaded.by_device.values()]
    copies = [one.instrumented.loaded for one in forms if one.instrumented is not None]
    return [*forms[1:], *(copy for copy in copies if copy not in forms)]


@entry("LoadedExecutable_Delete")
def loaded_executable_delete(args: Any) -> None:
    record = Record("executable", args.executable)
    record["is_deleted"] = 1
    native().allow_native_calls(record.address, 0)
    native().set_instrumented(record.address, None)


@entry("LoadedExecutable_GetDeviceAssignment")
def loaded_executable_get_device_assignment(args: Any) -> None:
    loaded = _executables[args.executable]
    args.serialized_bytes, args.serialized_bytes_size = loaded.kept.bytes(write_device_assignment(loaded.assignment))
    args.serialized_device_assignment = args.executable
    args.serialized_device_assignment_deleter = native().address("no_op")


@entry("Executable_OptimizedProgram")
def executable_optimized_program(args: Any) -> None:
    """Writes the optimized module as an HloModuleProtoWithConfig. A first call without memory returns its size."""
    loaded = _executables[args.executable]
    if loaded.program_bytes is None:
        module = loaded.executable.program.optimized_module
        if loaded.placement.parameter_orders:
            module = with_declared_layouts(module, loaded.parameter_orders, loaded.result_orders)
        loaded.program_bytes = write_module_with_config(
            module.to_proto(),
            loaded.placement.parameter_shardings,
            loaded.placement.result_shardings,
            loaded.assignment.num_replicas,
            loaded.assignment.num_partitions,
        )
    program = structure("Program").from_address(args.program)
    format, size = loaded.kept.bytes(b"hlo_with_config")
    program.format, program.format_size = format, size
    if program.code:
        if program.code_size < len(loaded.program_bytes):
            raise InvalidArgumentError(
                pjrt_codes.BUFFER_SIZE,
                f"the program has {len(loaded.program_bytes)} bytes, there is room for {program.code_size}",
            )
        ctypes.memmove(program.code, loaded.program_bytes, len(loaded.program_bytes))
    program.code_size = len(loaded.program_bytes)


@entry("Executable_GetCostAnalysis")
def executable_get_cost_analysis(args: Any) -> None:
    loaded = _executables[args.executable]
    costs = loaded.executable.cost_analysis()
    rows = (structure("NamedValue") * len(costs))()
    for row, (name, cost) in zip(rows, costs.items(), strict=True):
        row.struct_size, row.type, row.value_size = ctypes.sizeof(row), _FLOAT, 1
        row.name, row.name_size = loaded.kept.text(name)
        row.value = int.from_bytes(struct.pack("<f", cost), "little")
    args.num_properties, args.properties = len(costs), loaded.kept.keep(rows)


@entry("Executable_GetCompiledMemoryStats")
def executable_get_compiled_memory_stats(args: Any) -> None:
    stats = _executables[args.executable].executable.memory_analysis()
    for name, _ in structure("Executable_GetCompiledMemoryStats")._fields_[3:]:
        setattr(args, name, getattr(stats, name, 0))
    args.total_size_in_bytes = args.total_allocation_bytes = stats.peak_memory_in_bytes
