"""Reductions of rows beside a transpose: which are aligned with it, and that results are the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.transforms.align_reductions import AlignReductions
from xlapy.hlo.verify import verify

INTERPRETER = xla.Client("interpreter")


def program(order: str = "2,0,1,3", broadcast: str = "1,2,0", *, further: str = "") -> str:
    lines = [
        "x = f32[2,3,4,5] parameter(0)",
        "low = f32[] constant(-inf)",
        "n = f32[2,3,4,5] negate(x)",
        "m = f32[2,3,4] reduce(n, low), dimensions={3}, to_apply=max",
        f"t = f32[4,2,3,5] transpose(n), dimensions={{{order}}}",
        f"b = f32[4,2,3,5] broadcast(m), dimensions={{{broadcast}}}",
        further,
        "ROOT r = f32[4,2,3,5] subtract(t, b)",
    ]
    maximum = "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }"
    return "\n".join(["HloModule m", maximum, "ENTRY e {", *filter(None, lines), "}"])


def test_rows_are_reduced_in_the_order_of_the_transpose():
    module = xla.parse_hlo(program())
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    before = np.asarray(INTERPRETER.compile(module)(x))
    assert AlignReductions().run(module)
    verify(module)
    (reduce,) = (i for i in module.entry_computation if i.op is xla.opcodes.REDUCE)
    assert reduce.shape.dimensions == (4, 2, 3)
    assert reduce.operands[0].op is xla.opcodes.TRANSPOSE
    np.testing.assert_array_equal(np.asarray(INTERPRETER.compile(module)(x)), before)
    assert not AlignReductions().run(module)


@pytest.mark.parametrize(
    "text",
    [
        program(further="f = f32[2,3,4] floor(m)"),  # another user wants the original order
        program(further="f = f32[2,3,4,5] floor(n)"),  # so does another user of the array
        program(order="2,0,1,3", broadcast="0,2,1").replace("2,3,4,5]", "4,4,4,5]").replace("4,2,3,5]", "4,4,4,5]")
        .replace("f32[2,3,4]", "f32[4,4,4]"),  # the broadcast permutes rows in another way
        program(order="3,0,1,2", broadcast="1,2,3").replace("4,2,3,5", "5,2,3,4"),  # rows are not last any more
    ],
)  # fmt: skip
def test_others_stay(text: str):
    assert not AlignReductions().run(xla.parse_hlo(text))
