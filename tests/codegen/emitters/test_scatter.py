"""Scatters on cpu have the bits of the interpreter: odd windows, all types, duplicates, indices outside the operand."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.kernel_runner import run_kernel
from xlapy.codegen.emitters.scatter import (
    MIN_DIVIDED_UPDATES,
    MIN_TASK_ROW_BYTES,
    ScatterKernels,
    scatter_kernel,
)
from xlapy.codegen.emitters.scatter_copies import COPIES, MIN_UPDATES_PER_ELEMENT, scatter_kernels
from xlapy.cpu.target import host_target
from xlapy.loops import AxisKind
from xlapy.loops.ir import For

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")

TYPES = ("s4", "s8", "s16", "s32", "s64", "u4", "u8", "u16", "u32", "u64")
TYPES += ("f8e5m2", "f16", "bf16", "f32", "f64", "c64", "c128")


def row_scatter(
    t: str, op: str, rows: int, window: tuple[int, ...], updates: int, index: str = "s32", hints: str = ""
) -> xla.Module:
    """A scatter of `updates` windows into the rows that the indices name."""
    inner = "".join(f",{size}" for size in window)
    dims = ",".join(str(d + 1) for d in range(len(window)))
    return xla.parse_hlo(
        f"HloModule m\n"
        f"f {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT r = {t}[] {op}(a, b) }}\n"
        f"ENTRY e {{ p = {t}[{rows}{inner}] parameter(0)\n i = {index}[{updates}] parameter(1)\n"
        f" u = {t}[{updates}{inner}] parameter(2)\n"
        f" ROOT s = {t}[{rows}{inner}] scatter(p, i, u), update_window_dims={{{dims}}}, inserted_window_dims={{0}},"
        f" scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f{hints} }}",
        verify=True,
    )


def random_arguments(module: xla.Module, indices: np.ndarray) -> list[np.ndarray]:
    rng = np.random.default_rng(len(indices))
    operand, index, update = (p.shape for p in module.entry_computation.parameters)
    values = [rng.integers(-6, 7, shape.dimensions) for shape in (operand, update)]
    values = [v if t in "sfbc" else abs(v) for v in values for t in [operand.element_type.text[0]]]
    first, last = (v.astype(operand.element_type.dtype) for v in values)
    return [first, indices.astype(index.element_type.dtype), last]


def assert_equal_to_interpreter(module: xla.Module, *arrays: np.ndarray) -> np.ndarray:
    found, expected = (np.asarray(client.compile(module)(*arrays)) for client in (CPU, INTERPRETER))
    assert found.dtype == expected.dtype and found.shape == expected.shape
    wide = np.complex128 if np.iscomplexobj(found) else found.dtype if found.dtype.kind in "iu" else np.float64
    np.testing.assert_array_equal(found.astype(wide), expected.astype(wide))
    return found


def some_indices(rows: int, updates: int) -> np.ndarray:
    """Duplicates, and some indices beyond both ends."""
    return np.random.default_rng(7).integers(-2, rows + 2, updates)


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("window", [(), (9,)], ids=str)
def test_types(t: str, window: tuple[int, ...]):
    module = row_scatter(t, "add", 7, window, 41)
    indices = some_indices(7, 41)
    assert_equal_to_interpreter(module, *random_arguments(module, indices))


@pytest.mark.parametrize(
    "window", [(1,), (2,), (3,), (5,), (7,), (15,), (17,), (31,), (33,), (3, 5), (2, 1), (0,)], ids=str
)
@pytest.mark.parametrize("order", ["random", "sorted", "one row"])
def test_windows_shorter_and_longer_than_a_vector(window: tuple[int, ...], order: str):
    module = row_scatter("f32", "add", 11, window, 61)
    indices = {"random": some_indices(11, 61), "sorted": np.sort(some_indices(11, 61)), "one row": np.full(61, 10)}
    operand, _, update = random_arguments(module, indices[order])
    update = update * np.float32(1.1)  # sums are rounded, in the order of the updates
    assert_equal_to_interpreter(module, operand, indices[order].astype(np.int32), update)


@pytest.mark.parametrize("updates", [0, 1])
def test_few_updates(updates: int):
    module = row_scatter("f32", "add", 5, (9,), updates)
    indices = np.full(updates, 3)
    assert_equal_to_interpreter(module, *random_arguments(module, indices))


@pytest.mark.parametrize("index", ["s8", "u8", "s32", "u32", "s64", "u64"])
def test_extreme_indices_are_outside(index: str):
    module = row_scatter("f32", "add", 5, (3,), 4, index)
    limits = np.iinfo(module.entry_computation.parameters[1].shape.element_type.dtype)
    indices = np.array([limits.min, limits.max, 4, 5], limits.dtype)
    operand, _, update = random_arguments(module, indices)
    found = assert_equal_to_interpreter(module, operand, indices, update)
    assert (found[1:4] == operand[1:4]).all()


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("window", [(), (9,)], ids=str)
def test_extremes_of_zeros_and_nan(t: str, op: str, window: tuple[int, ...]):
    """Every pair of special values: NaN wins whichever comes first, and -0 is below +0."""
    special = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.5, -1.5]
    pairs = np.array(list(itertools.product(special, special)))
    module = row_scatter(t, op, len(pairs), window, len(pairs))
    dtype = module.entry_computation.parameters[0].shape.element_type.dtype
    operand, update = (
        np.broadcast_to(column.reshape(-1, *(1 for _ in window)), (len(pairs), *window)).astype(dtype)
        for column in pairs.T
    )
    found = assert_equal_to_interpreter(module, operand, np.arange(len(pairs), dtype=np.int32), update)
    both = {(0.0, False), (0.0, True)}
    first = found.reshape(len(pairs), -1)[:, 0].astype(np.float64)
    for (a, b), result in zip(pairs, first, strict=True):
        if np.isnan(a) or np.isnan(b):
            assert np.isnan(result)
        elif (a, bool(np.signbit(a))) in both and (b, bool(np.signbit(b))) in both:
            is_negative = np.signbit(a) and np.signbit(b) if op == "maximum" else np.signbit(a) or np.signbit(b)
            assert np.signbit(result) == is_negative, (a, b)


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("t", [np.float32, np.float64])
def test_extremes_of_many_updates_each(t: type, op: str):
    """Most updates do not change their element, and are not stored."""
    special = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan])
    generator = np.random.default_rng(0)
    module = row_scatter("f32" if t is np.float32 else "f64", op, 40, (), 2000)
    index = generator.integers(-2, 42, 2000).astype(np.int32)
    for count in (2, 4, 6, 7):
        first, updates = (generator.choice(special[:count], n).astype(t) for n in (40, 2000))
        found = assert_equal_to_interpreter(module, first, index, updates)
        expected = np.asarray(INTERPRETER.compile(module)(first, index, updates))
        assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("operands", ["a, a", "b, b", "b, a"])
def test_extremes_of_either_parameter(op: str, operands: str):
    """The computation may name its parameters in any order, or one of them twice."""
    text = row_scatter("f32", op, 7, (5,), 23).to_text().replace(f"{op}(%a, %b)", f"{op}({operands})")
    assert f"{op}({operands})" in text
    module = xla.parse_hlo(text.replace(f"{op}({operands})", f"{op}(%{operands.replace(', ', ', %')})"))
    assert_equal_to_interpreter(module, *random_arguments(module, some_indices(7, 23)))


@pytest.mark.parametrize("t", ["f32", "s8", "c64"])
@pytest.mark.parametrize("window", [(1000,), (2, 1031)], ids=str)
@pytest.mark.parametrize("processors", [1, 2, 5])
def test_tasks_combine_some_columns_of_wide_windows(t: str, window: tuple[int, ...], processors: int):
    module = row_scatter(t, "add", 7, window, 19)
    operand, indices, update = random_arguments(module, some_indices(7, 19))
    expected = np.asarray(INTERPRETER.compile(module)(operand, indices, update))
    kernel = scatter_kernel(
        module.entry_computation.root_instruction, dataclasses.replace(host_target(), processors=processors)
    )
    tasks = min(processors, window[-1] * (1 if t == "s8" else 4) // MIN_TASK_ROW_BYTES)
    has_ranges = processors > 1 and update.size >= MIN_DIVIDED_UPDATES
    assert (kernel.parallel_loop is not None) == (tasks > 1 or has_ranges)
    run_kernel(kernel, [indices, update, operand])
    np.testing.assert_array_equal(operand, expected)


@pytest.mark.parametrize(("vector_dim", "shape"), [(2, "3,11"), (0, "1,3,11"), (1, "3,1,11")])
def test_batches_are_tasks(vector_dim: int, shape: str):
    """The sums of one batch stay in the order of their updates."""
    module = xla.parse_hlo(
        f"HloModule m\n"
        f"f {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }}\n"
        f"ENTRY e {{ p = f32[3,5,4] parameter(0)\n i = s32[{shape}] parameter(1)\n u = f32[3,11,4] parameter(2)\n"
        f" ROOT s = f32[3,5,4] scatter(p, i, u), update_window_dims={{2}}, inserted_window_dims={{1}},"
        f" input_batching_dims={{0}}, scatter_dims_to_operand_dims={{1}},"
        f" scatter_indices_batching_dims={{{1 if vector_dim == 0 else 0}}}, index_vector_dim={vector_dim},"
        f" to_apply=f }}",
        verify=True,
    )
    loop = scatter_kernel(module.entry_computation.root_instruction, host_target()).parallel_loop
    assert loop is not None and loop.extent == 3
    rng = np.random.default_rng(1)
    operand, update = (rng.standard_normal(s).astype(np.float32) for s in ((3, 5, 4), (3, 11, 4)))
    indices = rng.integers(-1, 7, [int(n) for n in shape.split(",")], dtype=np.int32)
    assert_equal_to_interpreter(module, operand, indices, update)


@pytest.mark.parametrize(("columns", "width"), [(2, 2), (3, 2), (7, 4), (9, 8)])
def test_short_windows_run_in_vectors(columns: int, width: int):
    module = row_scatter("f32", "add", 7, (columns,), 19)
    kernel = scatter_kernel(
        module.entry_computation.root_instruction, dataclasses.replace(host_target(), vector_bytes=64)
    )
    loops = [s for s in kernel.statements() if isinstance(s, For) and s.kind is AxisKind.VECTOR]
    assert [(loop.extent, loop.width) for loop in loops] == [(columns, width)]


def kernels_for(module: xla.Module, processors: int, l2_bytes: int = 1) -> ScatterKernels:
    return scatter_kernels(
        module.entry_computation.root_instruction,
        dataclasses.replace(host_target(), processors=processors, l2_bytes=l2_bytes),
    )


def run_all(kernels: ScatterKernels, *arrays: np.ndarray) -> None:
    temporaries = [np.full(size, 0xAB, np.uint8) for size in kernels.temporaries]
    for kernel in kernels.kernels:
        run_kernel(kernel, [*arrays, *temporaries])


@pytest.mark.parametrize("order", ["random", "sorted", "one target"])
@pytest.mark.parametrize("window", [(), (1,), (5,), (2, 17)], ids=str)
@pytest.mark.parametrize("t", ["f32", "bf16", "c64", "pred"])
@pytest.mark.parametrize("processors", [1, 2, 3, 8, 200])
def test_tasks_combine_ranges_of_targets(t: str, window: tuple[int, ...], order: str, processors: int):
    """Sums of floats are rounded: each target gets its updates in their order."""
    updates = MIN_DIVIDED_UPDATES + 11
    module = row_scatter(t, "or" if t == "pred" else "add", 37, window, updates)
    indices = some_indices(37, updates)
    indices = {"random": indices, "sorted": np.sort(indices), "one target": np.full(updates, 36)}[order]
    operand, indices, update = random_arguments(module, indices)
    if t != "pred":
        update = (update * 1.1).astype(update.dtype)
    expected = np.asarray(INTERPRETER.compile(module)(operand, indices, update))
    kernels = kernels_for(module, processors)
    assert (kernels.kernels[0].parallel_loop is not None) == (processors > 1)
    assert not kernels.temporaries
    run_all(kernels, indices, update, operand)
    assert operand.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("window", "hints", "rows", "is_divided"),
    [
        ((), "", 100, False), ((), ", indices_are_sorted=true", 100, True), ((), "", 1 << 20, True),
        ((15,), "", 100, False), ((16,), "", 100, True), ((16,), "", 1, False),
    ],
)  # fmt: skip
def test_ranges_where_tasks_read_other_lines(window: tuple[int, ...], hints: str, rows: int, is_divided: bool):
    module = row_scatter("f32", "add", rows, window, MIN_DIVIDED_UPDATES, hints=hints)
    kernel = kernels_for(module, 2, l2_bytes=1 << 21).kernels[0]
    assert (kernel.parallel_loop is not None) == is_divided


@pytest.mark.parametrize("processors", [2, 5])
def test_ranges_divide_the_largest_dimension(processors: int):
    """Index vectors of two components, and windows that are longer than one element along a third dimension."""
    updates = 2 * MIN_DIVIDED_UPDATES
    module = xla.parse_hlo(
        f"HloModule m\n"
        f"f {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] subtract(a, b) }}\n"
        f"ENTRY e {{ p = f32[3,29,7] parameter(0)\n i = s64[2,{updates // 2},3] parameter(1)\n"
        f" u = f32[2,{updates // 2},4] parameter(2)\n"
        f" ROOT s = f32[3,29,7] scatter(p, i, u), update_window_dims={{2}}, inserted_window_dims={{0,1}},"
        f" scatter_dims_to_operand_dims={{2,0,1}}, index_vector_dim=2, to_apply=f }}",
        verify=True,
    )
    rng = np.random.default_rng(1)
    operand = rng.standard_normal((3, 29, 7)).astype(np.float32)
    update = rng.standard_normal((2, updates // 2, 4)).astype(np.float32)
    indices = rng.integers(-1, [5, 4, 30], (2, updates // 2, 3))
    expected = np.asarray(INTERPRETER.compile(module)(operand, indices, update))
    kernels = kernels_for(module, processors)
    loop = kernels.kernels[0].parallel_loop
    assert loop is not None and loop.extent == processors
    run_all(kernels, indices, update, operand)
    assert operand.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("t", "op"), [
    ("s32", "add"), ("u8", "add"), ("s16", "multiply"), ("s64", "maximum"), ("u32", "minimum"), ("u64", "xor"),
    ("s8", "and"), ("u16", "or"),
])  # fmt: skip
@pytest.mark.parametrize("window", [(), (1,)], ids=str)
@pytest.mark.parametrize("processors", [1, 2, 3, 16])
def test_copies_of_few_targets(t: str, op: str, window: tuple[int, ...], processors: int):
    updates = 11 * COPIES * 16 * MIN_UPDATES_PER_ELEMENT + 3
    module = row_scatter(t, op, 11, window, updates)
    operand, indices, update = random_arguments(module, some_indices(11, updates))
    kernels = kernels_for(module, processors)
    assert len(kernels.kernels) == 2 and len(kernels.temporaries) == 1
    expected = np.asarray(INTERPRETER.compile(module)(operand, indices, update))
    run_all(kernels, indices, update, operand)
    np.testing.assert_array_equal(operand, expected)


@pytest.mark.parametrize(("t", "op", "window", "updates"), [
    ("f32", "add", (), 1 << 15), ("s4", "add", (), 1 << 15), ("pred", "or", (), 1 << 15),
    ("s32", "subtract", (), 1 << 15), ("s32", "add", (2,), 1 << 15), ("s32", "add", (), 100),
])  # fmt: skip
def test_other_scatters_have_no_copies(t: str, op: str, window: tuple[int, ...], updates: int):
    assert not kernels_for(row_scatter(t, op, 11, window, updates), 2).temporaries


@pytest.mark.parametrize("t", ["s32", "u8"])
def test_copies_where_indices_are_known_to_be_in_bounds(t: str):
    updates = 16 * COPIES * 16 * MIN_UPDATES_PER_ELEMENT
    text = row_scatter(t, "add", 16, (), updates, "u8").to_text()
    masked = (
        f"%k = u8[] constant(15) %m = u8[{updates}] broadcast(%k), dimensions={{}} %n = u8[{updates}] and(%i, %m)\n"
    )
    text = text.replace("ROOT %s", f"{masked} ROOT %s").replace("scatter(%p, %i,", "scatter(%p, %n,")
    module = xla.parse_hlo(text, verify=True)
    arguments = random_arguments(module, np.random.default_rng(3).integers(0, 256, updates))
    assert kernels_for(module, 2).temporaries
    assert_equal_to_interpreter(module, *arguments)


@pytest.mark.parametrize("rows", [(), (1,), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("window", [(), (4,)], ids=str)
def test_index_vectors_without_components(rows: tuple[int, ...], window: tuple[int, ...]):
    """Each index vector names the first window, which several then update in their order."""
    batch, update = (",".join(map(str, sizes)) for sizes in ((*rows, 0), (*rows, *window)))
    module = xla.parse_hlo(
        f"HloModule m\n"
        f"f {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] subtract(b, a) }}\n"
        f"ENTRY e {{ p = f32[5,4] parameter(0)\n i = s32[{batch}] parameter(1)\n u = f32[{update}] parameter(2)\n"
        f" ROOT s = f32[5,4] scatter(p, i, u), update_window_dims={{{len(rows) if window else ''}}},"
        f" inserted_window_dims={{{'0' if window else '0,1'}}}, scatter_dims_to_operand_dims={{}},"
        f" index_vector_dim={len(rows)}, to_apply=f }}",
        verify=True,
    )
    rng = np.random.default_rng(1)
    operand, updates = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 4), (*rows, *window)))
    found = assert_equal_to_interpreter(module, operand, np.zeros((*rows, 0), np.int32), updates)
    assert (found[1:] == operand[1:]).all() and (found[0, 0] != operand[0, 0]).all()


@pytest.mark.parametrize("processors", [1, 2, 5])
@pytest.mark.parametrize("rows", ["", "3,"])
def test_windows_that_share_targets_in_different_columns(rows: str, processors: int):
    """Windows of one row that start at any column: each target gets its updates in their order."""
    columns = 2 * MIN_TASK_ROW_BYTES
    window = "0" if not rows else "0,1"
    module = xla.parse_hlo(
        f"HloModule m\n"
        f"f {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] subtract(b, a) }}\n"
        f"ENTRY e {{ p = f32[{rows}{columns + 9}] parameter(0)\n i = s32[1,23] parameter(1)\n"
        f" u = f32[{rows}{columns},23] parameter(2)\n"
        f" ROOT s = f32[{rows}{columns + 9}] scatter(p, i, u), update_window_dims={{{window}}},"
        f" inserted_window_dims={{}}, scatter_dims_to_operand_dims={{{1 if rows else 0}}},"
        f" index_vector_dim=0, to_apply=f }}",
        verify=True,
    )
    operand, indices, update = random_arguments(module, np.random.default_rng(5).integers(-1, 11, (1, 23)))
    update = update * np.float32(1.1)
    expected = np.asarray(INTERPRETER.compile(module)(operand, indices, update))
    kernels = kernels_for(module, processors)
    assert kernels.kernels[0].parallel_loop is None
    run_all(kernels, indices, update, operand)
    assert operand.tobytes() == expected.tobytes()
