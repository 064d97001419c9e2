"""Topologies: numbers of devices for which programs are compiled, whether or not the client has so many.

A topology has a record like the client's own, and is written as JSON. It holds what compiled programs depend on
besides themselves, so a topology of another machine or version is refused.

Responsible for topologies. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.error_codes.interfaces import commands as command_codes
from xlapy.base.error_codes.interfaces import pjrt as pjrt_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.c_api.types import type_of
from xlapy.pjrt.objects.memory_layouts import read_layout
from xlapy.pjrt.objects.platform import MEMORY_KINDS, describe_device, describe_platform, device_number, platform
from xlapy.pjrt.objects.records import Record, keep, read_bytes, read_words, words
from xlapy.pjrt.platform_name import PLATFORM_NAME
from xlapy.proto.messages import encode, message_class
from xlapy.proto.values import write_shape
from xlapy.runtime.storage.compile_cache import compile_environment

MAX_DEVICES = 1 << 12
"""The largest number of devices of a topology."""

COMPILATION_ONLY = " for compilation only"
"""What distinguishes the version of the platform in a topology. If it were the client's, JAX would let the client
compile for the topology, and would wait for it while holding the interpreter's lock, which the compiler needs."""

_COUNT_OPTION = "num_devices"
_STRING, _INT64 = 0, 1
"""Types of PJRT_NamedValue."""


@dataclass(frozen=True)
class Topology:
    """A number of devices of machines like this one, the same number in each process."""

    device_count: int
    process_count: int = 1

    def fingerprint(self) -> int:
        """The fingerprint of everything that programs depend on besides themselves."""
        processes = [] if self.process_count == 1 else [self.process_count]
        text = json.dumps([self.device_count, *processes, compile_environment()], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def serialize(self) -> bytes:
        counts = {"devices": self.device_count, "processes": self.process_count}
        return json.dumps(
            {"topology": PLATFORM_NAME, **counts, "environment": compile_environment()}, sort_keys=True
        ).encode()

    @staticmethod
    def deserialize(data: bytes) -> Topology:
        """`InvalidArgumentError` for other bytes, and for a topology of another machine or version of xlapy."""
        try:
            found = json.loads(data)
            name, environment = found["topology"], found["environment"]
            count, processes = int(found["devices"]), int(found["processes"])
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidArgumentError(
                command_codes.SERIALIZED_BYTES, f"these are not the bytes of a topology of {PLATFORM_NAME}"
            ) from error
        if name != PLATFORM_NAME:
            raise InvalidArgumentError(
                command_codes.SERIALIZED_PLATFORM, f"this is a topology of {name!r}, not of {PLATFORM_NAME}"
            )
        if environment != json.loads(json.dumps(compile_environment())):
            raise InvalidArgumentError(
                command_codes.SERIALIZED_COMPILER,
                "this topology was written by another version of xlapy or on another machine",
            )
        return checked(count, processes)


def checked(count: int, processes: int = 1) -> Topology:
    """A topology of so many devices; `InvalidArgumentError` unless there can be so many."""
    if not 1 <= count <= MAX_DEVICES:
        raise InvalidArgumentError(codes.CLIENT_DEVICES, f"a topology has 1 to {MAX_DEVICES} devices, given {count}")
    if processes < 1 or count % processes:
        raise InvalidArgumentError(
            codes.TOPOLOGY, f"each process has as many devices as the others, given {count} devices of {processes}"
        )
    return Topology(count, processes)


_made: dict[int, Topology] = {}
"""Topologies that frameworks made, by handle."""
_lock = fork_safe_lock()


def own_topology() -> Topology:
    """The topology of the client's own devices."""
    return Topology(len(platform().devices), platform().client.process_count)


def topology_at(handle: int) -> Topology:
    """The topology with a handle: one that a framework made, or the client's own."""
    if handle == Record("client", platform().handle)["topology"]:
        return own_topology()
    with _lock:
        found = _made.get(handle)
    if found is None:
        raise InvalidArgumentError(pjrt_codes.HANDLE, f"{handle:#x} is not a topology, or was destroyed")
    return found


def add_topology(topology: Topology) -> int:
    """Gives a topology a handle. Its records live as long as the process, as frameworks keep device descriptions."""
    own = topology.device_count // topology.process_count
    places = [divmod(number, own) for number in range(topology.device_count)]
    descriptions = [
        describe_device(device_number(process, local, topology.process_count), process) for process, local in places
    ]
    record = Record(
        "topology", descriptions=words(descriptions), num_descriptions=len(descriptions), attributes=words([])
    )
    describe_platform(record, COMPILATION_ONLY)
    with _lock:
        _made[record.address] = topology
    return record.address


# -- entries


@entry("TopologyDescription_Create")
def topology_description_create(args: Any) -> None:
    """Makes a topology. Its name is the number of devices; by default it is that of the client. The option
    `num_devices` gives the number, too. Other numbers of devices than the client's are those of one process."""
    name = read_bytes(args.topology_name, args.topology_name_size).decode("utf-8", "replace")
    if name and not name.isdecimal():
        raise InvalidArgumentError(codes.TOPOLOGY, f"the name of a topology is a number of devices, given {name!r}")
    own = own_topology()
    count = int(name) if name else own.device_count
    for option, value in _options(args.create_options, args.num_options).items():
        if option != _COUNT_OPTION:
            raise InvalidArgumentError(codes.TOPOLOGY, f"a topology has no option {option!r}, only {_COUNT_OPTION}")
        if not isinstance(value, int):
            raise InvalidArgumentError(codes.TOPOLOGY, f"the option {_COUNT_OPTION} is an integer, given {value!r}")
        if name and value != count:
            raise InvalidArgumentError(codes.TOPOLOGY, f"the topology {name} is to have {value} devices")
        count = value
    args.topology = add_topology(own if count == own.device_count else checked(count))


def _options(address: int, count: int) -> dict[str, int | str | None]:
    """Named values: integers and texts; None for those of other types."""
    values: dict[str, int | str | None] = {}
    for row in (structure("NamedValue") * count).from_address(address) if count else ():
        name, word = read_bytes(row.name, row.name_size).decode("utf-8", "replace"), row.value
        if row.type == _INT64:
            (values[name],) = struct.unpack("<q", struct.pack("<Q", word))
        else:
            values[name] = read_bytes(word, row.value_size).decode("utf-8", "replace") if row.type == _STRING else None
    return values


@entry("TopologyDescription_Destroy")
def topology_description_destroy(args: Any) -> None:
    """Invalidates a handle. The client's own topology stays."""
    with _lock:
        _made.pop(args.topology, None)


@entry("TopologyDescription_Fingerprint")
def topology_description_fingerprint(args: Any) -> None:
    """The fingerprint is part of the keys of JAX's persistent cache."""
    args.fingerprint = topology_at(args.topology).fingerprint()


@entry("TopologyDescription_Serialize")
def topology_description_serialize(args: Any) -> None:
    data = topology_at(args.topology).serialize()
    copy = _copy_of(data)
    args.serialized_bytes, args.serialized_bytes_size, args.serialized_topology = copy, len(data), copy
    args.serialized_topology_deleter = native().address("free_bytes")


def _copy_of(data: bytes) -> int:
    """The address of a copy that the receiver frees."""
    address = native().malloc_bytes(max(1, len(data)))
    if address is None:
        raise MemoryError(f"out of memory for {len(data)} bytes")
    ctypes.memmove(address, data, len(data))
    return int(address)


@entry("TopologyDescription_Deserialize")
def topology_description_deserialize(args: Any) -> None:
    data = read_bytes(args.serialized_topology, args.serialized_topology_size)
    args.topology = add_topology(Topology.deserialize(data))


_kind_numbers = (ctypes.c_int32 * len(MEMORY_KINDS))(*range(len(MEMORY_KINDS)))


@entry("TopologyDescription_GetMemorySpaceKindIds")
def topology_description_get_memory_space_kind_ids(args: Any) -> None:
    args.memory_space_kind_ids, args.num_memory_space_kind_ids = keep(_kind_numbers), len(_kind_numbers)


@entry("TopologyDescription_MakeCanonicalShapeForMemorySpace")
def topology_description_make_canonical_shape(args: Any) -> None:
    """Returns a shape with its layout as a ShapeProto. Every memory holds arrays in the layout that they are given."""
    if not 0 <= args.memory_space_kind_id < len(MEMORY_KINDS):
        raise InvalidArgumentError(
            codes.MEMORY_KIND, f"there is no memory of kind {args.memory_space_kind_id}, only {len(MEMORY_KINDS)}"
        )
    dimensions = read_words(args.dims, args.num_dims)
    order = read_layout(args.layout, args.num_dims)
    shape = Shape.array(type_of(args.element_type), dimensions, layout=Layout(order[::-1]))
    message = message_class("ShapeProto")()
    write_shape(message, shape)
    data = encode(message)
    args.serialized_shape, args.serialized_shape_size = _copy_of(data), len(data)
    args.serialized_shape_deleter = native().address("free_bytes")
