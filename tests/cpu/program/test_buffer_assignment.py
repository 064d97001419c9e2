"""Buffer assignment of temporaries: the memory that they share, with each other and with results."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.analysis.memory.graph import aligned
from xlapy.base.element_types import U8
from xlapy.base.shape import Shape
from xlapy.cpu.compiler import Compiled, compile_module
from xlapy.cpu.program.buffer_assignment import (
    MIN_PACKED_BYTES,
    _FreeList,
    _largest_first,
    _Memories,
    _ReusableResult,
)
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.liveness import LiveRanges
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk, Thunk, walk_thunks
from xlapy.testing.random_arguments import random_arguments

PRODUCTS = """HloModule products
ENTRY main { x = f32[64,64] parameter(0)  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[64,64] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""

FILLED = """HloModule filled
below { s = (s32[], f32[500,9], f32[500,9]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(400)  ROOT r = pred[] compare(i, n), direction=LT }
next { s = (s32[], f32[500,9], f32[500,9]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  a = f32[500,9] get-tuple-element(s), index=1  b = f32[500,9] get-tuple-element(s), index=2
  one = s32[] constant(1)  j = s32[] add(i, one)  zero = s32[] constant(0)  f = f32[] convert(j)
  u = f32[1,9] broadcast(f), dimensions={}  k = s32[] add(j, j)
  c = f32[500,9] dynamic-update-slice(a, u, i, zero)  d = f32[500,9] dynamic-update-slice(b, u, k, zero)
  ROOT r = (s32[], f32[500,9], f32[500,9]) tuple(j, c, d) }
ENTRY main { zero = s32[] constant(0)  h = f32[] constant(0.5)  z = f32[500,9] broadcast(h), dimensions={}
  t = (s32[], f32[500,9], f32[500,9]) tuple(zero, z, z)
  ROOT w = (s32[], f32[500,9], f32[500,9]) while(t), condition=below, body=next }"""


def compiled(text: str) -> Compiled:
    """Compiles a module and checks that its results agree with the interpreter's."""
    module = xla.parse_hlo(text, verify=True)
    executable = xla.Client("cpu").compile(module)
    arguments = random_arguments(executable.program_shape.parameters, 5)
    expected = leaves(xla.Client("interpreter").compile(module)(*arguments))
    for ours, theirs in zip(leaves(executable(*arguments)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-2)
    return compile_module(module)


def test_a_temporary_shares_the_memory_of_a_result_that_is_written_later():
    program = compiled(PRODUCTS).program
    thunks = [thunk for thunk in walk_thunks(program.thunks) if isinstance(thunk, KernelThunk)]
    first, second = (thunk.slices[-1] for thunk in thunks[:2])
    assert (first.number, first.offset, second.number) == (0, 0, -1)
    assert program.arena_size == second.size
    assert str(first) == "temporary@result0+0:f32[64,64]"


FRAGMENTS = """HloModule fragments
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main { x = f32[128,128] parameter(0)  y = f32[128,192] parameter(1)  z = f32[128,256] parameter(2)
  a = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[128,192] dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[192,256] dot(b, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  d = f32[192,192] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = f32[256,256] dot(c, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  f = f32[192,256] dot(d, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[192,256] dot(f, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  ROOT h = f32[] reduce(g, zero), dimensions={0,1}, to_apply=add }"""

UPDATE = """HloModule update
ENTRY main { x = f32[1024,1024] parameter(0)  y = f32[1024,1024] parameter(1)
  g = f32[1024,1024] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT w = f32[1024,1024] subtract(x, g) }"""

SOFTMAX = """HloModule softmax
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main { x = f32[8,32] parameter(0)  y = f32[96,32] parameter(1)
  s = f32[8,96] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = f32[8,96] exponential(s)  zero = f32[] constant(0)
  t = f32[8] reduce(e, zero), dimensions={1}, to_apply=add  b = f32[8,96] broadcast(t), dimensions={0}
  p = f32[8,96] divide(e, b)
  ROOT r = f32[8,32] dot(p, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""

ROWS_READ_AGAIN = """HloModule again
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main { x = f32[40,20] parameter(0)  y = f32[20,20] parameter(1)
  z = f32[40,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[40,20,20] broadcast(z), dimensions={0,1}  b = f32[40,20,20] broadcast(y), dimensions={1,2}
  c = f32[40,20,20] multiply(a, b)  zero = f32[] constant(0)
  s = f32[40,20] reduce(c, zero), dimensions={1}, to_apply=add
  ROOT r = f32[40,20] dot(s, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


def test_a_result_overwrites_an_operand_in_its_last_use():
    program = compiled(UPDATE).program
    product = next(thunk for thunk in walk_thunks(program.thunks) if isinstance(thunk, KernelThunk)).slices[-1]
    assert (program.arena_size, str(product)) == (0, "temporary@result0+0:f32[1024,1024]")


def test_rows_are_overwritten_after_their_last_use():
    program = compiled(SOFTMAX).program
    scores, softmax, _ = (thunk for thunk in walk_thunks(program.thunks) if isinstance(thunk, KernelThunk))
    assert scores.slices[-1] is softmax.slices[-1]
    assert program.arena_size == 8 * 96 * 4


def test_rows_that_are_read_for_every_element_are_not_overwritten():
    program = compiled(ROWS_READ_AGAIN).program
    first, second, _ = (thunk for thunk in walk_thunks(program.thunks) if isinstance(thunk, KernelThunk))
    assert first.slices[-1] is not second.slices[-1]


def test_states_with_equal_initial_values_are_filled_in_place():
    program = compiled(FILLED).program
    thunks = list(walk_thunks(program.thunks))
    assert program.arena_size == 0
    assert not any(isinstance(thunk, CopyThunk) and thunk.source.shape.rank for thunk in thunks)
    assert not any(slice_.storage is StorageClass.TEMPORARY and slice_.shape.rank > 1 for slice_ in _slots(thunks))


@pytest.mark.parametrize("seed", range(20))
def test_packed_temporaries_never_share_bytes_while_both_are_live(seed: int):
    draw = random.Random(seed)
    first: dict[BufferSlice, int] = {}
    last: dict[BufferSlice, int] = {}
    for _ in range(60):
        slice_ = BufferSlice(xla.Shape.array(U8, (draw.choice([1, 64, 100, 640, 1000, 4096]),)))
        first[slice_] = draw.randrange(100)
        last[slice_] = first[slice_] + draw.randrange(20)
    result = BufferSlice(xla.Shape.array(U8, (1000,)), StorageClass.RESULT, 0)
    memory = _ReusableResult(result, 50, None)
    ranges: Any = SimpleNamespace(first=first, last=last)
    packed = _largest_first(list(first), ranges, [memory])
    placed = [(*packed.offsets[s], s) for s in first]
    for n, (owner, offset, one) in enumerate(placed):
        assert offset % 64 == 0
        assert offset + one.size <= (packed.arena_size if owner is None else result.size)
        assert owner is None or last[one] < 50
        for other_owner, other_offset, other in placed[:n]:
            is_apart = offset + one.size <= other_offset or other_offset + other.size <= offset
            assert owner is not other_owner or is_apart or last[one] < first[other] or last[other] < first[one]


def test_temporaries_leave_no_fragments_that_make_the_arena_larger_than_what_is_live():
    program = compiled(FRAGMENTS).program
    ranges = LiveRanges(program.thunks)
    temporaries = [slice_ for slice_ in ranges.first if slice_.storage is StorageClass.TEMPORARY]
    live = [
        sum(slice_.size for slice_ in temporaries if ranges.first[slice_] <= position <= ranges.last[slice_])
        for position in range(max(ranges.last.values()) + 1)
    ]
    assert program.arena_size == max(live) > MIN_PACKED_BYTES


def _slots(thunks: list[Thunk]) -> list[BufferSlice]:
    return [slice_ for thunk in thunks if isinstance(thunk, KernelThunk) for slice_ in thunk.slices]


@pytest.mark.parametrize("seed", range(5))
def test_free_ranges_are_those_between_the_slices_that_are_placed(seed: int):
    """Best-fit among all free ranges, which are merged when their neighbors become free."""
    rng = random.Random(seed)
    free_list, placed = _FreeList(), dict[int, tuple[BufferSlice, int]]()
    for step in range(300):
        if placed and rng.random() < 0.45:
            slice_, offset = placed.pop(rng.choice(list(placed)))
            free_list.release(slice_, offset)
            continue
        slice_ = BufferSlice(Shape.array(U8, (rng.randrange(1, 1000),)))
        taken = sorted((offset, offset + aligned(other.size)) for other, offset in placed.values())
        begins = [0, *(end for _, end in taken)]
        gaps = [
            (begin, end - begin) for begin, end in zip(begins, [*(b for b, _ in taken), free_list.top], strict=True)
        ]
        fitting = sorted((length, offset) for offset, length in gaps if length >= slice_.size)
        last = gaps[-1][0]
        expected = fitting[0][1] if fitting else last
        placed[step] = slice_, free_list.allocate_or_grow(slice_)
        assert placed[step][1] == expected


def test_the_memories_of_results_that_are_not_computed_yet():
    rng = random.Random(0)
    results = [
        _ReusableResult(BufferSlice(Shape.array(U8, (rng.randrange(1, 400),))), rng.randrange(50), None)
        for _ in range(40)
    ]
    results.sort(key=lambda result: result.slice.size)
    memories = _Memories([_FreeList(result) for result in results])
    for first in range(51):
        slice_ = BufferSlice(Shape.array(U8, (rng.randrange(1, 300),)))
        expected = [r for r in results if r.until > first and r.slice.size >= slice_.size]
        assert [memory.result for memory in memories.candidates(slice_, first)] == expected
