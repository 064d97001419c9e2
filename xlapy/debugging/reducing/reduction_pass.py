"""The type of a reduction pass, and the measure of the size of a module.

Responsible for `ReductionPass` and `weight`. Does not depend on any particular pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xlapy.hlo.module import Module
from xlapy.opcodes.sources import CONSTANT, IOTA, PARAMETER
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE

Weight = tuple[int, int, int, int]

_NUMBER = re.compile(r"(?<![\w.%])\d+\b|(?<=\dx)\d+\b")
_SOURCE_OPCODES = (PARAMETER, CONSTANT, IOTA)
_TUPLE_OPCODES = (TUPLE, GET_TUPLE_ELEMENT)


@dataclass(frozen=True, slots=True)
class ReductionPass:
    """A reduction pass: numbered changes of a module.

    count: returns the number of changes that are possible. apply: makes the changes of the given numbers. `apply` may
    leave an invalid module or raise an `XlaError`; the module is discarded then.
    """

    name: str
    count: Callable[[Module], int]
    apply: Callable[[Module, Sequence[int]], None]


def weight(module: Module) -> Weight:
    """Returns what the reducer minimizes, in lexicographic order: instructions and computations, elements, constants,
    text.
    """
    structure = elements = numbers = 0
    for instruction in module.instructions():
        structure += 1 if instruction.op in _SOURCE_OPCODES else 2 if instruction.op in _TUPLE_OPCODES else 4
        structure += not (instruction.has_users or instruction.is_root)  # prefer an unused instruction to be the root
        elements += sum(1 + s.rank + max(1, prod(s.dimensions)) for _, s in instruction.shape.leaves() if s.is_array)
        if instruction.op is CONSTANT:
            numbers += _literal_weight(instruction.literal.to_text())
    text = module.to_text()
    written = sum(min(int(number), 1000) for number in _NUMBER.findall(text))
    return structure + 2 * len(module.computations), elements, numbers, written + len(text)


def _literal_weight(text: str) -> int:
    """Returns how complex a literal is: 0 for each 0, 1 for each 1, and 2 plus its length for any other number."""
    words = text.replace("{", " ").replace("}", " ").replace(",", " ").split()
    return sum(0 if word == "0" else 1 if word == "1" else 2 + len(word) for word in words)
