"""Built programs on XLA:CPU: jaxlib prints the same text and computes the same values as the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests import xla_reference
from tests.builder.programs import parameters, run
from xlapy import ops
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp
from xlapy.hlo.verify import verify

X = np.float32([[1, -2, 3.5], [0.25, 5, -6]])
V = np.float32([7, 8, 9])
I = np.int32(1)  # noqa: E741


def polynomial(x: XlaOp, v: XlaOp, _: XlaOp) -> XlaOp:
    return ops.add(x * x - 2 / (1 + abs(x)), v, [1]) % 3


def broadcasts(x: XlaOp, v: XlaOp, _: XlaOp) -> XlaOp:
    column = ops.reshape(v, [3, 1])
    return ops.sub(ops.broadcast_in_dim(column, [2, 3, 4], [1, 2]), ops.max(x[:, :, None], v, [1]))


def slices(x: XlaOp, v: XlaOp, i: XlaOp) -> XlaOp:
    parts = [x[::-1, ::2], ops.pad(x[:, 1:], v[0], [(0, 0), (1, -1, 1)])]
    joined = ops.concat_in_dim(x.builder, parts, 1)
    return ops.dynamic_update_slice(joined, x[i, 0:2][None] * 100, [i, 1])


def choices(x: XlaOp, v: XlaOp, i: XlaOp) -> XlaOp:
    def pair(a: XlaOp, b: XlaOp) -> XlaOp:
        return ops.tuple(a.builder, [a, ops.tuple(a.builder, [b])])

    first, (second,) = ops.select(i > 0, pair(x, v), pair(x + 1, v * 2))
    return ops.tuple(
        x.builder, [ops.clamp(-1, first, 4), second, ops.select(x > 0, x, 0), i.astype("u8") << 7 >> 3, x == 5]
    )


def branches(x: XlaOp, v: XlaOp, i: XlaOp) -> XlaOp:
    return ops.conditional(i, [function("double", v, lambda a: a + a), function("negate", v, ops.neg)], [v, v])


def loop(x: XlaOp, v: XlaOp, i: XlaOp) -> XlaOp:
    state = ops.tuple(x.builder, [i, v])
    condition = function("condition", state, lambda s: s[0] < 6)
    body = function("body", state, lambda s: ops.tuple(s.builder, [s[0] + 1, s[1][::-1] * 1.5]))
    return ops.while_(condition, body, state)


def function(name: str, like: XlaOp, make: Callable[[XlaOp], XlaOp]) -> XlaComputation:
    builder = XlaBuilder(name)
    return builder.build(make(ops.parameter(builder, 0, like.shape, "a")))


@pytest.mark.parametrize("program", [polynomial, broadcasts, slices, choices, branches, loop])
def test_same_text_and_values(program: Callable[[XlaOp, XlaOp, XlaOp], XlaOp]) -> None:
    x, v, i = parameters("f32[2,3]", "f32[3]", "s32[]")
    computation = x.builder.build(program(x, v, i))
    verify(computation.module)
    text = computation.as_hlo_text(print_large_constants=True)
    assert xla_reference.parse_and_print(text, print_large_constants=True) == text
    ours, theirs = run(computation, X, V, I), xla_reference.run_hlo(text, [X, V, I], fast=True)
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-6)
