"""Descriptions of one instruction for tools: its line of HLO text, its source location, its name in the framework.

Does not depend on how tools show them.
"""

from __future__ import annotations

from xlapy.hlo.instruction import Instruction
from xlapy.text.options import PrintOptions
from xlapy.text.printer import print_instruction

LINE_OPTIONS = PrintOptions(print_metadata=False, print_percent=False, print_operand_index_annotation_interval=0)
"""Print options of tools: no metadata, no `%`, no operand numbers; large constants are elided."""


def line_of(instruction: Instruction) -> str:
    """The instruction on one line: `name = shape op(operands), attributes`."""
    return print_instruction(instruction, LINE_OPTIONS)


def source_of(instruction: Instruction) -> str:
    """The line of the user's program that the instruction comes from, `f.py:12`; "" if it is unknown."""
    metadata = instruction.metadata
    if metadata is None:
        return ""
    if metadata.source_file:
        return f"{metadata.source_file}:{metadata.source_line}"
    module = instruction.parent.module if instruction.parent is not None else None
    frames = module.stack_frames if module is not None else None
    if frames is None or not 0 < metadata.stack_frame_id <= len(frames.frames):
        return ""
    location = frames.file_locations[frames.frames[metadata.stack_frame_id - 1].file_location_id - 1]
    return f"{frames.file_names[location.file_name_id - 1]}:{location.line}"


def framework_name_of(instruction: Instruction) -> str:
    """The name that the framework gave the instruction, such as `jit(f)/dot_general`; "" if there is none."""
    return instruction.metadata.op_name if instruction.metadata is not None else ""
