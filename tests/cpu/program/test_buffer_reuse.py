"""Updates of windows in place: their values, and which updates copy row by row."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.codegen.emitters.scatter import scatter_kernel
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import CopyThunk, WhileThunk, walk_thunks
from xlapy.cpu.target import host_target
from xlapy.loops import F32, Affine, AxisKind, Builder
from xlapy.loops.in_place import may_overwrite

CPU = xla.Client("cpu")


@pytest.mark.parametrize(
    ("whole", "window", "start", "tasks"),
    [
        ((40, 50), (30, 33), (3, 5), 30),
        ((40, 50), (30, 33), (100, -7), 30),
        ((6, 40, 50), (4, 7, 50), (1, 2, 0), 4),
        ((3, 20000), (2, 17000), (1, 9), 6),
        ((40, 50), (30, 5), (3, 5), 0),
        ((40, 50), (30, 50), (3, 0), 0),
        ((40, 50), (1, 20), (3, 9), 0),
    ],
    ids=str,
)
def test_windows(whole: tuple[int, ...], window: tuple[int, ...], start: tuple[int, ...], tasks: int):
    """`tasks`: the number of parallel tasks; none if rows are adjacent or shorter than a vector."""
    x, u = (f"f32[{','.join(map(str, sizes))}]" for sizes in (whole, window))
    starts = [f"start{d}" for d in range(len(start))]
    lines = [f"{name} = s32[] parameter({d + 2})" for d, name in enumerate(starts)]
    lines += [f"x = {x} parameter(0)", f"u = {u} parameter(1)"]
    lines.append(f"ROOT r = {x} dynamic-update-slice(x, u, {', '.join(starts)})")
    module = xla.parse_hlo("\n".join(["HloModule m", "ENTRY e {", *lines, "}"]))
    loops = compile_module(module).loops()
    assert f"in {tasks} parallel" in loops if tasks else "parallel" not in loops
    rng = np.random.default_rng(0)
    array, update = (rng.standard_normal(sizes).astype(np.float32) for sizes in (whole, window))
    found = np.asarray(CPU.compile(module)(array, update, *(np.int32(s) for s in start)))
    begins = [min(max(s, 0), size - part) for s, size, part in zip(start, whole, window, strict=True)]
    array[tuple(slice(b, b + part) for b, part in zip(begins, window, strict=True))] = update
    np.testing.assert_array_equal(found, array)


def test_a_result_does_not_overwrite_what_its_kernel_reads_later():
    """A kernel may store one result before it computes another, so a result may not reuse memory that the other result
    reads.
    """
    b = Builder("several results")
    first, second = (b.buffer(name, F32, 1) for name in ("first", "second"))
    made = b.buffer("made", F32, 1, written=True)
    later = b.buffer("later", F32, 1, written=True)
    zero = Affine((), 0)
    b.store(made, zero, b.load(first, zero))
    b.store(later, zero, b.load(second, zero))
    assert may_overwrite(b.kernel, made, {first}) and may_overwrite(b.kernel, later, {first})
    assert may_overwrite(b.kernel, later, {second}) and not may_overwrite(b.kernel, made, {second})


def test_nothing_is_written_to_an_operand_without_room_for_a_window():
    text = """
HloModule m

set {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}

ENTRY e {
  x = f32[0] parameter(0)
  i = s32[2] parameter(1)
  u = f32[2] parameter(2)
  ROOT r = f32[0] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=set
}
"""
    kernel = scatter_kernel(xla.parse_hlo(text).entry_computation.root_instruction, host_target())
    assert not kernel.body.statements
    arguments = np.zeros(0, np.float32), np.arange(2, dtype=np.int32), np.ones(2, np.float32)
    assert np.asarray(CPU.compile(text)(*arguments)).size == 0


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32", "c64"])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(8, 5, 32), (13, 7, 37), (70, 33, 301), (1, 40, 9)])
def test_products_are_added_to_an_array_in_its_memory(kind: str, rows: int, terms: int, columns: int) -> None:
    """A loop adds outer products to an array, as the gradient of weights does. No iteration copies it."""
    state = f"(s32[], {kind}[{terms},{rows}], {kind}[{terms},{columns}], {kind}[{rows},{columns}])"
    text = f"""HloModule m
less {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(41)
  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  a = {kind}[{terms},{rows}] get-tuple-element(s), index=1 b = {kind}[{terms},{columns}] get-tuple-element(s), index=2
  c = {kind}[{rows},{columns}] get-tuple-element(s), index=3
  d = {kind}[{rows},{columns}] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  e = {kind}[{rows},{columns}] add(c, d) f = {kind}[{terms},{rows}] negate(a)
  ROOT r = {state} tuple(j, f, b, e) }}
ENTRY e {{ a = {kind}[{terms},{rows}] parameter(0) b = {kind}[{terms},{columns}] parameter(1)
  c = {kind}[{rows},{columns}] parameter(2) i = s32[] constant(0) s = {state} tuple(i, a, b, c)
  l = {state} while(s), condition=less, body=step ROOT r = {kind}[{rows},{columns}] get-tuple-element(l), index=3 }}
"""
    module = xla.parse_hlo(text)
    compiled = compile_module(module)
    (loop,) = (thunk for thunk in walk_thunks(compiled.program.thunks) if isinstance(thunk, WhileThunk))
    copies = [thunk for thunk in walk_thunks(loop.body) if isinstance(thunk, CopyThunk)]
    assert not [copy for copy in copies if copy.target.shape.dimensions == (rows, columns)]
    random = np.random.default_rng(0)
    dtype = xla.Shape.parse(f"{kind}[]").dtype
    given = [
        random.integers(-1, 2, shape).astype(dtype) for shape in ((terms, rows), (terms, columns), (rows, columns))
    ]
    if kind in ("f32", "f64", "bf16"):
        given[2][0, 0], given[2][-1, -1] = np.nan, np.inf
    expected = np.asarray(xla.Client("interpreter").compile(module)(*given))
    np.testing.assert_array_equal(np.asarray(CPU.compile(module)(*given)).view(np.uint8), expected.view(np.uint8))


def test_a_product_with_itself_is_not_added_in_its_memory() -> None:
    """The dot reads rows and columns of the array that it is added to."""
    state = "(s32[], f32[40,40])"
    text = f"""HloModule m
less {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  a = f32[40,40] get-tuple-element(s), index=1
  d = f32[40,40] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[40,40] add(a, d) ROOT r = {state} tuple(j, e) }}
ENTRY e {{ a = f32[40,40] parameter(0) i = s32[] constant(0) s = {state} tuple(i, a)
  l = {state} while(s), condition=less, body=step ROOT r = f32[40,40] get-tuple-element(l), index=1 }}
"""
    given = np.random.default_rng(0).integers(-1, 2, (40, 40)).astype(np.float32)
    expected = np.asarray(xla.Client("interpreter").compile(text)(given))
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(given)), expected)


@pytest.mark.parametrize(
    ("is_load_masked", "is_store_masked", "is_possible"),
    [(False, False, True), (True, False, True), (True, True, True), (False, True, False)],
)
def test_masks_of_elements_that_are_loaded_and_stored(
    is_load_masked: bool, is_store_masked: bool, is_possible: bool
) -> None:
    """Where only the store is masked, the load may read an element that another iteration stores."""
    b = Builder("masks")
    read, limit = b.buffer("read", F32, 64), b.buffer("limit", F32, 64)
    made = b.buffer("made", F32, 64, written=True)
    with b.loop(32, AxisKind.PARALLEL) as i:
        mask = b.compare("olt", b.load(limit, i), b.zero(F32))
        for place in (i, i + 32):
            element = b.load(read, place, mask if is_load_masked else None)
            b.store(made, place, element, mask if is_store_masked else None)
    assert may_overwrite(b.kernel, made, {read}) == is_possible


def test_a_kernel_of_a_loop_that_stores_its_result_in_blocks():
    """Nothing is known about the accesses of a kernel without single loads and stores: its result is another array."""
    text = """HloModule m
    body {
      s = (s32[], f32[2,12,12,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[2,12,12,64] get-tuple-element(s), index=1
      c = f32[] constant(0.01)
      k = f32[3,3,64,64] broadcast(c), dimensions={}
      y = f32[2,12,12,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
      one = s32[] constant(1)
      j = s32[] add(i, one)
      ROOT r = (s32[], f32[2,12,12,64]) tuple(j, y)
    }
    condition {
      s = (s32[], f32[2,12,12,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT l = pred[] compare(i, n), direction=LT
    }
    ENTRY e {
      x = f32[2,12,12,64] parameter(0)
      z = s32[] constant(0)
      t = (s32[], f32[2,12,12,64]) tuple(z, x)
      w = (s32[], f32[2,12,12,64]) while(t), condition=condition, body=body
      ROOT o = f32[2,12,12,64] get-tuple-element(w), index=1
    }"""
    x = np.random.default_rng(0).standard_normal((2, 12, 12, 64)).astype(np.float32)
    expected = np.asarray(xla.Client("interpreter").compile(text)(x))
    np.testing.assert_allclose(np.asarray(CPU.compile(text)(x)), expected, rtol=2e-5, atol=2e-6)
