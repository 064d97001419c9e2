"""A pass that takes elements of tuples where the tuples are made.

Owns: `forward_elements`, which other passes need too. Must not know: what elements hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.debugging.reducing.proposals import Proposals
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE


def _taken(module: Module) -> list[Instruction]:
    """Elements of tuples that are made in the same computation."""
    return [i for i in module.instructions() if i.op is GET_TUPLE_ELEMENT and i.operands[0].op is TUPLE]


def forward_elements(elements: Sequence[Instruction]) -> None:
    for element in elements:
        edit.replace_uses(element, element.operands[0].operands[element.tuple_index])


def _forward(module: Module, numbers: Sequence[int]) -> None:
    taken = _taken(module)
    forward_elements([taken[number] for number in numbers])


PASSES = (Proposals("tuple elements", lambda module: len(_taken(module)), _forward),)
