"""CompileOptionsProto: where a program is to run; and the other messages that PJRT wants as bytes.

Owns: the fields that count. Must not know: programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
from jaxlib import xla_client

from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.proto.meshes import write_sharding
from xlapy.proto.messages import Message, decode, encode, message_class


@dataclass(frozen=True)
class CompileOptions:
    """devices: numbers of the devices, those of a replica's partitions together."""

    num_replicas: int = 1
    num_partitions: int = 1
    devices: tuple[int, ...] = (0,)


def read_options(data: bytes) -> CompileOptions:
    """`ProtoError` for other bytes, `InvalidArgumentError` for unknown options and for devices that are not as many as
    the program runs on."""
    message = decode("CompileOptionsProto", data)
    _check_overrides(message)
    options = message.executable_build_options
    replicas, partitions = max(1, options.num_replicas), max(1, options.num_partitions)
    if options.HasField("device_assignment"):
        devices = _devices(options.device_assignment, replicas, partitions)
    else:
        devices = tuple(range(replicas * partitions))
    return CompileOptions(replicas, partitions, devices)


def _check_overrides(message: Message) -> None:
    """XLA's options mean nothing here, but are judged: by JAX's CPU, which compiles nothing with them."""
    overrides = [(name, _value(given)) for name, given in message.env_option_overrides.items()]
    if not overrides:
        return
    options = xla_client.CompileOptions()
    options.env_option_overrides = overrides
    device = jax.devices("cpu")[0]
    try:
        device.client.compile_and_load(_NOTHING, xla_client.DeviceList((device,)), options)
    except jax.errors.JaxRuntimeError as error:
        raise InvalidArgumentError(str(error).removeprefix("INVALID_ARGUMENT: ")) from error


_NOTHING = "module { func.func @main() { return } }"


def _value(override: Message) -> bool | int | float | str:
    """What an OptionOverrideProto has."""
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
            f"the device assignment has {[len(row) for row in rows]} replicas a partition, "
            f"the options {partitions} partitions of {replicas} replicas"
        )
    return tuple(row[replica] for replica in range(replicas) for row in rows)


def write_assignment(options: CompileOptions) -> bytes:
    """A DeviceAssignmentProto: for each partition, the devices of its replicas."""
    message = message_class("DeviceAssignmentProto")()
    message.replica_count, message.computation_count = options.num_replicas, options.num_partitions
    for partition in range(options.num_partitions):
        row = options.devices[partition :: options.num_partitions]
        message.computation_devices.add().replica_device_ids.extend(row)
    return encode(message)


def with_config(module: bytes, parameters: Sequence[Sharding | None], results: Sequence[Sharding | None]) -> bytes:
    """An HloModuleProtoWithConfig of an HloModuleProto, with the shardings of what goes in and comes out.

    Of the configuration it has the signature, without which XLA ends the process.
    """
    message = decode("HloModuleProto", module)
    for sharding in parameters:
        write_sharding(message.spmd_parameters_shardings.add(), sharding or _WHOLE)
    if results:
        whole = Sharding(ShardingKind.TUPLE, elements=tuple(sharding or _WHOLE for sharding in results))
        write_sharding(message.spmd_output_sharding, whole)
    signature = encode(message.host_program_shape)
    return _field(1, encode(message)) + _field(2, _field(1, signature))


_WHOLE = Sharding(ShardingKind.REPLICATED)


def _field(number: int, body: bytes) -> bytes:
    """A field of a message on the wire."""
    size, rest = bytearray(), len(body)
    while rest > 127:
        size.append(rest & 127 | 128)
        rest >>= 7
    return bytes([number << 3 | 2, *size, rest]) + body
