"""The cost model of dots: choices that were measured, on any machine."""

from __future__ import annotations

import re
from dataclasses import replace
from unittest import mock

import pytest

import xlapy as xla
from tests.codegen.emitters.matmul.test_dot import product
from tests.cpu.instruction_sets import compile_for
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import builder
from xlapy.cpu.target import host_target

CHOICES = [
    ((8, 2048, 2048), "nn", "skinny-gemm"),
    ((1, 4096, 4096), "nn", "skinny-gemm"),
    ((1, 4096, 4096), "nt", "inner-products"),
    ((32, 2048, 2048), "nt", "skinny-inner-products"),
    ((1024, 1024, 1024), "nn", "packed-gemm"),
    ((512, 512, 512), "nt", "packed-gemm"),
    ((22, 13, 314), "nt", "packed-gemm"),
    ((8, 64, 64), "nn", "direct-gemm"),
    ((2, 2, 4), "nt", "direct-gemm"),  # a loop waits for the sum of each term
]


def strategy(text: str) -> str:
    found = re.search(r'"strategy":"([a-z-]+)"', text)
    assert found, text
    return found[1]


@pytest.mark.parametrize(("shape", "form", "expected"), CHOICES, ids=str)
def test_the_fastest_strategy_is_chosen(shape, form, expected):
    assert strategy(compile_for("AVX512", product(*shape, form)).module.to_text()) == expected


@pytest.mark.parametrize(("shape", "form", "expected"), CHOICES[:5], ids=str)
def test_caches_and_processors_do_not_change_the_choice(shape, form, expected):
    """The strategy decides the order of additions."""
    text = product(*shape, form)
    chosen = compile_module(xla.parse_hlo(text)).module.to_text()
    given = host_target()
    other = replace(given, l1_bytes=1 << 17, l2_bytes=1 << 24, l3_bytes=1 << 28, processors=given.processors + 61)
    with mock.patch.object(builder, "host_target", lambda: other):
        found = compile_module(xla.parse_hlo(text)).module.to_text()
    assert strategy(found) == strategy(chosen)
    if strategy(chosen) in ("packed-gemm", "skinny-gemm"):  # whose blocks do depend on them
        assert found != chosen


@pytest.mark.parametrize(
    ("t", "terms", "expected"),
    [("f32", 1023, 4), ("f32", 1024, 1), ("bf16", 2048, 1), ("s8", 4095, 1), ("s8", 4092, 4)],
)
def test_one_row_of_many_contiguous_terms_reads_them_in_order(t, terms, expected):
    """One sum at a time, from 64 vectors of terms on; a vector of groups has 32 terms of bf16 and 64 of s8."""
    text = product(1, terms, 512, "nt", (t, t, "s32" if t == "s8" else "f32"))
    chosen = compile_for("AVX512_BF16", text).module.to_text()
    assert strategy(chosen) == "inner-products"
    assert f'"tile_columns":{expected},' in chosen
