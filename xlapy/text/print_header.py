"""Prints the text before the computations of a module: the `HloModule` line and the tables of stack frames.

Does not depend on computations or instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.module import Alias, Module, ModuleConfig, StackFrames
from xlapy.opcodes.attributes.codecs import INTEGERS, escape
from xlapy.text.annotations import frontend_attributes_text
from xlapy.text.options import PrintOptions

_TABLE_TEMPLATES = {
    "origin_recovery_table": ", origin_recovery_table={}\n",
    "debug_attributes": ",\ndebug_attributes={}",
}


def header_text(module: Module, options: PrintOptions) -> str:
    """The line `HloModule name, is_scheduled=true, ...` without a line break at its end."""
    config = module.config
    parts = [f"HloModule {module.name if options.print_ids else ''}"]
    if config.is_scheduled:
        parts.append("is_scheduled=true")
    if config.input_output_alias:
        parts.append(f"input_output_alias={{ {', '.join(map(_alias_text, config.input_output_alias))} }}")
    if config.buffer_donors:
        donors = [f"({d.parameter_number}, {INTEGERS.write(d.parameter_index)})" for d in config.buffer_donors]
        parts.append(f"buffer_donor={{ {', '.join(donors)} }}")
    parts.extend(_config_texts(config))
    if config.frontend_attributes:
        parts.append(f"frontend_attributes={frontend_attributes_text(config.frontend_attributes)}")
    tab = "  " * options.indent_amount
    templates = [(_TABLE_TEMPLATES.get(key, f", {key}={{}}"), text) for key, text in config.other.items()]
    tables = "".join(template.format(text.replace("\n  ", f"\n{tab}  ")) for template, text in templates)
    return f"{tab}{', '.join(parts)}{tables}"


def _alias_text(alias: Alias) -> str:
    kind = "must-alias" if alias.must else "may-alias"
    output, source = INTEGERS.write(alias.output_index), INTEGERS.write(alias.parameter_index)
    return f"{output}: ({alias.parameter_number}, {source}, {kind})"


def _config_texts(config: ModuleConfig) -> list[str]:
    parts: list[str] = []
    if config.alias_passthrough_params:
        parts.append("alias_passthrough_params=true")
    if config.entry_computation_layout is not None:
        parts.append(f"entry_computation_layout={{{_layout_text(config.entry_computation_layout)}}}")
    for key in ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output"):
        flags: Sequence[bool] = getattr(config, key)
        if tuple(flags) != (False,):
            parts.append(f"{key}={{{','.join('true' if flag else 'false' for flag in flags)}}}")
    if config.replica_count != 1:
        parts.append(f"replica_count={config.replica_count}")
    if config.num_partitions != 1:
        parts.append(f"num_partitions={config.num_partitions}")
    return parts


def _layout_text(program: ProgramShape) -> str:
    parameters = [_parameter_text(number, shape) for number, shape in enumerate(program.parameters)]
    return f"({', '.join(parameters)})->{program.result.to_text()}"


def _parameter_text(number: int, shape: Shape) -> str:
    """The shape of a parameter; every fifth one is preceded by its number."""
    return f"/*index={number}*/{shape.to_text()}" if number and number % 5 == 0 else shape.to_text()


def stack_frames_text(frames: StackFrames) -> str:
    """The tables of file names, function names, file locations and stack frames, with a blank line before each."""
    lines = ["", "", "FileNames"]
    lines.extend(f'{n} "{escape(name)}"' for n, name in enumerate(frames.file_names, 1))
    lines.extend(["", "FunctionNames"])
    lines.extend(f'{n} "{escape(name)}"' for n, name in enumerate(frames.function_names, 1))
    lines.extend(["", "FileLocations"])
    lines.extend(
        f"{n} {{file_name_id={at.file_name_id} function_name_id={at.function_name_id} line={at.line} "
        f"end_line={at.end_line} column={at.column} end_column={at.end_column}}}"
        for n, at in enumerate(frames.file_locations, 1)
    )
    lines.extend(["", "StackFrames"])
    lines.extend(
        f"{n} {{file_location_id={frame.file_location_id} parent_frame_id={frame.parent_frame_id + 1}}}"
        for n, frame in enumerate(frames.frames, 1)
    )
    return "\n".join([*lines, ""])
