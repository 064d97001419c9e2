"""A user's program that type checkers accept: builder, module, client. `test_user_programs.py` checks and runs it."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import xlapy as xla
from xlapy import ops


def axpy() -> xla.XlaComputation:
    """Builds a * x + y."""
    builder = xla.XlaBuilder("axpy")
    a = ops.parameter(builder, 0, xla.Shape.parse("f32[]"), "a")
    x = ops.parameter(builder, 1, xla.Shape.parse("f32[4]"), "x")
    product = xla.ops.mul(a, x)
    assert_type(product, xla.XlaOp)
    ops.add(product, np.ones(4, np.float32))
    return builder.build()


def with_operators() -> xla.XlaComputation:
    """Builds a computation with Python's operators; each of them gives an XlaOp."""
    builder = xla.XlaBuilder("operators")
    x = ops.parameter(builder, 0, xla.Shape.parse("f32[4]"), "x")
    assert_type(x.builder, xla.XlaBuilder)
    assert_type(x + x, xla.XlaOp)
    assert_type(2 * x - np.ones(4, np.float32), xla.XlaOp)
    assert_type(-abs(x) / x % x**2, xla.XlaOp)
    assert_type(x @ x, xla.XlaOp)
    assert_type((x < 1) & ~(x == x) | (x != 0), xla.XlaOp)
    assert_type(x[0], xla.XlaOp)
    assert_type(x[None, 1:3], xla.XlaOp)
    bits = x.astype(xla.PrimitiveType.from_text("s32"))
    assert_type(bits << 1 >> 2 ^ bits, xla.XlaOp)
    for element in x:
        assert_type(element, xla.XlaOp)
    return builder.build()


def opcode_names(module: xla.Module) -> list[str]:
    """The opcodes of the entry computation, in order."""
    entry = module.entry_computation
    assert_type(entry, xla.Computation)
    names: list[str] = []
    for instruction in entry:
        assert_type(instruction, xla.Instruction)
        names.append(instruction.op.name)
    return names


def first_device(client: xla.Client) -> xla.Device:
    """The first device of a client."""
    return client.devices[0]


computation = axpy()
with_operators()
text: str = computation.as_hlo_text()
module = xla.parse_hlo(text)
print(opcode_names(module), module.to_text() == text, xla.__version__ != "")
client = xla.Client("interpreter")
print(first_device(client), np.asarray(client.compile(computation)(2.0, np.arange(4, dtype=np.float32))).tolist())
