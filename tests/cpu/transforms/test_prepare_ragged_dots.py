"""Ragged dots among masked dots: which dots become ragged dots, and that the values are those of the dots."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.emitters.matmul.ragged_problem import has_ragged_problem
from xlapy.cpu.transforms.prepare_ragged_dots import PrepareRaggedDots
from xlapy.hlo import edit
from xlapy.hlo.verify import verify

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(3)

MASK = """
  g = s32[4] parameter(2)
  z = s32[] constant(0)
  ends = s32[4] reduce-window(g, z), window={size=4 pad=3_0}, to_apply=add
  most = s32[3] slice(ends), slice={[0:3]}
  zeros = s32[1] constant({0})
  starts = s32[4] concatenate(zeros, most), dimensions={0}
  zero = f32[] constant(0)
"""


def masked(name: str, array: str, columns: int) -> str:
    """The text of f32[4,30,columns], an array f32[30,columns] that is masked by groups."""
    shape = f"[4,30,{columns}]"
    return f"""
  {name}i = s32{shape} iota(), iota_dimension=1
  {name}s = s32{shape} broadcast(starts), dimensions={{0}}
  {name}e = s32{shape} broadcast(ends), dimensions={{0}}
  {name}l = pred{shape} compare({name}s, {name}i), direction=LE
  {name}r = pred{shape} compare({name}i, {name}e), direction=LT
  {name}m = pred{shape} and({name}l, {name}r)
  {name}b = f32{shape} broadcast({array}), dimensions={{1,2}}
  {name}z = f32{shape} broadcast(zero), dimensions={{}}
  {name} = f32{shape} select({name}m, {name}b, {name}z)
"""


def program(right: str, body: str) -> str:
    return (
        "HloModule m\nadd { x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT s = s32[] add(x, y) }\n"
        f"ENTRY e {{ a = f32[30,8] parameter(0)\n b = {right} parameter(1)\n{MASK}{body} }}"
    )


ROWS = program(
    "f32[4,8,12]",
    masked("x", "a", 8) + "ROOT d = f32[30,12] dot(x, b), lhs_contracting_dims={2,0}, rhs_contracting_dims={1,0}",
)
TERMS = program(
    "f32[30,12]",
    masked("x", "a", 8)
    + masked("y", "b", 12)
    + "ROOT d = f32[4,8,12] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={1}",
)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-2, 3, shape).astype(np.float32)


def changes(text: str) -> bool:
    module = xla.parse_hlo(text)
    changed = PrepareRaggedDots(has_ragged_problem).run(module)
    verify(module)
    assert changed == ("ragged-dot(" in module.to_text())
    return changed


def assert_equal(text: str, *arguments: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        expected = np.asarray(INTERPRETER.compile(text)(*arguments))
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(*arguments)), expected)


@pytest.mark.parametrize("sizes", [[7, 0, 12, 3], [0, 0, 0, 0], [30, 0, 0, 0], [20, 20, 1, 1], [9, -4, 9, 9]], ids=str)
def test_masked_dots_are_ragged_dots(sizes):
    assert changes(ROWS)
    assert changes(TERMS)
    groups = np.array(sizes, np.int32)
    assert_equal(ROWS, integers(30, 8), integers(4, 8, 12), groups)
    assert_equal(TERMS, integers(30, 8), integers(30, 12), groups)


ENDS = [
    ("u32", [10, 3, 20, 24]), ("u32", [4, 9, 2**32 - 1, 2**32 - 1]), ("s32", [2**31 - 1, -(2**31), 5, 9]),
    ("s8", [100, -56, 3, 7]), ("s8", [-128, 127, 127, 127]), ("u8", [3, 9, 250, 255]), ("u16", [3, 2, 9, 65535]),
    ("s64", [2**63 - 1, -(2**63), 1, 2]), ("u64", [5, 2**63, 2**64 - 1, 2**64 - 1]),
]  # fmt: skip


def with_ends(text: str, t: str) -> str:
    """A program whose parameter is the ends of groups, of an integer type, not their sizes."""
    ends = "ends = s32[4] reduce-window(g, z), window={size=4 pad=3_0}, to_apply=add"
    parameter = "g = s32[4] parameter(2)"
    return text.replace(ends, "").replace(parameter, "ends = s32[4] parameter(2)").replace("s32[", f"{t}[")


@pytest.mark.parametrize(("t", "ends"), ENDS, ids=str)
def test_ends_may_be_any_integers(t, ends):
    """Groups may overlap, begin after they end, and end where no difference of two ends has the type of the ends."""
    array = np.array(ends, xla.Shape.parse(f"{t}[]").dtype)
    for program_text, right in ((ROWS, integers(4, 8, 12)), (TERMS, integers(30, 12))):
        text = with_ends(program_text, t)
        assert changes(text)
        assert_equal(text, integers(30, 8), right, array)


@pytest.mark.parametrize(("t", "size", "holds"), [("s8", 128, True), ("s8", 129, False), ("u8", 256, True)], ids=str)
def test_the_type_of_the_ends_holds_all_positions(t, size, holds):
    """Positions beyond the largest number of the type of a mask would be negative."""
    text = with_ends(ROWS, t).replace("[4,30,", f"[4,{size},").replace("[30,", f"[{size},")
    assert changes(text) == holds
    ends = np.array([50, 100, 110, 127], xla.Shape.parse(f"{t}[]").dtype)
    assert_equal(text, integers(size, 8), integers(4, 8, 12), ends)


def test_starts_are_neighboring_ends():
    """A slice with a stride has as many ends, but other ones."""
    text = with_ends(ROWS, "s32").replace("s32[3] slice(ends), slice={[0:3]}", "s32[2] slice(ends), slice={[0:2]}")
    text = text.replace("[4", "[3")
    assert changes(text)
    text = text.replace("[0:2]", "[0:3:2]")
    assert not changes(text)
    assert_equal(text, integers(30, 8), integers(3, 8, 12), np.array([5, 9, 20], np.int32))


BATCH = """HloModule m
add { x = s32[] parameter(0)
 y = s32[] parameter(1)
 ROOT s = s32[] add(x, y) }
ENTRY e {
  a = f32[3,30,8] parameter(0)
  b = f32[3,4,8,12] parameter(1)
  g = s32[3,4] parameter(2)
  z = s32[] constant(0)
  ends = s32[3,4] reduce-window(g, z), window={size=1x4 pad=0_0x3_0}, to_apply=add
  most = s32[3,3] slice(ends), slice={[0:3],[0:3]}
  zeros = s32[3,1] broadcast(z), dimensions={}
  starts = s32[3,4] concatenate(zeros, most), dimensions={1}
  zero = f32[] constant(0)
  i = s32[3,4,30,8] iota(), iota_dimension=2
  s = s32[3,4,30,8] broadcast(starts), dimensions={0,1}
  f = s32[3,4,30,8] broadcast(ends), dimensions={0,1}
  l = pred[3,4,30,8] compare(s, i), direction=LE
  r = pred[3,4,30,8] compare(f, i), direction=GT
  m = pred[3,4,30,8] and(r, l)
  w = f32[3,4,30,8] broadcast(a), dimensions={0,2,3}
  o = f32[3,4,30,8] broadcast(zero), dimensions={}
  x = f32[3,4,30,8] select(m, w, o)
  t = f32[4,3,30,8] transpose(x), dimensions={1,0,2,3}
  ROOT d = f32[3,30,12] dot(t, b), lhs_batch_dims={1}, lhs_contracting_dims={3,0}, rhs_batch_dims={0},
    rhs_contracting_dims={2,1}
}"""


def test_each_element_of_a_batch_has_groups_of_its_own():
    assert changes(BATCH)
    groups = np.array([[7, 0, 12, 3], [0, 30, 0, 0], [1, 2, 3, 4]], np.int32)
    assert_equal(BATCH, integers(3, 30, 8), integers(3, 4, 8, 12), groups)


@pytest.mark.parametrize(
    ("sizes", "weight", "holds"),
    [
        ([7, 0, 12, 3], 1, True),
        ([0, 0, 0, 0], 1, True),
        ([30, 9, 9, 9], 1, True),
        ([9, -4, 9, 9], 1, False),
        ([-1, 9, 9, 9], 1, False),
        ([7, 0, 12, 3], np.inf, False),
        ([7, 0, 12, 3], np.nan, False),
    ],
    ids=str,
)
def test_the_condition_of_a_ragged_dot(sizes, weight, holds):
    """The condition of the conditional, as the result of the program."""
    module = xla.parse_hlo(ROWS)
    PrepareRaggedDots(has_ragged_problem).run(module)
    entry = module.entry_computation
    edit.set_root(entry, entry.root_instruction.operands[0])
    weights = integers(4, 8, 12)
    weights[3, 7, 11] = weight
    text = re.sub(r", entry_computation_layout=.*", "", module.to_text(print_large_constants=True))
    found = INTERPRETER.compile(text)
    assert bool(found(integers(30, 8), weights, np.array(sizes, np.int32))) == holds


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinite_weights_of_other_groups_are_nan(value):
    weights, groups = integers(4, 8, 12), np.array([7, 0, 12, 3], np.int32)
    weights[1, 2, 3] = value
    assert_equal(ROWS, integers(30, 8), weights, groups)
    rows = integers(30, 8)
    rows[3, 3] = value
    assert_equal(ROWS, rows, integers(4, 8, 12), groups)
    assert_equal(TERMS, rows, integers(30, 12), groups)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("iota_dimension=1", "iota_dimension=2"),  # the mask is along the terms
        ("slice={[0:3]}", "slice={[1:4]}"),  # other starts
        ("constant({0})", "constant({1})"),
        ("direction=LE", "direction=LT"),
        ("zero = f32[] constant(0)", "zero = f32[] constant(1)"),
        (
            "lhs_contracting_dims={2,0}, rhs_contracting_dims={1,0}",
            "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        ),
    ],
)
def test_other_masks_are_not_groups(old, new):
    text = ROWS.replace(old, new)
    text = text.replace("f32[30,12] dot", "f32[4,30,4,12] dot") if "contracting" in old else text
    assert text != ROWS
    assert not changes(text)


@pytest.mark.parametrize(("strategy", "is_possible"), [("ragged-gemm", True), ("nonsense", False)])
def test_a_plan_for_a_ragged_dot_is_followed_or_refused(strategy: str, is_possible: bool):
    text = f"""ENTRY e {{
      a = f32[30,16] parameter(0)
      b = f32[4,16,20] parameter(1)
      g = s32[4] parameter(2)
      ROOT d = f32[30,20] ragged-dot(a, b, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}},
        lhs_ragged_dims={{0}}, rhs_group_dims={{0}}, backend_config={{"kernel_plan":{{"strategy":"{strategy}"}}}}
    }}"""
    if is_possible:
        assert_equal(text, integers(30, 16), integers(4, 16, 20), np.array([7, 0, 13, 10], np.int32))
        return
    with raises(InvalidArgumentError, codes.KERNEL_PLAN, "d (ragged-dot)", "'nonsense'"):
        CPU.compile(text)


def test_a_masked_dot_with_a_plan_stays_a_dot():
    planned = re.sub(r"(ROOT .* dot\(.*) }", r'\1, backend_config={"kernel_plan":{"strategy":"loops"}} }', ROWS)
    assert "kernel_plan" in planned
    assert changes(ROWS) and not changes(planned)


def test_ragged_dots_share_normalized_sizes():
    numbers = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
    module = xla.parse_hlo(f"""ENTRY e {{
      a = f32[30,16] parameter(0)
      b = f32[4,16,16] parameter(1)
      g = s32[4] parameter(2)
      c = f32[30,16] ragged-dot(a, b, g), {numbers}
      ROOT d = f32[30,16] ragged-dot(c, b, g), {numbers}
    }}""")
    assert PrepareRaggedDots(has_ragged_problem).run(module)
    verify(module)
    assert module.to_text().count("sort(") == 1
