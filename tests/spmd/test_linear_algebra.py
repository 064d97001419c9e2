"""Linear algebra of split arrays."""

from __future__ import annotations

import numpy as np
import pytest

from tests.spmd.sharded_runs import collectives_of, run_sharded


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
