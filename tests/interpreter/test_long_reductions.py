"""Reducers that may not be reordered combine any number of elements in order; selections combine neighbors first."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo

f32 = np.float32


def parse(entry: str, called: str) -> Module:
    return parse_hlo(f"HloModule m\n{called}\nENTRY e {{\n{entry}\n}}", verify=True)


SQUARES = "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] multiply(b, b)\n ROOT r = f32[] add(a, c) }"


class TestReducersThatMayNotBeReordered:
    """a + b * b over n ones is n, for every n: partial results must not be combined with each other."""

    @pytest.mark.parametrize("count", [16384, 40000])
    def test_reduce(self, count: int) -> None:
        entry = f"""p = f32[{count}] parameter(0)
            z = f32[] constant(0)
            ROOT r = f32[] reduce(p, z), dimensions={{0}}, to_apply=f"""
        result = xla.Client("interpreter").compile(parse(entry, SQUARES))(np.ones(count, f32))
        assert float(np.asarray(result)) == count

    def test_reduce_window(self) -> None:
        count = 20000
        entry = f"""p = f32[{count}] parameter(0)
            z = f32[] constant(0)
            ROOT r = f32[1] reduce-window(p, z), window={{size={count}}}, to_apply=f"""
        result = xla.Client("interpreter").compile(parse(entry, SQUARES))(np.ones(count, f32))
        assert np.asarray(result).tolist() == [count]

    def test_long_selections_are_still_fast(self) -> None:
        """The index of the first maximum of a million numbers is found in pairs: NaN is chosen wherever it is."""
        called = """f {
            a = f32[] parameter(0)
            i = s32[] parameter(1)
            b = f32[] parameter(2)
            j = s32[] parameter(3)
            g = pred[] compare(a, b), direction=GE
            n = pred[] compare(a, a), direction=NE
            c = pred[] or(g, n)
            x = f32[] select(c, a, b)
            y = s32[] select(c, i, j)
            ROOT r = (f32[], s32[]) tuple(x, y) }"""
        entry = """p = f32[1000000] parameter(0)
            i = s32[1000000] iota(), iota_dimension=0
            m = f32[] constant(-inf)
            z = s32[] constant(0)
            ROOT r = (f32[], s32[]) reduce(p, i, m, z), dimensions={0}, to_apply=f"""
        values = np.random.default_rng(0).integers(0, 1000, 1000000).astype(f32)
        _, place = xla.Client("interpreter").compile(parse(entry, called))(values)
        assert int(np.asarray(place)) == int(np.argmax(values))
