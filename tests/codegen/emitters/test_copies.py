"""Copies whose result is reshaped: loads and stores are contiguous vectors in spite of the reshape."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module

CPU = xla.Client("cpu")


def copy(t: str, source: tuple[int, ...], order: tuple[int, ...], result: tuple[int, ...]) -> xla.Module:
    moved = [source[d] for d in order]
    return xla.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {t}[{",".join(map(str, source))}] parameter(0)
  moved = {t}[{",".join(map(str, moved))}] transpose(x), dimensions={{{",".join(map(str, order))}}}
  ROOT r = {t}[{",".join(map(str, result))}] reshape(moved)
}}""")


DEPTH_TO_SPACE = [
    ((2, 5, 7, 2, 2, 12), (0, 1, 3, 2, 4, 5), (2, 10, 14, 12)),
    ((2, 5, 7, 3, 3, 5), (0, 1, 3, 2, 4, 5), (2, 15, 21, 5)),
    ((1, 9, 1, 4, 4, 9), (0, 1, 3, 2, 4, 5), (1, 36, 4, 9)),
    ((3, 4, 5, 6, 7), (2, 0, 1, 3, 4), (5, 12, 42)),
    ((3, 4, 5, 6, 7), (1, 0, 2, 4, 3), (4, 3, 210)),
    ((2, 0, 3, 5), (2, 1, 0, 3), (3, 0, 5)),
]


@pytest.mark.parametrize("t", [np.uint8, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize(("source", "order", "result"), DEPTH_TO_SPACE, ids=str)
def test_reshaped_transposes(
    t: type[np.generic], source: tuple[int, ...], order: tuple[int, ...], result: tuple[int, ...]
):
    names = {np.uint8: "u8", np.float32: "f32", np.float64: "f64", np.complex64: "c64"}
    x = np.arange(math.prod(source)).astype(t).reshape(source)
    values = np.asarray(CPU.compile(copy(names[t], source, order, result))(x))
    np.testing.assert_array_equal(values, x.transpose(order).reshape(result))


def test_bits_survive():
    source, order, result = DEPTH_TO_SPACE[0]
    bits = np.resize(np.array([0x7F800001, 0xFFC12345, 0x80000000, 1, 0xFF800000], np.uint32), source)
    values = np.asarray(CPU.compile(copy("f32", source, order, result))(bits.view(np.float32)))
    np.testing.assert_array_equal(values.view(np.uint32), bits.transpose(order).reshape(result))


def test_neighboring_dimensions_too_short_for_vectors_are_one():
    loops = compile_module(copy("f32", (3, 31, 33, 2, 2, 12), (0, 1, 3, 2, 4, 5), (3, 62, 66, 12))).loops()
    assert "in 24 vector(" in loops, loops


@pytest.mark.parametrize("repeats", [2, 3, 4])
@pytest.mark.parametrize("t", ["u8", "f32", "c64"])
def test_repeated_elements(t: str, repeats: int):
    module = xla.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {t}[31,401] parameter(0)
  repeated = {t}[31,401,{repeats}] broadcast(x), dimensions={{0,1}}
  ROOT r = {t}[31,{401 * repeats}] reshape(repeated)
}}""")
    loops = compile_module(module).loops()
    assert loops.count("store ") > 1, loops
    x = np.arange(31 * 401).reshape(31, 401).astype({"u8": "u1", "f32": "f4", "c64": "c8"}[t])
    np.testing.assert_array_equal(np.asarray(CPU.compile(module)(x)), np.repeat(x, repeats, axis=1))
