"""An instruction in words and figures, for whoever shows it.

Owns: source lines, the text beside a shape, kinds of computations. Must not know: pages, terminals.
"""

from __future__ import annotations

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.text import PrintOptions, print_instruction

LINE = PrintOptions(print_metadata=False, print_percent=False, print_operand_index_annotation_interval=0)
"""How instructions are shown: without what the source says, large constants shortened."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


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


def kind_of(computation: Computation) -> str:
    """What a computation is for: `entry`, or the roles in which it is called, such as `body of while`."""
    if computation.is_entry:
        return "entry"
    roles = dict.fromkeys(
        f"{role} of {caller.op.name}"
        for caller in computation.callers
        for role, called in zip(caller.roles, caller.computations, strict=True)
        if called is computation
    )
    return ", ".join(roles) or "not called"


def byte_text(count: int) -> str:
    """`12 B`, `3.5 KiB`."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / (1 << 10 * power):.4g} {_UNITS[power]}"
