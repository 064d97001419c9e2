"""What the engine runs for an executable of the plugin, on each of its devices.

Responsible for the places of buffers and their layouts, as JAX declares them. Does not depend on how launches are
queued or run; see `runtime.engine.device_programs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.shape import Shape
from xlapy.cpu.program.targets.python_callbacks import PythonCallbacks
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.objects.layouts import layout_handle, logical, row_major
from xlapy.pjrt.objects.loaded_executable import LoadedExecutable
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.engine import device_programs
from xlapy.runtime.engine.device_programs import ArrayForm, DevicePlace, NativeSource


def runs_natively(program: CpuProgram) -> bool:
    """Whether native code can run the program; it may call Python functions."""
    native_program, leaves = program.compiled.program, _leaves(program)
    return device_programs.runs_natively(native_program, leaves) or _calls_python(program)


def _calls_python(program: CpuProgram) -> bool:
    return device_programs.calls_python_natively(program.compiled.program, _leaves(program))


def _leaves(program: CpuProgram) -> list[Shape]:
    result = program.shape.result
    return [*program.shape.parameters, *(result.tuple_shapes if result.is_tuple else (result,))]


def add_device_programs(loaded: LoadedExecutable, program: CpuProgram, results: Sequence[Shape]) -> None:
    """Fills in the records from which native code runs the program on all of its devices."""
    assignment = loaded.assignment

    def fixed_addresses(replica: int, partition: int) -> dict[int, int]:
        number = loaded.first_number + replica * assignment.num_partitions + partition
        return program.fixed_addresses(*divmod(number, loaded.executable.num_partitions))

    callbacks = PythonCallbacks(program.compiled.program) if _calls_python(program) else None
    loaded.python_callbacks = callbacks
    source = NativeSource(
        program.compiled.program,
        program.compiled.entry,
        fixed_addresses,
        loaded.executable.program_shape.parameters,
        results,
        [leaf.parameter for leaf in loaded.executable.donated],
        (assignment.num_replicas, assignment.num_partitions),
        loaded.traits.is_long_running,
        callbacks,
    )
    kinds = [loaded.memory_kind(number) for number in range(len(results))]
    places = [
        DevicePlace(device.handle, device.stream, [device.memories[kind] for kind in kinds])
        for device in loaded.devices
    ]
    parameters = list(map(_form, source.parameters, loaded.parameter_orders))
    forms = list(map(_form, results, loaded.result_orders))
    runnable = device_programs.add_device_programs(loaded.record, loaded.kept, source, places, parameters, forms)
    loaded.device_programs = runnable.device_programs


def _form(shape: Shape, order: Order) -> ArrayForm:
    if shape.is_token:
        return ArrayForm((0,), layout_handle(row_major(1)))
    return ArrayForm(logical(shape.dimensions, order), layout_handle(order))
