"""What a pass of the reducer is, and how modules are weighed.

Owns: `Proposals` and `weight`. Must not know: which passes there are.
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
_SOURCES = (PARAMETER, CONSTANT, IOTA)
_FREE = (TUPLE, GET_TUPLE_ELEMENT)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Numbered changes of a module. `apply` makes several of them at once; numbers are those of the module given.

    `apply` may leave a module that is not sound, or raise any `XlaError`: then nothing comes of it.
    """

    name: str
    count: Callable[[Module], int]
    apply: Callable[[Module, Sequence[int]], None]


def weight(module: Module) -> Weight:
    """Computations and instructions (sources count least), then elements, what constants hold, and the text."""
    structure = elements = numbers = 0
    for instruction in module.instructions():
        structure += 1 if instruction.op in _SOURCES else 2 if instruction.op in _FREE else 4
        structure += not (instruction.has_users or instruction.is_root)  # what is interesting is better the root
        elements += sum(1 + s.rank + max(1, prod(s.dimensions)) for _, s in instruction.shape.leaves() if s.is_array)
        if instruction.op is CONSTANT:
            numbers += _restlessness(instruction.literal.to_text())
    text = module.to_text()
    written = sum(min(int(number), 1000) for number in _NUMBER.findall(text))
    return structure + 2 * len(module.computations), elements, numbers, written + len(text)


def _restlessness(text: str) -> int:
    """How much there is to read in a literal: the characters of numbers other than 0 and 1, and ones."""
    words = text.replace("{", " ").replace("}", " ").replace(",", " ").split()
    return sum(0 if word == "0" else 1 if word == "1" else 2 + len(word) for word in words)
