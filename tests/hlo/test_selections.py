"""Reducers that are recognized as selections, so that they may combine elements in any order."""

from __future__ import annotations

import pytest

import xlapy as xla
from xlapy.hlo.selections import is_associative_selection, is_selection

NAN_ARGMAX = """
  gt = pred[] compare(v, w), direction=GT
  nan = pred[] compare(v, v), direction=NE
  first = pred[] or(gt, nan)
  value = f32[] select(first, v, w)
  eq = pred[] compare(v, w), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  left = pred[] or(first, tie)
  index = s32[] select(left, i, j)
"""

EXTREMES = """
  value = f32[] maximum(v, w)
  ge = pred[] compare(v, w), direction=GE
  eq = pred[] compare(v, w), direction=EQ
  larger = s32[] select(ge, i, j)
  least = s32[] minimum(i, j)
  index = s32[] select(eq, least, larger)
"""


def pair(body: str, t: str = "f32"):
    text = "HloModule m\nf { v = f32[] parameter(0)\n i = s32[] parameter(1)\n w = f32[] parameter(2)\n"
    text += f" j = s32[] parameter(3)\n{body}\n ROOT r = (f32[], s32[]) tuple(value, index) }}\n"
    text += "ENTRY e { a = f32[9] parameter(0)\n b = s32[9] parameter(1)\n c = f32[] constant(0)\n"
    text += " d = s32[] constant(0)\n ROOT r = (f32[], s32[]) reduce(a, b, c, d), dimensions={0}, to_apply=f }"
    return xla.parse_hlo(text.replace("f32", t)).entry_computation.root_instruction.to_apply


def single(body: str, t: str = "f32"):
    text = f"HloModule m\nf {{ v = {t}[] parameter(0)\n w = {t}[] parameter(1)\n {body} }}\n"
    text += f"ENTRY e {{ a = {t}[9] parameter(0)\n c = {t}[] constant(0)\n"
    text += f" ROOT r = {t}[] reduce(a, c), dimensions={{0}}, to_apply=f }}"
    return xla.parse_hlo(text).entry_computation.root_instruction.to_apply


def test_a_reducer_that_keeps_the_left_nan_is_not_a_selection():
    assert not is_selection(pair(NAN_ARGMAX))
    assert is_selection(pair(NAN_ARGMAX), ordered_by=1)


def test_integers_have_no_nan():
    assert is_selection(pair(NAN_ARGMAX, "s32"))


def test_the_first_of_equal_values_depends_on_the_order():
    body = """
      first = pred[] compare(v, w), direction=GE
      value = f32[] select(first, v, w)
      index = s32[] select(first, i, j)"""
    assert not is_selection(pair(body, "s32"))
    assert is_selection(pair(body, "s32"), ordered_by=1)
    assert not is_selection(pair(body), ordered_by=1)  # a NaN is replaced by the next number


def test_the_last_of_equal_values_is_a_selection_too():
    body = """
      first = pred[] compare(v, w), direction=GT
      value = f32[] select(first, v, w)
      index = s32[] select(first, i, j)"""
    assert is_selection(pair(body, "s32"), ordered_by=1)


def test_extrema_with_separate_indices():
    assert is_selection(pair(EXTREMES, "s32"))
    assert not is_selection(pair(EXTREMES))  # the index of a NaN is lost


@pytest.mark.parametrize(
    ("value", "index"),
    [
        ("f32[] add(v, w)", "s32[] select(gt, i, j)"),  # not a selection
        ("f32[] select(gt, v, v)", "s32[] select(gt, i, j)"),  # ignores the right value
        ("f32[] select(gt, v, w)", "s32[] select(lt, i, j)"),  # the index of the other value
    ],
)
def test_other_reducers(value: str, index: str):
    head = " gt = pred[] compare(v, w), direction=GT\n lt = pred[] compare(v, w), direction=LE\n"
    if "add" not in value:
        assert not is_selection(pair(f"{head} value = {value}\n index = {index}"))
    assert not is_selection(pair(f"{head} value = {value}\n index = {index}"), ordered_by=1)


def test_one_value():
    total = "c = pred[] compare(v, w), direction=GT, type=TOTALORDER\n"
    assert is_selection(single(f"{total} ROOT r = f32[] select(c, v, w)"))
    assert not is_selection(single("c = pred[] compare(v, w), direction=GT\n ROOT r = f32[] select(c, v, w)"))
    assert is_selection(single("c = pred[] compare(v, w), direction=GT\n ROOT r = u8[] select(c, v, w)", "u8"))
    assert is_selection(single("ROOT r = f32[] maximum(v, w)"))
    assert not is_selection(single("ROOT r = f32[] subtract(v, w)"))
    assert not is_selection(single("ROOT r = pred[] or(v, w)", "pred"))


def test_selections_that_combine_neighbors_first_keep_every_bit():
    assert is_associative_selection(pair(NAN_ARGMAX))
    assert not is_associative_selection(pair(EXTREMES, "s32"))  # a maximum orders -0 and +0, which is not tried
    first = "c = pred[] compare(v, w), direction=%s\n ROOT r = f32[] select(c, v, w)"
    assert not is_associative_selection(single(first % "GE"))  # NaN is dropped, depending on the order
    assert is_associative_selection(single((first % "GE").replace("f32", "u8"), "u8"))
    assert is_associative_selection(single("c = pred[] compare(v, v), direction=NE\n ROOT r = f32[] select(c, v, w)"))
