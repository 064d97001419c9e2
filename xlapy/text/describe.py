"""An instruction in words, for whoever shows it.

Owns: its line of text, its place in the user's source, the framework's name. Must not know: pages, terminals, profiles.
"""

from __future__ import annotations

from xlapy.hlo.instruction import Instruction
from xlapy.text.options import PrintOptions
from xlapy.text.printer import print_instruction

LINE = PrintOptions(print_metadata=False, print_percent=False, print_operand_index_annotation_interval=0)
"""How instructions are shown: without what the source says, large constants shortened."""


def line_of(instruction: Instruction) -> str:
    """`name = shape op(operands), attributes`."""
    return print_instruction(instruction, LINE)


def source_of(instruction: Instruction) -> str:
    """`f.py:12`, the user's line; "" if it is unknown."""
    metadata = instruction.metadata
    if metadata is None:
        return ""
    if metadata.source_file:
        return f"{metadata.source_file}:{metadata.source_line}"
    module = instruction.parent.module if instruction.parent is not None else None
    frames = module.stack_frames if module is not None else None
    if frames is None or not 0 < metadata.stack_frame_id <= len(frames.frames):
        return ""
    place = frames.file_locations[frames.frames[metadata.stack_frame_id - 1].file_location_id - 1]
    return f"{frames.file_names[place.file_name_id - 1]}:{place.line}"


def framework_name_of(instruction: Instruction) -> str:
    """What the framework calls it: `jit(f)/dot_general`."""
    return instruction.metadata.op_name if instruction.metadata is not None else ""
