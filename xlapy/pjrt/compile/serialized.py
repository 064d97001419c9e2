"""Executables as bytes, for other processes and for JAX's persistent cache.

The format is a container (`xlapy.base.container`) of the kind "executable of JAX". Its header holds the shardings of
parameters and results, the memory kinds of results, the dimension orders, the executable's traits, and the names of
registered custom-call targets. Its sections are the compile options and the serialized `Executable`.

Responsible for this format. Does not depend on how executables run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from xlapy import opcodes
from xlapy.base.container import is_container, pack, unpack
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.compile.options import read_device_assignment
from xlapy.pjrt.compile.program_loader import Placement
from xlapy.pjrt.compile.targets import adopt_named, registered_targets
from xlapy.pjrt.jax import buffer_callbacks, callbacks
from xlapy.pjrt.objects.executable import executable_at, load_executable
from xlapy.pjrt.objects.loaded_executable import ExecutableTraits, LoadedExecutable
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import read_bytes

KIND = "executable of JAX"

_PYTHON_TARGETS = (callbacks.TARGET, callbacks.PARTITIONED_TARGET, buffer_callbacks.TARGET)
"""Targets of custom calls that name functions of this process."""


def serialize_executable(loaded: LoadedExecutable) -> bytes:
    """Serializes an executable; `UnsupportedError` for programs that call Python functions of this process."""
    executable = loaded.executable
    if calls_python(executable.module):
        raise UnsupportedError(
            codes.SERIALIZABLE_PROGRAM,
            f"{executable.name} calls Python functions of this process: it cannot be serialized",
        )
    header = {
        "parameters": _texts(loaded.placement.parameter_shardings),
        "results": _texts(loaded.placement.result_shardings),
        "kinds": loaded.placement.memory_kinds,
        "parameter_kinds": loaded.placement.parameter_memory_kinds,
        "parameter_orders": loaded.placement.parameter_orders,
        "result_orders": loaded.placement.result_orders,
        "traits": asdict(loaded.traits),
        "targets": registered_targets(executable.module),
    }
    return pack(KIND, header, [loaded.options_bytes, executable.serialize()])


def calls_python(module: Module) -> bool:
    """Whether a module calls Python functions that JAX passed as callbacks."""
    calls = (instruction for instruction in module.instructions() if instruction.op is opcodes.CUSTOM_CALL)
    return any(call.custom_call_target in _PYTHON_TARGETS for call in calls)


def deserialize_executable(data: bytes, options: bytes = b"") -> LoadedExecutable:
    """Loads a serialized executable. options: compile options that replace the serialized ones.

    `InvalidArgumentError` for other or damaged bytes, and for the bytes of another version of xlapy.
    """
    if not is_container(data):
        raise InvalidArgumentError(codes.SERIALIZED_BYTES, "these are not the bytes of an executable of xlapy")
    container = unpack(KIND, data)
    try:
        own_options, image = map(bytes, container.sections)
        parameters, results = (_shardings(container.header[name]) for name in ("parameters", "results"))
        parameter_orders, result_orders = (
            _orders(container.header[name]) for name in ("parameter_orders", "result_orders")
        )
        kinds, parameter_kinds = (tuple(map(str, container.header[name])) for name in ("kinds", "parameter_kinds"))
        placement = Placement(parameters, results, kinds, parameter_orders, result_orders, parameter_kinds)
        traits_header = container.header["traits"]
        traits = ExecutableTraits(str(traits_header["fingerprint"]), bool(traits_header["is_long_running"]))
        adopt_named(map(str, container.header["targets"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            codes.SERIALIZED_BYTES, f"the {KIND} cannot be read: {type(error).__name__}: {error}"
        ) from error
    assignment = read_device_assignment(options or own_options, platform().default_assignment)
    executable = platform().client.deserialize(image, platform().client_devices(assignment.devices))
    return load_executable(executable, assignment, options or own_options, placement, traits)


def _texts(shardings: Sequence[Sharding | None]) -> list[str | None]:
    return [None if sharding is None else sharding.to_text() for sharding in shardings]


def _shardings(texts: Sequence[str | None]) -> tuple[Sharding | None, ...]:
    return tuple(None if text is None else Sharding.parse(text) for text in texts)


def _orders(rows: Sequence[Sequence[int]]) -> tuple[Order, ...]:
    return tuple(tuple(map(int, row)) for row in rows)


# -- entries


@entry("Executable_Serialize")
def executable_serialize(args: Any) -> None:
    loaded = executable_at(args.executable)
    args.serialized_bytes, args.serialized_bytes_size = loaded.kept.bytes(serialize_executable(loaded))
    args.serialized_executable = args.executable
    args.serialized_executable_deleter = native().address("no_op")


@entry("Executable_GetCompileOptions")
def executable_get_compile_options(args: Any) -> None:
    loaded = executable_at(args.executable)
    args.serialized_bytes, args.serialized_bytes_size = loaded.kept.bytes(loaded.options_bytes)
    args.serialized_compile_options = args.executable
    args.serialized_compile_options_deleter = native().address("no_op")


@entry("Executable_DeserializeAndLoad")
def executable_deserialize_and_load(args: Any) -> None:
    data = read_bytes(args.serialized_executable, args.serialized_executable_size)
    options = read_bytes(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size)
    args.loaded_executable = deserialize_executable(data, options).record.address
