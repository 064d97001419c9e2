"""The steps of add-an-element-type.md, done on a copy of the repository, add a type that every layer knows."""

from __future__ import annotations

from pathlib import Path

from tests.documents.guides import GuideFollower

UNKNOWN = """
import xlapy as xla

try:
    xla.parse_hlo("HloModule m ENTRY e { ROOT x = f8e5m3fnu[2] parameter(0) }")
except xla.errors.ParseError as error:
    print(error)
"""

PROGRAM = """
import ml_dtypes
import numpy as np
import xlapy as xla
from xlapy.base.element_types import F8E5M3FNU
from xlapy.pjrt.c_api.types import number_of, type_of
from xlapy.testing.accepted_types import accepted_types
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import all_samples
from xlapy.opcodes import ADD

# literals: text, protobuf, and the digits that identify each of the 256 values
codes = np.arange(256, dtype=np.uint8).view(F8E5M3FNU.dtype)
literal = xla.Literal.of(codes)
assert literal.shape.to_text(layout=False) == "f8e5m3fnu[256]"
module = xla.parse_hlo(f"HloModule m ENTRY e {{ ROOT c = f8e5m3fnu[256] constant({literal.to_text()}) }}")
assert xla.Module.from_proto(module.to_proto()).to_text(print_large_constants=True) == module.to_text(
    print_large_constants=True
)
for platform in ("reference", "interpreter", "cpu"):
    result = np.asarray(xla.Client(platform).compile(module)())
    assert result.dtype == F8E5M3FNU.dtype and result.view(np.uint8).tolist() == list(range(256)), platform

# every conversion rounds once: ties to even, negative numbers to NaN, in the interpreter and on cpu
wide = codes[:-1].astype(np.float64)
middles = (wide[1:] + wide[:-1]) / 2
x = np.concatenate([middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9), [-1, -1e-300, -0.0, np.nan, 1e300]])
text = f"HloModule m ENTRY e {{ x = f64[{x.size}] parameter(0)  ROOT r = f8e5m3fnu[{x.size}] convert(x) }}"
expected = np.concatenate([
    [n + n % 2 for n in range(254)], range(254), range(1, 255), [255, 255, 0, 255, 255],
])
for platform in ("interpreter", "cpu"):
    result = np.asarray(xla.Client(platform).compile(text)(x)).view(np.uint8)
    np.testing.assert_array_equal(result, expected, platform)

# arithmetic on each platform
parameters = "x = f8e5m3fnu[2] parameter(0)  y = f8e5m3fnu[2] parameter(1)"
text = f"HloModule m ENTRY e {{ {parameters}  ROOT r = f8e5m3fnu[2] subtract(x, y) }}"
for platform in ("reference", "interpreter", "cpu"):
    x, y = (np.float64(v).astype(F8E5M3FNU.dtype) for v in ([3, 1], [1.125, 2]))
    result = np.asarray(xla.Client(platform).compile(text)(x, y)).astype(np.float64)
    np.testing.assert_array_equal(result, [1.875, np.nan], platform)

assert "f8E5M3FNU" in xla.parse_hlo(text).to_stablehlo()
assert type_of(number_of(F8E5M3FNU)) is F8E5M3FNU
assert F8E5M3FNU in accepted_types(ADD)["lhs"].types
assert any("f8e5m3fnu[" in sample.text for sample in all_samples())
drawn = {i.shape.element_type for seed in range(60) for i in random_module(seed).instructions() if i.shape.is_array}
assert F8E5M3FNU in drawn
print("done")
"""


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    with GuideFollower(tmp_path) as guide:
        assert "f8e5m3fnu" in guide.run_program(UNKNOWN)
        guide.follow("add-an-element-type.md")
        assert (len(guide.files), guide.shown) == (6, 5)
        assert guide.run_program(PROGRAM) == "done\n"
