"""Values of loops that are computed for all iterations at once: which are, and that results are the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import passes
from xlapy.cpu.transforms.loop_batching.batch_iterations import BatchIterations
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.verify import verify
from xlapy.passes.pipeline import Fixpoint, Pipeline
from xlapy.passes.remove_dead_code import RemoveDeadCode

INTERPRETER = xla.Client("interpreter")
CPU = xla.Client("cpu")

SUM = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"


def program(
    body: str,
    *,
    count: int = 20,
    first: int = 0,
    step: int = 1,
    kind: str = "s32",
    direction: str = "LT",
    following: str = "next",
    row: str = "f32[1]",
    place: str = "i",
    size: int = 20,
    before: str = SUM,
) -> str:
    """A loop with a counter i, an array xs, a table, a sum, and an array ys whose rows it writes.

    body: computes the scalar `next` of the sum and the `row` of ys; it may use x, the element i of xs, and the sum s.
    """
    state = f"({kind}[], f32[{size}], f32[7], f32[], f32[{size}])"
    return f"""HloModule m
{before}
less {{ s = {state} parameter(0) i = {kind}[] get-tuple-element(s), index=0 n = {kind}[] constant({count})
  ROOT c = pred[] compare(i, n), direction={direction} }}
step {{ t = {state} parameter(0) i = {kind}[] get-tuple-element(t), index=0 one = {kind}[] constant({step})
  j = {kind}[] add(i, one) xs = f32[{size}] get-tuple-element(t), index=1 table = f32[7] get-tuple-element(t), index=2
  s = f32[] get-tuple-element(t), index=3 ys = f32[{size}] get-tuple-element(t), index=4
  back = {kind}[] constant({size - 1}) reversed = {kind}[] subtract(back, i) zero = f32[] constant(0)
  x1 = f32[1] dynamic-slice(xs, i), dynamic_slice_sizes={{1}} x = f32[] reshape(x1)
  {body}
  updated = f32[{size}] dynamic-update-slice(ys, row, {place})
  ROOT r = {state} tuple(j, xs, table, {following}, updated) }}
ENTRY e {{ i = {kind}[] constant({first}) xs = f32[{size}] parameter(0) table = f32[7] parameter(1)
  s = f32[] parameter(2) ys = f32[{size}] parameter(3) t = {state} tuple(i, xs, table, s, ys)
  l = {state} while(t), condition=less, body=step
  last = f32[] get-tuple-element(l), index=3 rows = f32[{size}] get-tuple-element(l), index=4
  n = {kind}[] get-tuple-element(l), index=0 ROOT r = (f32[], f32[{size}], {kind}[]) tuple(last, rows, n) }}
"""


PLAIN = "y = f32[] tanh(x) next = f32[] add(s, y) row = f32[1] reshape(y)"
FILTER = "y = f32[] tanh(x) z = f32[] multiply(s, y) next = f32[] add(z, x) row = f32[1] reshape(next)"
SEARCH = """
some { s = (s32[], s32[], s32[], f32[], f32[7]) parameter(0) k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3) ROOT c = pred[] compare(k, n), direction=LT }
half { s = (s32[], s32[], s32[], f32[], f32[7]) parameter(0) k = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1) two = s32[] constant(2) m = s32[] add(k, one)
  low = s32[] get-tuple-element(s), index=1 high = s32[] get-tuple-element(s), index=2
  both = s32[] add(low, high) mid = s32[] divide(both, two) v = f32[] get-tuple-element(s), index=3
  table = f32[7] get-tuple-element(s), index=4 e1 = f32[1] dynamic-slice(table, mid), dynamic_slice_sizes={1}
  e = f32[] reshape(e1) c = pred[] compare(e, v), direction=LT
  l = s32[] select(c, mid, low) h = s32[] select(c, high, mid)
  ROOT r = (s32[], s32[], s32[], f32[], f32[7]) tuple(m, l, h, v, table) }
"""
SEARCHED = """k = s32[] constant(0) low = s32[] constant(0) high = s32[] constant(6)
  w = (s32[], s32[], s32[], f32[], f32[7]) tuple(k, low, high, x, table)
  f = (s32[], s32[], s32[], f32[], f32[7]) while(w), condition=some, body=half
  p = s32[] get-tuple-element(f), index=1 y = f32[] convert(p) next = f32[] add(s, y) row = f32[1] reshape(y)"""
HALVE = """
large { s = (f32[], s32[]) parameter(0) v = f32[] get-tuple-element(s), index=0 one = f32[] constant(0.25)
  ROOT c = pred[] compare(v, one), direction=GT }
halve { s = (f32[], s32[]) parameter(0) v = f32[] get-tuple-element(s), index=0 k = s32[] get-tuple-element(s), index=1
  half = f32[] constant(0.5) w = f32[] multiply(v, half) one = s32[] constant(1) m = s32[] add(k, one)
  ROOT r = (f32[], s32[]) tuple(w, m) }
"""
HALVED = """k = s32[] constant(0) w = (f32[], s32[]) tuple(x, k)
  f = (f32[], s32[]) while(w), condition=large, body=halve
  p = s32[] get-tuple-element(f), index=1 y = f32[] convert(p) next = f32[] add(s, y) row = f32[1] reshape(y)"""
ARRAYS = """a = f32[3] broadcast(x), dimensions={} c = f32[3] slice(table), slice={[1:7:2]} d = f32[3] add(a, c)
  e = f32[3] exponential(d) f = f32[5] pad(e, zero), padding=1_1 g = f32[5] reverse(f), dimensions={0}
  h = f32[8] concatenate(g, c), dimensions={0} q = f32[2,4] reshape(h) u = f32[4,2] transpose(q), dimensions={1,0}
  v = f32[2] reduce(u, zero), dimensions={0}, to_apply=add w = f32[2] dynamic-slice(h, five), dynamic_slice_sizes={2}
  five = s32[] constant(5) z = f32[] dot(v, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  next = f32[] multiply(s, z) row = f32[1] reshape(z)"""
LOOKUP = """seven = f32[] constant(7) far = f32[] multiply(x, seven) k = s32[] convert(far)
  e = f32[2] dynamic-slice(table, k), dynamic_slice_sizes={2} y = f32[] reduce(e, zero), dimensions={0}, to_apply=add
  z = f32[] cosine(y) next = f32[] subtract(s, z) row = f32[1] reshape(z)"""
WAVE = """c = f32[] convert(i) y = f32[] sine(c) z = f32[] multiply(s, y) next = f32[] add(z, x)
  row = f32[1] reshape(next)"""

CASES = {
    "a row": program(PLAIN),
    "a sum": program(FILTER),
    "fewer iterations than rows": program(PLAIN, count=12),
    "a later start": program(PLAIN, first=5),
    "counted down": program(PLAIN, first=19, step=-1, count=0, direction="GE"),
    "counted down to a sum": program(FILTER, first=19, step=-1, count=0, direction="GE"),
    "written in reverse": program(PLAIN, place="reversed"),
    "counted in s64": program(PLAIN, kind="s64"),
    "counted in u8": program(PLAIN, kind="u8"),
    "more iterations than numbers from 0 on": program(WAVE, kind="s8", first=-100, count=100),
    "and backward": program(WAVE, kind="s8", first=99, step=-1, count=-101, direction="GT"),
    "a search of a given length": program(SEARCHED, before=SUM + SEARCH),
    "a search until an element is small": program(HALVED, before=SUM + HALVE),
    "arrays": program(ARRAYS.replace("w = f32[2] dynamic-slice(h, five)", "w = f32[2] dynamic-slice(h, i)")),
    "indices that are computed": program(LOOKUP),
    "a number between bounds that vary": program(
        "half = f32[] constant(0.5) high = f32[] constant(0.7) c = f32[] clamp(x, half, high) y = f32[] tanh(c) "
        "next = f32[] multiply(s, y) row = f32[1] reshape(y)"
    ),
    "a function of the iteration": program(
        "f = f32[] convert(i) y = f32[] sine(f) next = f32[] multiply(s, y) row = f32[1] reshape(y)"
    ),
}


def arguments(*, special: bool) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    xs = random.random(20).astype(np.float32)
    xs[:4] = [np.nan, -0.0, -np.inf, 3e-39] if special else [1, 0.75, -1, 0]
    table = np.sort(random.normal(size=7)).astype(np.float32)
    return [xs, table, np.float32(0.5), random.normal(size=20).astype(np.float32)]


def assert_close(found: object, wanted: object) -> None:
    for one, other in zip(found, wanted, strict=True):  # type: ignore[call-overload]
        left, right = np.asarray(one), np.asarray(other)
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str, special: bool) -> None:
    text, given = CASES[case], arguments(special=special)
    before = INTERPRETER.compile(text)(*given)
    module = xla.parse_hlo(text)
    assert BatchIterations().run(module)
    verify(module)
    assert_close(INTERPRETER.compile(module)(*given), before)
    assert_close(CPU.compile(text)(*given), before)


@pytest.mark.parametrize("case", CASES)
def test_the_pass_ends(case: str) -> None:
    module = xla.parse_hlo(CASES[case])
    Pipeline(passes=[Fixpoint(limit=4, passes=(BatchIterations(), RemoveDeadCode()))], check_changes=True).run(module)


def loops(text: str) -> list[Instruction]:
    module = xla.parse_hlo(text)
    assert BatchIterations().run(module)
    return [i for i in module.entry_computation if i.op is xla.opcodes.WHILE and i.has_users]


def test_a_loop_that_only_writes_rows_disappears() -> None:
    assert not loops(program(PLAIN, following="s"))


def test_a_sum_reads_what_was_computed_before_the_loop() -> None:
    (loop,) = loops(program(FILTER))
    body = loop.computations[1]
    assert xla.opcodes.TANH not in {i.op for i in body}
    tanh = next(i for i in loop.parent if i.op is xla.opcodes.TANH)
    assert tanh.shape.dimensions == (20,)


@pytest.mark.parametrize(
    "text",
    [
        program(FILTER.replace("tanh", "negate")),  # costs less than storing it
        program(FILTER, count=7),  # too few iterations
        program(PLAIN, step=2),  # every second row
        program(FILTER).replace("n = s32[] constant(20)", "n = s32[] get-tuple-element(s), index=0"),  # no known end
        program("y = f32[] tanh(s) next = f32[] add(y, x) row = f32[1] reshape(next)"),  # depends on the sum
        program(FILTER.replace("tanh(x)", "tanh(s)"), size=1 << 19, count=1 << 19),
    ],
)
def test_others_stay(text: str) -> None:
    assert not BatchIterations().run(xla.parse_hlo(text))


def test_large_arrays_stay_in_the_loop() -> None:
    wide = "b = f32[100] broadcast(x), dimensions={} c = f32[100] tanh(b) y = f32[] reduce(c, zero), dimensions={0}, "
    text = program(wide + "to_apply=add z = f32[] multiply(s, y) next = f32[] add(z, x) row = f32[1] reshape(next)")
    assert not BatchIterations().run(xla.parse_hlo(text))


def test_loops_of_computed_length_stay_unless_each_element_has_iterations_of_its_own() -> None:
    """All elements would wait for the one with the most iterations."""
    scalar = program(HALVED, before=SUM + HALVE)
    with_sum = scalar.replace(
        "w = f32[] multiply(v, half)",
        "b = f32[3] broadcast(v), dimensions={} e = f32[3] sine(b) "
        "w = f32[] reduce(e, half), dimensions={0}, to_apply=add",
    )
    rounds = next(p for p in passes() if isinstance(p, Fixpoint))
    batch = next(p for p in rounds.passes if isinstance(p, BatchIterations))
    assert batch.run(xla.parse_hlo(scalar))
    assert not batch.run(xla.parse_hlo(with_sum))


def test_rows_that_are_read_again_stay() -> None:
    body = "y = f32[] tanh(x) k = s32[] constant(0) old = f32[1] dynamic-slice(ys, k), dynamic_slice_sizes={1} "
    text = program(body + "o = f32[] reshape(old) next = f32[] add(s, o) row = f32[1] reshape(y)")
    given = arguments(special=False)
    before = INTERPRETER.compile(text)(*given)
    assert_close(CPU.compile(text)(*given), before)


def test_an_iteration_out_of_bounds_writes_the_last_row() -> None:
    text, given = program(PLAIN, count=25), arguments(special=False)
    assert_close(CPU.compile(text)(*given), INTERPRETER.compile(text)(*given))


def test_loops_with_side_effects_stay() -> None:
    text = program(PLAIN, following="s").replace(
        "updated =", "start = token[] after-all() out = token[] outfeed(row, start), outfeed_shape=f32[1] updated ="
    )
    module = xla.parse_hlo(text)
    BatchIterations().run(module)
    verify(module)
    assert xla.opcodes.OUTFEED in {i.op for i in module.instructions()}
