"""Expansion of topk into a sort of elements and indices."""

from __future__ import annotations

import pytest

from tests.passes.runner import program, rewritten


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("values", ["{nan, 0, -0, -nan, inf, 0, -inf, -0, 1}", "{2, 1, 2, 1, 2, 1, 2, 1, 2}"])
def test_ties_zeros_and_nan_come_in_the_total_order(values, largest):
    text = program(f"p = f32[9] constant({values})", f"ROOT t = (f32[7], s32[7]) topk(p), k=7, largest={largest}")
    assert " topk(" not in rewritten(text, "expand{ops=topk}")
