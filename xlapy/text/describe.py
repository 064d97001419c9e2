"""Descriptions of one instruction for tools: its line of HLO text, and its name in the framework.

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


def framework_name_of(instruction: Instruction) -> str:
    """The name that the framework gave the instruction, such as `jit(f)/dot_general`; "" if there is none."""
    return instruction.metadata.op_name if instruction.metadata is not None else ""
