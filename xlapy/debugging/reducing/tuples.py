"""A reduction pass that replaces elements of tuples by the operands of the tuples.

Responsible for `forward_elements`, which other passes use too. Does not depend on the elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.debugging.reducing.reduction_pass import ReductionPass
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE


def _elements_of_tuples(module: Module) -> list[Instruction]:
    """Returns the elements that are elements of tuples in the same computation."""
    return [i for i in module.instructions() if i.op is GET_TUPLE_ELEMENT and i.operands[0].op is TUPLE]


def forward_elements(elements: Sequence[Instruction]) -> None:
    for element in elements:
        edit.replace_uses(element, element.operands[0].operands[element.tuple_index])


def _forward(module: Module, numbers: Sequence[int]) -> None:
    elements = _elements_of_tuples(module)
    forward_elements([elements[number] for number in numbers])


PASSES = (ReductionPass("tuple elements", lambda module: len(_elements_of_tuples(module)), _forward),)
