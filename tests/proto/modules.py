"""The modules for the tests of protocol buffers: every sample, the corpus of programs, random modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xlapy.hlo.module import Module
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples.sample import FAMILIES, samples_of
from xlapy.text import parse_hlo

PROGRAMS = sorted(Path(__file__).parent.parent.joinpath("programs").glob("*.hlo"))
GROUPS = (*FAMILIES, "programs", "random modules")


def modules_of(group: str) -> Iterator[tuple[str, str, Module]]:
    """Returns (name, text, module) of a family of samples, of the programs, or of random modules."""
    if group == "random modules":
        for seed in range(40):
            module = random_module(seed)
            yield module.name, whole(module), module
        return
    if group == "programs":
        texts = [(path.name, path.read_text()) for path in PROGRAMS]
    else:
        texts = [(sample.name, sample.text) for sample in samples_of(group)]
    for name, text in texts:
        yield name, text, parse_hlo(text)


def whole(module: Module) -> str:
    return module.to_text(print_large_constants=True)
