"""Matching of corresponding instructions of two modules, and the differences between them."""

from __future__ import annotations

from xlapy.analysis.correspondence import correspond
from xlapy.text import parse_hlo

BASE = """HloModule base

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  m = f32[4,8] multiply(x, y)
  n = f32[4,8] negate(m)
  zero = f32[] constant(0)
  ROOT s = f32[4] reduce(n, zero), dimensions={1}, to_apply=add
}
"""


def compared(right: str) -> tuple[dict[str, str], dict[str, list[str]], list[str], list[str]]:
    """Returns the names of pairs with different names, the differences by name, and the instructions on one side
    only."""
    found = correspond(parse_hlo(BASE), parse_hlo(right))
    renamed = {one.name: other.name for one, other in found.instructions.items() if one.name != other.name}
    differences = {one.name: words for one in found.instructions if (words := found.differences(one))}
    return renamed, differences, [i.name for i in found.only_left], [i.name for i in found.only_right]


def test_names_and_order_do_not_matter():
    right = BASE.replace("zero = f32[] constant(0)\n", "").replace(
        "  x = f32[4,8] p", "  nothing = f32[] constant(0)\n  x = f32[4,8] p"
    )
    right = (
        right.replace("(n, zero)", "(n, nothing)").replace("m = ", "product = ").replace("negate(m)", "negate(product)")
    )
    assert compared(right) == ({"zero": "nothing", "m": "product"}, {}, [], [])


def test_an_inserted_instruction_is_new_and_its_user_has_changed_operands():
    right = BASE.replace("n = f32[4,8] negate(m)", "e = f32[4,8] exponential(m)\n  n = f32[4,8] negate(e)")
    _, differences, only_left, only_right = compared(right)
    assert differences == {"n": ["operand 0: m (multiply) -> e (exponential)"]}
    assert (only_left, only_right) == ([], ["e"])


def test_a_removed_instruction():
    right = BASE.replace("  n = f32[4,8] negate(m)\n", "").replace("reduce(n,", "reduce(m,")
    _, differences, only_left, only_right = compared(right)
    assert differences == {"s": ["operand 0: n (negate) -> m (multiply)"]}
    assert (only_left, only_right) == (["n"], [])


def test_attributes_constants_and_called_computations():
    right = BASE.replace("constant(0)", "constant(1)").replace(
        "ROOT r = f32[] add(a, b)", "ROOT r = f32[] maximum(a, b)"
    )
    _, differences, only_left, only_right = compared(right)
    assert differences == {"zero": ["literal f32[] 0 -> f32[] 1"]}
    assert (only_left, only_right) == (["r"], ["r"])


def test_instructions_after_a_changed_shape_still_correspond():
    right = BASE.replace("[4,8]", "[4,9]")
    _, differences, only_left, only_right = compared(right)
    assert set(differences) == {"x", "y", "m", "n"} and not only_left and not only_right
    assert differences["n"] == ["shape f32[4,8]{1,0} -> f32[4,9]{1,0}"]


def test_another_root():
    right = BASE.replace("  ROOT s = ", "  s = ").replace("to_apply=add\n", "to_apply=add\n  ROOT c = f32[4] copy(s)\n")
    _, differences, only_left, only_right = compared(right)
    assert (differences, only_left, only_right) == ({"s": ["no longer the root"]}, [], ["c"])


def test_equal_instructions_in_the_same_position_correspond():
    twice = """HloModule m
ENTRY e {
  x = f32[] parameter(0)
  a = f32[] constant(2)
  b = f32[] constant(2)
  p = f32[] multiply(x, a)
  ROOT q = f32[] add(p, b)
}"""
    found = correspond(parse_hlo(twice), parse_hlo(twice))
    assert all(one.name == other.name for one, other in found.instructions.items())


def test_swapped_operands():
    right = BASE.replace("multiply(x, y)", "multiply(y, x)")
    assert compared(right)[1] == {
        "m": ["operand 0: x (parameter) -> y (parameter)", "operand 1: y (parameter) -> x (parameter)"]
    }
