"""Called computations that a kernel can contain."""

from __future__ import annotations

import pytest

from xlapy import opcodes
from xlapy.lower import LOWERINGS
from xlapy.lower.scalar_computations import applies_unlowerable_computation
from xlapy.opcodes.registry import REGISTRY, Effect
from xlapy.text import parse_hlo

REDUCE = """HloModule m
plain { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
nested { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] call(a, b), to_apply=plain }
draws {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] rng(a, b), distribution=rng_uniform
}
ENTRY main {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(x, zero), dimensions={0}, to_apply=REDUCER
}"""


def test_every_op_with_a_lowering_is_pure():
    """A kernel may compute an element any number of times, or never."""
    impure = [op.name for op in REGISTRY.values() if op in LOWERINGS and op.effect is not Effect.PURE]
    assert impure == []
    assert opcodes.RNG not in LOWERINGS


@pytest.mark.parametrize(("reducer", "falls_back"), [("plain", False), ("nested", False), ("draws", True)])
def test_reducers(reducer: str, falls_back: bool):
    module = parse_hlo(REDUCE.replace("REDUCER", reducer))
    assert applies_unlowerable_computation(module.entry_computation.root_instruction) is falls_back
