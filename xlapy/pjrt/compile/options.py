"""Reads CompileOptionsProto, and writes the other messages that PJRT exchanges as bytes.

Responsible for the fields that xlapy uses. Does not depend on programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
from jaxlib import xla_client

from xlapy.base import flags
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.proto.meshes import write_sharding
from xlapy.proto.messages import Message, decode, encode, message_class


@dataclass(frozen=True)
class DeviceAssignment:
    """The devices that run the replicas and partitions of a program.

    devices: device numbers, replica by replica, so that the partitions of a replica are next to each other.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    devices: tuple[int, ...] = (0,)


def _first_devices(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def read_device_assignment(data: bytes, default: Callable[[int], tuple[int, ...]] = _first_devices) -> DeviceAssignment:
    """Reads the device assignment of a CompileOptionsProto, after checking the other options.

    default: returns the ids of so many devices, for options that name none.

    Raises `ProtoError` for malformed bytes, `InvalidArgumentError` for unknown options and for a device assignment of
    the wrong size.
    """
    message = decode("CompileOptionsProto", data)
    _check_overrides(message)
    options = message.executable_build_options
    replicas, partitions = max(1, options.num_replicas), max(1, options.num_partitions)
    if options.HasField("device_assignment"):
        devices = _devices(options.device_assignment, replicas, partitions)
    else:
        devices = default(replicas * partitions)
    return DeviceAssignment(replicas, partitions, devices)


MEMORY_LIMIT_OPTION = "xlapy_memory_limit"
"""The compiler option of JAX that limits the memory of a program: `jax.jit(f, compiler_options={...: "12GB"})`."""


def read_memory_limit(data: bytes) -> int | None:
    """Returns the limit of memory of a CompileOptionsProto in bytes; None if there is none.

    It is that of the compiler option `xlapy_memory_limit`, or else `device_memory_size`. Raises `InvalidArgumentError`
    for values that `flags.memory_limit` refuses.
    """
    message = decode("CompileOptionsProto", data)
    if MEMORY_LIMIT_OPTION in message.env_option_overrides:
        return flags.memory_limit(_value(message.env_option_overrides[MEMORY_LIMIT_OPTION]))
    return message.executable_build_options.device_memory_size or None


def _check_overrides(message: Message) -> None:
    """Validates XLA's options, which have no effect here, by passing them to JAX's CPU client with an empty program."""
    given = message.env_option_overrides.items()
    overrides = [(name, _value(value)) for name, value in given if name != MEMORY_LIMIT_OPTION]
    if not overrides:
        return
    options = xla_client.CompileOptions()
    options.env_option_overrides = overrides
    device = jax.local_devices(backend="cpu")[0]
    try:
        device.client.compile_and_load(_EMPTY_PROGRAM, xla_client.DeviceList((device,)), options)
    except jax.errors.JaxRuntimeError as error:
        raise InvalidArgumentError(codes.COMPILER_OPTIONS, str(error).removeprefix("INVALID_ARGUMENT: ")) from error


_EMPTY_PROGRAM = "module { func.func @main() { return } }"


def _value(override: Message) -> bool | int | float | str:
    """The value of an OptionOverrideProto."""
    for field in ("string_field", "bool_field", "int_field", "double_field"):
        if override.HasField(field):
            value: bool | int | float | str = getattr(override, field)
            return value
    return ""


def _devices(assignment: Message, replicas: int, partitions: int) -> tuple[int, ...]:
    """The devices of a DeviceAssignmentProto, replica by replica."""
    rows = [list(row.replica_device_ids) for row in assignment.computation_devices]
    if len(rows) != partitions or any(len(row) != replicas for row in rows):
        raise InvalidArgumentError(
            proto_codes.COMPILE_OPTIONS,
            f"the device assignment has {[len(row) for row in rows]} replicas per partition, "
            f"the options have {partitions} partitions of {replicas} replicas",
        )
    return tuple(row[replica] for replica in range(replicas) for row in rows)


def write_device_assignment(assignment: DeviceAssignment) -> bytes:
    """Writes a DeviceAssignmentProto: for each partition, the devices of its replicas."""
    message = message_class("DeviceAssignmentProto")()
    message.replica_count, message.computation_count = assignment.num_replicas, assignment.num_partitions
    for partition in range(assignment.num_partitions):
        row = assignment.devices[partition :: assignment.num_partitions]
        message.computation_devices.add().replica_device_ids.extend(row)
    return encode(message)


def write_module_with_config(
    module: bytes,
    parameters: Sequence[Sharding | None],
    results: Sequence[Sharding | None],
    replicas: int = 1,
    partitions: int = 1,
) -> bytes:
    """Writes an HloModuleProtoWithConfig with the shardings of parameters and results, and the number of devices.

    The configuration includes the signature, because XLA aborts the process without it.
    """
    message = decode("HloModuleProto", module)
    for sharding in parameters:
        write_sharding(message.spmd_parameters_shardings.add(), sharding or _REPLICATED)
    if results:
        whole = Sharding(ShardingKind.TUPLE, elements=tuple(sharding or _REPLICATED for sharding in results))
        write_sharding(message.spmd_output_sharding, whole)
    signature = encode(message.host_program_shape)
    config = _encode_field(1, signature) + _encode_number(4, replicas) + _encode_number(5, partitions)
    return _encode_field(1, encode(message)) + _encode_field(2, config)


_REPLICATED = Sharding(ShardingKind.REPLICATED)


def _encode_field(number: int, body: bytes) -> bytes:
    """Encodes a length-delimited field of a protocol buffer."""
    return bytes([number << 3 | 2, *_variable_length(len(body))]) + body


def _encode_number(number: int, value: int) -> bytes:
    """Encodes a field of a protocol buffer that is an unsigned integer."""
    return bytes([number << 3, *_variable_length(value)])


def _variable_length(value: int) -> bytes:
    """Encodes an unsigned integer in groups of seven bits, the lowest first."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
