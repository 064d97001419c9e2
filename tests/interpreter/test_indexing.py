"""Values of gather and scatter: the specification's examples, corner cases, speed, and comparison with XLA:CPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests import xla_reference
from tests.interpreter.runners.indexing import random_case
from tests.interpreter.runners.instruction import run_text as evaluate
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import random_array

MATRIX = np.arange(176, dtype=np.float32).reshape(16, 11)


def gather_of_rows(t: str, rows: int, columns: int, index_type: str, count: int) -> str:
    return f"""HloModule m
        ENTRY e {{
          p = {t}[{rows},{columns}] parameter(0)
          i = {index_type}[{count}] parameter(1)
          ROOT r = {t}[{count},{columns}] gather(p, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
            start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}
        }}"""


def pair_gather(index_type: str) -> str:
    """Gathers two neighboring elements of f32[6] with one index."""
    return f"""HloModule m
        ENTRY e {{
          p = f32[6] parameter(0)
          i = {index_type}[1] parameter(1)
          ROOT r = f32[2] gather(p, i), offset_dims={{0}}, collapsed_slice_dims={{}}, start_index_map={{0}},
            index_vector_dim=0, slice_sizes={{2}}
        }}"""


def pair_scatter(index_type: str) -> str:
    """Scatters two neighboring elements into f32[6] with one index."""
    return f"""HloModule m
        f {{
          a = f32[] parameter(0)
          ROOT b = f32[] parameter(1)
        }}
        ENTRY e {{
          p = f32[6] parameter(0)
          i = {index_type}[1] parameter(1)
          u = f32[2] parameter(2)
          ROOT r = f32[6] scatter(p, i, u), update_window_dims={{0}}, inserted_window_dims={{}},
            scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply=f
        }}"""


def scatter_of_rows(t: str, cells: int, count: int, body: str, columns: int = 0) -> str:
    """Returns a scatter into `cells` scalars, or rows of `columns`."""
    more, window = (f",{columns}", "1") if columns else ("", "")
    return f"""HloModule m
        f {{
          a = {t}[] parameter(0)
          b = {t}[] parameter(1)
          ROOT r = {t}[] {body}
        }}
        ENTRY e {{
          p = {t}[{cells}{more}] parameter(0)
          i = s32[{count}] parameter(1)
          u = {t}[{count}{more}] parameter(2)
          ROOT s = {t}[{cells}{more}] scatter(p, i, u), update_window_dims={{{window}}}, inserted_window_dims={{0}},
            scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f
        }}"""


# Gather


def test_gather_windows_as_in_the_specification():
    text = """HloModule m
        ENTRY e {
          p = f32[16,11] parameter(0)
          i = s64[5,2] parameter(1)
          ROOT r = f32[5,8,6] gather(p, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1},
            index_vector_dim=1, slice_sizes={8,6}
        }"""
    starts = np.array([[0, 0], [8, 5], [3, 2], [1, 4], [7, 0]])
    value = evaluate(text, MATRIX, starts)
    for number, (x, y) in enumerate(starts):
        np.testing.assert_array_equal(value[number], MATRIX[x : x + 8, y : y + 6])


def test_gather_nd_as_in_the_specification():
    text = """HloModule m
        ENTRY e {
          p = f32[16,11] parameter(0)
          i = s32[4,5,1] parameter(1)
          ROOT r = f32[4,5,11] gather(p, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=2, slice_sizes={1,11}
        }"""
    rows = np.random.default_rng(0).integers(0, 16, (4, 5, 1)).astype(np.int32)
    np.testing.assert_array_equal(evaluate(text, MATRIX, rows), MATRIX[rows[..., 0]])


@pytest.mark.parametrize(
    ("index_type", "index", "start"),
    [
        ("s32", np.int32(4), 4),
        ("s32", np.int32(5), 4),
        ("s32", np.int32(-3), 0),
        ("u32", np.uint32(2**32 - 1), 4),
        ("u64", np.uint64(2**64 - 1), 4),
        ("s64", np.int64(2**62), 4),
        ("s64", np.int64(-(2**63)), 0),
        ("u8", np.uint8(255), 4),
        ("s4", np.array(-1).astype(ml_dtypes.int4), 0),
        ("u4", np.array(15).astype(ml_dtypes.uint4), 4),
    ],
)
def test_an_index_out_of_bounds_is_clamped_by_gather_and_drops_the_window_in_scatter(index_type, index, start):
    base, update = np.arange(6, dtype=np.float32), np.float32([70, 80])
    assert evaluate(pair_gather(index_type), base, [index]).tolist() == [start, start + 1]
    scattered = evaluate(pair_scatter(index_type), base, [index], update).tolist()
    assert scattered == ([0, 1, 2, 3, 70, 80] if int(index) == 4 else base.tolist())


def test_gather_with_batching_dimensions():
    text = """HloModule m
        ENTRY e {
          p = s32[2,3] parameter(0)
          i = s32[4,2,1] parameter(1)
          ROOT r = s32[4,2] gather(p, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1},
            operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,1}
        }"""
    operand = np.int32([[10, 11, 12], [20, 21, 22]])
    indices = np.int32([[0, 1], [2, 0], [1, 9], [-1, 2]])[..., np.newaxis]
    assert evaluate(text, operand, indices).tolist() == [[10, 21], [12, 20], [11, 22], [10, 22]]


def test_a_batching_dimension_ignores_an_index_for_it():
    text = """HloModule m
        ENTRY e {
          p = s32[2,3] parameter(0)
          i = s32[3,1] parameter(1)
          ROOT r = s32[3,3] gather(p, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0},
            operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,3}
        }"""
    operand = np.int32([[10, 11, 12], [20, 21, 22]])
    rows = evaluate(text, operand, np.int32([[1], [0], [0]])).tolist()
    assert rows == [[10, 11, 12], [20, 21, 22], [20, 21, 22]]  # row 2 is moved into the operand


def test_gather_from_empty_operand_gives_zeros():
    text = gather_of_rows("f32", 4, 3, "s32", 2).replace("slice_sizes={1,3}", "slice_sizes={0,3}")
    assert evaluate(text, np.ones((4, 3), np.float32), np.int32([1, 9])).tolist() == [[0, 0, 0], [0, 0, 0]]
    empty = gather_of_rows("f32", 0, 3, "s32", 2).replace("slice_sizes={1,3}", "slice_sizes={0,3}")
    assert evaluate(empty, np.ones((0, 3), np.float32), np.int32([1, 9])).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_gather_from_a_scalar():
    text = """HloModule m
        ENTRY e {
          p = f32[] parameter(0)
          i = s32[3,0] parameter(1)
          ROOT r = f32[3] gather(p, i), offset_dims={}, collapsed_slice_dims={}, start_index_map={},
            index_vector_dim=1, slice_sizes={}
        }"""
    assert evaluate(text, np.float32(7), np.zeros((3, 0), np.int32)).tolist() == [7, 7, 7]


def test_gather_of_one_element_is_an_array():
    text = """HloModule m
        ENTRY e {
          p = s32[4] parameter(0)
          i = s32[] parameter(1)
          ROOT r = s32[] gather(p, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=0, slice_sizes={1}
        }"""
    value = evaluate(text, np.int32([5, 6, 7, 8]), np.array(2, np.int32))
    assert type(value) is np.ndarray
    assert (value.shape, value.dtype, value.item()) == ((), np.dtype(np.int32), 7)


# Scatter


def test_scatter_calls_the_computation_with_the_current_value_first_in_the_order_of_the_updates():
    halved = scatter_of_rows("f32", 3, 4, "subtract(b, a)")
    value = evaluate(halved, np.float32([10, 20, 30]), np.int32([1, 0, 1, 1]), np.float32([1, 2, 3, 4]))
    assert value.tolist() == [2 - 10, 4 - (3 - (1 - 20)), 30]
    last = scatter_of_rows("f32", 3, 4, "add(b, b)")
    value = evaluate(last, np.float32([10, 20, 30]), np.int32([1, 0, 1, 1]), np.float32([1, 2, 3, 4]))
    assert value.tolist() == [4, 8, 30]


def test_scatter_drops_a_window_that_is_partly_outside():
    text = """HloModule m
        f {
          a = s32[] parameter(0)
          b = s32[] parameter(1)
          ROOT r = s32[] add(a, b)
        }
        ENTRY e {
          p = s32[3,3] parameter(0)
          i = s32[4,2] parameter(1)
          u = s32[4,2,2] parameter(2)
          ROOT s = s32[3,3] scatter(p, i, u), update_window_dims={1,2}, inserted_window_dims={},
            scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=f
        }"""
    starts = np.int32([[0, 0], [1, 1], [2, 0], [-1, 1]])
    value = evaluate(text, np.zeros((3, 3), np.int32), starts, np.ones((4, 2, 2), np.int32))
    assert value.tolist() == [[1, 1, 0], [1, 2, 1], [0, 1, 1]]


def test_scatter_proceeds_window_by_window_even_if_window_dimensions_are_first():
    text = """HloModule m
        f {
          a = f32[] parameter(0)
          ROOT b = f32[] parameter(1)
        }
        ENTRY e {
          p = f32[5] parameter(0)
          i = s32[2,1] parameter(1)
          u = f32[3,2] parameter(2)
          ROOT s = f32[5] scatter(p, i, u), update_window_dims={0}, inserted_window_dims={},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
        }"""
    updates = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert evaluate(text, np.zeros(5, np.float32), [[0], [1]], updates).tolist() == [0, 1, 3, 5, 0]
    assert evaluate(text, np.zeros(5, np.float32), [[1], [0]], updates).tolist() == [1, 3, 5, 4, 0]


def test_scatter_of_two_operands_keeps_the_best_and_its_index():
    text = """HloModule m
        f {
          best = f32[] parameter(0)
          where = s32[] parameter(1)
          value = f32[] parameter(2)
          place = s32[] parameter(3)
          better = pred[] compare(value, best), direction=GT
          v = f32[] select(better, value, best)
          w = s32[] select(better, place, where)
          ROOT r = (f32[], s32[]) tuple(v, w)
        }
        ENTRY e {
          p = f32[3] parameter(0)
          q = s32[3] parameter(1)
          i = s32[6] parameter(2)
          u = f32[6] parameter(3)
          v = s32[6] parameter(4)
          ROOT s = (f32[3], s32[3]) scatter(p, q, i, u, v), update_window_dims={}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
        }"""
    places = np.int32([0, 2, 0, 2, 0, 7])
    scores = np.float32([1, 5, 3, 5, 2, 9])
    nothing = (np.zeros(3, np.float32), np.full(3, -1, np.int32))
    best, where = evaluate(text, *nothing, places, scores, np.arange(6, dtype=np.int32))
    assert best.tolist() == [3, 0, 5]
    assert where.tolist() == [2, -1, 1]


def test_sums_round_at_every_step_in_the_element_type():
    text = scatter_of_rows("bf16", 1, 1000, "add(a, b)")
    one = ml_dtypes.bfloat16
    assert evaluate(text, np.zeros(1, one), np.zeros(1000, np.int32), np.ones(1000, one)).tolist() == [256]


def test_the_operand_is_not_modified():
    operand = np.zeros(3, np.float32)
    evaluate(scatter_of_rows("f32", 3, 2, "add(a, b)"), operand, np.int32([0, 0]), np.float32([1, 2]))
    assert operand.tolist() == [0, 0, 0]


def test_large_scatters():
    rng = np.random.default_rng(0)
    cells, empty = rng.integers(0, 1000, 300_000).astype(np.int32), np.zeros(1000, np.int32)
    sums = evaluate(scatter_of_rows("s32", 1000, 300_000, "add(a, b)"), empty, cells, cells)
    assert sums.tolist() == (np.bincount(cells, minlength=1000) * np.arange(1000)).tolist()
    differences = evaluate(scatter_of_rows("s32", 1000, 300_000, "subtract(a, b)"), empty, cells, cells)
    assert differences.tolist() == (-sums).tolist()
    rows = rng.integers(0, 5000, 100_000).astype(np.int32)
    ones, zeros = np.ones((100_000, 16), np.float32), np.zeros((5000, 16), np.float32)
    counts = evaluate(scatter_of_rows("f32", 5000, 100_000, "add(a, b)", 16), zeros, rows, ones)
    assert (counts == np.bincount(rows, minlength=5000)[:, None]).all()


@pytest.mark.parametrize(
    ("t", "body", "expected"),
    [
        ("s32", "add(a, b)", 50_000),
        ("f32", "add(a, b)", 50_000),
        ("s32", "xor(a, b)", 0),
        ("u8", "multiply(b, a)", 1),
        ("s32", "subtract(a, b)", -50_000),
    ],
)
def test_many_updates_of_one_element(t: str, body: str, expected: int):
    dtype = {"s32": np.int32, "f32": np.float32, "u8": np.uint8}[t]
    start = np.full(1, 1 if "multiply" in body else 0, dtype)
    text = scatter_of_rows(t, 1, 50_000, body)
    assert evaluate(text, start, np.zeros(50_000, np.int32), np.ones(50_000, dtype)).tolist() == [expected]


# XLA:CPU

TYPES = {
    "f32": np.float32,
    "s32": np.int32,
    "bf16": ml_dtypes.bfloat16,
    "pred": np.bool_,
    "s8": np.int8,
    "f64": np.float64,
    "u64": np.uint64,
    "c64": np.complex64,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f16": np.float16,
}
INDEX_TYPES = {"s32": np.int32, "s64": np.int64, "s8": np.int8, "u32": np.uint32}
BODIES = ("add(a, b)", "maximum(a, b)", "subtract(b, a)", "multiply(a, b)", "copy(b)", "copy(a)")


@pytest.mark.parametrize("seed", range(40))
def test_random_gather_is_that_of_xla(seed: int):
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    t, index_type = str(rng.choice(list(TYPES))), str(rng.choice(list(INDEX_TYPES)))
    indices = rng.integers(-1 if index_type[0] == "s" else 0, 5, case.indices).astype(INDEX_TYPES[index_type])
    arguments = [random_array(case.operand, TYPES[t], rng), indices]
    text = case.gather(t, index_type)
    assert_close(evaluate(text, *arguments), xla_reference.run_hlo(text, arguments, fast=True), rule="bits")


@pytest.mark.parametrize("seed", range(60))
def test_random_scatter_is_that_of_xla(seed: int):
    rng = np.random.default_rng(1000 + seed)
    case = random_case(rng)
    body = BODIES[seed % len(BODIES)]
    t, index_type = str(rng.choice(list(TYPES))), str(rng.choice(list(INDEX_TYPES)))
    if (t == "c64" and "maximum" in body) or (t == "pred" and "subtract" in body):
        t = "f32"
    indices = rng.integers(-1 if index_type[0] == "s" else 0, 4, case.indices).astype(INDEX_TYPES[index_type])
    special = "copy" in body or "maximum" in body
    operand, updates = (random_array(shape, TYPES[t], rng, special) for shape in (case.operand, case.many))
    text = case.scatter(t, index_type, body)
    rule = "elementwise" if t == "c64" else "bits"
    expected = xla_reference.run_hlo(text, [operand, indices, updates], fast=True)
    assert_close(evaluate(text, operand, indices, updates), expected, rule=rule, flush_denormals=True)
