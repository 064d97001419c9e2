"""The table of export rules: maps an opcode to the function that emits the StableHLO operations of an instruction.

Responsible for the table, and for the reasons why some opcodes cannot be exported. Does not depend on particular
opcodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import Rules
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.value_tree import ValueTree

Rule: TypeAlias = Callable[[BlockBuilder, Instruction], ValueTree]
"""Emits the operations of an instruction through the builder and returns the values of its result."""

RULES: Rules[Rule] = Rules("export")
