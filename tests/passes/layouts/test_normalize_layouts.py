"""normalize-layouts: the transposes that replace layouts, and the instructions that keep their layouts."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_same_results, body, program, run_passes
from xlapy.hlo.edit import clone_module
from xlapy.text import parse_hlo


def normalized(text: str) -> str:
    """Returns the entry after the pass, with layouts; checks that results are the same and that the pass converges."""
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, "normalize-layouts")
    assert_same_results(before, after)
    assert not run_passes(after, "normalize-layouts"), after.to_text()
    return after.to_text()


def test_the_signature_keeps_its_layouts_through_copies():
    text = normalized("""HloModule m, entry_computation_layout={(f32[3,4]{0,1})->f32[3,4]{0,1}}
    ENTRY e { p = f32[3,4]{0,1} parameter(0)  ROOT n = f32[3,4]{0,1} negate(p) }""")
    assert "entry_computation_layout={(f32[3,4]{0,1})->f32[3,4]{0,1}}" in text
    assert "%copy = f32[3,4]{1,0} copy(%p)" in text
    assert "%n = f32[3,4]{1,0} negate(%copy)" in text
    assert "ROOT %copy.1 = f32[3,4]{0,1} copy(%n)" in text


def test_elements_of_tuples_are_copied_one_by_one():
    text = normalized("""HloModule m,
    entry_computation_layout={((f32[3,4]{0,1}, f32[2]{0}))->(f32[2]{0}, (f32[3,4]{0,1}))}
    ENTRY e {
      p = (f32[3,4]{0,1}, f32[2]{0}) parameter(0)
      a = f32[3,4]{0,1} get-tuple-element(p), index=0
      b = f32[2]{0} get-tuple-element(p), index=1
      n = f32[3,4]{0,1} negate(a)
      t = (f32[3,4]{0,1}) tuple(n)
      ROOT r = (f32[2]{0}, (f32[3,4]{0,1})) tuple(b, t)
    }""")
    assert "%n = f32[3,4]{1,0} negate(%copy)" in text
    assert "tuple(%copy.1)" in text
    assert text.count(" copy(") == 2


@pytest.mark.parametrize(
    ("source", "result", "lines"),
    [
        ("f32[3,4]{1,0}", "f32[4,3]{0,1}", ["transpose(x), dimensions={1,0}"]),
        ("f32[3,4]{0,1}", "f32[12]{0}", ["transpose(x), dimensions={1,0}", "reshape("]),
        ("f32[3,4]{1,0}", "s16[3,4,2]{2,1,0}", ["reshape(x)", "s16[12,2] bitcast-convert(", "reshape("]),
        ("s16[3,4,2]{2,1,0}", "f32[3,4]{1,0}", ["f32[12] bitcast-convert("]),
    ],
)
def test_bitcasts_become_movements(source: str, result: str, lines: list[str]):
    before = parse_hlo(program(f"p = {source} parameter(0)", f"x = {source} copy(p)", f"ROOT r = {result} bitcast(x)"))
    after = clone_module(before)
    assert run_passes(after, "normalize-layouts,simplify")
    assert_same_results(before, after)
    text = body(after)
    assert "bitcast(" not in text
    assert all(line.replace("(x)", "(p)") in text or line in text for line in lines), text


def test_the_state_of_a_loop_is_row_major():
    text = normalized("""HloModule m
    c { s = (s32[], f32[3,4]{0,1}) parameter(0)  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(3)
        ROOT l = pred[] compare(i, k), direction=LT }
    b { s = (s32[], f32[3,4]{0,1}) parameter(0)  i = s32[] get-tuple-element(s), index=0  o = s32[] constant(1)
        j = s32[] add(i, o)  x = f32[3,4]{0,1} get-tuple-element(s), index=1  y = f32[12]{0} bitcast(x)
        z = f32[12]{0} negate(y)  w = f32[3,4]{0,1} bitcast(z)  ROOT t = (s32[], f32[3,4]{0,1}) tuple(j, w) }
    ENTRY e { p = f32[3,4]{1,0} parameter(0)  q = f32[3,4]{0,1} copy(p)  z = s32[] constant(0)
        t = (s32[], f32[3,4]{0,1}) tuple(z, q)  w = (s32[], f32[3,4]{0,1}) while(t), condition=c, body=b
        g = f32[3,4]{0,1} get-tuple-element(w), index=1  ROOT r = f32[12]{0} bitcast(g) }""")
    assert "{0,1}" not in text


def test_fusions_read_what_they_rely_on():
    text = normalized("""HloModule m
    f { p = f32[3,4]{0,1} parameter(0)  ROOT r = f32[12]{0} bitcast(p) }
    ENTRY e { p = f32[3,4]{1,0} parameter(0)  q = f32[3,4]{0,1} copy(p)  n = f32[3,4]{0,1} negate(q)
      ROOT r = f32[12]{0} fusion(n), kind=kLoop, calls=f }""")
    assert "%n = f32[3,4]{1,0} negate(%q)" in text
    assert "%copy = f32[3,4]{0,1} copy(%n)" in text
    assert "fusion(%copy)" in text
