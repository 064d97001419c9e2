"""Limits of the interpreter that are checked before a run: sizes, call depth, shapes, elided constants."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.error_codes.execution.running import OUT_OF_MEMORY
from xlapy.base.errors import ExecutionError, UnsupportedError, VerificationError
from xlapy.runtime.backends.interpreter import MAX_CALL_DEPTH


def chain(depth: int, link: str = "call(a), to_apply={callee}") -> str:
    """A program whose entry calls through `depth` computations down to a negation."""
    parts = ["HloModule chain\nc0 {\n  a = f32[] parameter(0)\n  ROOT b = f32[] negate(a)\n}\n"]
    for number in range(1, depth + 1):
        head = "ENTRY " if number == depth else ""
        body = link.format(callee=f"c{number - 1}")
        parts.append(
            f"{head}c{number} {{\n  a = f32[] parameter(0)\n  i = s32[] constant(1)\n  ROOT b = f32[] {body}\n}}\n"
        )
    return "".join(parts)


LINKS = ("call(a), to_apply={callee}", "conditional(i, a, a), branch_computations={{{callee},{callee}}}")


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("depth", [1000, MAX_CALL_DEPTH - 1])
def test_deep_calls_run(link: str, depth: int):
    assert float(xla.Client("interpreter").compile(chain(depth, link))(1.0)) == -1.0


def test_deep_calls_run_in_threads_and_inside_reducers():
    text = chain(1000).replace("ENTRY ", "") + (
        "ENTRY main {\n  x = f32[4] parameter(0)\n  ROOT m = f32[4] map(x), dimensions={0}, to_apply=c1000\n}\n"
    )
    negate = xla.Client("interpreter").compile(text)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(negate([1, 2, 3, 4])))
    thread.start()
    thread.join()
    assert np.array_equal(np.asarray(results[0]), [-1, -2, -3, -4])


def test_calls_beyond_the_limit_are_rejected():
    with raises(UnsupportedError, codes.CALL_DEPTH, "5001 deep", f"{MAX_CALL_DEPTH} calls"):
        xla.Client("interpreter").compile(chain(MAX_CALL_DEPTH))


def test_shallow_programs_do_not_change_the_recursion_limit():
    before = sys.getrecursionlimit()
    assert float(xla.Client("interpreter").compile(chain(20))(1.0)) == -1.0
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("ROOT i = f32[1000000,1000000,1000] iota(), iota_dimension=0", "4.0 PB at i (iota) of shape f32[1000000,"),
        (
            "a = f32[] constant(1)\n ROOT b = f32[1000000000000] broadcast(a), dimensions={}",
            "4.0 TB at b (broadcast)",
        ),
    ],
)
def test_programs_larger_than_the_memory_are_rejected_before_they_run(body: str, where: str):
    program = xla.Client("interpreter").compile(f"HloModule huge\nENTRY main {{\n {body}\n}}\n")
    with raises(ExecutionError, OUT_OF_MEMORY, f"needs {where}"):
        program()


def test_shapes_that_numpy_does_not_support():
    ones = ",".join(["1"] * 33)
    with raises(UnsupportedError, codes.ARRAY_RANK, "33 dimensions", "most 32"):
        xla.Client("interpreter").compile(f"HloModule m\nENTRY main {{\n  ROOT x = f32[{ones}] parameter(0)\n}}\n")
    with pytest.raises(UnsupportedError, match="its other sizes multiply to more than 64 bits hold"):
        xla.Client("interpreter").compile(
            "HloModule m\nENTRY main {\n  ROOT x = f32[0,9223372036854775807] parameter(0)\n}\n"
        )


def test_elided_constants():
    text = "HloModule m\nENTRY main {\n  ROOT c = f32[99] constant({...})\n}\n"
    with raises(UnsupportedError, codes.ELIDED_CONSTANT, "c (constant)"):
        xla.Client("interpreter").compile(text)


def test_dimensions_without_bounds():
    with pytest.raises(VerificationError, match=r"main: x \(parameter\): has shape f32\[\?\]: .* give them a bound"):
        xla.Client("interpreter").compile("HloModule m\nENTRY main {\n  ROOT x = f32[?] parameter(0)\n}\n")
