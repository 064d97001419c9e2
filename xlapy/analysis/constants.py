"""What is known before a program runs: constants, and what follows from them here and now. Must not know: passes."""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import RULES

EXPANDING = frozenset({opcodes.BROADCAST, opcodes.IOTA})
"""What is cheaper to make than to store."""

_NEVER = frozenset({opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, *EXPANDING})
_ELSEWHERE = frozenset({opcodes.REPLICA_ID, opcodes.PARTITION_ID, opcodes.DOMAIN, opcodes.FUSION})
_UNKNOWN_FAMILIES = frozenset({"collectives", "transfer", "random", "custom"})


def is_steady(instruction: Instruction) -> bool:
    """Whether the value of an instruction that computes something follows from its operands alone: not so for what
    differs between devices, for random numbers, custom calls and fusions, which are decisions of others."""
    op = instruction.op
    return op not in _NEVER and op not in _ELSEWHERE and op.family not in _UNKNOWN_FAMILIES and op in RULES


def is_whole(literal: Literal) -> bool:
    """Whether all elements are known: text may have left some out."""
    return not literal.is_elided and all(map(is_whole, literal.elements))


def literal_value(literal: Literal) -> Any:
    """The value as the interpreter has it: an array, or a tuple of values."""
    return tuple(map(literal_value, literal.elements)) if literal.shape.is_tuple else literal.array
