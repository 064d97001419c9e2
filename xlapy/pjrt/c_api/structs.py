"""The structures of PJRT's C API 0.112: the order of its entries, and the fields of their arguments.

Every entry is a function of one pointer, to a structure of arguments, and returns a pointer to an error, or null.
Nearly every field takes eight bytes, so a structure is an array of words; the table of fields
(`xlapy.pjrt.c_api.argument_fields`) marks those of C type int or bool.

Responsible for names, order and C types. Does not depend on what the entries do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.pjrt.c_api.argument_fields import FIELDS, WITHOUT_EXTENSIONS

API_VERSION = (0, 112)

_NAMES = """
    Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes Event_Destroy Event_IsReady
    Event_Error Event_Await Event_OnReady Client_Create Client_Destroy Client_PlatformName Client_ProcessIndex
    Client_PlatformVersion Client_Devices Client_AddressableDevices Client_LookupDevice
    Client_LookupAddressableDevice Client_AddressableMemories Client_Compile Client_DefaultDeviceAssignment
    Client_BufferFromHostBuffer DeviceDescription_Id DeviceDescription_ProcessIndex DeviceDescription_Attributes
    DeviceDescription_Kind DeviceDescription_DebugString DeviceDescription_ToString Device_GetDescription
    Device_IsAddressable Device_LocalHardwareId Device_AddressableMemories Device_DefaultMemory Device_MemoryStats
    Memory_Id Memory_Kind Memory_DebugString Memory_ToString Memory_AddressableByDevices Executable_Destroy
    Executable_Name Executable_NumReplicas Executable_NumPartitions Executable_NumOutputs
    Executable_SizeOfGeneratedCodeInBytes Executable_GetCostAnalysis Executable_OutputMemoryKinds
    Executable_OptimizedProgram Executable_Serialize LoadedExecutable_Destroy LoadedExecutable_GetExecutable
    LoadedExecutable_AddressableDevices LoadedExecutable_Delete LoadedExecutable_IsDeleted
    LoadedExecutable_Execute Executable_DeserializeAndLoad LoadedExecutable_Fingerprint Buffer_Destroy
    Buffer_ElementType Buffer_Dimensions Buffer_UnpaddedDimensions Buffer_DynamicDimensionIndices
    Buffer_GetMemoryLayout Buffer_OnDeviceSizeInBytes Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted
    Buffer_CopyToDevice Buffer_ToHostBuffer Buffer_IsOnCpu Buffer_ReadyEvent Buffer_UnsafePointer
    Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount
    Buffer_OpaqueDeviceMemoryDataPointer CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk
    CopyToDeviceStream_TotalBytes CopyToDeviceStream_GranuleSize CopyToDeviceStream_CurrentBytes
    TopologyDescription_Create TopologyDescription_Destroy TopologyDescription_PlatformName
    TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions TopologyDescription_Serialize
    TopologyDescription_Attributes Compile Executable_OutputElementTypes Executable_OutputDimensions
    Buffer_CopyToMemory Client_CreateViewOfDeviceBuffer Executable_Fingerprint Client_TopologyDescription
    Executable_GetCompiledMemoryStats Memory_Kind_Id ExecuteContext_Create ExecuteContext_Destroy
    Buffer_CopyRawToHost AsyncHostToDeviceTransferManager_Destroy AsyncHostToDeviceTransferManager_TransferData
    Client_CreateBuffersForAsyncHostToDevice AsyncHostToDeviceTransferManager_RetrieveBuffer
    AsyncHostToDeviceTransferManager_Device AsyncHostToDeviceTransferManager_BufferCount
    AsyncHostToDeviceTransferManager_BufferSize AsyncHostToDeviceTransferManager_SetBufferError
    AsyncHostToDeviceTransferManager_AddMetadata Client_DmaMap Client_DmaUnmap Client_CreateUninitializedBuffer
    Client_UpdateGlobalProcessInfo TopologyDescription_Deserialize Client_CreateAliasBuffer
    Client_FulfillAliasBuffer LoadedExecutable_GetDeviceAssignment Client_CreateErrorBuffer
    AsyncHostToDeviceTransferManager_TransferLiteral Buffer_CopyRawToHostFuture Device_PoisonExecution
    Device_CreateAsyncTrackingEvent AsyncTrackingEvent_Destroy Executable_GetCompileOptions
    Buffer_DonateWithControlDependency Event_Create Event_Set Device_GetAttributes Client_Load
    LoadedExecutable_AddressableDeviceLogicalIds Buffer_Bitcast Error_ForEachPayload
    TopologyDescription_Fingerprint Executable_ParameterMemoryKinds Device_ClearMemoryStats
    TopologyDescription_GetMemorySpaceKindIds TopologyDescription_MakeCanonicalShapeForMemorySpace
"""

ENTRIES = tuple(_NAMES.split())
"""The entries of the function table in order, without the prefix PJRT_."""

HEADER_BYTES = 40
"""Size of the table's header: its size, the extensions, and the version (a structure of 24 bytes)."""

EXTENSIONS: Mapping[int, tuple[str, ...]] = {
    4: (
        "Layouts_MemoryLayout_Destroy",
        "Layouts_MemoryLayout_Serialize",
        "Layouts_Client_GetDefaultLayout",
        "Layouts_Buffer_MemoryLayout",
        "Layouts_Topology_GetDefaultLayout",
        "Layouts_Executable_GetOutputLayouts",
        "Layouts_Executable_GetParameterLayouts",
    ),
}
"""The entries of each extension of the table, by its PJRT_Extension_Type."""

EXTENSION_HEADER_BYTES = 24
"""Size of an extension's header: its size, its type, and the next extension."""

PROFILER = 1
"""PJRT_Extension_Type of the profiler extension. It holds the address of a function table, and a word that arguments
use."""

PROFILER_ENTRIES = (
    "Error_Destroy",
    "Error_Message",
    "Error_GetCode",
    "Profiler_Create",
    "Profiler_Destroy",
    "Profiler_Start",
    "Profiler_Stop",
    "Profiler_CollectData",
)
"""The functions of the table PLUGIN_Profiler_Api in order, after its size and a word for the plugin. Its errors are
PJRT's, and their arguments have the same layout."""

_TYPES: dict[str, type[Any]] = {"": ctypes.c_uint64, "i": ctypes.c_int32, "b": ctypes.c_bool}


@SingleFlight
def _parsed_fields() -> dict[str, list[tuple[str, str]]]:
    """Parses `FIELDS`: the fields of each structure, with their kinds."""
    structures: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word in FIELDS.split():
        if word.endswith(":"):
            name = word[:-1]
            structures[name] = []
        else:
            field, _, kind = word.partition(":")
            structures[name].append((field, kind))
    return structures


def fields(name: str) -> list[str]:
    """The fields of a structure in order, after `struct_size` and `extension_start`."""
    return [field for field, _ in _parsed_fields()[name]]


@SingleFlight
def structure(name: str) -> Any:
    """The structure as a `ctypes` class. Setting an unknown field is an error."""
    rows = [(field, _TYPES[kind]) for field, kind in _parsed_fields()[name]]
    head = (
        [] if name in WITHOUT_EXTENSIONS else [("struct_size", ctypes.c_uint64), ("extension_start", ctypes.c_uint64)]
    )
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *rows], "__slots__": ()})


def least_size(name: str) -> int:
    """The size of a structure in bytes, without padding at its end: what a caller of API 0.112 states as its size."""
    arguments = structure(name)
    last = getattr(arguments, arguments._fields_[-1][0])
    return int(last.offset + last.size)


def read_sized(name: str, address: int) -> Any:
    """A copy of a structure whose size its first word states: fields beyond that, which an older caller does not know,
    are 0."""
    kind = structure(name)
    made = kind()
    size = ctypes.c_uint64.from_address(address).value
    ctypes.memmove(ctypes.addressof(made), address, min(size, ctypes.sizeof(kind)))
    return made
