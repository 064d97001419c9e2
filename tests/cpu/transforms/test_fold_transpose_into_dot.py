"""Transposed dots: which become dots with swapped operands, and that results are the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.transforms.fold_transpose_into_dot import FoldTransposeIntoDot
from xlapy.hlo.verify import verify

INTERPRETER = xla.Client("interpreter")


def program(permutation: str, result: str, numbers: str, *, further: str = "") -> str:
    dot = f"d = f32[3,4,6] dot(a, b), {numbers}, operand_precision={{highest,default}}"
    root = f"ROOT t = f32[{result}] transpose(d), dimensions={{{permutation}}}"
    lines = ["a = f32[3,4,5] parameter(0)", "b = f32[3,5,6] parameter(1)", dot, further, root]
    return "\n".join(["HloModule m", "ENTRY e {", *filter(None, lines), "}"])


BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"


def test_a_transposed_dot_swaps_its_operands():
    module = xla.parse_hlo(program("0,2,1", "3,6,4", BATCHED))
    random = np.random.default_rng(0)
    arguments = [random.integers(-9, 9, shape).astype(np.float32) for shape in ((3, 4, 5), (3, 5, 6))]
    before = np.asarray(INTERPRETER.compile(module)(*arguments))
    assert FoldTransposeIntoDot().run(module)
    verify(module)
    assert [i.op.name for i in module.entry_computation] == ["parameter", "parameter", "dot"]
    assert "operand_precision={default,highest}" in module.to_text()
    np.testing.assert_array_equal(np.asarray(INTERPRETER.compile(module)(*arguments)), before)


@pytest.mark.parametrize(
    "text",
    [
        program("2,1,0", "6,4,3", BATCHED),  # the batch dimension does not stay first
        program("0,2,1", "3,6,4", BATCHED, further="n = f32[3,4,6] negate(d)"),  # the dot has another user
        program("0,2,1", "3,6,4", BATCHED + ", algorithm=dot_tf32_tf32_f32_x3"),  # the algorithm is not symmetric
    ],
)
def test_others_stay(text: str):
    assert not FoldTransposeIntoDot().run(xla.parse_hlo(text))
