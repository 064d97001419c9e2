"""Reductions fused with their consumers, row by row: which become one kernel, and that results are right."""

from __future__ import annotations

import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import KernelThunk, walk_thunks
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.loops import Kernel
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_arguments import random_arguments

INTERPRETER, CPU = xla.Client("interpreter"), xla.Client("cpu")

COMPUTATIONS = """
add {{ a = {t}[] parameter(0)
 b = {t}[] parameter(1)
 ROOT r = {t}[] add(a, b) }}
max {{ a = {t}[] parameter(0)
 b = {t}[] parameter(1)
 ROOT r = {t}[] {greater}(a, b) }}
last {{ a = {t}[] parameter(0)
 b = {t}[] parameter(1)
 ROOT r = {t}[] subtract(b, a) }}
"""

SOFTMAX = """
  low = {t}[] constant({low})
  zero = {t}[] constant(0)
  m = {t}[{r}] reduce(x, low), dimensions={{{d}}}, to_apply=max
  mm = {t}[{r1}] reshape(m)
  m1 = {t}[{r}] reshape(mm)
  mb = {t}[{s}] broadcast(m1), dimensions={{{k}}}
  c = {t}[{s}] subtract(x, mb)
  e = {t}[{s}] exponential(c)
  n = {t}[{r}] reduce(e, zero), dimensions={{{d}}}, to_apply=add
  nb = {t}[{s}] broadcast(n), dimensions={{{k}}}
  ROOT q = {t}[{s}] divide(e, nb)
"""

VARIANCE = """
  zero = {t}[] constant(0)
  size = {t}[] constant(17)
  n = {t}[{r}] reduce(x, zero), dimensions={{{d}}}, to_apply=add
  sizes = {t}[{r}] broadcast(size), dimensions={{}}
  mean = {t}[{r}] divide(n, sizes)
  mb = {t}[{s}] broadcast(mean), dimensions={{{k}}}
  c = {t}[{s}] subtract(x, mb)
  cc = {t}[{s}] multiply(c, c)
  v = {t}[{r}] reduce(cc, zero), dimensions={{{d}}}, to_apply=add
  ROOT q = {t}[{r}] divide(v, sizes)
"""

IN_ORDER = """
  zero = {t}[] constant(0)
  a = {t}[{s}] abs(x)
  n = {t}[{r}] reduce(a, zero), dimensions={{{d}}}, to_apply=last
  nb = {t}[{s}] broadcast(n), dimensions={{{k}}}
  ROOT q = {t}[{s}] add(x, nb)
"""


def program(body: str, t: str, rows: tuple[int, ...], row: tuple[int, ...]) -> str:
    """Returns a program on x, where each row consists of the trailing dimensions."""
    kept, all_dimensions = len(rows), (*rows, *row)
    names = {
        "t": t,
        "s": ",".join(map(str, all_dimensions)),
        "r": ",".join(map(str, rows)),
        "k": ",".join(map(str, range(kept))),
        "d": ",".join(map(str, range(kept, len(all_dimensions)))),
        "r1": ",".join(map(str, (*rows, 1))),
        "greater": "multiply" if t == "c64" else "maximum",
        "low": "-60000" if t == "f16" else "-inf",
    }
    text = (COMPUTATIONS + "ENTRY e {{ x = {t}[{s}] parameter(0)\n" + body + "}}").format(**names)
    return "HloModule m\n" + text


def kernels(text: str) -> list[Kernel]:
    steps = walk_thunks(compile_module(xla.parse_hlo(text)).program.thunks)
    return [thunk.kernel for thunk in steps if isinstance(thunk, KernelThunk)]


def assert_same(text: str) -> None:
    """Checks that cpu and the interpreter give the same results."""
    module = xla.parse_hlo(text)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, 3)
    tolerance = program_tolerance(module, arguments, flush_denormals=True)
    tolerance.assert_close(plain(CPU.compile(module)(*arguments)), text)


@pytest.mark.parametrize("body", [SOFTMAX, VARIANCE, IN_ORDER], ids=["softmax", "variance", "in order"])
@pytest.mark.parametrize(
    ("t", "rows", "row"),
    [
        ("f32", (6,), (37,)), ("f32", (3, 2), (4, 2, 5)), ("f32", (1, 7, 1), (64,)), ("f32", (), (100,)),
        ("f64", (5,), (16,)), ("bf16", (4,), (70,)), ("f16", (4,), (33,)),
    ],
)  # fmt: skip
def test_one_kernel_equals_the_interpreter(body, t, rows, row):
    text = program(body, t, rows, row)
    (kernel,) = kernels(text)
    assert len(kernel.scratch) == (body is SOFTMAX)
    assert_same(text)


@pytest.mark.parametrize("body", [SOFTMAX, VARIANCE, IN_ORDER], ids=["softmax", "variance", "in order"])
@pytest.mark.parametrize(
    ("t", "rows", "row"),
    [
        ("f32", (1700,), (10,)),
        ("f32", (4, 5), (2,)),
        ("f64", (1100,), (3, 5)),
        ("bf16", (2100,), (8,)),
        ("f16", (1200, 2), (7,)),
    ],
)
def test_vectors_run_across_short_rows(body, t, rows, row):
    text = program(body, t, rows, row)
    (kernel,) = kernels(text)
    assert not kernel.scratch
    assert_same(text)


def test_tasks_of_short_rows_are_whole_vectors():
    text = program(SOFTMAX, "f32", (2000,), (10,))
    (kernel,) = kernels(text)
    assert kernel.parallel_loop is not None
    assert kernel.parallel_loop.extent == 3  # of at most 768 rows
    assert_same(text)


@pytest.mark.parametrize(("t", "rows", "row"), [("f32", (100,), (10,)), ("f64", (16,), (3, 5)), ("f16", (40,), (9,))])
def test_vectors_run_along_short_rows_if_they_are_few(t, rows, row):
    text = program(SOFTMAX, t, rows, row)
    (kernel,) = kernels(text)
    assert kernel.scratch
    assert_same(text)


def test_few_short_rows_are_not_unrolled():
    assert len(kernels(program(SOFTMAX, "f32", (3,), (10,)))) > 1


def test_short_rows_of_many_instructions_are_several_kernels():
    chain = "".join(f"  sum{n} = {{t}}[{{s}}] add({f'sum{n - 1}' if n else 'x'}, x)\n" for n in range(60))
    body = chain + IN_ORDER.replace("abs(x)", "add(sum59, x)")
    text = program(body, "f32", (1100,), (15,))
    assert len(kernels(text)) > 1
    assert_same(text)


def test_rows_longer_than_scratch_memory_are_recomputed():
    text = program(SOFTMAX, "f32", (2,), (20_000,))
    (kernel,) = kernels(text)
    assert not kernel.scratch
    assert_same(text)


def test_few_long_rows_are_separate_kernels_for_all_threads():
    assert len(kernels(program(SOFTMAX, "f32", (4,), (1 << 16,)))) > 1


def test_sums_of_complex_numbers():
    body = IN_ORDER.replace("abs(x)", "negate(x)").replace("constant(0)", "constant((0, 0))")
    text = program(body.replace("last", "add"), "c64", (5,), (20,))
    assert len(kernels(text)) == 1
    assert_same(text)


def test_one_mask_per_row_and_one_per_batch():
    text = (
        COMPUTATIONS.format(t="f32", greater="maximum")
        + """
ENTRY e { x = f32[2,3,4,32] parameter(0)
  lengths = s32[2] parameter(1)
  bias = f32[32] parameter(2)
  place = s32[2,3,4,32] iota(), iota_dimension=3
  all = s32[2,3,4,32] broadcast(lengths), dimensions={0}
  far = f32[] constant(-1e9)
  fars = f32[2,3,4,32] broadcast(far), dimensions={}
  biases = f32[2,3,4,32] broadcast(bias), dimensions={3}
  inside = pred[2,3,4,32] compare(place, all), direction=LT
  y = f32[2,3,4,32] add(x, biases)
  z = f32[2,3,4,32] select(inside, y, fars)
  low = f32[] constant(-inf)
  m = f32[2,3,4] reduce(z, low), dimensions={3}, to_apply=max
  mb = f32[2,3,4,32] broadcast(m), dimensions={0,1,2}
  c = f32[2,3,4,32] subtract(z, mb)
  ROOT e = f32[2,3,4,32] exponential(c) }"""
    )
    text = "HloModule m\n" + text
    assert len(kernels(text)) == 1
    assert_same(text)
