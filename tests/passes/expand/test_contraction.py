"""Expansion of ragged and scaled dots into dots."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.runner import execute, program, run_passes
from xlapy.hlo.edit import clone_module
from xlapy.testing.comparison import assert_close
from xlapy.text import parse_hlo

FORMS = {
    "free": (
        "f32[2,6,3] f32[3,3,2,4] f32[2,6,4]",
        "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={2}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={1}, rhs_group_dims={0}",
    ),
    "contracting": (
        "f32[2,5,6] f32[2,6,4] f32[3,2,5,4]",
        "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={2}",
    ),
    "batch": (
        "f32[6,2,3] f32[6,3,4] f32[6,2,4]",
        "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}",
    ),
}


@pytest.mark.parametrize("mode", FORMS)
@pytest.mark.parametrize("sizes", [[2, 0, 3], [4, 4, 4], [0, 0, 0], [[1, 2, 3], [3, 1, 0]]])
def test_rows_outside_all_groups_are_ignored(mode, sizes):
    shapes, attributes = FORMS[mode]
    lhs, rhs, result = shapes.split()
    groups = np.asarray(sizes, np.int32)
    if mode == "batch" and groups.ndim > 1:
        groups = groups[0]
    before = parse_hlo(
        program(
            f"a = {lhs} parameter(0)",
            f"b = {rhs} parameter(1)",
            f"c = s32[{','.join(map(str, groups.shape))}] parameter(2)",
            f"ROOT r = {result} ragged-dot(a, b, c), {attributes}",
        )
    )
    after = clone_module(before)
    assert run_passes(after, "expand{ops=ragged-dot}")
    rng = np.random.default_rng(0)
    left, right = (
        rng.standard_normal(p.shape.dimensions).astype(np.float32) for p in before.entry_computation.parameters[:2]
    )
    left.flat[5] = right.flat[-1] = np.nan
    arguments = [left, right, groups]
    assert_close(execute(after, arguments), execute(before, arguments), rule="bits")
