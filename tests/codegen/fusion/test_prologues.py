"""Prologues of dots: which operands a kernel computes, why others are stored first, and the values."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(11)


def values(shape: str) -> np.ndarray:
    """Small integers, and powers of two for floats, so that all products and sums are exact."""
    parsed = xla.Shape.parse(shape)
    return RNG.integers(-3, 4, parsed.dimensions).astype(parsed.dtype)


def blocks(rows: int, terms: int, columns: int, size: int, type: str = "s8", *, transposed: bool = False) -> str:
    """Weights with a scale and a zero point for each block of `size` terms."""
    count = terms // size
    whole, split = (f"{terms},{columns}", f"{count},{size},{columns}")
    narrow, along, contracted = f"{count},{columns}", "0,2", 0
    if transposed:
        whole, split = f"{columns},{terms}", f"{columns},{count},{size}"
        narrow, along, contracted = f"{columns},{count}", "0,1", 1
    return f"""ENTRY e {{
  x = f32[{rows},{terms}] parameter(0)
  w = {type}[{whole}] parameter(1)
  s = f32[{narrow}] parameter(2)
  z = s8[{narrow}] parameter(3)
  c = f32[{whole}] convert(w)
  r = f32[{split}] reshape(c)
  f = f32[{narrow}] convert(z)
  zb = f32[{split}] broadcast(f), dimensions={{{along}}}
  sb = f32[{split}] broadcast(s), dimensions={{{along}}}
  d = f32[{split}] subtract(r, zb)
  m = f32[{split}] multiply(d, sb)
  q = f32[{whole}] reshape(m)
  ROOT o = f32[{rows},{columns}] dot(x, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{contracted}}}
}}"""


def kernels(text: str) -> int:
    """The number of kernels of a program."""
    return len(compile_module(xla.parse_hlo(text)).record.plans)


def assert_equal(text: str, *arguments: np.ndarray) -> None:
    expected = np.asarray(INTERPRETER.compile(text)(*arguments))
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(*arguments)), expected)


def arguments(text: str) -> list[np.ndarray]:
    return [values(p.shape.to_text(layout=False)) for p in xla.parse_hlo(text).entry_computation.parameters]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 17, 200])
@pytest.mark.parametrize("size", [32, 20], ids=["blocks of vectors", "blocks of no vectors"])
def test_weights_in_blocks_are_converted_in_the_kernel_of_the_dot(rows, size, transposed):
    """A block of 20 terms is no multiple of a vector, so that a vector of terms has several scales."""
    text = blocks(rows, 640, 515, size, transposed=transposed)
    assert kernels(text) == 1
    assert_equal(text, *arguments(text))


@pytest.mark.parametrize("type", ["s4", "u4", "u8", "bf16", "f16", "f8e4m3fn"])
def test_element_types_of_weights(type):
    text = blocks(2, 256, 300, 64, type)
    given = arguments(text)
    given[1] = abs(given[1]).astype(given[1].dtype)
    assert kernels(text) == 1
    assert_equal(text, *given)


def test_special_values():
    text = blocks(2, 256, 300, 64)
    given = arguments(text)
    given[2][1, 7], given[2][0, 250], given[0][1, 3] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        assert_equal(text, *given)


MASKED = """ENTRY e {
  x = f32[4,1024] parameter(0)
  w = f32[1024,700] parameter(1)
  i = s32[1024,700] iota(), iota_dimension=0
  j = s32[1024,700] iota(), iota_dimension=1
  m = pred[1024,700] compare(i, j), direction=LE
  z = f32[] constant(0)
  zs = f32[1024,700] broadcast(z), dimensions={}
  v = f32[1024,700] reverse(w), dimensions={0,1}
  t = f32[1024,700] select(m, v, zs)
  ROOT o = f32[4,700] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def test_masks_and_reversed_operands():
    assert kernels(MASKED) == 1
    assert_equal(MASKED, *arguments(MASKED))


def reason(text: str, name: str) -> str:
    """Why an instruction got a kernel of its own."""
    found = [d.text for d in compile_module(xla.parse_hlo(text)).record.decisions if d.subjects[0].startswith(name)]
    return next(text for text in found if "gets a kernel" in text)


def elementwise(lines: str, rows: int, terms: int = 1024, columns: int = 700, extra: str = "") -> str:
    shape = f"f32[{terms},{columns}]"
    return f"""HloModule m
add {{ p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }}
ENTRY e {{
  x = f32[{rows},{terms}] parameter(0)
  w = {shape} parameter(1)
  {lines.replace("SHAPE", shape)}
  o = f32[{rows},{columns}] dot(x, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {extra or f"ROOT r = f32[{rows},{columns}] negate(o)"}
}}"""


def test_reasons_against_prologues():
    expensive = elementwise("t = SHAPE exponential(w)", 4)
    assert "would take 16 operations, more than 15" in reason(expensive, "t")
    repeated = elementwise("t = SHAPE multiply(w, w)", 64, 64, 128)
    assert "would be computed 16 times: 15 repeated operations, of at most 6" in reason(repeated, "t")
    shared = elementwise("t = SHAPE multiply(w, w)", 4, extra="ROOT r = (f32[4,700], f32[1024,700]) tuple(o, t)")
    assert "needs it in memory" in reason(shared, "t")
    normalized = elementwise(
        "z = f32[] constant(0)\n  s = f32[700] reduce(w, z), dimensions={0}, to_apply=add\n"
        "  b = SHAPE broadcast(s), dimensions={1}\n  t = SHAPE subtract(w, b)",
        4,
    )
    assert "whose kernel reads the same rows" in reason(normalized, "t")
    mixed = elementwise(
        "v = f32[700,1024] parameter(2)\n  u = SHAPE transpose(v), dimensions={1,0}\n  t = SHAPE add(w, u)", 4
    )
    assert "arrays in different orders of elements" in reason(mixed, "u")


def test_decisions_on_an_operand_are_decisions_on_the_dot():
    compiled = compile_module(xla.parse_hlo(elementwise("t = SHAPE exponential(w)", 4)))
    (found,) = [d for d in compiled.record.decisions if d.text.startswith("t (exponential) gets a kernel")]
    assert found.subjects == ("t", "o")


def test_an_operand_that_follows_the_dot_too_is_stored():
    text = """ENTRY e {
  x = f32[300,300] parameter(0)
  w = f32[300,300] parameter(1)
  t = f32[300,300] multiply(x, x)
  o = f32[300,300] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[300,300] add(o, t)
}"""
    assert "needs it besides o (dot)" in reason(text, "t")
    assert_equal(text, *arguments(text))


def test_an_operand_that_is_an_epilogue_is_stored():
    text = """ENTRY e {
  x = f32[300,300] parameter(0)
  w = f32[300,300] parameter(1)
  v = f32[300,100] parameter(2)
  h = f32[300,300] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[300,300] abs(h)
  ROOT o = f32[300,100] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    assert "where the kernel of h (dot) stores it" in reason(text, "a")
    assert_equal(text, *arguments(text))


def test_an_operand_of_inner_products_is_stored():
    """Sums along contiguous terms would compute each element of the left operand for every few of 32 columns."""
    text = """ENTRY e {
      x = f32[64,40] parameter(0)
      y = f32[64,50] parameter(1)
      w = f32[32,50,40] parameter(2)
      a = f32[64,50,40] broadcast(x), dimensions={0,2}
      b = f32[64,50,40] broadcast(y), dimensions={0,1}
      p = f32[64,50,40] multiply(a, b)
      m = f32[64,50,40] maximum(p, a)
      ROOT d = f32[64,32] dot(m, w), lhs_contracting_dims={1,2}, rhs_contracting_dims={1,2}
    }"""
    assert kernels(text) == 2
    assert_equal(text, *arguments(text))
