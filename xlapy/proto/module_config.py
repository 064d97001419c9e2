"""The configuration of a module as fields of HloModuleProto.

Responsible for aliasing, buffer donors, frontend attributes, reading stack frames, and for the settings that XLA's
message lacks (numbers of replicas and partitions, sharding propagation flags), which are kept as text in
`text_attributes`. Does not depend on computations.
"""

from __future__ import annotations

from xlapy.base.errors import ParseError, ProtoError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.hlo.module import Alias, BufferDonor, FileLocation, Module, ModuleConfig, StackFrame, StackFrames
from xlapy.proto.messages import Message
from xlapy.proto.metadata import read_frontend, write_frontend
from xlapy.text import PrintOptions
from xlapy.text.parse_header import attach_stack_frames, read_header
from xlapy.text.print_header import header_text

_MAY, _MUST = 1, 2
_HEADER = "header"


def write_config(target: Message, config: ModuleConfig) -> None:
    for alias in config.input_output_alias:
        target.input_output_alias.entries.add(
            output_shape_index=alias.output_index,
            parameter_number=alias.parameter_number,
            parameter_shape_index=alias.parameter_index,
            kind=_MUST if alias.must else _MAY,
        )
    for donor in config.buffer_donors:
        target.buffer_donor.entries.add(
            parameter_number=donor.parameter_number, parameter_shape_index=donor.parameter_index
        )
    if config.frontend_attributes:
        write_frontend(target.frontend_attributes, config.frontend_attributes)
    rest = _rest(config)
    if rest != "HloModule _":
        target.text_attributes[_HEADER] = rest


def _rest(config: ModuleConfig) -> str:
    """Returns the `HloModule` line with the settings that XLA's message has no field for."""
    module = Module("_")
    module.config = ModuleConfig(
        replica_count=config.replica_count,
        num_partitions=config.num_partitions,
        alias_passthrough_params=config.alias_passthrough_params,
        allow_spmd_sharding_propagation_to_parameters=config.allow_spmd_sharding_propagation_to_parameters,
        allow_spmd_sharding_propagation_to_output=config.allow_spmd_sharding_propagation_to_output,
        other=config.other,
    )
    return header_text(module, PrintOptions())


def read_config(source: Message) -> ModuleConfig:
    """Reads the configuration except for the entry layout and the schedule."""
    config = _read_rest(source.text_attributes[_HEADER]) if _HEADER in source.text_attributes else ModuleConfig()
    config.input_output_alias = tuple(
        Alias(
            tuple(each.output_shape_index),
            each.parameter_number,
            tuple(each.parameter_shape_index),
            each.kind == _MUST,
        )
        for each in source.input_output_alias.entries
    )
    config.buffer_donors = tuple(
        BufferDonor(each.parameter_number, tuple(each.parameter_shape_index)) for each in source.buffer_donor.entries
    )
    config.frontend_attributes = read_frontend(source.frontend_attributes)
    return config


def _read_rest(text: str) -> ModuleConfig:
    module = Module("_")
    reader = HloCursor(text)
    try:
        read_header(reader, module, lambda program: program)
    except ParseError as error:
        raise ProtoError(error.code, f"text attribute {_HEADER!r}, {text:.200}: {error.message}") from error
    return module.config


def attach_frames(source: Message, module: Module) -> None:
    """Attaches the tables of stack frames to the module. Invalid tables are dropped, as the text parser does."""
    index = source.stack_frame_index
    tables = StackFrames(
        list(index.file_names),
        list(index.function_names),
        [
            FileLocation(at.file_name_id, at.function_name_id, at.line, at.end_line, at.column, at.end_column)
            for at in index.file_locations
        ],
        [StackFrame(frame.file_location_id, frame.parent_frame_id) for frame in index.stack_frames],
    )
    if source.HasField("stack_frame_index") and _is_sound(tables, module):
        module.stack_frames = tables
    else:
        attach_stack_frames(module, tables)


def _is_sound(tables: StackFrames, module: Module) -> bool:
    """Whether every id refers to a row, and callers precede their callees."""
    return (
        all(
            0 < at.file_name_id <= len(tables.file_names) and 0 < at.function_name_id <= len(tables.function_names)
            for at in tables.file_locations
        )
        and all(
            0 < frame.file_location_id <= len(tables.file_locations) and 0 <= frame.parent_frame_id <= number
            for number, frame in enumerate(tables.frames)
        )
        and all(
            instruction.metadata is None or 0 <= instruction.metadata.stack_frame_id <= len(tables.frames)
            for instruction in module.instructions()
        )
    )
