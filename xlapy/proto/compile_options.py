"""Compile options: CompileOptionsProto, as JAX passes it to a plugin.

Responsible for `CompileOptions` and its message. Does not depend on how a back end interprets an option. Fields without
an attribute in the class (debug options, compilation environments, fields of later versions) are kept as bytes and
written again.
Source: compile_options.proto of XLA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlapy.base.error_codes.formats import protos as codes
from xlapy.base.errors import ProtoError
from xlapy.base.shape import Shape
from xlapy.proto.messages import Message, decode, encode, message_class
from xlapy.proto.values import read_shape, write_shape

OptionValue = str | bool | int | float

_PRECISIONS = ("default", "high", "highest")
_BUILD_FLAGS = (
    "use_spmd_partitioning",
    "use_auto_spmd_partitioning",
    "use_shardy_partitioner",
    "deduplicate_hlo",
    "alias_passthrough_params",
    "run_backend_only",
)
_BUILD_NUMBERS = ("device_ordinal", "device_memory_size", "process_index", "process_count", "slice_size")
_BUILD_SEQUENCES = (
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "auto_spmd_partitioning_mesh_shape",
    "auto_spmd_partitioning_mesh_ids",
)
_BUILD_PLAIN = (
    *_BUILD_FLAGS,
    *_BUILD_NUMBERS,
    "exec_time_optimization_effort",
    "memory_fitting_effort",
    "fdo_profile",
)
_PLAIN = (
    "parameter_is_tupled_arguments",
    "compile_portable_executable",
    "profile_version",
    "serialized_multi_slice_config",
    "allow_in_place_mlir_modification",
)
_READ = (
    *_PLAIN,
    "argument_layouts",
    "env_option_overrides",
    "matrix_unit_operand_precision",
    "compiler_variant",
)
_BUILD_READ = (
    *_BUILD_PLAIN,
    *_BUILD_SEQUENCES,
    "num_replicas",
    "num_partitions",
    "result_layout",
    "device_assignment",
)


@dataclass(slots=True)
class CompileOptions:
    """The options of one compilation, under XLA's names, including those of ExecutableBuildOptions.

    device_assignment: the device of each replica and partition, `[replica][partition]`; None leaves the choice to the
    client. argument_layouts: shapes with layouts, one per parameter; None means the default. env_option_overrides:
    flags for this compilation only, by XLA's names. matrix_unit_operand_precision: "default", "high" or "highest".
    Efforts are between -1 and 1. device_memory_size is in bytes. proto_fields: unknown fields, as bytes.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    device_assignment: tuple[tuple[int, ...], ...] | None = None
    argument_layouts: tuple[Shape, ...] | None = None
    result_layout: Shape | None = None
    parameter_is_tupled_arguments: bool = False
    compile_portable_executable: bool = False
    profile_version: int = 0
    serialized_multi_slice_config: bytes = b""
    env_option_overrides: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    allow_in_place_mlir_modification: bool = False
    matrix_unit_operand_precision: str = "default"
    compiler_variant: str | None = None
    device_ordinal: int = -1
    use_spmd_partitioning: bool = False
    use_auto_spmd_partitioning: bool = False
    use_shardy_partitioner: bool = False
    deduplicate_hlo: bool = False
    alias_passthrough_params: bool = False
    run_backend_only: bool = False
    allow_spmd_sharding_propagation_to_parameters: tuple[bool, ...] = (False,)
    allow_spmd_sharding_propagation_to_output: tuple[bool, ...] = (False,)
    auto_spmd_partitioning_mesh_shape: tuple[int, ...] = ()
    auto_spmd_partitioning_mesh_ids: tuple[int, ...] = ()
    exec_time_optimization_effort: float = 0.0
    memory_fitting_effort: float = 0.0
    fdo_profile: bytes = b""
    device_memory_size: int = 0
    process_index: int = 0
    process_count: int = 1
    slice_size: int = 0
    proto_fields: bytes = field(default=b"", repr=False)

    def to_proto(self) -> bytes:
        """Returns the serialized CompileOptionsProto. Raises `ProtoError` for values that the message cannot
        represent."""
        target = message_class("CompileOptionsProto")()
        try:
            target.MergeFromString(self.proto_fields)
            _write(target, self)
        except (TypeError, ValueError) as error:
            raise ProtoError(codes.PROTO_FIELDS, f"compile options cannot be written: {error}") from error
        return encode(target)

    @staticmethod
    def from_proto(data: bytes) -> CompileOptions:
        """Reads a serialized CompileOptionsProto.

        Raises `ProtoError` for bytes that are not such a message, and for inconsistent numbers of replicas and devices.
        """
        source = decode("CompileOptionsProto", data)
        options = CompileOptions(**{name: getattr(source, name) for name in _PLAIN})
        if source.argument_layouts:
            options.argument_layouts = tuple(map(read_shape, source.argument_layouts))
        options.env_option_overrides = _read_overrides(source)
        options.matrix_unit_operand_precision = _read_precision(source.matrix_unit_operand_precision)
        if source.HasField("compiler_variant"):
            options.compiler_variant = source.compiler_variant
        if source.HasField("executable_build_options"):
            _read_build(options, source.executable_build_options)
        options.proto_fields = _rest(source)
        return options


def _rest(source: Message) -> bytes:
    """Returns the bytes of the unknown fields."""
    for name in _READ:
        source.ClearField(name)
    for name in _BUILD_READ:
        source.executable_build_options.ClearField(name)
    if not source.executable_build_options.ByteSize():
        source.ClearField("executable_build_options")
    rest: bytes = source.SerializeToString(deterministic=True)
    return rest


# -- writing


def _write(target: Message, options: CompileOptions) -> None:
    for name in _PLAIN:
        setattr(target, name, getattr(options, name))
    for shape in options.argument_layouts or ():
        write_shape(target.argument_layouts.add(), shape)
    for name, value in options.env_option_overrides.items():
        _write_override(target.env_option_overrides[name], value)
    if options.matrix_unit_operand_precision not in _PRECISIONS:
        raise ValueError(f"matrix_unit_operand_precision {options.matrix_unit_operand_precision!r} is not a precision")
    target.matrix_unit_operand_precision = _PRECISIONS.index(options.matrix_unit_operand_precision)
    if options.compiler_variant is not None:
        target.compiler_variant = options.compiler_variant
    _write_build(target.executable_build_options, options)


def _write_build(target: Message, options: CompileOptions) -> None:
    target.num_replicas, target.num_partitions = options.num_replicas, options.num_partitions
    for name in _BUILD_PLAIN:
        setattr(target, name, getattr(options, name))
    for name in _BUILD_SEQUENCES:
        getattr(target, name).extend(getattr(options, name))
    if options.result_layout is not None:
        write_shape(target.result_layout, options.result_layout)
    if options.device_assignment is not None:
        assignment = target.device_assignment
        assignment.replica_count, assignment.computation_count = options.num_replicas, options.num_partitions
        for devices in zip(*options.device_assignment, strict=True):
            assignment.computation_devices.add(replica_device_ids=devices)


def _write_override(target: Message, value: OptionValue) -> None:
    if isinstance(value, bool):
        target.bool_field = value
    elif isinstance(value, int):
        target.int_field = value
    elif isinstance(value, float):
        target.double_field = value
    else:
        target.string_field = value


# -- reading


def _read_overrides(source: Message) -> dict[str, OptionValue]:
    overrides: dict[str, OptionValue] = {}
    for name in sorted(source.env_option_overrides):
        fields = source.env_option_overrides[name].ListFields()
        if not fields:
            raise ProtoError(codes.PROTO_COUNT, f"the override of option {name!r} has no value")
        overrides[name] = fields[-1][1]
    return overrides


def _read_precision(number: int) -> str:
    if not 0 <= number < len(_PRECISIONS):
        raise ProtoError(codes.PROTO_VALUE, f"there is no matrix_unit_operand_precision {number}")
    return _PRECISIONS[number]


def _read_build(options: CompileOptions, source: Message) -> None:
    for name in _BUILD_PLAIN:
        setattr(options, name, getattr(source, name))
    for name in _BUILD_SEQUENCES:
        setattr(options, name, tuple(getattr(source, name)))
    options.num_replicas = source.num_replicas or 1
    options.num_partitions = source.num_partitions or 1
    if min(options.num_replicas, options.num_partitions) < 1:
        raise ProtoError(
            codes.COMPILE_OPTIONS,
            f"{options.num_replicas} replicas of {options.num_partitions} partitions cannot be compiled",
        )
    if source.HasField("result_layout"):
        options.result_layout = read_shape(source.result_layout)
    if source.HasField("device_assignment"):
        options.device_assignment = _read_assignment(source.device_assignment)


def _read_assignment(source: Message) -> tuple[tuple[int, ...], ...]:
    columns = [tuple(column.replica_device_ids) for column in source.computation_devices]
    replicas, partitions = source.replica_count, source.computation_count
    if len(columns) != partitions or any(len(column) != replicas for column in columns):
        raise ProtoError(
            codes.COMPILE_OPTIONS,
            f"a device assignment of {replicas} replicas and {partitions} partitions lists "
            f"{len(columns)} partitions of {[len(column) for column in columns]} devices",
        )
    return tuple(zip(*columns, strict=True))
