"""The fields of every structure of PJRT's C API 0.112, as a table in text.

Responsible for names, order and C types of fields. Does not depend on how structures are accessed.
"""

from __future__ import annotations

FIELDS = """
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
    KeyValueGetCallback: key key_size timeout_in_ms:i callback_error user_arg value value_size value_deleter_callback
    KeyValuePutCallback: key key_size value value_size callback_error user_arg
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
    Event_Create: event
    Event_Set: event error_code:i error_message error_message_size
    Client_Load: client executable compile_options compile_options_size loaded_executable
    Client_DmaMap: client data size
    Client_DmaUnmap: client data
    Client_UpdateGlobalProcessInfo: client process_infos num_process_infos
    Client_CreateAliasBuffer: client memory shape_dims shape_num_dims shape_element_type:i shape_layout alias_buffer
            fulfill_alias_buffer_cb
    Client_FulfillAliasBuffer: client buffer status_code:i error_message error_message_size fulfill_alias_buffer_cb
    ShapeSpec: dims num_dims element_type:i
    Client_CreateBuffersForAsyncHostToDevice: client shape_specs num_shape_specs device_layouts num_device_layouts
            memory transfer_manager
    AsyncHostToDeviceTransferManager_Destroy: transfer_manager
    AsyncHostToDeviceTransferManager_TransferData: transfer_manager buffer_index:i data offset transfer_size
            is_last_transfer:b done_with_h2d_transfer
    AsyncHostToDeviceTransferManager_TransferLiteral: transfer_manager buffer_index:i data shape_dims shape_num_dims
            shape_element_type:i shape_layout done_with_h2d_transfer
    AsyncHostToDeviceTransferManager_RetrieveBuffer: transfer_manager buffer_index:i buffer_out
    AsyncHostToDeviceTransferManager_Device: transfer_manager device_out
    AsyncHostToDeviceTransferManager_BufferCount: transfer_manager buffer_count
    AsyncHostToDeviceTransferManager_BufferSize: transfer_manager buffer_index:i buffer_size
    AsyncHostToDeviceTransferManager_SetBufferError: transfer_manager buffer_index:i error_code:i error_message
            error_message_size
    AsyncHostToDeviceTransferManager_AddMetadata: transfer_manager transfer_metadata num_metadata
    Device_PoisonExecution: device launch_id:i error_code:i error_message error_message_size poisoned:b payload
            num_payload
    Device_CreateAsyncTrackingEvent: device description description_size event
    AsyncTrackingEvent_Destroy: event
    Chunk: data size deleter deleter_arg
    SendCallbackInfo: channel_id user_arg send_callback
    RecvCallbackInfo: channel_id user_arg recv_callback
    CopyToDeviceStream_Destroy: stream
    CopyToDeviceStream_AddChunk: stream chunk transfer_complete
    CopyToDeviceStream_TotalBytes: stream total_bytes
    CopyToDeviceStream_GranuleSize: stream granule_size_in_bytes
    CopyToDeviceStream_CurrentBytes: stream current_bytes
    MemoryLayout: tiled_size tiled_extensions minor_to_major minor_to_major_size tile_dims tile_dim_sizes num_tiles
            type:i
    Buffer_CopyRawToHostFuture_Callback: struct_size callback_data error_code:i error_message error_message_size dst
    Buffer_CopyRawToHostFuture: buffer offset transfer_size event callback_data future_ready_callback
    Buffer_DonateWithControlDependency_Callback: struct_size callback_data error_code:i error_message
            error_message_size
    Buffer_DonateWithControlDependency: buffer callback_data dependency_ready_callback out_buffer
    Buffer_Bitcast: buffer element_type:i dims num_dims device_layout out_buffer
    TopologyDescription_Create: topology_name topology_name_size create_options num_options topology
    TopologyDescription_Serialize: topology serialized_bytes serialized_bytes_size serialized_topology
            serialized_topology_deleter
    TopologyDescription_Deserialize: serialized_topology serialized_topology_size topology
    TopologyDescription_GetMemorySpaceKindIds: topology memory_space_kind_ids num_memory_space_kind_ids
    TopologyDescription_MakeCanonicalShapeForMemorySpace: topology memory_space_kind_id:i dims num_dims element_type:i
            layout serialized_shape serialized_shape_size serialized_shape_deleter
    Compile: topology program compile_options compile_options_size client executable
"""
"""The fields of each structure, after its size and extension pointer. The structure of an entry's arguments has the
entry's name. `:i` is an int (or enum), `:b` a bool; other fields are words: size_t, int64_t or a pointer."""

WITHOUT_EXTENSIONS = (
    "LogicalDeviceIds",
    "Profiler_Create",
    "Profiler_Destroy",
    "Profiler_Start",
    "Profiler_Stop",
    "Profiler_CollectData",
    "Chunk",
    "SendCallbackInfo",
    "RecvCallbackInfo",
    "Buffer_CopyRawToHostFuture_Callback",
    "Buffer_DonateWithControlDependency_Callback",
)
"""Structures without an extension pointer. Their size field, if any, is listed."""
