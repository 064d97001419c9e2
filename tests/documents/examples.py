"""Builds examples of the XLA documents with XlaBuilder and runs them on the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xlapy as xla
from xlapy import ops

CLIENT = xla.Client("interpreter")

Array = np.ndarray[Any, Any]


def f32(values: Any) -> Array:
    return np.array(values, np.float32)


def s32(values: Any) -> Array:
    return np.array(values, np.int32)


def u32(values: Any) -> Array:
    return np.array(values, np.uint32)


def pred(values: Any) -> Array:
    return np.array(values, np.bool_)


def counted(*sizes: int, first: int = 0) -> Array:
    """Returns first, first + 1, ... as an f32 array in row-major order."""
    return np.arange(first, first + int(np.prod(sizes)), dtype=np.float32).reshape(sizes)


def built(build: Callable[..., xla.XlaOp], *shapes: str) -> xla.XlaOp:
    """Builds a computation that applies `build` to parameters of these shapes."""
    builder = xla.XlaBuilder("example")
    given = [ops.parameter(builder, n, xla.Shape.parse(shape)) for n, shape in enumerate(shapes)]
    return build(*given)


def shape(build: Callable[..., xla.XlaOp], *shapes: str) -> str:
    """Returns the inferred shape of `build` applied to parameters of these shapes, without layouts."""
    return built(build, *shapes).shape.to_text(layout=False)


def function(build: Callable[..., xla.XlaOp], *shapes: str) -> xla.XlaComputation:
    """Builds a computation from its parameter shapes and a Python function of its parameters."""
    root = built(build, *shapes)
    return root.builder.build(root)


def evaluate(build: Callable[..., xla.XlaOp], *values: Any) -> Any:
    """Returns the value of `build` applied to parameters with these values: arrays or nested tuples of arrays.

    Checks that the shape that the builder infers is the shape of the value.
    """
    root = built(build, *[str(xla.Literal.of(value).shape.to_text(layout=False)) for value in values])
    result = _read(CLIENT.compile(root.builder.build(root))(*values))
    assert xla.Literal.of(result).shape.to_text(layout=False) == root.shape.to_text(layout=False)
    return result


def entry(*lines: str) -> str:
    """Returns the text of a module whose entry computation consists of these instructions."""
    return "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])


def run(text: str, *values: Any) -> Any:
    """Runs a module of HLO text and returns its value."""
    return _read(CLIENT.compile(text)(*values))


def check(build: Callable[..., xla.XlaOp], values: Any, expected: Any) -> None:
    """Checks that `evaluate(build, *values)` equals `expected` element for element, in the same type and dimensions."""
    same(evaluate(build, *values), expected)


def same(value: Any, expected: Any) -> None:
    """Compares element by element (a NaN equals a NaN, -0 differs from 0), and types and dimensions."""
    if isinstance(expected, tuple):
        assert len(value) == len(expected)
        for part, wanted in zip(value, expected, strict=True):
            same(part, wanted)
        return
    np.testing.assert_array_equal(value, expected, strict=True)
    if np.asarray(expected).dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(value) & ~np.isnan(value), np.signbit(expected) & ~np.isnan(expected))


def _read(value: Any) -> Any:
    return tuple(map(_read, value)) if isinstance(value, tuple) else np.asarray(value)
