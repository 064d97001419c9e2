"""Linear algebra of split arrays."""

from __future__ import annotations

import numpy as np
import pytest

from tests.spmd.sharded_runs import collectives_of, run_sharded
from xlapy.spmd import resharding


@pytest.mark.parametrize(("left_side", "shape", "tiles"), [("true", "2,4,10", "1,1,8"), ("false", "2,12,4", "1,4,1")])
def test_right_hand_sides_of_a_triangular_solve_are_split(left_side: str, shape: str, tiles: str) -> None:
    devices = max(map(int, tiles.split(",")))
    split = f"{{devices=[{tiles}]<=[{devices}]}}"
    text = f"""HloModule m
      ENTRY e {{ a = f64[2,4,4] parameter(0)
        b = f64[{shape}] parameter(1)
        c = f64[{shape}] copy(b), sharding={split}
        s = f64[{shape}] triangular-solve(a, c), left_side={left_side}, lower=true, transpose_a=NO_TRANSPOSE
        ROOT r = f64[{shape}] negate(s), sharding={{replicated}} }}"""
    matrix = np.tril(np.random.default_rng(0).integers(1, 3, (2, 4, 4))).astype(np.float64)
    sides = np.arange(float(np.prod([int(size) for size in shape.split(",")]))).reshape(
        [int(size) for size in shape.split(",")]
    )
    module, _ = run_sharded(text, devices, [matrix, sides])
    (solve,) = [i for i in module.instructions() if i.op.name == "triangular-solve"]
    assert solve.shape.size < np.prod([int(size) for size in shape.split(",")])
    assert collectives_of(module) == {"all-gather"}


FREE = (
    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={2}, "
    "lhs_ragged_dims={1}, rhs_group_dims={0}"
)
OTHERS = (
    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={%d}"
)
RAGGED_DOTS = {
    "free": (FREE, (3, 10, 5), (4, 3, 5, 6), (3, 10, 6)),
    "contracting": (OTHERS % 2, (3, 5, 10), (3, 10, 6), (4, 3, 5, 6)),
    "batch": (OTHERS % 0, (10, 3, 5), (10, 5, 6), (10, 3, 6)),
}


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("has_sizes_per_batch", [False, True])
@pytest.mark.parametrize(
    ("mode", "left", "right", "local", "collective"),
    [
        ("free", (1, 4, 1), None, (3, 3, 6), "all-gather"),  # rows of groups
        ("free", (3, 1, 1), None, (1, 10, 6), "all-gather"),
        ("free", (1, 1, 4), (1, 1, 4, 1), (3, 10, 6), "all-reduce"),
        ("free", None, (1, 1, 1, 3), (3, 10, 2), "all-gather"),
        ("free", None, (4, 1, 1, 1), (3, 10, 6), "all-reduce"),  # groups
        ("contracting", (1, 1, 8), (1, 8, 1), (4, 3, 5, 6), "all-reduce"),
        ("contracting", (1, 4, 1), None, (4, 3, 2, 6), "all-gather"),
        ("batch", (4, 1, 1), (4, 1, 1), (3, 3, 6), "all-gather"),
    ],
)
def test_ragged_dots_are_split(
    mode: str,
    left: tuple[int, ...] | None,
    right: tuple[int, ...] | None,
    local: tuple[int, ...],
    collective: str,
    has_sizes_per_batch: bool,
    platform: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What fills up the last tiles is NaN, which would spread; some rows belong to no group, some groups are empty."""
    monkeypatch.setattr(resharding, "FILLING_VALUE", float("nan"))
    attributes, *shapes = RAGGED_DOTS[mode]
    devices = max([*(left or ()), *(right or ())])
    given, weights, result = [f"f32[{','.join(map(str, shape))}]" for shape in shapes]
    splits = [
        f"{{devices=[{','.join(map(str, tiles))}]<=[{devices}]}}" if tiles else "{replicated}"
        for tiles in (left, right)
    ]
    sizes = np.array([3, 0, 4, 1], np.int32)
    if has_sizes_per_batch and mode != "batch":
        sizes = np.array([[3, 0, 4, 1], [0, 0, 0, 10], [2, 7, 1, 0]], np.int32)
    text = f"""HloModule m
      ENTRY e {{ a = {given} parameter(0)
        b = {weights} parameter(1)
        c = s32[{",".join(map(str, sizes.shape))}] parameter(2)
        x = {given} copy(a), sharding={splits[0]}
        y = {weights} copy(b), sharding={splits[1]}
        d = {result} ragged-dot(x, y, c), {attributes}
        ROOT r = {result} copy(d), sharding={{replicated}} }}"""
    generator = np.random.default_rng(0)
    values = [generator.integers(-4, 4, shape).astype(np.float32) for shape in shapes[:2]]
    module, _ = run_sharded(text, devices, [*values, sizes], platform)
    (dot,) = [i for i in module.instructions() if i.op.name == "ragged-dot"]
    assert dot.shape.dimensions == local
    assert collectives_of(module) == {collective}
