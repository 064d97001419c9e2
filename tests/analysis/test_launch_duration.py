"""Which programs are estimated to be long-running."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xlapy.analysis.cost import Rates
from xlapy.analysis.cost.duration import is_long_running
from xlapy.text import parse_hlo

LOOP = """
body {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[8] get-tuple-element(s), index=1
  y = f32[8] sine(x)
  ROOT t = (s32[], f32[8]) tuple(next, y)
}}
condition {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  {most}
  ROOT less = pred[] compare(i, most), direction=LT
}}
ENTRY e {{
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(s), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
}}
"""


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("f32[64,64] add(x, x)", False),
        ("f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}", False),
        ("f32[64,64,3600] broadcast(x), dimensions={0,1}", True),
        ('(f32[64,64], s32[64]) custom-call(x), custom_call_target="f"', True),
        ("c64[64,33] fft(x), fft_type=RFFT, fft_length={64}", False),
        ("f32[64,64] sort(x), dimensions={1}, to_apply=less", True),
    ],
)
def test_operations(operation, expected):
    less = "less {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT\n}\n"
    module = parse_hlo(f"{less}ENTRY e {{\n  x = f32[64,64] parameter(0)\n  ROOT r = {operation}\n}}")
    assert is_long_running(module) is expected


@pytest.mark.parametrize(("length", "expected"), [(4096, False), (1 << 20, True)])
def test_fourier_transforms(length, expected):
    text = f"c64[{length}] parameter(0)\n  ROOT r = c64[{length}] fft(x), fft_type=IFFT, fft_length={{{length}}}"
    assert is_long_running(parse_hlo(f"ENTRY e {{\n  x = {text}\n}}")) is expected


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        ("most = s32[] constant(20)", False),
        ("most = s32[] constant(1000000)", True),
        ("y = f32[8] get-tuple-element(s), index=1\n  z = s32[8] convert(y)\n  r = s32[1] slice(z), slice={[0:1]}\n"
         "  most = s32[] reshape(r)", True),
    ],
)  # fmt: skip
def test_loops(most, expected):
    assert is_long_running(parse_hlo(LOOP.format(most=most))) is expected


def test_devices_that_run_one_after_the_other_take_longer():
    module = parse_hlo("ENTRY e { x = f32[1024,512] parameter(0)  ROOT r = f32[1024,512] add(x, x) }")
    assert not is_long_running(module)
    assert not is_long_running(module, devices=0) and is_long_running(module, devices=16)


def test_products_of_matrices_and_cached_data_take_less_time():
    shapes = "x = f32[8,1024] parameter(0)  w = f32[1024,{n}] parameter(1)  ROOT r = f32[8,{n}] dot(x, w)"
    dimensions = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    small, large = (parse_hlo(f"ENTRY e {{ {shapes.replace('{n}', str(n))}{dimensions} }}") for n in (4096, 65536))
    rates = Rates(cache_bytes=1 << 25)
    assert not is_long_running(small, rates=rates) and is_long_running(large, rates=rates)
    assert is_long_running(small, rates=replace(rates, cache_bytes=1 << 20))  # the weights lie in memory
    assert is_long_running(small, rates=replace(rates, products=rates.flops))
    assert not is_long_running(small, rates=replace(rates, cache_bytes=1 << 20, threads=4))
