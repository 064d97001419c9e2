"""Computes square roots by Newton's iteration: a loop until nothing changes, and a branch for negative input."""

import numpy as np

import xlapy as xla
from xlapy import ops

F32, S32 = xla.Shape.parse("f32[]"), xla.Shape.parse("s32[]")
STATE = xla.Shape.parse("(f32[], f32[], f32[], s32[])")  # the number, the guess, the previous guess, the step


def unpack(state: xla.XlaOp) -> list[xla.XlaOp]:
    return [ops.get_tuple_element(state, index) for index in range(4)]


def should_continue() -> xla.XlaComputation:
    """Returns whether to continue: the last step changed the guess, and there were fewer than 100 steps."""
    builder = xla.XlaBuilder("should_continue")
    _, guess, previous, step = unpack(ops.parameter(builder, 0, STATE, "state"))
    ops.and_(ops.ne(guess, previous), step < 100)
    return builder.build()


def improve() -> xla.XlaComputation:
    builder = xla.XlaBuilder("improve")
    number, guess, _, step = unpack(ops.parameter(builder, 0, STATE, "state"))
    ops.tuple(builder, [number, (guess + number / guess) * 0.5, guess, step + 1])
    return builder.build()


def newton() -> xla.XlaComputation:
    builder = xla.XlaBuilder("newton")
    number = ops.parameter(builder, 0, F32, "number")
    zero = ops.constant(builder, np.float32(0))
    start = ops.tuple(builder, [number, number + 1.0, zero, ops.constant(builder, np.int32(0))])
    state = ops.while_(should_continue(), improve(), start)
    ops.get_tuple_element(state, 1)
    return builder.build()


def not_a_number() -> xla.XlaComputation:
    builder = xla.XlaBuilder("not_a_number")
    ops.parameter(builder, 0, F32, "number")
    ops.constant(builder, np.float32("nan"))
    return builder.build()


builder = xla.XlaBuilder("square_root")
number = ops.parameter(builder, 0, F32, "number")
ops.conditional(number > 0.0, number, newton(), number, not_a_number())
square_root = xla.Client("interpreter").compile(builder.build())

for value in (2.0, 9.0, 1e6, -1.0):
    result = float(square_root(value))
    print(f"square root of {value:g}: {result:.7g}")
    assert np.isclose(result, np.sqrt(value), rtol=1e-6) if value > 0 else np.isnan(result)
