"""Every element type that verification accepts in an example runs there: the matrix of operations and types."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import xlapy as xla
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, PrimitiveType
from xlapy.base.errors import XlaError
from xlapy.base.literal import Literal
from xlapy.opcodes.registry import REGISTRY
from xlapy.runtime.backend import PLATFORMS
from xlapy.testing.examples import Example, all_examples
from xlapy.tools.ops.support import refusal_of

EXAMPLES = list(all_examples())
TYPE = re.compile(r"(?<!\w)([a-z]+\d*\w*)\[")

REFUSED_AT_RUN = {
    "ragged-all-to-all": "offsets and sizes must be integers|rows of member",  # a size of 1 is -1 in s1
    "rng-bit-generator": "returns integers or floating-point numbers|takes a state of u64",
    "stochastic-convert": "converts to signed integers",
}
"""Types that XLA's verifier accepts and no back end runs: patterns of the message."""

LEGAL = 4000
"""The minimum number of valid combinations."""


def retyped(example: Example) -> Iterator[tuple[str, PrimitiveType, PrimitiveType]]:
    """Yields the module with each of its element types replaced by each other type: (text, old type, new type)."""
    text = example.module.replace("constant(1000)", "constant(3)")  # narrow types cannot count to 1000
    old_types = [t for t in ARRAY_TYPES if t.text in TYPE.findall(text)]
    for old in old_types:
        for new in ARRAY_TYPES:
            yield re.sub(rf"(?<!\w){old.text}\[", f"{new.text}[", text), old, new


def is_legal(text: str) -> bool:
    try:
        xla.parse_hlo(text, verify=True)
    except XlaError:
        return False
    return True


def value(literal: Literal, old: PrimitiveType, new: PrimitiveType) -> np.ndarray:
    """Returns the literal, or an array of 0 and 1 of its type if that is another one."""
    if old is new or literal.shape.element_type is not old:
        return literal.array
    assert new.dtype is not None
    return (np.arange(literal.array.size) % 2).astype(new.dtype).reshape(literal.array.shape)


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_legal_modules_run(name: str, platform: str) -> None:
    if refusal_of(platform, opcodes.lookup(name)):
        return
    for example in (each for each in EXAMPLES if each.op == name):
        client = xla.Client(platform, devices=example.devices)
        for text, old, new in retyped(example):
            if not is_legal(text):
                continue
            try:
                run(client, text, example, old, new)
            except XlaError as error:
                assert re.search(REFUSED_AT_RUN[name], str(error)), f"{old} as {new}"


def run(client: xla.Client, text: str, example: Example, old: PrimitiveType, new: PrimitiveType) -> None:
    executable = client.compile(text)
    for fed in example.infeed:
        executable.devices[0].transfer_to_infeed(value(fed, old, new))
    executable.execute_sharded([[value(each, old, new) for each in row] for row in example.arguments])
    for _ in example.outfeed:
        executable.devices[0].transfer_from_outfeed()


def test_most_combinations_are_legal() -> None:
    legal = sum(is_legal(text) for example in EXAMPLES for text, _, _ in retyped(example))
    assert legal >= LEGAL
