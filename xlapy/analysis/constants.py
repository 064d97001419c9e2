"""Facts about constants: which instructions can be evaluated at compile time, and the values of literals.

Does not depend on passes.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import RULES

CHEAP_TO_RECOMPUTE_OPS = frozenset({opcodes.BROADCAST, opcodes.IOTA})
"""Operations whose results are cheaper to compute again than to store as constants."""

_NOT_EVALUATED = frozenset(
    {opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, *CHEAP_TO_RECOMPUTE_OPS}
)
_NOT_FOLDABLE = frozenset({opcodes.REPLICA_ID, opcodes.PARTITION_ID, opcodes.DOMAIN, opcodes.FUSION})
_UNPREDICTABLE_FAMILIES = frozenset({"collectives", "transfer", "random", "custom"})


def depends_only_on_operands(instruction: Instruction) -> bool:
    """Returns whether an instruction computes a value that its operands determine, so that constants can be folded.

    False for parameters, constants, tuples and `CHEAP_TO_RECOMPUTE_OPS`, for values that differ between devices or runs
    (ids, collectives, transfers, random numbers), for custom calls, and for fusions, which passes leave as they are.
    """
    op = instruction.op
    return (
        op not in _NOT_EVALUATED
        and op not in _NOT_FOLDABLE
        and op.family not in _UNPREDICTABLE_FAMILIES
        and op in RULES
    )


def has_all_elements(literal: Literal) -> bool:
    """Returns whether all elements of a literal are known; HLO text may elide them as `{...}`."""
    return not literal.is_elided and all(map(has_all_elements, literal.elements))


def literal_value(literal: Literal) -> Any:
    """Returns the value of a literal as the interpreter represents it: an array, or a tuple of values."""
    return tuple(map(literal_value, literal.elements)) if literal.shape.is_tuple else literal.array
