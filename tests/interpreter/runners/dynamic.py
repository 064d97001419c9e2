"""Runs small programs on arrays of dynamic dimensions, on the interpreter and on XLA:CPU.

A program is a body of HLO text that computes `r`, which has dynamic dimensions, from static parameters. The interpreter
returns `r` itself, with its actual sizes. XLA:CPU cannot return such arrays: there the program returns the padded array
and its sizes, and the padding is removed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xlapy as xla
from tests import xla_reference
from xlapy.base.shape import Shape

Array = np.ndarray[Any, Any]

COMPUTATIONS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
mul { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] multiply(a, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
gt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT }
"""


def module(body: str, computations: str = "") -> str:
    return f"HloModule m\n{COMPUTATIONS}{computations}\nENTRY e {{\n{body}\n}}\n"


def run(text: str, arguments: Sequence[Any]) -> Any:
    """Returns the interpreter's result: an array of its actual sizes, or a tuple of such arrays."""
    return plain(xla.Client("interpreter").compile(text)(*arguments))


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, tuple) else np.asarray(value)


def dynamic_result(body: str, arguments: Sequence[Any], computations: str = "") -> Array:
    """Returns `r` on the interpreter."""
    return run(module(f"{body}\nROOT result = {shape_of(body).to_text(layout=False)} copy(r)", computations), arguments)


def xla_result(body: str, arguments: Sequence[Any], computations: str = "") -> Array:
    """Returns `r` on XLA:CPU."""
    whole, *sizes = xla_reference.run_hlo(
        module(f"{body}\n{_as_static(shape_of(body))}", computations), arguments, fast=True
    )
    return whole[tuple(slice(int(size)) for size in sizes)]


def shape_of(body: str) -> Shape:
    """Returns the declared shape of `r`."""
    (line,) = [line for line in body.splitlines() if line.strip().startswith("r = ")]
    return Shape.parse(line.strip().removeprefix("r = ").split()[0])


def _as_static(shape: Shape) -> str:
    """Returns instructions for the padded array and the size of every dimension."""
    lines, current, flags = [], "r", list(shape.dynamic_dimensions)
    for dimension, bound in enumerate(shape.dimensions):
        lines.append(f"size{dimension} = s32[] get-dimension-size(r), dimensions={{{dimension}}}")
        if flags[dimension]:
            flags[dimension] = False
            cut = shape.with_dimensions(shape.dimensions, flags).to_text(layout=False)
            lines.append(f"bound{dimension} = s32[] constant({bound})")
            setting = f"set-dimension-size({current}, bound{dimension}), dimensions={{{dimension}}}"
            lines.append(f"static{dimension} = {cut} {setting}")
            current = f"static{dimension}"
    static = shape.with_dimensions(shape.dimensions).to_text(layout=False)
    names = [f"size{dimension}" for dimension in range(shape.rank)]
    results = ", ".join([static, *["s32[]"] * shape.rank])
    return "\n".join([*lines, f"ROOT result = ({results}) tuple({', '.join([current, *names])})"])
