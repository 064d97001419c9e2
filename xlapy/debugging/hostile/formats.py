"""The table of formats whose readers are given hostile input.

Responsible for finding a format by name and for the input of a seed. Does not depend on how inputs are run. The
module of a format is imported when the format is asked for. A new format is a line of `_MODULES`, and an element of
`FORMATS` in that module.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError

_MODULES = {
    "stablehlo-text": "stablehlo",
    "stablehlo-bytecode": "stablehlo",
    "hlo-text": "hlo",
    "proto": "hlo",
    "proto-text": "hlo",
    "literal": "hlo",
    "executable": "storage",
    "cache-entry": "storage",
    "array-file": "storage",
    "custom-call-config": "storage",
}
"""The name of each format -> the module of this package whose sequence `FORMATS` has it."""


@dataclass(frozen=True, slots=True)
class HostileFormat:
    """A format and its reader.

    corpus: returns valid inputs, in an order that does not change. generate: returns an input made from the corpus,
    equal for an equal state of the random numbers. consume: reads an input; it returns if the input is valid, and
    raises an error of xlapy if not. Anything else is a fault.
    """

    name: str
    corpus: Callable[[], Sequence[bytes]]
    generate: Callable[[random.Random, Sequence[bytes]], bytes]
    consume: Callable[[bytes], object]


def format_names() -> tuple[str, ...]:
    """Returns the names of all formats."""
    return tuple(_MODULES)


@cache
def find_format(name: str) -> HostileFormat:
    """Returns the format of a name. Raises `InvalidArgumentError` if there is none."""
    if name not in _MODULES:
        raise InvalidArgumentError(codes.CHOICE, f"no format {name!r}; there are {', '.join(_MODULES)}")
    formats: Sequence[HostileFormat] = import_module(f"xlapy.debugging.hostile.{_MODULES[name]}").FORMATS
    return next(format_ for format_ in formats if format_.name == name)


@cache
def corpus_of(name: str) -> Sequence[bytes]:
    """Returns the corpus of a format, which is made once per process."""
    return tuple(find_format(name).corpus())


def input_of(name: str, seed: int) -> bytes:
    """Returns the input of a seed: always the same bytes for a version of xlapy."""
    return find_format(name).generate(random.Random(f"{name} {seed}"), corpus_of(name))
