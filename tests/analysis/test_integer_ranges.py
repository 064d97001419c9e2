"""Bounds of integers: those of expressions and counters, and what they are used for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import xlapy as xla
from xlapy import opcodes
from xlapy.analysis import integer_ranges
from xlapy.analysis.integer_ranges import integer_range, known_comparison
from xlapy.base import flags
from xlapy.cpu.compiler import compile_module
from xlapy.passes.simplify import Simplify


def loop(
    body: str, *, kind: str = "s32", first: str = "0", step: str = "1", count: str = "10", direction: str = "LT"
) -> str:
    """A loop with a counter i; body computes y."""
    state = f"({kind}[], {kind}[])"
    return f"""HloModule m
less {{ s = {state} parameter(0) c = {kind}[] get-tuple-element(s), index=0 n = {kind}[] constant({count})
  ROOT r = pred[] compare(c, n), direction={direction} }}
step {{ s = {state} parameter(0) i = {kind}[] get-tuple-element(s), index=0 one = {kind}[] constant({step})
  j = {kind}[] add(i, one) k = {kind}[] get-tuple-element(s), index=1 {body}
  ROOT t = {state} tuple(j, y) }}
ENTRY e {{ a = {kind}[] constant({first}) b = {kind}[] parameter(0) t = {state} tuple(a, b)
  w = {state} while(t), condition=less, body=step ROOT r = {kind}[] get-tuple-element(w), index=1 }}
"""


def range_of(text: str, name: str = "y") -> tuple[int, int] | None:
    module = xla.parse_hlo(text)
    return integer_range(next(i for i in module.instructions() if i.name == name))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = s32[] add(i, i)", (0, 18)),
        ("two = s32[] constant(2) y = s32[] subtract(i, two)", (-2, 7)),
        ("three = s32[] constant(-3) y = s32[] multiply(i, three)", (-27, 0)),
        ("three = s32[] constant(3) y = s32[] divide(i, three)", (0, 3)),
        ("three = s32[] constant(3) m = s32[] negate(i) y = s32[] divide(m, three)", (-3, 0)),
        ("three = s32[] constant(3) y = s32[] remainder(i, three)", (0, 2)),
        ("three = s32[] constant(3) m = s32[] negate(i) y = s32[] remainder(m, three)", (-2, 0)),
        ("four = s32[] constant(4) y = s32[] maximum(i, four)", (4, 9)),
        ("four = s32[] constant(4) y = s32[] minimum(i, four)", (0, 4)),
        ("o = s32[] constant(1) y = s32[] clamp(o, k, i)", (0, 9)),
        ("four = s32[] constant(4) y = s32[] and(k, four)", (0, 4)),
        ("o = s32[] constant(1) y = s32[] shift-right-logical(i, o)", (0, 4)),
        ("z = s32[] constant(0) n = pred[] compare(i, z), direction=LT y = s32[] select(n, k, i)", (0, 9)),
        ("n = pred[] compare(k, one), direction=LT y = s32[] select(n, j, i)", (0, 10)),
        ("w = s64[] convert(i) y = s32[] convert(w)", (0, 9)),
        (
            "a = s32[3,5] iota(), iota_dimension=1 b = s32[1,5] slice(a), slice={[2:3],[0:5]} c = s32[1,5] add(b, b) "
            "o = s32[1] broadcast(i), dimensions={} d = s32[5] reshape(c) e = s32[6] concatenate(d, o), dimensions={0} "
            "f = s32[1] dynamic-slice(e, k), dynamic_slice_sizes={1} y = s32[] reshape(f)",
            (0, 9),
        ),
        ("y = s32[] add(i, k)", None),
        ("y = s32[] divide(i, i)", None),
        ("large = s32[] constant(2147483647) y = s32[] add(i, large)", None),  # it may overflow
        ("large = s32[] constant(300000000) y = s32[] multiply(i, large)", None),
        ("f = f32[] convert(i) y = s32[] convert(f)", None),
    ],
)
def test_expressions(body: str, expected: tuple[int, int] | None) -> None:
    assert range_of(loop(body)) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0, 9)),
        ({"first": "3"}, (3, 9)),
        ({"direction": "LE"}, (0, 10)),
        ({"step": "4"}, (0, 8)),
        ({"first": "9", "step": "-2", "count": "0", "direction": "GE"}, (1, 9)),
        ({"first": "9", "step": "-2", "count": "0", "direction": "GT"}, (1, 9)),
        ({"direction": "NE"}, None),
        ({"step": "0"}, None),
        ({"kind": "s8", "count": "127", "step": "2"}, None),  # 126 + 2 overflows
        ({"kind": "s8", "count": "126", "step": "1"}, (0, 125)),
        ({"kind": "u8", "count": "255"}, (0, 254)),
        ({"kind": "u8", "count": "255", "direction": "LE"}, None),
    ],
)
def test_counters(options: dict[str, str], expected: tuple[int, int] | None) -> None:
    kind = options.get("kind", "s32")
    assert range_of(loop(f"y = {kind}[] copy(i)", **options), "i") == expected


def test_a_value_that_many_paths_reach_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    minimum = integer_ranges._COMBINED[opcodes.MINIMUM]

    def counted(ranges: Sequence[integer_ranges.Range]) -> integer_ranges.Range | None:
        nonlocal calls
        calls += 1
        return minimum(ranges)

    monkeypatch.setitem(integer_ranges._COMBINED, opcodes.MINIMUM, counted)
    names = ["j", "i", *(f"m{n}" for n in range(15)), "y"]
    chain = [f"{new} = s32[] minimum({b}, {a})" for a, b, new in zip(names, names[1:], names[2:], strict=False)]
    assert range_of(loop(" ".join(chain))) == (0, 9)
    assert calls == len(chain)


def test_the_condition_also_sees_the_last_value() -> None:
    assert range_of(loop("y = s32[] copy(i)"), "c") == (0, 10)


def test_a_counter_that_a_narrower_type_wraps_has_no_bounds() -> None:
    text = loop("y = s32[] copy(i)").replace("j = s32[] add(i, one)", "n = s8[] convert(i) o = s8[] constant(1) "
                                             "p = s8[] add(n, o) j = s32[] convert(p)")  # fmt: skip
    assert range_of(text, "i") is None


def test_a_counter_whose_first_value_is_computed_has_no_bounds() -> None:
    text = loop("y = s32[] copy(i)").replace("tuple(a, b)", "tuple(b, a)")
    assert range_of(text, "i") is None


@pytest.mark.parametrize(
    ("direction", "limit", "expected"),
    [
        ("LT", 0, False), ("LT", 10, True), ("LT", 9, None), ("GE", 0, True), ("GE", 10, False), ("GE", 1, None),
        ("GT", 9, False), ("GT", -1, True), ("GT", 0, None), ("LE", 9, True), ("LE", -1, False), ("LE", 8, None),
        ("EQ", 10, False), ("NE", -1, True), ("EQ", 9, None),
    ],
)  # fmt: skip
def test_comparisons(direction: str, limit: int, expected: bool | None) -> None:
    body = f"n = s32[] constant({limit}) q = pred[] compare(i, n), direction={direction} y = s32[] select(q, k, i)"
    module = xla.parse_hlo(loop(body))
    compare = next(i for i in module.instructions() if i.name == "q")
    assert known_comparison(compare) is expected
    Simplify().run(module)
    assert any(i.op is xla.opcodes.SELECT for i in module.instructions()) == (expected is None)


def updates(first: int, count: int, size: int, index: str) -> str:
    """A loop that adds to the element at an index of an array, and scatters to it."""
    state = f"(s64[], f32[{size}], f32[{size}])"
    return f"""HloModule m
less {{ s = {state} parameter(0) i = s64[] get-tuple-element(s), index=0 n = s64[] constant({count})
  ROOT r = pred[] compare(i, n), direction=LT }}
set {{ a = f32[] parameter(0) ROOT b = f32[] parameter(1) }}
step {{ s = {state} parameter(0) i = s64[] get-tuple-element(s), index=0 one = s64[] constant(1) j = s64[] add(i, one)
  a = f32[{size}] get-tuple-element(s), index=1 b = f32[{size}] get-tuple-element(s), index=2
  back = s64[] subtract(i, one) x = f32[1] dynamic-slice(a, {index}), dynamic_slice_sizes={{1}} h = f32[] constant(0.5)
  hs = f32[1] broadcast(h), dimensions={{}} y = f32[1] add(x, hs)
  c = f32[{size}] dynamic-update-slice(a, y, i) v = s64[1] broadcast({index}), dimensions={{}} z = f32[] reshape(y)
  d = f32[{size}] scatter(b, v, z), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply=set
  ROOT t = {state} tuple(j, c, d) }}
ENTRY e {{ i = s64[] constant({first}) a = f32[{size}] parameter(0) b = f32[{size}] parameter(1)
  t = {state} tuple(i, a, b) w = {state} while(t), condition=less, body=step
  x = f32[{size}] get-tuple-element(w), index=1 y = f32[{size}] get-tuple-element(w), index=2
  ROOT r = (f32[{size}], f32[{size}]) tuple(x, y) }}
"""


@pytest.mark.parametrize("index", ["i", "back", "j"])
@pytest.mark.parametrize(("first", "count"), [(0, 20), (1, 20), (1, 19), (-3, 4), (15, 30), (5, 5)])
def test_accesses_in_and_out_of_bounds(index: str, first: int, count: int) -> None:
    text = updates(first, count, 20, index)
    given = [np.arange(20, dtype=np.float32), -np.arange(20, dtype=np.float32)]
    found, wanted = (xla.Client(platform).compile(text)(*given) for platform in ("cpu", "interpreter"))
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_accesses_in_bounds_are_not_clamped() -> None:
    loops = compile_module(xla.parse_hlo(updates(1, 20, 20, "back"))).loops()
    assert "smax" not in loops and "ule" not in loops
    loops = compile_module(xla.parse_hlo(updates(0, 20, 20, "back"))).loops()
    assert "smax" in loops and "ule" in loops


def limited(body: str, direction: str = "LT", step: int = 1, first: int = 1) -> str:
    """A loop in which i counts to a limit that is an argument, and that adds up y."""
    state = "(s32[], s32[], s32[])"
    return f"""HloModule m
less {{ s = {state} parameter(0) c = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=2
  ROOT r = pred[] compare(c, n), direction={direction} }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant({step})
  j = s32[] add(i, one) k = s32[] get-tuple-element(s), index=1 n = s32[] get-tuple-element(s), index=2 {body}
  t = s32[] add(k, y) ROOT u = {state} tuple(j, t, n) }}
ENTRY e {{ a = s32[] constant({first}) b = s32[] parameter(0) n = s32[] parameter(1) t = {state} tuple(a, b, n)
  w = {state} while(t), condition=less, body=step ROOT r = s32[] get-tuple-element(w), index=1 }}
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (1, 2147483646)),
        ({"direction": "GT", "step": -1, "first": 5}, (-2147483647, 5)),
        ({"direction": "LE"}, None),  # the limit may be the greatest integer
        ({"step": 2}, None),
        ({"step": -1}, None),
    ],
)
def test_a_limit_that_is_computed(options: dict[str, object], expected: tuple[int, int] | None) -> None:
    assert range_of(limited("y = s32[] copy(i)", **options), "i") == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("op", ["divide", "remainder"])
@pytest.mark.parametrize("body", ["{op}(n, i)", "{op}(k, i)", "{op}(i, i)", "{op}(n, k)"])
def test_divisions_by_counters(op: str, body: str) -> None:
    text = limited(f"y = s32[] {body.format(op=op)}")
    is_plain = "k)" not in body
    assert ("and i1" in compile_module(xla.parse_hlo(text)).loops()) != is_plain
    for start in (-(1 << 31), -1, 0, 7):
        given = (np.int32(start), np.int32(40))
        found, wanted = (np.asarray(xla.Client(p).compile(text)(*given)) for p in ("cpu", "interpreter"))
        np.testing.assert_array_equal(found, wanted)


def scatter(index: str, combine: str, kind: str = "f32", shape: str = "5,7", window: str = "1") -> str:
    """Scatters to one window of an array in each iteration of a loop. index: two components."""
    state = f"(s32[], {kind}[{shape}])"
    return f"""HloModule m
less {{ s = {state} parameter(0) c = s32[] get-tuple-element(s), index=0 n = s32[] constant(4)
  ROOT r = pred[] compare(c, n), direction=LT }}
combine {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) {combine} }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  x = {kind}[{shape}] get-tuple-element(s), index=1 i1 = s32[1] reshape(i) j1 = s32[1] reshape(j)
  v = s32[2] concatenate({index}), dimensions={{0}} f = {kind}[] convert(j)
  {"u" if window == "1" else "g"} = {kind}[] negate(f)
  {"" if window == "1" else f"u = {kind}[{window}] broadcast(g), dimensions={{}}"}
  y = {kind}[{shape}] scatter(x, v, u), update_window_dims={{{"" if window == "1" else "0"}}},
    inserted_window_dims={{{"0,1" if window == "1" else "0"}}}, scatter_dims_to_operand_dims={{0,1}},
    index_vector_dim=0, to_apply=combine
  ROOT t = {state} tuple(j, y) }}
ENTRY e {{ a = s32[] constant(0) x = {kind}[{shape}] parameter(0) t = {state} tuple(a, x)
  w = {state} while(t), condition=less, body=step ROOT r = {kind}[{shape}] get-tuple-element(w), index=1 }}
"""


@pytest.mark.parametrize(
    ("combine", "is_update"),
    [
        ("ROOT c = {t}[] negate(b)", False),
        ("ROOT c = {t}[] add(a, b)", True),
        ("ROOT c = {t}[] subtract(b, a)", True),
        ("ROOT c = {t}[] maximum(a, b)", True),
        ("d = {t}[] add(a, b) ROOT c = {t}[] add(d, b)", False),
    ],
)
@pytest.mark.parametrize("kind", ["f32", "s8", "bf16", "f64"])
@pytest.mark.parametrize(("index", "window"), [("i1, j1", "1"), ("j1, i1", "1"), ("i1, j1", "3"), ("j1, j1", "6")])
def test_scatters_of_one_window(combine: str, is_update: bool, kind: str, index: str, window: str) -> None:
    text = scatter(index, combine.format(t=kind), kind, window=window)
    given = np.arange(35).reshape(5, 7).astype(xla.Shape.parse(f"{kind}[]").dtype)
    module = xla.parse_hlo(text)
    Simplify().run(module)
    is_in_bounds = window != "6"
    assert any(i.op is xla.opcodes.SCATTER for i in module.instructions()) != (is_update and is_in_bounds)
    wanted = np.asarray(xla.Client("interpreter").compile(text)(given))
    for found in (xla.Client("cpu").compile(text)(given), xla.Client("interpreter").compile(module)(given)):
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_a_scatter_that_replaces_is_an_update() -> None:
    text = scatter("i1, j1", "ROOT c = f32[] add(a, b)").replace("ROOT c = f32[] add(a, b)", "", 1)
    text = text.replace("b = f32[] parameter(1)", "ROOT b = f32[] parameter(1)", 1)
    module = xla.parse_hlo(text)
    Simplify().run(module)
    assert all(i.op is not xla.opcodes.SCATTER for i in module.instructions())


def test_shared_operands_are_visited_once() -> None:
    """Each of 200 sums adds the one before to itself, so that there are 2^200 paths to the first."""
    sums = "".join(f"a{n} = s64[] subtract(a{n - 1}, a{n - 1}) " for n in range(1, 200))
    text = loop(f"a0 = s64[] copy(i) {sums} y = s64[] copy(a199)", kind="s64")
    assert range_of(text, "a3") == (-36, 36)
    assert range_of(text) is None


def test_kernels_that_know_different_bounds_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    state = "(s32[], f32[20], f32[20,3], f32[20,2])"
    text = f"""HloModule m
less {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(20)
  ROOT r = pred[] compare(i, n), direction=LT }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) a = f32[20] get-tuple-element(s), index=1 zero = s32[] constant(0)
  x = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={{1}} y = f32[1] dynamic-slice(a, j), dynamic_slice_sizes={{1}}
  xs = f32[] reshape(x) ys = f32[] reshape(y) v = f32[1,3] broadcast(xs), dimensions={{}}
  w = f32[1,2] broadcast(ys), dimensions={{}} c = f32[20,3] get-tuple-element(s), index=2
  d = f32[20,2] get-tuple-element(s), index=3 e = f32[20,3] dynamic-update-slice(c, v, i, zero)
  f = f32[20,2] dynamic-update-slice(d, w, i, zero) ROOT t = {state} tuple(j, a, e, f) }}
ENTRY e {{ i = s32[] constant(0) a = f32[20] parameter(0) b = f32[20,3] parameter(1) c = f32[20,2] parameter(2)
  t = {state} tuple(i, a, b, c) ROOT w = {state} while(t), condition=less, body=step }}
"""
    given = [np.arange(20, dtype=np.float32), np.ones((20, 3), np.float32), np.ones((20, 2), np.float32)]
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"check_bounds": True}))
    found = xla.Client("cpu").compile(text)(*given)
    for left, right in zip(found, xla.Client("interpreter").compile(text)(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_a_divisor_that_may_be_zero_is_checked_beside_one_that_is_not() -> None:
    state = "(s32[], s32[], s32[], s32[20,3], s32[20,2])"
    text = f"""HloModule m
less {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(20)
  ROOT r = pred[] compare(i, n), direction=LT }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) k = s32[] get-tuple-element(s), index=1 m = s32[] get-tuple-element(s), index=2
  l = s32[] subtract(k, one) o = s32[] add(m, k) a = s32[] divide(k, i) b = s32[] divide(m, k) zero = s32[] constant(0)
  v = s32[1,3] broadcast(a), dimensions={{}} w = s32[1,2] broadcast(b), dimensions={{}}
  c = s32[20,3] get-tuple-element(s), index=3 d = s32[20,2] get-tuple-element(s), index=4
  e = s32[20,3] dynamic-update-slice(c, v, i, zero) f = s32[20,2] dynamic-update-slice(d, w, i, zero)
  ROOT t = {state} tuple(j, l, o, e, f) }}
ENTRY e {{ i = s32[] constant(1) k = s32[] parameter(0) m = s32[] parameter(1) b = s32[20,3] parameter(2)
  c = s32[20,2] parameter(3) t = {state} tuple(i, k, m, b, c) ROOT w = {state} while(t), condition=less, body=step }}
"""
    loops = compile_module(xla.parse_hlo(text)).loops()
    assert loops.count("div") > 1 and "and i1" in loops  # one kernel checks its divisor
    given = [np.int32(12), np.int32(3), np.ones((20, 3), np.int32), np.ones((20, 2), np.int32)]
    found = xla.Client("cpu").compile(text)(*given)
    for left, right in zip(found, xla.Client("interpreter").compile(text)(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))
