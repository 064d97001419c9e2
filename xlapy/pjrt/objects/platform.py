"""The PJRT client of this process, with the handles of devices and memories.

The client has the devices of all processes. This process launches programs on its own, the addressable devices, only.

Responsible for what JAX sees as the platform. Does not depend on programs or buffers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jax._src.xla_bridge import num_cpu_devices

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.error_codes.interfaces import commands as command_codes
from xlapy.base.error_codes.interfaces import pjrt as pjrt_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.version import VERSION
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.c_api.types import element_sizes
from xlapy.pjrt.objects.layouts import register_row_major_layouts
from xlapy.pjrt.objects.processes import FrameworkProcesses, join_framework, read_processes
from xlapy.pjrt.objects.records import Record, keep, text, words
from xlapy.pjrt.platform_name import PLATFORM_NAME
from xlapy.runtime.client import Client
from xlapy.runtime.device import Device
from xlapy.runtime.engine.native_engine import device_stream

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
"""All kinds are the machine's memory; the first is the default."""

_STABLEHLO_VERSIONS = {"stablehlo_current_version": (1, 17, 0), "stablehlo_minimum_version": (0, 9, 0)}
"""Versions of the StableHLO artifacts in which JAX may pass programs."""

_INT64_LIST = 2
"""PJRT_NamedValue_kInt64List."""

PROCESS_ID_STRIDE = 2048
"""Device `n` of process `p` has the id `2048 * p + n` if there are several processes, as with XLA's CPU."""


@dataclass(frozen=True)
class PlatformDevice:
    """A device: its id, the device of the client, its handle, and the index of its process among the framework's.

    stream, memories: the record of its stream, and the handles of its memories by kind. Devices of other processes have
    none.
    """

    number: int
    device: Device
    handle: int
    process_index: int = 0
    stream: int = 0
    memories: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Platform:
    """The client of this process with the devices of all processes, and the handles that stand for them."""

    client: Client
    handle: int
    devices: tuple[PlatformDevice, ...]
    process_index: int = 0

    @functools.cached_property
    def addressable_devices(self) -> tuple[PlatformDevice, ...]:
        """The devices of this process."""
        return tuple(device for device in self.devices if device.device.is_addressable)

    @functools.cached_property
    def devices_by_number(self) -> Mapping[int, PlatformDevice]:
        """The devices by their ids."""
        return {device.number: device for device in self.devices}

    def device_at(self, handle: int) -> PlatformDevice:
        """The device with a handle; `InvalidArgumentError` if there is none."""
        for device in self.devices:
            if device.handle == handle:
                return device
        raise InvalidArgumentError(pjrt_codes.HANDLE, f"{handle:#x} is not a device of {PLATFORM_NAME}")

    def default_assignment(self, count: int) -> tuple[int, ...]:
        """The ids of the devices that run a program for which none are named: the first of this process, or the first
        of all if it has not so many. Ids beyond the last device are those that follow."""
        own = self.addressable_devices if count <= len(self.addressable_devices) else self.devices
        numbers = [device.number for device in own[:count]]
        return (*numbers, *range(len(numbers), count))

    def client_devices(self, numbers: Sequence[int]) -> list[int]:
        """The ids, as the client counts them, of devices with the given ids; `InvalidArgumentError` for others."""
        for number in numbers:
            if number not in self.devices_by_number:
                raise InvalidArgumentError(
                    codes.DEVICE_NUMBER,
                    f"there is no device {number}: {PLATFORM_NAME} has {len(self.devices)} (the flag num_devices)",
                )
        return [self.devices_by_number[number].device.id for number in numbers]


_processes: list[FrameworkProcesses] = []
"""The processes with which the framework has made the client; empty before."""


@SingleFlight
def platform() -> Platform:
    """Returns the client; makes it on first use."""
    processes = _processes[0] if _processes else FrameworkProcesses()
    indices = join_framework(processes) if processes.count > 1 else (0,)
    client = Client(devices=_device_count(), single_process=processes.count == 1)
    for number, size in element_sizes().items():
        native().set_element_size(number, size)
    register_row_major_layouts()
    made = [_make_device(device, indices[device.process_index], processes.count) for device in client.devices]
    devices = tuple(sorted(made, key=lambda device: device.number))
    return Platform(client, _client_record(devices, processes.index).address, devices, processes.index)


def _device_count() -> int:
    """The flag `num_devices`, or JAX's option for the number of CPU devices if that is larger."""
    count = int(flags.get("num_devices"))
    if count < 1:
        raise InvalidArgumentError(command_codes.FLAG_CHOICE, f"the flag --num_devices is at least 1, given {count}")
    return max(count, int(num_cpu_devices.value))


def device_number(process: int, local: int, process_count: int) -> int:
    """The id of a device of a process."""
    return local if process_count == 1 else PROCESS_ID_STRIDE * process + local


def _make_device(device: Device, process: int, process_count: int) -> PlatformDevice:
    """Makes the record of a device. process: the framework's index of its process."""
    number = device_number(process, device.local_hardware_id, process_count)
    record = Record(
        "device",
        device_description=describe_device(number, process),
        is_addressable=int(device.is_addressable),
        local_hardware_id=device.local_hardware_id,
    )
    record["attributes"] = record["device_attributes"] = words([])
    record["attributes_deleter"] = native().address("no_op")
    if not device.is_addressable:
        record["memories"] = words([])
        return PlatformDevice(number, device, record.address, process)
    memories = {kind: _make_memory(number, index, record.address) for index, kind in enumerate(MEMORY_KINDS)}
    record["memories"], record["num_memories"] = words(list(memories.values())), len(memories)
    record["memory"] = memories[MEMORY_KINDS[0]]
    stream = device_stream(device.local_hardware_id, device.client_number)
    return PlatformDevice(number, device, record.address, process, stream, memories)


def describe_device(number: int, process: int = 0) -> int:
    """Makes the record that describes a device; returns its handle."""
    description = Record("description", id=number, process_index=process, attributes=words([]))
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


def _client_record(devices: tuple[PlatformDevice, ...], process: int) -> Record:
    record = Record("client", process_index=process)
    own = [device for device in devices if device.device.is_addressable]
    memories = [memory for device in own for memory in device.memories.values()]
    record["devices"], record["num_devices"] = words([device.handle for device in devices]), len(devices)
    record["addressable_devices"] = words([device.handle for device in own])
    record["num_addressable_devices"] = len(own)
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
    """Makes the client. Several processes form a process group first, and all of them make their clients.

    `InvalidArgumentError` if the client was made for other processes.
    """
    processes = read_processes(args)
    if not _processes:
        _processes.append(processes)
        try:
            args.client = platform().handle
        except BaseException:
            _processes.clear()
            raise
        return
    made = _processes[0]
    if (made.index, made.count) != (processes.index, processes.count):
        raise InvalidArgumentError(
            codes.PROCESSES,
            f"the client of this process was made as process {made.index} of {made.count}: it cannot be process "
            f"{processes.index} of {processes.count}",
        )
    args.client = platform().handle


@entry("Client_LookupDevice")
def client_lookup_device(args: Any) -> None:
    """Returns the device with an id, of any process."""
    found = platform().devices_by_number.get(args.id)
    if found is None:
        raise InvalidArgumentError(
            codes.DEVICE_NUMBER, f"there is no device {args.id}: {PLATFORM_NAME} has {len(platform().devices)}"
        )
    args.device = found.handle


@entry("Client_LookupAddressableDevice")
def client_lookup_addressable_device(args: Any) -> None:
    """Returns a device of this process by its number there."""
    devices = platform().addressable_devices
    if not 0 <= args.local_hardware_id < len(devices):
        raise InvalidArgumentError(
            codes.DEVICE_NUMBER,
            f"there is no device {args.local_hardware_id}: {PLATFORM_NAME} has {len(devices)} in this process",
        )
    args.addressable_device = devices[args.local_hardware_id].handle


@entry("Client_DefaultDeviceAssignment")
def client_default_device_assignment(args: Any) -> None:
    """Assigns devices in order, replica by replica: those of this process if it has enough."""
    count = args.num_replicas * args.num_partitions
    if not 0 <= count <= min(len(platform().devices), args.default_assignment_size):
        raise InvalidArgumentError(
            codes.RUN_DEVICES,
            f"{args.num_replicas} replicas of {args.num_partitions} partitions need {count} devices: "
            f"{PLATFORM_NAME} has {len(platform().devices)} (XLAPY_FLAGS=--num_devices={count})",
        )
    row = (ctypes.c_int32 * count).from_address(args.default_assignment)
    row[:] = platform().default_assignment(count)


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
