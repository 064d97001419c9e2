"""Updates of windows in place: their values, and which updates copy row by row."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.codegen.emitters.scatter import scatter_kernel
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.target import host_target
from xlapy.loops import F32, Affine, Builder
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
