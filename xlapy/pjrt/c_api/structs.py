"""The structures of PJRT's C API 0.112: the order of its entries, and the fields of their arguments.

Every entry is a function of one pointer, to a structure of arguments, and returns a pointer to an error, or null.
Nearly every field takes eight bytes, so a structure is an array of words; fields of C type int or bool are marked.

Responsible for names, order and C types. Does not depend on what the entries do.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import Any

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

_FIELDS = """
    Error_Destroy: error
    Error_Message: error message message_size
    Error_GetCode: error code:i
    Error_ForEachPayload: error visitor user_arg
    NamedValue: name name_size type:i value value_size
    Plugin_Initialize:
    Plugin_Attributes: attributes num_attributes
    Event_Destroy: event
    Event_IsReady: event is_ready:b
    Event_Error: event
    Event_Await: event
    Event_OnReady: event callback user_arg
    Client_Create: create_options num_options kv_get_callback kv_get_user_arg kv_put_callback kv_put_user_arg client
            kv_try_get_callback kv_try_get_user_arg
    Client_Destroy: client
    Client_PlatformName: client platform_name platform_name_size
    Client_ProcessIndex: client process_index:i
    Client_PlatformVersion: client platform_version platform_version_size
    Client_TopologyDescription: client topology
    Client_Devices: client devices num_devices
    Client_AddressableDevices: client addressable_devices num_addressable_devices
    Client_LookupDevice: client id:i device
    Client_LookupAddressableDevice: client local_hardware_id:i addressable_device
    Client_AddressableMemories: client addressable_memories num_addressable_memories
    Program: code code_size format format_size
    Client_Compile: client program compile_options compile_options_size executable
    Client_DefaultDeviceAssignment: client num_replicas:i num_partitions:i default_assignment_size
            default_assignment
    Client_BufferFromHostBuffer: client data type:i dims num_dims byte_strides num_byte_strides
            host_buffer_semantics:i device memory device_layout done_with_host_buffer buffer
    Client_CreateUninitializedBuffer: client shape_dims shape_num_dims shape_element_type:i shape_layout device
            memory buffer
    Client_CreateErrorBuffer: client error_code:i error_message error_message_size shape_dims shape_num_dims
            shape_element_type:i shape_layout memory buffer payload num_payload
    Client_CreateViewOfDeviceBuffer: client device_buffer_ptr dims num_dims element_type:i layout device
            on_delete_callback on_delete_callback_arg stream buffer memory
    DeviceDescription_Id: device_description id:i
    DeviceDescription_ProcessIndex: device_description process_index:i
    DeviceDescription_Attributes: device_description num_attributes attributes
    DeviceDescription_Kind: device_description device_kind device_kind_size
    DeviceDescription_DebugString: device_description debug_string debug_string_size
    DeviceDescription_ToString: device_description to_string to_string_size
    Device_GetDescription: device device_description
    Device_IsAddressable: device is_addressable:b
    Device_LocalHardwareId: device local_hardware_id:i
    Device_AddressableMemories: device memories num_memories
    Device_DefaultMemory: device memory
    Device_MemoryStats: device bytes_in_use peak_bytes_in_use peak_bytes_in_use_is_set:b num_allocs
            num_allocs_is_set:b largest_alloc_size largest_alloc_size_is_set:b bytes_limit bytes_limit_is_set:b
            bytes_reserved bytes_reserved_is_set:b peak_bytes_reserved peak_bytes_reserved_is_set:b
            bytes_reservable_limit bytes_reservable_limit_is_set:b largest_free_block_bytes
            largest_free_block_bytes_is_set:b pool_bytes pool_bytes_is_set:b peak_pool_bytes
            peak_pool_bytes_is_set:b
    Device_ClearMemoryStats: device
    Device_GetAttributes: device attributes num_attributes device_attributes attributes_deleter
    Memory_Id: memory id:i
    Memory_Kind: memory kind kind_size
    Memory_Kind_Id: memory kind_id:i
    Memory_DebugString: memory debug_string debug_string_size
    Memory_ToString: memory to_string to_string_size
    Memory_AddressableByDevices: memory devices num_devices
    ExecuteContext_Create: context
    ExecuteContext_Destroy: context
    Executable_Destroy: executable
    LoadedExecutable_Destroy: executable
    LoadedExecutable_GetExecutable: loaded_executable executable
    LoadedExecutable_GetDeviceAssignment: executable serialized_bytes serialized_bytes_size
            serialized_device_assignment serialized_device_assignment_deleter
    Executable_Name: executable executable_name executable_name_size
    Executable_NumReplicas: executable num_replicas
    Executable_NumPartitions: executable num_partitions
    LogicalDeviceIds: replica:i partition:i
    LoadedExecutable_AddressableDevices: executable addressable_devices num_addressable_devices
    LoadedExecutable_AddressableDeviceLogicalIds: executable addressable_device_logical_ids
            num_addressable_device_logical_ids
    Executable_OptimizedProgram: executable program
    LoadedExecutable_Delete: executable
    LoadedExecutable_IsDeleted: executable is_deleted:b
    ExecuteOptions: send_callbacks recv_callbacks num_send_ops num_recv_ops launch_id:i non_donatable_input_indices
            num_non_donatable_input_indices context call_location num_tasks task_ids incarnation_ids
            multi_slice_config use_major_to_minor_data_layout_for_callbacks:b hlo_output_callbacks
            num_hlo_output_callbacks
    LoadedExecutable_Execute: executable options argument_lists num_devices num_args output_lists
            device_complete_events execute_device
    Executable_NumOutputs: executable num_outputs
    Executable_SizeOfGeneratedCodeInBytes: executable size_in_bytes
    Executable_Fingerprint: executable executable_fingerprint executable_fingerprint_size
    Executable_GetCostAnalysis: executable num_properties properties
    Executable_GetCompiledMemoryStats: executable generated_code_size_in_bytes argument_size_in_bytes
            output_size_in_bytes alias_size_in_bytes temp_size_in_bytes host_generated_code_size_in_bytes
            host_argument_size_in_bytes host_output_size_in_bytes host_alias_size_in_bytes host_temp_size_in_bytes
            peak_memory_in_bytes total_size_in_bytes total_allocation_bytes indefinite_allocations
            peak_unpadded_heap_bytes
    Executable_OutputElementTypes: executable output_types num_output_types
    Executable_OutputDimensions: executable num_outputs dims dim_sizes
    Executable_ParameterMemoryKinds: executable num_parameters memory_kinds memory_kind_sizes
    Executable_OutputMemoryKinds: executable num_outputs memory_kinds memory_kind_sizes
    Executable_Serialize: executable serialized_bytes serialized_bytes_size serialized_executable
            serialized_executable_deleter
    Executable_GetCompileOptions: executable serialized_bytes serialized_bytes_size serialized_compile_options
            serialized_compile_options_deleter
    Executable_DeserializeAndLoad: client serialized_executable serialized_executable_size loaded_executable
            overridden_serialized_compile_options overridden_serialized_compile_options_size load_options
    LoadedExecutable_Fingerprint: executable executable_fingerprint executable_fingerprint_size
    Buffer_Destroy: buffer
    Buffer_ElementType: buffer type:i
    Buffer_Dimensions: buffer dims num_dims
    Buffer_UnpaddedDimensions: buffer unpadded_dims num_dims
    Buffer_DynamicDimensionIndices: buffer dynamic_dim_indices num_dynamic_dims
    Buffer_ToHostBuffer: src host_layout dst dst_size event
    Buffer_OnDeviceSizeInBytes: buffer on_device_size_in_bytes
    Buffer_GetMemoryLayout: buffer layout_size layout_extensions tiled_size tiled_extensions minor_to_major
            minor_to_major_size tile_dims tile_dim_sizes num_tiles layout_type:i
    Buffer_Delete: buffer
    Buffer_IsDeleted: buffer is_deleted:b
    Buffer_CopyRawToHost: buffer dst offset transfer_size event
    Buffer_CopyToDevice: buffer dst_device dst_buffer
    Buffer_CopyToMemory: buffer dst_memory dst_buffer
    Buffer_IsOnCpu: buffer is_on_cpu:b
    Buffer_Device: buffer device
    Buffer_Memory: buffer memory
    Buffer_ReadyEvent: buffer event
    Buffer_UnsafePointer: buffer buffer_pointer
    Buffer_IncreaseExternalReferenceCount: buffer
    Buffer_DecreaseExternalReferenceCount: buffer
    Buffer_OpaqueDeviceMemoryDataPointer: buffer device_memory_ptr
    Layouts_MemoryLayout_Destroy: layout
    Layouts_MemoryLayout_Serialize: layout serialized_bytes serialized_bytes_size serialized_layout
            serialized_layout_deleter
    Layouts_Client_GetDefaultLayout: client type:i dims num_dims layout
    Layouts_Buffer_MemoryLayout: buffer layout
    Layouts_Topology_GetDefaultLayout: topology type:i dims num_dims layout
    Layouts_Executable_GetOutputLayouts: executable num_outputs layouts
    Layouts_Executable_GetParameterLayouts: executable num_parameters layouts
    TopologyDescription_Destroy: topology
    TopologyDescription_PlatformName: topology platform_name platform_name_size
    TopologyDescription_PlatformVersion: topology platform_version platform_version_size
    TopologyDescription_GetDeviceDescriptions: topology descriptions num_descriptions
    TopologyDescription_Attributes: topology attributes num_attributes
    TopologyDescription_Fingerprint: topology fingerprint
    Profiler_Create: struct_size options options_size profiler
    Profiler_Destroy: struct_size profiler
    Profiler_Start: struct_size profiler
    Profiler_Stop: struct_size profiler
    Profiler_CollectData: struct_size profiler buffer buffer_size_in_bytes
"""
"""Fields after the structure's size and extension pointer. `:i` is an int (or enum), `:b` a bool; other fields are
words: size_t, int64_t or a pointer."""

_TYPES: dict[str, type[Any]] = {"": ctypes.c_uint64, "i": ctypes.c_int32, "b": ctypes.c_bool}
_BARE = ("LogicalDeviceIds", *PROFILER_ENTRIES[3:])
"""Structures without an extension pointer. Their size field, if any, is listed."""


@functools.cache
def _parsed_fields() -> dict[str, list[tuple[str, str]]]:
    """Parses `_FIELDS`: the fields of each structure, with their kinds."""
    structures: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word in _FIELDS.split():
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


@functools.cache
def structure(name: str) -> Any:
    """The structure as a `ctypes` class. Setting an unknown field is an error."""
    rows = [(field, _TYPES[kind]) for field, kind in _parsed_fields()[name]]
    head = [] if name in _BARE else [("struct_size", ctypes.c_uint64), ("extension_start", ctypes.c_uint64)]
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *rows], "__slots__": ()})
