"""Unique names, compared with those that jaxlib gives to the same instructions."""

from __future__ import annotations

import random

import pytest

from tests import xla_reference
from xlapy.hlo.names import NameUniquer, sanitize
from xlapy.text import PrintOptions, parse_hlo, print_module

NAMES = [
    "a",
    "a.1",
    "a.2",
    "a.01",
    "a.0",
    "a.",
    "a.b",
    "a.b.3",
    "b",
    "b-1",
    "b.-1",
    "b.-3",
    "a.1.1",
    "_c",
    "c.x1",
    "c.99999999999999999999",
    "c.9223372036854775807",
    "c.9223372036854775808",
    "d..1",
]


@pytest.mark.parametrize("seed", range(6))
def test_names_are_those_of_xla(seed: int) -> None:
    rng = random.Random(seed)
    parts = []
    for number in range(8):
        names = rng.sample(NAMES, 6)
        body = "\n".join(f"  {name} = f32[] constant({i})" for i, name in enumerate(names))
        parts.append(f"{rng.choice(NAMES)}x{number} {{\n{body}\n}}")
    text = "HloModule m\n" + "\n".join(parts)
    assert print_module(parse_hlo(text), PrintOptions.short()) == xla_reference.parse_and_print(text, short=True)


def test_suffixes_count_up_and_free_ones_are_kept() -> None:
    uniquer = NameUniquer()
    assert [uniquer.unique(n) for n in ("x", "x", "x.5", "x.5", "x", "x.2", "")] == [
        "x",
        "x.1",
        "x.5",
        "x.2",
        "x.3",
        "x.4",
        "name",
    ]


def test_the_bare_name_can_come_after_its_numbers() -> None:
    uniquer = NameUniquer()
    assert [uniquer.unique(n) for n in ("x.0", "x", "x.0")] == ["x.0", "x.1", "x.2"]


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("add", "add"),
        ("1x", "_x"),
        ("a b/c", "a_b_c"),
        ("f32", "f32_"),
        ("tuple", "tuple"),
        ("__x", "a_x"),
        ("__xla_y", "__xla_y"),
        ("t#0", "t_0"),
        ("", "name"),
        ("\u00e4x", "_x"),
        ("f8e4m3fn", "f8e4m3fn_"),
    ],
)
def test_names_are_made_valid(name: str, clean: str) -> None:
    assert sanitize(name) == clean
