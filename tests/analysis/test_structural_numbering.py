"""Computations that differ only in names get the same number."""

from __future__ import annotations

from xlapy.analysis.structural_numbering import StructuralNumbering
from xlapy.text import parse_hlo

TEXT = """HloModule m

a { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] subtract(p, q) }
same { t = f32[] parameter(0) u = f32[] parameter(1) ROOT v = f32[] subtract(t, u), metadata={op_name="other"} }
swapped { pp = f32[] parameter(0) qq = f32[] parameter(1) ROOT ss = f32[] subtract(qq, pp) }
ordered { p2 = f32[] parameter(0) q2 = f32[] parameter(1) n = f32[] abs(p2)
  ROOT st = f32[] subtract(p2, q2), control-predecessors={n} }
calls { p3 = f32[] parameter(0) ROOT c = f32[] call(p3, p3), to_apply=a }
calls_same { p4 = f32[] parameter(0) ROOT cc = f32[] call(p4, p4), to_apply=same }
calls_other { p5 = f32[] parameter(0) ROOT ct = f32[] call(p5, p5), to_apply=swapped }

ENTRY main {
  x = f32[] parameter(0)
  k = f32[] call(x, x), to_apply=ordered
  l = f32[] call(k), to_apply=calls
  m = f32[] call(l), to_apply=calls_same
  ROOT r = f32[] call(m), to_apply=calls_other
}
"""


def test_names_and_metadata_do_not_matter_and_everything_else_does() -> None:
    module = parse_hlo(TEXT)
    structure = StructuralNumbering()
    number = {c.name: structure.number(c) for c in module.computations}
    assert number["a"] == number["same"]
    assert number["calls"] == number["calls_same"]
    assert len(set(number.values())) == len(number) - 2
