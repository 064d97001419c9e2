"""The messages and enumerations of HLO's protocol buffers: their names and numbers.

Responsible for `SCHEMA`, one entry per line (continued by indented lines). `message M: a=1:int64 b=2:T* c=3:int32?
d=4:map<int64,T>` has a field a with number 1, a repeated field b, an optional field c with presence, and a map; `enum
E: A=0 B=1` lists values. The names are XLA's, because text format shows them. Messages that xlapy does not read (buffer
assignments, debug options) are omitted; their bytes are kept as unknown fields. XSpace and its messages, and
ProfileOptions, are those of XLA's profiler.

The values of PrimitiveType and the fields of LiteralProto that hold elements come from the table of element types.

`text_attributes` is an extension: it holds, as text by key, what HLO text has and XLA's messages have no field for. XLA
skips it.
"""

from __future__ import annotations

from xlapy.base.element_types import ALL_TYPES, ARRAY_TYPES, PrimitiveType

REPEATED_NUMBERS: dict[PrimitiveType, str] = {
    PrimitiveType.PRED: "bool",
    PrimitiveType.S32: "int32",
    PrimitiveType.S64: "int64",
    PrimitiveType.U32: "uint32",
    PrimitiveType.U64: "uint64",
    PrimitiveType.F32: "float",
    PrimitiveType.F64: "double",
    PrimitiveType.C64: "float",
    PrimitiveType.C128: "double",
}
"""The element types whose elements a LiteralProto holds as repeated protobuf numbers, with the protobuf type. A complex
element is two numbers. Elements of other types are stored as bytes, as in memory.
"""


def literal_field_of(element_type: PrimitiveType) -> str:
    """Returns the name of the LiteralProto field that holds the elements of an array of this type."""
    return f"{element_type.text}s"


def _literal_fields() -> str:
    """Returns the fields of LiteralProto that hold elements, such as `s32s=4:int32* f16s=11:bytes`."""
    fields = [(t, f"{literal_field_of(t)}={t.protocol_numbers.literal}") for t in ARRAY_TYPES]
    return " ".join(
        [f"{field}:{REPEATED_NUMBERS[t]}*" if t in REPEATED_NUMBERS else f"{field}:bytes" for t, field in fields]
    )


def _element_type_values() -> str:
    """Returns the values of the enumeration PrimitiveType, such as `PRED=1 S1=30`."""
    return " ".join([f"{t.name}={t.number}" for t in ALL_TYPES])


SCHEMA = f"""\
message AxisRefProto: mesh_axis_index=1:int64 sub_axis_info=2:AxisRefProto.SubAxis
message AxisRefProto.SubAxis: pre_size=1:int64 size=2:int64
message CholeskyOptions: lower=1:bool
message CollectiveDeviceListProto: replica_groups=1:ReplicaGroup*
enum CompilationEvent: COMPILATION_EVENT_UNKNOWN_EVENT=0 COMPILATION_EVENT_FIRST_COMPILATION=1
  COMPILATION_EVENT_RECOMPILATION=2
message CompileOptionsProto: argument_layouts=1:ShapeProto* parameter_is_tupled_arguments=2:bool
  executable_build_options=3:ExecutableBuildOptionsProto compile_portable_executable=4:bool profile_version=5:int64
  serialized_multi_slice_config=6:bytes env_option_overrides=7:map<string,OptionOverrideProto>
  allow_in_place_mlir_modification=9:bool matrix_unit_operand_precision=10:PrecisionConfig.Precision
  compiler_variant=11:string?
message ConvolutionDimensionNumbers: input_batch_dimension=7:int64 input_feature_dimension=8:int64
  input_spatial_dimensions=11:int64* kernel_input_feature_dimension=3:int64 kernel_output_feature_dimension=4:int64
  kernel_spatial_dimensions=6:int64* output_batch_dimension=9:int64 output_feature_dimension=10:int64
  output_spatial_dimensions=12:int64*
enum ConvolutionKind: CONVOLUTION_KIND_UNSET=0 CONVOLUTION_KIND_FPROP=1 CONVOLUTION_KIND_DGRAD=2
  CONVOLUTION_KIND_WGRAD=3
message CrossProgramPrefetch: parameter=1:int64 index=2:int64* offset=3:int64
enum CustomCallApiVersion: API_VERSION_UNSPECIFIED=0 API_VERSION_ORIGINAL=1 API_VERSION_STATUS_RETURNING=2
  API_VERSION_STATUS_RETURNING_UNIFIED=3 API_VERSION_TYPED_FFI=4
enum CustomCallSchedule: SCHEDULE_NONE=0 SCHEDULE_LATEST=1 SCHEDULE_EARLIEST=2
message DeviceAssignmentProto: replica_count=1:int32 computation_count=2:int32
  computation_devices=3:DeviceAssignmentProto.ComputationDevice*
message DeviceAssignmentProto.ComputationDevice: replica_device_ids=1:int64*
enum DimLevelType: DIM_DENSE=0 DIM_COMPRESSED=1 DIM_SINGLETON=2 DIM_LOOSE_COMPRESSED=3
message DotDimensionNumbers: lhs_contracting_dimensions=1:int64* rhs_contracting_dimensions=2:int64*
  lhs_batch_dimensions=3:int64* rhs_batch_dimensions=4:int64*
message ExecutableBuildOptionsProto: device_ordinal=1:int64 result_layout=2:ShapeProto num_replicas=4:int64
  num_partitions=5:int64 use_spmd_partitioning=6:bool use_auto_spmd_partitioning=7:bool
  exec_time_optimization_effort=20:float memory_fitting_effort=21:float deduplicate_hlo=8:bool
  device_assignment=9:DeviceAssignmentProto alias_passthrough_params=10:bool run_backend_only=11:bool
  allow_spmd_sharding_propagation_to_parameters=18:bool* allow_spmd_sharding_propagation_to_output=12:bool*
  fdo_profile=14:bytes device_memory_size=15:int64 auto_spmd_partitioning_mesh_shape=16:int64*
  auto_spmd_partitioning_mesh_ids=17:int64* use_shardy_partitioner=19:bool process_index=22:int64
  process_count=23:int64 slice_size=26:int64
enum FftType: FFT=0 IFFT=1 RFFT=2 IRFFT=3
message FrontendAttributes: map=1:map<string,string>
message GatherDimensionNumbers: offset_dims=1:int64* collapsed_slice_dims=2:int64* start_index_map=3:int64*
  index_vector_dim=4:int64 operand_batching_dims=5:int64* start_indices_batching_dims=6:int64*
message HloBufferDonorProto: entries=1:HloBufferDonorProto.BufferDonorEntryProto*
message HloBufferDonorProto.BufferDonorEntryProto: parameter_number=1:int64 parameter_shape_index=2:int64*
message HloComputationProto: name=1:string instructions=2:HloInstructionProto* program_shape=4:ProgramShapeProto
  id=5:int64 root_id=6:int64 is_fusion_computation=7:bool execution_thread=8:string
message HloInputOutputAliasProto: entries=1:HloInputOutputAliasProto.AliasEntryProto*
message HloInputOutputAliasProto.AliasEntryProto: output_shape_index=1:int64* parameter_number=2:int64
  parameter_shape_index=3:int64* kind=4:Kind
message HloInstructionProto: name=1:string opcode=2:string shape=3:ShapeProto metadata=7:OpMetadata
  literal=8:LiteralProto parameter_number=9:int64 fusion_kind=11:string tuple_index=13:int64 dimensions=14:int64*
  window=15:Window convolution_dimension_numbers=16:ConvolutionDimensionNumbers feature_group_count=50:int64
  batch_group_count=58:int64 slice_dimensions=17:HloInstructionProto.SliceDimensions* exponent_bits=18:int32
  mantissa_bits=19:int32 dynamic_slice_sizes=20:int64* padding_config=21:PaddingConfig outfeed_config=22:bytes
  distribution=23:RandomDistribution epsilon=24:float feature_index=25:int64 channel_id=26:int64
  infeed_config=27:bytes custom_call_target=28:string outfeed_shape=29:ShapeProto
  dot_dimension_numbers=30:DotDimensionNumbers ragged_dot_dimension_numbers=90:RaggedDotDimensionNumbers
  fft_type=31:FftType fft_length=32:int64* comparison_direction=63:string
  gather_dimension_numbers=33:GatherDimensionNumbers gather_slice_sizes=34:int64* id=35:int64 operand_ids=36:int64*
  control_predecessor_ids=37:int64* called_computation_ids=38:int64* sharding=40:OpSharding backend_config=43:bytes
  backend_config_payload=99:Payload replica_groups=49:ReplicaGroup* all_reduce_id=45:int64
  use_global_device_ids=71:bool is_host_transfer=47:bool is_stable=60:bool
  scatter_dimension_numbers=48:ScatterDimensionNumbers precision_config=51:PrecisionConfig
  source_target_pairs=52:SourceTarget* domain_entry_sharding=54:OpSharding domain_exit_sharding=55:OpSharding
  constrain_layout=56:bool operand_shapes_with_layout=57:ShapeProto*
  triangular_solve_options=59:TriangularSolveOptions cholesky_options=62:CholeskyOptions
  parameter_replication=61:ParameterReplication custom_call_has_side_effect=65:bool
  output_operand_aliasing=74:OutputOperandAliasing* custom_call_schedule=76:CustomCallSchedule delta=66:int64
  indices_are_sorted=67:bool frontend_attributes=68:FrontendAttributes unique_indices=69:bool
  rng_algorithm=70:RandomAlgorithm comparison_type=72:string is_cross_program_prefetch=73:bool
  cross_program_prefetch_index=80:int32? padding_type=75:PaddingType custom_call_api_version=77:CustomCallApiVersion
  async_execution_thread=79:string k=81:int64 largest=85:bool statistics_viz=82:StatisticsViz
  collective_device_list=87:CollectiveDeviceListProto iota_collective_device_list=92:IotaReplicaGroupListProto
  mesh_axes_replica_group_list=93:MeshAxesReplicaGroupListProto original_value=88:OriginalValueProto
  is_composite=89:bool result_accuracy=91:ResultAccuracy is_reverse=94:bool num_carries=95:int64
  is_associative=96:TriState conv_kind=97:ConvolutionKind sparsity_config=98:SparsityConfig
  text_attributes=100001:map<string,string>
message HloInstructionProto.SliceDimensions: start=1:int64 limit=2:int64 stride=3:int64
message HloModuleProto: name=1:string entry_computation_name=2:string entry_computation_id=6:int64
  computations=3:HloComputationProto* host_program_shape=4:ProgramShapeProto id=5:int64 pjrt_id=23:int64?
  schedule=7:HloScheduleProto input_output_alias=8:HloInputOutputAliasProto payloads=22:bytes*
  buffer_donor=18:HloBufferDonorProto cross_program_prefetches=10:CrossProgramPrefetch* is_dynamic=11:bool
  spmd_output_sharding=12:OpSharding spmd_parameters_shardings=14:OpSharding* use_auto_spmd_partitioning=16:bool
  profile_info=13:HloModuleProto.ProfileInfo* device_assignment=15:DeviceAssignmentProto
  stack_frame_index=17:StackFrameIndexProto frontend_attributes=19:FrontendAttributes
  original_value_recovery_table=20:OriginalValueRecoveryTableProto device_type=21:string
  text_attributes=100001:map<string,string>
message HloModuleProto.ProfileInfo: profile_type=1:HloModuleProto.ProfileType relative_speedup=2:double
  profile_source=3:ProfileSource compilation_event=4:CompilationEvent fingerprint=5:string
  profile_generation_strategy=6:ProfileGenerationStrategy original_changelist=7:int64 changelist=8:int64
enum HloModuleProto.ProfileType: INVALID=0 FLAG=1 FUSION=2 LAYOUT=3 DOT=4 FLAGNET=5 SHARDING=6 SCHEDULE=7
message HloProto: hlo_module=1:HloModuleProto
message HloScheduleProto: sequences=1:map<int64,HloScheduleProto.InstructionSequence>
message HloScheduleProto.InstructionSequence: instruction_ids=1:int64*
message HloSnapshot: hlo=1:HloProto arguments=2:LiteralProto* result=3:LiteralProto execution_platform=4:string
message IotaReplicaGroupListProto: num_replica_groups=1:int64 num_devices_per_group=2:int64 iota_reshape_dims=3:int64*
  iota_transpose_perm=4:int32*
enum Kind: UNDEFINED_ALIAS=0 MAY_ALIAS=1 MUST_ALIAS=2
message LayoutProto: minor_to_major=1:int64* dim_level_types=9:DimLevelType* dim_unique=13:bool* dim_ordered=14:bool*
  tiles=6:TileProto* tail_padding_alignment_in_elements=16:int64 element_size_in_bits=7:int64 memory_space=8:int64
  index_primitive_type=11:PrimitiveType pointer_primitive_type=12:PrimitiveType physical_shape=10:ShapeProto
  dynamic_shape_metadata_prefix_bytes=15:int64 split_configs=17:SplitConfigProto*
message LiteralProto: shape=1:ShapeProto {_literal_fields()} tuple_literals=10:LiteralProto*
  sparse_indices=14:int64* dynamic_sizes=34:int32*
message MeshAxesReplicaGroupListProto: mesh=1:MeshProto axes=2:AxisRefProto*
message MeshProto: axes=1:MeshProto.MeshAxis* device_ids=2:int64* iota_transform=3:MeshProto.IotaTransform
message MeshProto.IotaTransform: reshape_dims=1:int64* transpose_perm=2:int64*
message MeshProto.MeshAxis: name=1:string size=2:int64
message NamedShardingProto: mesh=2:MeshProto dim_shardings=3:NamedShardingProto.DimensionSharding*
  replicated_axes=4:AxisRefProto* unreduced_axes=5:AxisRefProto* manual_axes=7:AxisRefProto* metadata=6:OpMetadata*
message NamedShardingProto.DimensionSharding: axes=1:AxisRefProto* is_closed=2:bool
message OpMetadata: op_type=1:string op_name=2:string source_file=3:string source_line=4:int32
  source_end_line=17:int32 source_column=18:int32 source_end_column=19:int32 profile_type=5:ProfileType*
  size_of_generated_code_in_bytes=8:int64 size_of_memory_working_set_in_bytes=9:int64
  profile_info=10:OpMetadata.ProfileInfo deduplicated_name=12:string stack_frame_id=15:int32 scheduling_name=16:string
  metadata_payload=20:Payload
message OpMetadata.ProfileInfo: profile_type=1:ProfileType* relative_speedup=2:double profile_source=3:ProfileSource
  compilation_event=4:CompilationEvent profile_generation_strategy=5:ProfileGenerationStrategy
message OpSharding: type=1:OpSharding.Type tile_shape=2:ShapeProto tile_assignment_dimensions=3:int64*
  tile_assignment_devices=4:int64* tuple_shardings=5:OpSharding* replicate_on_last_tile_dim=6:bool
  metadata=7:OpMetadata* last_tile_dims=8:OpSharding.Type* iota_reshape_dims=9:int64* iota_transpose_perm=10:int32*
  is_shard_group=11:bool shard_group_id=12:int64 shard_group_type=13:OpSharding.ShardGroupType
  named_sharding=14:NamedShardingProto
enum OpSharding.ShardGroupType: AS=0 LIKE=1
enum OpSharding.Type: REPLICATED=0 MAXIMAL=1 TUPLE=2 OTHER=3 MANUAL=4 UNKNOWN=5 UNREDUCED=6
message OptionOverrideProto: string_field=1:string? bool_field=2:bool? int_field=3:int64? double_field=4:double?
message OriginalArrayProto: instruction_name=1:string shape_index=2:int64*
message OriginalValueElementProto: shape_index=1:int64* original_array=2:OriginalArrayProto
message OriginalValueProto: elements=1:OriginalValueElementProto* is_synthetic_call=2:bool
message OriginalValueRecoveryTableProto: entries=1:OriginalValueRecoveryTableProto.Entry*
message OriginalValueRecoveryTableProto.Entry: old_original_array=1:OriginalArrayProto
  new_original_array=2:OriginalArrayProto recovery_module=3:HloModuleProto
message OutputOperandAliasing: output_shape_index=1:int64* operand_index=2:int64 operand_shape_index=3:int64*
message PaddingConfig: dimensions=1:PaddingConfig.PaddingConfigDimension*
message PaddingConfig.PaddingConfigDimension: edge_padding_low=1:int64 edge_padding_high=2:int64
  interior_padding=3:int64
enum PaddingType: PADDING_INVALID=0 PADDING_VALID=1 PADDING_SAME=2
message ParameterReplication: replicated_at_leaf_buffers=1:bool*
message Payload: value=1:bytes? id=2:int64?
message PrecisionConfig: operand_precision=1:PrecisionConfig.Precision* algorithm=2:PrecisionConfig.Algorithm
enum PrecisionConfig.Algorithm: ALG_UNSET=0 ALG_DOT_ANY_F8_ANY_F8_F32=1 ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM=2
  ALG_DOT_F16_F16_F16=3 ALG_DOT_F16_F16_F32=4 ALG_DOT_BF16_BF16_BF16=5 ALG_DOT_BF16_BF16_F32=6
  ALG_DOT_BF16_BF16_F32_X3=7 ALG_DOT_BF16_BF16_F32_X6=8 ALG_DOT_TF32_TF32_F32=9 ALG_DOT_TF32_TF32_F32_X3=10
  ALG_DOT_F32_F32_F32=11 ALG_DOT_F64_F64_F64=12 ALG_DOT_BF16_BF16_F32_X9=13
enum PrecisionConfig.Precision: DEFAULT=0 HIGH=1 HIGHEST=2
enum PrimitiveType: {_element_type_values()}
enum ProfileGenerationStrategy: PROFILE_GENERATION_STRATEGY_UNKNOWN=0 PROFILE_GENERATION_STRATEGY_GA=1
  PROFILE_GENERATION_STRATEGY_FANTA=2 PROFILE_GENERATION_STRATEGY_CFO=3 PROFILE_GENERATION_STRATEGY_EXHAUSTIVE=4
  PROFILE_GENERATION_STRATEGY_LCM_GNN=5 PROFILE_GENERATION_STRATEGY_LCM_MOE=6
enum ProfileSource: PROFILE_SOURCE_UNKNOWN_SOURCE=0 PROFILE_SOURCE_EMBEDDED=1 PROFILE_SOURCE_REMOTE=2
enum ProfileType: INVALID=0 WINDOW=1 FLAG=2 INTEGER=3
message ProfileOptions: device_tracer_level=3:uint32 version=5:uint32 enable_hlo_proto=7:bool
message ProgramShapeProto: parameters=1:ShapeProto* result=2:ShapeProto parameter_names=3:string*
message RaggedDotDimensionNumbers: dot_dimension_numbers=1:DotDimensionNumbers lhs_ragged_dimensions=2:int64*
  rhs_group_dimensions=3:int64*
enum RandomAlgorithm: RNG_DEFAULT=0 RNG_THREE_FRY=1 RNG_PHILOX=2
enum RandomDistribution: RNG_INVALID=0 RNG_UNIFORM=1 RNG_NORMAL=2
message ReplicaGroup: replica_ids=1:int64*
message ResultAccuracy: mode=1:ResultAccuracy.Mode? tolerance=2:ResultAccuracy.Tolerance
enum ResultAccuracy.Mode: DEFAULT=0 HIGHEST=1
message ResultAccuracy.Tolerance: atol=1:double rtol=2:double ulps=3:int64
message ScatterDimensionNumbers: update_window_dims=1:int64* inserted_window_dims=2:int64*
  scatter_dims_to_operand_dims=3:int64* index_vector_dim=4:int64 input_batching_dims=5:int64*
  scatter_indices_batching_dims=6:int64*
message ShapeProto: element_type=2:PrimitiveType dimensions=3:int64* is_dynamic_dimension=6:bool*
  tuple_shapes=4:ShapeProto* layout=5:LayoutProto
message SourceTarget: source=1:int64 target=2:int64
message SparsityConfig: lhs=1:SparsityConfig.TensorSparsityConfig rhs=2:SparsityConfig.TensorSparsityConfig
message SparsityConfig.TensorSparsityConfig: num_non_zero=1:int64 block_size=2:int64 dimension=3:int64 stride=4:int64
message SplitConfigProto: dimension=1:int64 split_indices=2:int64*
message StackFrameIndexProto: file_names=1:string* function_names=2:string*
  file_locations=3:StackFrameIndexProto.FileLocation* stack_frames=4:StackFrameIndexProto.StackFrame*
message StackFrameIndexProto.FileLocation: file_name_id=1:int32 function_name_id=2:int32 line=3:int32 end_line=5:int32
  column=4:int32 end_column=6:int32
message StackFrameIndexProto.StackFrame: file_location_id=1:int32 parent_frame_id=2:int32
message Statistic: stat_name=1:string stat_val=2:double
message StatisticsViz: stat_index_to_visualize=1:int64 statistics=2:Statistic*
message TileProto: dimensions=1:int64*
enum TriState: TRI_STATE_UNSPECIFIED=0 TRI_STATE_TRUE=1 TRI_STATE_FALSE=2
message TriangularSolveOptions: left_side=1:bool lower=2:bool unit_diagonal=3:bool
  transpose_a=4:TriangularSolveOptions.Transpose
enum TriangularSolveOptions.Transpose: TRANSPOSE_INVALID=0 NO_TRANSPOSE=1 TRANSPOSE=2 ADJOINT=3
message Window: dimensions=1:WindowDimension*
message WindowDimension: size=1:int64 stride=2:int64 padding_low=3:int64 padding_high=4:int64 window_dilation=5:int64
  base_dilation=6:int64 window_reversal=7:bool
message XEvent: metadata_id=1:int64 offset_ps=2:int64 duration_ps=3:int64 stats=4:XStat*
message XEventMetadata: id=1:int64 name=2:string display_name=4:string stats=5:XStat*
message XLine: id=1:int64 name=2:string timestamp_ns=3:int64 events=4:XEvent* duration_ps=9:int64
message XPlane: id=1:int64 name=2:string lines=3:XLine* event_metadata=4:map<int64,XEventMetadata>
  stat_metadata=5:map<int64,XStatMetadata> stats=6:XStat*
message XSpace: planes=1:XPlane*
message XStat: metadata_id=1:int64 int64_value=4:int64? str_value=5:string? bytes_value=6:bytes? ref_value=7:uint64?
message XStatMetadata: id=1:int64 name=2:string
"""
