"""Copies that need no other device; the other transfers say what they wait for."""

from __future__ import annotations

import numpy as np
import pytest

from xlapy.base.errors import UnsupportedError
from xlapy.interpreter import Context, evaluate_computation
from xlapy.text import parse_hlo

COPY = """
HloModule copies

ENTRY main {
  p = f32[3] parameter(0)
  start = (f32[3], f32[3], u32[]) copy-start(p)
  context = u32[] get-tuple-element(start), index=2
  done = f32[3] copy-done(start)
  ROOT both = (f32[3], u32[], (f32[3], f32[3], u32[])) tuple(done, context, start)
}
"""


def test_copy_start_gives_the_copy_the_operand_and_a_context() -> None:
    operand = np.array([1, -0.0, np.nan], np.float32)
    done, context, start = evaluate_computation(Context(), parse_hlo(COPY).entry_computation, [operand])
    for value in (done, start[0], start[1]):
        assert value.tobytes() == operand.tobytes() and value.dtype == np.float32
    assert (context.dtype, context.shape, len(start)) == (np.uint32, (), 3)


@pytest.mark.parametrize("instruction", [
    "(f32[2], token[]) infeed(t)", "(f32[2], u32[], token[]) recv(t), channel_id=1",
])  # fmt: skip
def test_transfers_between_devices_are_refused(instruction: str) -> None:
    text = f"HloModule m\n\nENTRY e {{\n  t = token[] after-all()\n  ROOT r = {instruction}\n}}\n"
    with pytest.raises(UnsupportedError, match="needs queues and channels between devices"):
        evaluate_computation(Context(), parse_hlo(text).entry_computation, [])
