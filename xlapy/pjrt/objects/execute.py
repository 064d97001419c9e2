"""Launches that native code leaves to Python: programs with dynamic dimensions, random numbers of the run, or callbacks
other than custom calls of Python functions, and calls with invalid or pending arguments.

Responsible for converting buffers to values and back, and for donation in these launches. Does not depend on how
programs are compiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.base.value import actual_array
from xlapy.cpu.program.targets.python_callbacks import take_error
from xlapy.interpreter import TOKEN
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import read_sized
from xlapy.pjrt.objects.buffers import acquired_arrays, dimensions_of, element_type_of, new_buffer, new_token
from xlapy.pjrt.objects.deferred import DeferredLaunch, may_be_deferred, waits_for_host
from xlapy.pjrt.objects.executable import executable_at, single_device_executable
from xlapy.pjrt.objects.host_transfers import calling_back
from xlapy.pjrt.objects.layouts import inverse, layout_text, order_at, physical
from xlapy.pjrt.objects.loaded_executable import LoadedExecutable, donated_parameters, result_leaves
from xlapy.pjrt.objects.platform import PlatformDevice, platform
from xlapy.pjrt.objects.records import Record, read_words
from xlapy.pjrt.profiler.tracing import current
from xlapy.runtime.engine.arguments import dimensions_fit
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.runtime.values import Value


@entry("check_memory", "LoadedExecutable_Execute")
def check_memory(args: Any) -> None:
    """Called before a launch that needs much memory. Returns cached memory to the system if needed; MemoryError if the
    available memory is still too small."""
    loaded = executable_at(args.executable)
    stats = loaded.executable.memory_analysis()
    needed = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    needed *= len(loaded.devices)
    if needed > available_bytes():
        native().trim()
    if needed > (available := available_bytes()):
        raise MemoryError(
            f"out of memory: {loaded.executable.name} needs {format_bytes(needed)} for temporaries and results, "
            f"{format_bytes(available)} are available"
        )


@entry("callback_error", "LoadedExecutable_Execute")
def callback_error(_: Any) -> None:
    """Called after a launch in this thread that native code left early; raises the error of the callback. There is none
    if an exception came before the callback began."""
    raise take_error() or KeyboardInterrupt("the run is canceled")


@entry("LoadedExecutable_Execute")
def loaded_executable_execute(args: Any) -> int | None:
    loaded = executable_at(args.executable)
    if loaded.record["is_deleted"]:
        raise InvalidArgumentError(codes.EXECUTABLE_STATE, f"{loaded.executable.name} has been deleted")
    if not loaded.is_loaded:
        raise InvalidArgumentError(
            codes.EXECUTABLE_STATE, f"{loaded.executable.name} was compiled for a topology: a client must load it first"
        )
    if args.execute_device:
        return _execute_on_one_device(loaded, args)
    if not loaded.devices and not args.num_devices:
        return None  # other processes launch the program
    options = read_sized("ExecuteOptions", args.options)
    if options.num_hlo_output_callbacks:
        raise UnsupportedError(
            codes.OUTPUT_CALLBACKS, "callbacks for the outputs of single instructions are not supported"
        )
    trace = current()
    instrumented, is_native = (None, False) if trace is None else trace.register(loaded)
    if is_native:
        return native().LoadedExecutable_Execute(ctypes.addressof(args)) or None
    arguments_by_device = _argument_handles(loaded, args)
    retained = read_words(options.non_donatable_input_indices, options.num_non_donatable_input_indices)
    donated = [number for number in donated_parameters(loaded.executable) if number not in retained]
    for device, handles in zip(loaded.devices, arguments_by_device, strict=True):
        _check_arguments(loaded, device, handles, donated)
    has_callbacks = options.num_send_ops + options.num_recv_ops > 0
    if may_be_deferred(loaded) and not has_callbacks and any(map(waits_for_host, arguments_by_device)):
        launch = DeferredLaunch(loaded, arguments_by_device, donated, retained)
        launch.return_results(args)
        launch.start()
        return None
    begin = native().ticks()
    _run(loaded if instrumented is None else instrumented.loaded, arguments_by_device, donated, options, args)
    if trace is not None and instrumented is not None and instrumented.program is None:
        trace.record_whole_launch(instrumented, begin, native().ticks())
    if args.device_complete_events:
        events = (ctypes.c_uint64 * len(arguments_by_device)).from_address(args.device_complete_events)
        events[:] = [native().ready_event_handle()] * len(arguments_by_device)
    return None


def _execute_on_one_device(loaded: LoadedExecutable, args: Any) -> int | None:
    """Runs an executable on the device that the call names."""
    if args.num_devices != 1:
        raise InvalidArgumentError(
            calls_codes.DEVICE_ARGUMENTS,
            f"{loaded.executable.name} is to run on one device, given arguments for {args.num_devices}",
        )
    chosen = single_device_executable(loaded, platform().device_at(args.execute_device))
    call = type(args).from_buffer_copy(args)
    call.executable, call.execute_device = chosen.record.address, 0
    return native().LoadedExecutable_Execute(ctypes.addressof(call)) or None


def _argument_handles(loaded: LoadedExecutable, args: Any) -> list[list[int]]:
    """The handles of the arguments of each device."""
    executable = loaded.executable
    if args.num_devices != len(loaded.devices):
        raise InvalidArgumentError(
            calls_codes.DEVICE_ARGUMENTS,
            f"{executable.name} runs on {len(loaded.devices)} devices, given arguments for {args.num_devices}",
        )
    expected = len(executable.program_shape.parameters)
    if args.num_args != expected:
        raise InvalidArgumentError(
            calls_codes.ARGUMENT_COUNT, f"{executable.name} takes {expected} arguments, given {args.num_args}"
        )
    rows = read_words(args.argument_lists, args.num_devices) if expected else [0] * args.num_devices
    return [read_words(row, expected) for row in rows]


def _check_arguments(
    loaded: LoadedExecutable, device: PlatformDevice, handles: Sequence[int], donated: Sequence[int]
) -> None:
    """`InvalidArgumentError` unless the arguments of a device match the program's parameters, in their layouts too, and
    each donated buffer is passed once."""
    name, shapes = loaded.executable.name, loaded.executable.program_shape.parameters
    for number, (shape, handle) in enumerate(zip(shapes, handles, strict=True)):
        if not handle:
            raise InvalidArgumentError(codes.NULL_POINTER, f"{name}: argument {number} is null")
        if shape.is_token:
            continue
        buffer, order = Record("buffer", handle), loaded.parameter_orders[number]
        type, dimensions = element_type_of(buffer), physical(dimensions_of(buffer), order)
        if type is not shape.element_type or not dimensions_fit(dimensions, shape):
            raise InvalidArgumentError(
                calls_codes.ARGUMENT_SHAPE,
                f"{name}: parameter {number} takes {shape.to_text(layout=False)}, "
                f"given a buffer {Shape.array(type, dimensions).to_text(layout=False)}",
            )
        given = order_at(buffer["layout"])
        if given != order:
            raise InvalidArgumentError(
                codes.ARGUMENT_PLACE,
                f"{name}: parameter {number} takes the layout {layout_text(order)}, "
                f"given a buffer with the layout {layout_text(given)}",
            )
        if buffer["device"] != device.handle:
            raise InvalidArgumentError(
                codes.ARGUMENT_PLACE,
                f"{name}: parameter {number} is to be on device {device.number}, "
                f"given a buffer on device {platform().device_at(buffer['device']).number}",
            )
    for number in donated:
        if list(handles).count(handles[number]) > 1:
            raise InvalidArgumentError(
                calls_codes.DONATED_ARGUMENT,
                f"Attempt to donate the same buffer twice in Execute() or to use it while donating it: "
                f"{name}, parameter {number}",
            )


def _run(
    loaded: LoadedExecutable,
    arguments_by_device: Sequence[Sequence[int]],
    donated: Sequence[int],
    options: Any,
    args: Any,
) -> None:
    """Runs the program, and returns the buffers of its results through `args`. Donated buffers are deleted, unless the
    call is refused before the program runs."""
    executable, program = loaded.executable, loaded.executable.program
    devices = [device.device for device in loaded.devices]
    devices = (
        calling_back(devices, options, executable.module) if options.num_send_ops + options.num_recv_ops else devices
    )
    with acquired_arrays(arguments_by_device, donated) as arguments:
        values = [
            executable.parameter_values(list(map(np.transpose, row, loaded.parameter_orders))) for row in arguments.rows
        ]
        arguments.keep_donated()
        if len(devices) == 1 and loaded.topology is None:
            results = [program.execute(values[0], None, devices[0])]
        else:
            results = program.execute_sharded(values, devices)
        # The interpreter's results may share memory with arguments, which must stay alive until the results are copied.
        for device, result in enumerate(results):
            _return_results(loaded, device, result if isinstance(result, tuple) else (result,), args)


def _return_results(loaded: LoadedExecutable, device: int, values: Sequence[Value], args: Any) -> None:
    memories = loaded.devices[device].memories
    output_list = read_words(args.output_lists, device + 1)[-1]
    outputs = (ctypes.c_uint64 * len(values)).from_address(output_list)
    for number, (shape, value) in enumerate(zip(result_leaves(loaded.executable), values, strict=True)):
        memory = memories[loaded.memory_kind(number)]
        if value is TOKEN:
            outputs[number] = new_token(memory)
            continue
        order = loaded.result_orders[number]
        array = actual_array(value).transpose(inverse(order))
        outputs[number], elements = new_buffer(shape.element_type, array.shape, memory, order)
        elements[...] = array
