"""A sample is one small valid HLO module; this file gives access to all of them.

The round-trip, verifier, fuzzing and differential tests use samples. Does not depend on these tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from xlapy.base.element_types import ARRAY_TYPES

FAMILIES = (
    "elementwise",
    "sources",
    "movement",
    "contraction",
    "convolution",
    "reduction",
    "indexing",
    "sorting",
    "control",
    "tuples",
    "collectives",
    "transfer",
    "random",
    "linalg",
    "normalization",
    "custom",
)
"""The families of operations. Each has a file of samples, and a file in the folder of every consumer."""

NEWER_THAN_JAXLIB = "newer than jaxlib 0.10.2"
"""The note of samples, and the reason for types, that the installed jaxlib cannot parse."""

NOT_RUN_BY_XLA = "not run by XLA:CPU"
"""The reason for types that jaxlib cannot represent as constants, or that XLA:CPU does not run."""

RARE_TYPES: dict[str, str] = {
    "s1": NOT_RUN_BY_XLA,
    "u1": NOT_RUN_BY_XLA,
    "f6e2m3fn": NOT_RUN_BY_XLA,
    "f6e3m2fn": NOT_RUN_BY_XLA,
}
"""The array element types that are not compared with XLA:CPU, with the reason."""

JAXLIB_TYPES = tuple(t for t in ARRAY_TYPES if RARE_TYPES.get(t.text) != NEWER_THAN_JAXLIB)
"""The array element types that the installed jaxlib's parser has."""

ELEMENT_TYPES = tuple(t.text for t in ARRAY_TYPES if t.text not in RARE_TYPES)
"""The spellings of the array element types that XLA:CPU runs."""

REFUSED_AT_RUN = "refused when it runs"
"""The note of samples that are valid, but that neither XLA:CPU nor the interpreter can run."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A named HLO module. `note` says what is special about it."""

    name: str
    text: str
    note: str = ""


def samples_of(family: str) -> list[Sample]:
    """Returns the samples of one family."""
    module = import_module(f"xlapy.testing.samples.{family}")
    return list(module.SAMPLES)


def all_samples() -> Iterator[Sample]:
    """Yields every sample, family by family; the file of a family is loaded when its first sample is needed."""
    for family in FAMILIES:
        yield from samples_of(family)
