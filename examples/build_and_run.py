"""Builds a program with `XlaBuilder`, prints it as HLO text and runs it: a * x + y, with y added to every row of x."""

import numpy as np

import xlapy as xla
from xlapy import ops

builder = xla.XlaBuilder("axpy")
a = ops.parameter(builder, 0, xla.Shape.parse("f32[]"), "a")
x = ops.parameter(builder, 1, xla.Shape.parse("f32[2,3]"), "x")
y = ops.parameter(builder, 2, xla.Shape.parse("f32[3]"), "y")
ops.add(a * x, y, broadcast_dimensions=[1])  # dimension 0 of y is dimension 1 of x; the last op is the result
computation = builder.build()
print(computation.as_hlo_text())

axpy = xla.Client("interpreter").compile(computation)
matrix = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
result = np.asarray(axpy(2.0, matrix, [10, 20, 30]))  # Python numbers and lists take the parameter's type
print(result)
assert np.array_equal(result, 2 * matrix + [10, 20, 30])

try:
    axpy(2.0, matrix, np.zeros(4, np.float32))
except xla.errors.InvalidArgumentError as error:
    print(f"refused: {error}")
