"""The PJRT client of this process, with the handles of its devices and memories.

Responsible for what JAX sees as the platform. Does not depend on programs or buffers.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

from jax._src.xla_bridge import num_cpu_devices

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.error_codes.interfaces import commands as command_codes
from xlapy.base.error_codes.interfaces import pjrt as pjrt_codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.version import VERSION
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.c_api.types import element_sizes
from xlapy.pjrt.objects.layouts import register_row_major_layouts
from xlapy.pjrt.objects.records import Record, keep, read_bytes, text, words
from xlapy.pjrt.platform_name import PLATFORM_NAME
from xlapy.runtime.client import Client
from xlapy.runtime.engine.native_engine import device_stream

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
"""All kinds are the machine's memory; the first is the default."""

_STABLEHLO_VERSIONS = {"stablehlo_current_version": (1, 17, 0), "stablehlo_minimum_version": (0, 9, 0)}
"""Versions of the StableHLO artifacts in which JAX may pass programs."""

_INT64_LIST = 2
"""PJRT_NamedValue_kInt64List."""

_PROCESS_COUNT = b"num_nodes"
"""The option in which JAX passes the number of processes; its value is an int64."""


@dataclass(frozen=True)
class PlatformDevice:
    """A device: its number, its handle, the record of its stream, and the handles of its memories by kind."""

    number: int
    handle: int
    stream: int
    memories: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Platform:
    """The client of this process with its devices and memories, and the handles that stand for them."""

    client: Client
    handle: int
    devices: tuple[PlatformDevice, ...]

    def device_at(self, handle: int) -> PlatformDevice:
        """The device with a handle; `InvalidArgumentError` if there is none."""
        for device in self.devices:
            if device.handle == handle:
                return device
        raise InvalidArgumentError(pjrt_codes.HANDLE, f"{handle:#x} is not a device of {PLATFORM_NAME}")


@SingleFlight
def platform() -> Platform:
    """Returns the client; makes it on first use."""
    count = _device_count()
    client = Client(devices=count)
    for number, size in element_sizes().items():
        native().set_element_size(number, size)
    register_row_major_layouts()
    devices = tuple(_make_device(number) for number in range(count))
    return Platform(client, _client_record(devices).address, devices)


def _device_count() -> int:
    """The flag `num_devices`, or JAX's option for the number of CPU devices if that is larger."""
    count = int(flags.get("num_devices"))
    if count < 1:
        raise InvalidArgumentError(command_codes.FLAG_CHOICE, f"the flag --num_devices is at least 1, given {count}")
    return max(count, int(num_cpu_devices.value))


def _make_device(number: int) -> PlatformDevice:
    record = Record("device", device_description=describe_device(number), is_addressable=1, local_hardware_id=number)
    record["attributes"] = record["device_attributes"] = words([])
    record["attributes_deleter"] = native().address("no_op")
    memories = {kind: _make_memory(number, index, record.address) for index, kind in enumerate(MEMORY_KINDS)}
    record["memories"], record["num_memories"] = words(list(memories.values())), len(memories)
    record["memory"] = memories[MEMORY_KINDS[0]]
    return PlatformDevice(number, record.address, device_stream(number), memories)


def describe_device(number: int) -> int:
    """Makes the record that describes a device; returns its handle."""
    description = Record("description", id=number, attributes=words([]))
    description.set_text("device_kind", PLATFORM_NAME)
    description.set_text("debug_string", f"XlapyDevice(id={number})")
    description.set_text("to_string", f"XlapyDevice(id={number})")
    return description.address


def describe_platform(record: Record, addition: str = "") -> None:
    """Fills in the name and the version of the platform. addition: what follows the version."""
    record.set_text("platform_name", PLATFORM_NAME)
    record.set_text("platform_version", f"xlapy {VERSION}{addition}")


def _make_memory(device: int, index: int, handle: int) -> int:
    number, kind = device * len(MEMORY_KINDS) + index, MEMORY_KINDS[index]
    record = Record("memory", id=number, kind_id=index, devices=words([handle]), num_devices=1)
    record.set_text("kind", kind)
    record.set_text("debug_string", f"XlapyMemory(id={number}, kind={kind}, device={device})")
    record.set_text("to_string", f"XlapyMemory(id={number}, kind={kind}, device={device})")
    return record.address


def _client_record(devices: tuple[PlatformDevice, ...]) -> Record:
    record = Record("client")
    handles = words([device.handle for device in devices])
    memories = [memory for device in devices for memory in device.memories.values()]
    record["devices"] = record["addressable_devices"] = handles
    record["num_devices"] = record["num_addressable_devices"] = len(devices)
    record["addressable_memories"], record["num_addressable_memories"] = words(memories), len(memories)
    descriptions = [Record("device", device.handle)["device_description"] for device in devices]
    topology = Record("topology", descriptions=words(descriptions), num_descriptions=len(devices), attributes=words([]))
    for one in (record, topology):
        describe_platform(one)
    record["topology"] = topology.address
    return record


# -- entries


@entry("Plugin_Attributes")
def plugin_attributes(args: Any) -> None:
    rows = (structure("NamedValue") * len(_STABLEHLO_VERSIONS))()
    for row, (name, version) in zip(rows, _STABLEHLO_VERSIONS.items(), strict=True):
        row.struct_size, row.type = ctypes.sizeof(row), _INT64_LIST
        row.name, row.name_size = text(name)
        row.value, row.value_size = words(version), len(version)
    args.attributes, args.num_attributes = keep(rows), len(rows)


@entry("Client_Create")
def client_create(args: Any) -> None:
    """`UnsupportedError` if JAX runs in several processes, as then each would compute a part of the results only."""
    options = (structure("NamedValue") * args.num_options).from_address(args.create_options) if args.num_options else ()
    processes = [option.value for option in options if read_bytes(option.name, option.name_size) == _PROCESS_COUNT]
    if processes and processes[0] > 1:
        raise UnsupportedError(
            codes.PROCESSES,
            f"{PLATFORM_NAME} runs in one process, but jax.distributed.initialize was called with num_processes="
            f"{processes[0]}; use several devices of one process (the flag num_devices)",
        )
    args.client = platform().handle


@entry("Client_LookupDevice")
def client_lookup_device(args: Any) -> None:
    args.device = _device_at(args.id).handle


@entry("Client_LookupAddressableDevice")
def client_lookup_addressable_device(args: Any) -> None:
    args.addressable_device = _device_at(args.local_hardware_id).handle


def _device_at(number: int) -> PlatformDevice:
    devices = platform().devices
    if not 0 <= number < len(devices):
        raise InvalidArgumentError(
            codes.DEVICE_NUMBER, f"there is no device {number}: {PLATFORM_NAME} has {len(devices)}"
        )
    return devices[number]


@entry("Client_DefaultDeviceAssignment")
def client_default_device_assignment(args: Any) -> None:
    """Assigns devices in order, replica by replica."""
    count = args.num_replicas * args.num_partitions
    if not 0 <= count <= min(len(platform().devices), args.default_assignment_size):
        raise InvalidArgumentError(
            codes.RUN_DEVICES,
            f"{args.num_replicas} replicas of {args.num_partitions} partitions need {count} devices: "
            f"{PLATFORM_NAME} has {len(platform().devices)} (XLAPY_FLAGS=--num_devices={count})",
        )
    row = (ctypes.c_int32 * count).from_address(args.default_assignment)
    row[:] = range(count)


@entry("Device_MemoryStats")
def device_memory_stats(args: Any) -> None:
    """Reports the memory of all devices together, because they share the machine's memory."""
    used, peak = ctypes.c_int64(), ctypes.c_int64()
    native().memory_usage(ctypes.addressof(used), ctypes.addressof(peak))
    for name, _ in structure("Device_MemoryStats")._fields_:
        if name.endswith("_is_set"):
            setattr(args, name, False)
    args.bytes_in_use = used.value
    args.peak_bytes_in_use, args.peak_bytes_in_use_is_set = peak.value, True
