"""Operations that need elements of other tiles get those alone, and compute what the whole program computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.spmd.halo_programs import KINDS, random_program
from tests.spmd.sharded_runs import collectives_of, run_sharded
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module

ROWS = "{devices=[4,1]<=[4]}"


def _run_random(kind: str, seeds: range) -> None:
    for seed in seeds:
        program = random_program(random.Random(seed), kind)
        run_sharded(program.text, program.devices, program.arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str) -> None:
    _run_random(kind, range(8))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_programs(kind: str) -> None:
    _run_random(kind, range(100, 250))


def _sent(module: Module) -> dict[str, list[str]]:
    """Returns the shapes that each kind of collective sends, sorted."""
    found: dict[str, list[str]] = {}
    for instruction in module.instructions():
        if instruction.op.name in collectives_of(module):
            shapes = [operand.shape.to_text(layout=False) for operand in instruction.operands]
            found.setdefault(instruction.op.name, []).extend(shapes)
    return {name: sorted(shapes) for name, shapes in found.items()}


def _array(shape: str) -> np.ndarray:  # type: ignore[type-arg]
    parsed = Shape.parse(shape)
    return (np.arange(int(np.prod(parsed.dimensions))) % 17 - 8).astype(np.float32).reshape(parsed.dimensions)


SENT = {
    "window of three": ("reduce-window(x, z), window={size=3x1 pad=1_1x0_0}, to_apply=sum", 16,
                        ["f32[1,8]", "f32[1,8]"]),
    "window wider than a tile": ("reduce-window(x, z), window={size=13x1 pad=6_6x0_0}, to_apply=sum", 16,
                                 ["f32[2,8]", "f32[2,8]", "f32[4,8]", "f32[4,8]"]),
    "pooling": ("reduce-window(x, z), window={size=2x1 stride=2x1}, to_apply=sum", 8, []),
    "shift": ("pad(x, z), padding=3_-3x0_0", 16, ["f32[3,8]"]),
    "every second row": ("slice(x), slice={[1:16:2],[0:8]}", 8, []),
    "reverse": ("reverse(x), dimensions={0}", 16, ["f32[4,8]"]),
    "concatenate": ("concatenate(x, x), dimensions={0}", 32, ["f32[4,8]", "f32[4,8]", "f32[4,8]", "f32[4,8]"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SENT)
def test_only_needed_elements_are_sent(name: str) -> None:
    body, size, shapes = SENT[name]
    text = f"""HloModule m
      sum {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b) }}
      ENTRY e {{ x = f32[16,8] parameter(0), sharding={ROWS}
        z = f32[] constant(0)
        ROOT r = f32[{size},8] {body}, sharding={ROWS} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[16,8]")])
    assert _sent(module) == ({"collective-permute": shapes} if shapes else {})


@pytest.mark.parametrize(("shift", "shapes"), [(3, ["f32[3,8]"]), (5, ["f32[1,8]", "f32[3,8]"]), (4, ["f32[4,8]"])])
def test_rotations_send_what_moves_to_another_tile(shift: int, shapes: list[str]) -> None:
    """A rotation by less than a tile keeps the rest of the tile; one by a tile sends it once."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[16,8] parameter(0), sharding={ROWS}
        a = f32[{shift},8] slice(x), slice={{[{16 - shift}:16],[0:8]}}
        b = f32[{16 - shift},8] slice(x), slice={{[0:{16 - shift}],[0:8]}}
        ROOT r = f32[16,8] concatenate(a, b), dimensions={{0}}, sharding={ROWS} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[16,8]")])
    assert _sent(module) == {"collective-permute": shapes}


def test_convolutions_over_a_mesh_of_two_spatial_dimensions_send_edges_and_corners() -> None:
    cut = "{devices=[1,2,2,1]<=[4]}"
    text = f"""HloModule m
      ENTRY e {{ x = f32[1,8,12,3] parameter(0), sharding={cut}
        k = f32[3,3,3,5] parameter(1)
        ROOT r = f32[1,8,12,5] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f,
          sharding={cut} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[1,8,12,3]"), _array("f32[3,3,3,5]")])
    assert _sent(module) == {"collective-permute": ["f32[1,1,6,3]", "f32[1,1,6,3]", "f32[1,6,1,3]", "f32[1,6,1,3]"]}


def test_kernel_gradients_are_summed_over_tiles_of_space() -> None:
    cut = "{devices=[1,4,1]<=[4]}"
    text = f"""HloModule m
      ENTRY e {{ x = f32[2,16,3] parameter(0), sharding={cut}
        g = f32[2,16,5] parameter(1), sharding={cut}
        ROOT r = f32[3,3,5] convolution(x, g), window={{size=16 pad=1_1}}, dim_labels=f0b_i0o->b0f,
          sharding={{replicated}} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[2,16,3]"), _array("f32[2,16,5]")])
    assert _sent(module) == {"all-reduce": ["f32[3,3,5]"], "collective-permute": ["f32[2,1,3]", "f32[2,1,3]"]}


POOLING = """HloModule m
  greatest { a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = pred[] compare(a, b), direction=GE }
  add { a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = f32[] add(a, b) }
  ENTRY e { x = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}
    s = f32[ROWS,8] parameter(1), sharding={devices=[4,1]<=[4]}
    z = f32[] constant(0)
    ROOT r = f32[16,8] select-and-scatter(x, s, z), window={WINDOW}, select=greatest, scatter=add,
      sharding={devices=[4,1]<=[4]} }"""


def test_gradients_of_pooling_without_overlap_send_nothing() -> None:
    text = POOLING.replace("ROWS", "8").replace("WINDOW", "size=2x1 stride=2x1")
    module, _ = run_sharded(text, 4, [_array("f32[16,8]"), _array("f32[8,8]")])
    assert _sent(module) == {}


def test_padding_of_gradients_of_pooling_is_never_selected() -> None:
    """Windows at the edge hold NaN and the least value alone, which padding with that value would be equal to."""
    text = POOLING.replace("ROWS", "16").replace("WINDOW", "size=3x1 pad=1_1x0_0")
    x = _array("f32[16,8]")
    x[:3, :4], x[-3:, 2:] = -np.inf, np.nan
    module, _ = run_sharded(text, 4, [x, _array("f32[16,8]")])
    assert _sent(module) == {"collective-permute": ["f32[1,8]", "f32[1,8]", "f32[2,8]", "f32[2,8]"]}


@pytest.mark.parametrize("start", [-1, 0, 3, 6, 11, 40])
def test_slices_at_run_time_are_summed_and_updates_stay_local(start: int) -> None:
    """A slice of 5 rows overlaps up to three tiles of 4 rows."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[16,8] parameter(0), sharding={ROWS}
        i = s32[] parameter(1)
        j = s32[] constant(0)
        y = f32[5,8] dynamic-slice(x, i, j), dynamic_slice_sizes={{5,8}}
        z = f32[5,8] negate(y), sharding={{replicated}}
        ROOT r = f32[16,8] dynamic-update-slice(x, z, i, j), sharding={ROWS} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[16,8]"), np.int32(start)])
    assert _sent(module) == {"all-reduce": ["f32[5,8]"]}


def test_spans_of_whole_arrays_are_not_sent() -> None:
    text = f"""HloModule m
      ENTRY e {{ x = f32[16,8] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[16,8] pad(x, z), padding=3_-3x0_0, sharding={ROWS} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[16,8]")])
    assert _sent(module) == {}


def test_padding_that_would_change_a_result_is_not_split() -> None:
    """The initial value enters once for each window, not once for each element of the padding."""
    text = f"""HloModule m
      sum {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b) }}
      ENTRY e {{ x = f32[16,8] parameter(0), sharding={ROWS}
        z = f32[] constant(5)
        ROOT r = f32[16,8] reduce-window(x, z), window={{size=3x1 pad=1_1x0_0}}, to_apply=sum, sharding={ROWS} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[16,8]")])
    assert collectives_of(module) == {"all-gather"}


EMPTY = {
    "slice with a stride": "f32[0,8] slice(x), slice={[16:16:2],[0:8]}",
    "pad of nothing": "f32[0,8] pad(n, z), padding=0_0x0_0",
    "shortened pad": "f32[0,8] pad(x, z), padding=-8_-8x0_0",
    "windows": "f32[0,8] reduce-window(n, z), window={size=1x1 stride=2x1}, to_apply=sum",
    "concatenate of nothing": "f32[0,8] concatenate(n, n), dimensions={0}",
}


@pytest.mark.parametrize("name", EMPTY)
def test_arrays_without_elements_need_no_exchange(name: str) -> None:
    text = f"""HloModule m
      sum {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b) }}
      ENTRY e {{ x = f32[16,8] parameter(0), sharding={ROWS}
        z = f32[] constant(5)
        n = f32[0,8] slice(x), slice={{[3:3],[0:8]}}, sharding={ROWS}
        y = {EMPTY[name]}, sharding={ROWS}
        ROOT r = f32[16,8] concatenate(y, x), dimensions={{0}}, sharding={ROWS} }}"""
    module, _ = run_sharded(text, 4, [_array("f32[16,8]")])
    assert _sent(module) == {}


def test_an_array_without_elements_that_stays_in_a_concatenation() -> None:
    """The concatenate has another sharding than its only operand with elements, so it is not replaced by that."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[16,8] parameter(0), sharding={ROWS}
        y = f32[16,8] negate(x), sharding={{replicated}}
        n = f32[0,8] slice(x), slice={{[3:3],[0:8]}}
        ROOT r = f32[16,8] concatenate(y, n), dimensions={{0}}, sharding={ROWS} }}"""
    run_sharded(text, 4, [_array("f32[16,8]")])


@pytest.mark.filterwarnings("error")
def test_windows_over_padding_alone() -> None:
    """The tiles of an array without elements have no size to divide by."""
    text = """HloModule m
      most { a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] maximum(a, b) }
      ENTRY e { x = f32[16] parameter(0), sharding={devices=[4]<=[4]}
        z = f32[] constant(5)
        n = f32[0] slice(x), slice={[3:3]}
        ROOT r = f32[8] reduce-window(n, z), window={size=2 pad=4_5}, to_apply=most,
          sharding={devices=[4]<=[4]} }"""
    run_sharded(text, 4, [_array("f32[16]")])
