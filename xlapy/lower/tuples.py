"""Lowers tuples inside of fused and scalar computations: lists of elements.

Tuples in memory are not lowered: the back end resolves them.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.lower.core import LOWERINGS, Index, Lowering


@LOWERINGS.rule(opcodes.TUPLE)
def make_tuple(lowering: Lowering, instruction: Instruction, index: Index) -> Any:
    return [lowering.element(operand, index) for operand in instruction.operands]


@LOWERINGS.rule(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(lowering: Lowering, instruction: Instruction, index: Index) -> Any:
    return lowering.elements(instruction.operands[0], index)[instruction.tuple_index]
