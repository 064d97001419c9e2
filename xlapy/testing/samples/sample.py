"""A sample: one small, legal HLO module, and the road to all of them.

Samples feed the round-trip, verifier, fuzzing and differential tests. Must not know: what the tests do with them.
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
"""The families of operations; each has a module of samples, and a file in the folder of every consumer."""

ELEMENT_TYPES = tuple(t.text for t in ARRAY_TYPES if t.text not in ("s1", "u1", "f6e2m3fn", "f6e3m2fn"))
"""The types of array elements but those that jaxlib cannot carry as constants or XLA:CPU cannot run."""

NEWER_THAN_JAXLIB = "newer than jaxlib 0.10.2"
"""The note of samples that the pinned jaxlib cannot read."""

REFUSED_AT_RUN = "refused when it runs"
"""The note of samples that are legal, but that neither XLA:CPU nor the interpreter gives a value."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A named HLO module; `note` says what is particular about it."""

    name: str
    text: str
    note: str = ""


def samples_of(family: str) -> list[Sample]:
    """The samples of one family."""
    module = import_module(f"xlapy.testing.samples.{family}")
    return list(module.SAMPLES)


def all_samples() -> Iterator[Sample]:
    """Every sample, family by family; a family is loaded when its turn comes."""
    for family in FAMILIES:
        yield from samples_of(family)
