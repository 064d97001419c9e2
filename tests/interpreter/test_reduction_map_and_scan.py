"""Map and scan: values, and comparison with XLA:CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests import xla_reference
from tests.interpreter.runners.instruction import run_text
from tests.interpreter.runners.reduction import evaluate
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.samples import samples_of
from xlapy.text import parse_hlo

SAMPLES = {sample.name: sample.text for sample in samples_of("reduction")}
RUN_BY_XLA = [
    sample.name
    for sample in samples_of("reduction")
    if sample.name.startswith(("map_", "scan_")) and "aborts XLA:CPU" not in sample.note
]


class TestMap:
    def test_each_element(self):
        result = evaluate("map", [[1, 2, 3], [10, 20, 30]], "s32[3]", "dimensions={0}, to_apply=subtract.s32")
        assert result.tolist() == [-9, -18, -27]

    def test_a_scalar_beside_arrays_is_used_at_every_index(self):
        result = evaluate("map", [[[1, 2], [3, 4]], 10], "s32[2,2]", "dimensions={0,1}, to_apply=subtract.s32")
        assert result.tolist() == [[-9, -8], [-7, -6]]

    def test_no_elements(self):
        empty = np.zeros((0, 3), np.float32)
        assert evaluate("map", [empty, empty], "f32[0,3]", "dimensions={0,1}, to_apply=add.f32").shape == (0, 3)

    def test_another_element_type(self):
        result = evaluate("map", [[1.0, np.nan], [1.0, 2.0]], "pred[2]", "dimensions={0}, to_apply=GE.f32")
        assert result.tolist() == [True, False]

    def test_branches(self):
        result = run_text(SAMPLES["map_with_branches"], np.array([-4, -0.0, 0, 3, np.nan], np.float32))
        assert result.tolist()[:4] == [-2, 0, 0, 6]
        assert np.isnan(result[4])

    def test_nested_loops_end_independently(self):
        result = run_text(SAMPLES["map_with_loop"], np.array([0, 1, 2, 255, 256, 2**32 - 1], np.uint32))
        assert result.tolist() == [0, 1, 2, 8, 9, 32]

    def test_arrays_inside(self):
        x, y = np.array([3, 5, 0, 1], np.float32), np.array([4, 12, 0, 1], np.float32)
        assert run_text(SAMPLES["map_with_arrays"], x, y).tolist() == [25, 169, 0, 2]

    def test_a_constant(self):
        assert run_text(SAMPLES["map_constant"], np.zeros(3, np.float32)).tolist() == [7, 7, 7]


class TestScan:
    def test_running_sum(self):
        operand = np.array([1, 2, 3, 4, 5], np.float32)
        values, last = run_text(SAMPLES["scan_unspecified"], operand, np.float32(10))
        assert (values.tolist(), last) == ([11, 13, 16, 20, 25], 25)

    def test_reverse(self):
        operand = np.array([1, 2, 3, 4, 5], np.float32)
        values, last = run_text(SAMPLES["scan_reverse"], operand, np.float32(10))
        assert (values.tolist(), last) == ([25, 24, 22, 19, 15], 25)

    def test_a_dimension_in_the_middle(self):
        operand = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        init = np.full((2, 4), 100, np.float32)
        values, last, count = run_text(SAMPLES["scan_middle_dimension"], operand, init, np.int32(7))
        expected = operand + np.stack([init, operand[:, 0], operand[:, 1]], axis=1)
        assert np.array_equal(values, expected)
        assert np.array_equal(last, operand[:, 2])
        assert count == 10

    def test_no_inputs(self):
        values, last = run_text(SAMPLES["scan_without_inputs"], np.int32(3))
        assert (values.tolist(), last) == ([3, 6, 12, 24, 48, 96], 192)

    def test_no_carries(self):
        operand = np.arange(6, dtype=np.float32).reshape(3, 2)
        assert np.array_equal(run_text(SAMPLES["scan_without_carries"], operand), -operand)

    def test_no_steps(self):
        text = SAMPLES["scan_unspecified"].replace("f32[5]", "f32[0]")
        values, last = run_text(text, np.zeros(0, np.float32), np.float32(10))
        assert (values.shape, last) == ((0,), 10)


@pytest.mark.parametrize("name", RUN_BY_XLA)
def test_samples_agree_with_xla(name: str):
    parameters = [p.shape for p in parse_hlo(SAMPLES[name]).entry_computation.parameters]
    arguments = random_arguments(parameters, seed=5)
    ours, theirs = run_text(SAMPLES[name], *arguments), xla_reference.run_hlo(SAMPLES[name], arguments, fast=True)
    assert_close(ours, theirs, rule="exact", flush_denormals=True, where=name)
