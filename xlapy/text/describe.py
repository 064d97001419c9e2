"""Descriptions for tools and notebooks: the line of an instruction, its name in the framework, the contents of a
fusion, the role of a computation, and sizes in bytes.

Does not depend on how they are shown.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.text.options import PrintOptions
from xlapy.text.printer import print_instruction

LINE_OPTIONS = PrintOptions(print_metadata=False, print_percent=False, print_operand_index_annotation_interval=0)
"""Print options of tools: no metadata, no `%`, no operand numbers; large constants are elided."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def line_of(instruction: Instruction) -> str:
    """The instruction on one line: `name = shape op(operands), attributes`."""
    return print_instruction(instruction, LINE_OPTIONS)


def framework_name_of(instruction: Instruction) -> str:
    """The name that the framework gave the instruction, such as `jit(f)/dot_general`; "" if there is none."""
    return instruction.metadata.op_name if instruction.metadata is not None else ""


def kind_of(computation: Computation) -> str:
    """Returns the role of a computation: `entry`, or the slots in which it is called, such as `body of while`."""
    if computation.is_entry:
        return "entry"
    uses = dict.fromkeys(
        f"{key} of {caller.op.name}"
        for caller in computation.callers
        for key, called in zip(caller.computation_keys, caller.computations, strict=True)
        if called is computation
    )
    return ", ".join(uses) or "not called"


def computing(instruction: Instruction) -> list[Instruction]:
    """Returns the instructions of a fusion without parameters, constants and the tuple of results, but at least its
    root; for any other instruction, itself."""
    if instruction.op is not opcodes.FUSION:
        return [instruction]
    (fused,) = instruction.computations
    left_out = (opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE)
    return [one for one in fused if one.op not in left_out] or [fused.root_instruction]


def contents_of(instruction: Instruction) -> str:
    """Returns the contents of a fusion, such as `exponential, add x2`, or the target of a custom call; otherwise ""."""
    if instruction.op is opcodes.CUSTOM_CALL:
        return str(instruction.custom_call_target)
    if instruction.op is not opcodes.FUSION:
        return ""
    counts: dict[str, int] = {}
    for one in computing(instruction):
        counts[one.op.name] = counts.get(one.op.name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())


def byte_text(count: int) -> str:
    """Formats a number of bytes: `12 B`, `3.5 KiB`."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / (1 << 10 * power):.4g} {_UNITS[power]}"
