"""Topologies, and programs that are compiled for them ahead of time."""

from __future__ import annotations

import ctypes
import json

import numpy as np
import pytest

from tests.pjrt.c_api.calls import (
    F32,
    PjrtError,
    array_of,
    buffer_of,
    bytes_at,
    call,
    destroy,
    execute,
)
from tests.raising import raises
from xlapy.base.error_codes.execution import devices as devices_codes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.error_codes.interfaces import pjrt as pjrt_codes
from xlapy.pjrt.c_api.structs import least_size, structure
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import Record, read_bytes, read_words
from xlapy.proto.messages import decode, message_class

DOUBLE = b"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def topology(name: str = "", **options: int) -> int:
    kept, address, size = bytes_at(name.encode())
    rows = (structure("NamedValue") * max(1, len(options)))()
    names = [bytes_at(option.encode()) for option in options]
    for row, (_, option, length), value in zip(rows, names, options.values(), strict=False):
        row.struct_size, row.name, row.name_size, row.type = least_size("NamedValue"), option, length, 1
        row.value, row.value_size = value, 1
    made = call(
        "TopologyDescription_Create",
        topology_name=address,
        topology_name_size=size,
        create_options=ctypes.addressof(rows),
        num_options=len(options),
    )
    del kept
    return int(made.topology)


def device_count(handle: int) -> int:
    return int(call("TopologyDescription_GetDeviceDescriptions", topology=handle).num_descriptions)


def serialized(handle: int) -> bytes:
    made = call("TopologyDescription_Serialize", topology=handle)
    data = read_bytes(made.serialized_bytes, made.serialized_bytes_size)
    FREE(made.serialized_topology_deleter)(made.serialized_topology)
    return data


def deserialized(data: bytes) -> int:
    kept, address, size = bytes_at(data)
    made = call("TopologyDescription_Deserialize", serialized_topology=address, serialized_topology_size=size)
    del kept
    return int(made.topology)


def compiled(handle: int, replicas: int = 1) -> int:
    options = message_class("CompileOptionsProto")()
    options.executable_build_options.num_replicas = replicas
    options.executable_build_options.num_partitions = 1
    code, code_address, code_size = bytes_at(DOUBLE)
    format, format_address, format_size = bytes_at(b"mlir")
    kept, address, size = bytes_at(options.SerializeToString())
    program = structure("Program")(
        code=code_address, code_size=code_size, format=format_address, format_size=format_size
    )
    made = call(
        "Compile",
        topology=handle,
        program=ctypes.addressof(program),
        compile_options=address,
        compile_options_size=size,
    )
    del code, format, kept
    return int(made.executable)


def test_a_topology_has_the_devices_that_its_name_or_an_option_gives():
    assert [device_count(topology(name)) for name in ("", "1", "16")] == [len(platform().devices), 1, 16]
    assert device_count(topology(num_devices=6)) == device_count(topology("6", num_devices=6)) == 6
    handle = topology("3")
    descriptions = call("TopologyDescription_GetDeviceDescriptions", topology=handle)
    numbers = [
        call("DeviceDescription_Id", device_description=one).id for one in read_words(descriptions.descriptions, 3)
    ]
    assert numbers == [0, 1, 2]
    call("TopologyDescription_Destroy", topology=handle)
    with raises(PjrtError, pjrt_codes.HANDLE, "is not a topology, or was destroyed"):
        serialized(handle)
    own = Record("client", platform().handle)["topology"]
    call("TopologyDescription_Destroy", topology=own)
    assert device_count(own) == len(platform().devices) and serialized(own)


@pytest.mark.parametrize(
    "name, options, code, values",
    [
        ("v5e:2x2", {}, devices_codes.TOPOLOGY, ["'v5e:2x2'"]),
        ("0", {}, devices_codes.CLIENT_DEVICES, ["1 to 4096", "given 0"]),
        ("", {"num_devices": 5000}, devices_codes.CLIENT_DEVICES, ["1 to 4096", "given 5000"]),
        ("3", {"num_devices": 4}, devices_codes.TOPOLOGY, ["topology 3", "4 devices"]),
        ("", {"slices": 2}, devices_codes.TOPOLOGY, ["'slices'", "num_devices"]),
    ],
)
def test_invalid_topologies_are_refused(name, options, code, values):
    with raises(PjrtError, code, *values) as raised:
        topology(name, **options)
    assert raised.value.status == 3


def test_a_topology_is_serialized_with_what_programs_depend_on():
    handle = topology("5")
    data = serialized(handle)
    same = deserialized(data)
    prints = [
        call("TopologyDescription_Fingerprint", topology=one).fingerprint for one in (handle, same, topology("4"))
    ]
    assert device_count(same) == 5 and prints[0] == prints[1] != prints[2]
    with raises(PjrtError, codes.SERIALIZED_BYTES):
        deserialized(data[:-1])
    foreign = json.loads(data) | {"environment": {}}
    with raises(PjrtError, codes.SERIALIZED_COMPILER):
        deserialized(json.dumps(foreign).encode())
    with raises(PjrtError, codes.SERIALIZED_PLATFORM, "'tpu'"):
        deserialized(json.dumps(foreign | {"topology": "tpu"}).encode())


def test_memories_of_a_topology():
    kinds = call("TopologyDescription_GetMemorySpaceKindIds", topology=topology("2"))
    assert list((ctypes.c_int32 * kinds.num_memory_space_kind_ids).from_address(kinds.memory_space_kind_ids)) == [
        0,
        1,
        2,
    ]
    dims, order = (ctypes.c_int64 * 2)(3, 5), (ctypes.c_int64 * 2)(0, 1)
    layout = structure("MemoryLayout")(minor_to_major=ctypes.addressof(order), minor_to_major_size=2)
    given = {"topology": topology("2"), "dims": ctypes.addressof(dims), "num_dims": 2, "element_type": F32}
    given["layout"] = ctypes.addressof(layout)
    name = "TopologyDescription_MakeCanonicalShapeForMemorySpace"
    made = call(name, memory_space_kind_id=1, **given)
    shape = decode("ShapeProto", read_bytes(made.serialized_shape, made.serialized_shape_size))
    FREE(made.serialized_shape_deleter)(made.serialized_shape)
    assert list(shape.dimensions) == [3, 5] and list(shape.layout.minor_to_major) == [0, 1]
    with raises(PjrtError, devices_codes.MEMORY_KIND, "kind 3", "only 3"):
        call(name, memory_space_kind_id=3, **given)


def test_a_program_that_was_compiled_for_a_topology_runs_once_it_is_loaded():
    executable = compiled(topology("4"))
    assert call("Executable_NumOutputs", executable=executable).num_outputs == 1
    assert call("LoadedExecutable_AddressableDevices", executable=executable).num_addressable_devices == 0
    buffer = buffer_of(np.ones(4, np.float32))
    with raises(PjrtError, pjrt_codes.EXECUTABLE_STATE):
        execute(executable, [buffer])
    loaded = call("Client_Load", client=platform().handle, executable=executable).loaded_executable
    call("Executable_Destroy", executable=executable)
    ((result,),) = execute(loaded, [buffer])
    assert array_of(result).tolist() == [2.0] * 4
    destroy(buffer, result)
    call("LoadedExecutable_Destroy", executable=loaded)


def test_a_program_for_more_devices_than_the_client_has_is_compiled_but_not_loaded():
    executable = compiled(topology("8"), replicas=8)
    assert call("Executable_NumReplicas", executable=executable).num_replicas == 8
    data = call("Executable_Serialize", executable=executable)
    assert data.serialized_bytes_size > 1000
    with raises(PjrtError, devices_codes.DEVICE_NUMBER, "device 4", "4 (the flag num_devices)"):
        call("Client_Load", client=platform().handle, executable=executable)
    with raises(PjrtError, devices_codes.RUN_DEVICES, "8 devices"):
        compiled(topology("4"), replicas=8)
    call("Executable_Destroy", executable=executable)
