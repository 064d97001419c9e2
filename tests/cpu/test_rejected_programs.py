"""Programs that cpu does not run are rejected with an error that names the reason; the process never ends."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.runtime.engine import native_call

CPU = xla.Client("cpu")


def calls(depth: int, each: int) -> str:
    """Returns a module with `depth` levels of computations, each of which calls the next lower one `each` times."""
    text = ["HloModule m", "f0 { x = f32[] parameter(0)\n ROOT r = f32[] negate(x) }"]
    for level in range(1, depth):
        lines = [f" c{n} = f32[] call({f'c{n - 1}' if n else 'x'}), to_apply=f{level - 1}" for n in range(each - 1)]
        last = f"c{each - 2}" if each > 1 else "x"
        body = "\n".join(["x = f32[] parameter(0)", *lines, f" ROOT r = f32[] call({last}), to_apply=f{level - 1}"])
        text.append(f"f{level} {{ {body} }}")
    text.append(f"ENTRY e {{ x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=f{depth - 1} }}")
    return "\n".join(text)


def test_calls_are_followed():
    assert float(CPU.compile(calls(40, 1))(np.float32(3))) == -3
    assert float(CPU.compile(calls(6, 3))(np.float32(3))) == -3


def test_calls_that_multiply_are_counted_first():
    with raises(UnsupportedError, codes.PROGRAM_SIZE):
        CPU.compile(calls(60, 2))


APPLYING = {
    "map": "map({operand}), dimensions={{}}, to_apply=c{level}",
    "fusion": "fusion({operand}), kind=kLoop, calls=c{level}",
    "reduce": "reduce({operand}, {operand}), dimensions={{}}, to_apply=r{level}",
}


def applications(kind: str, depth: int) -> str:
    """Every computation applies the one before it twice."""
    text = ["HloModule m", "c0 { p = f32[] parameter(0)  ROOT r = f32[] sine(p) }"]
    text.append("r0 { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }")
    for level in range(depth):
        first, second = (APPLYING[kind].format(operand=operand, level=level) for operand in "pa")
        text.append(f"c{level + 1} {{ p = f32[] parameter(0)  a = f32[] {first}  ROOT r = f32[] {second} }}")
        body = f"p = f32[] parameter(0)  q = f32[] parameter(1)  a = f32[] {first}  ROOT r = f32[] {second}"
        text.append(f"r{level + 1} {{ {body} }}")
    last = APPLYING[kind].format(operand="x", level=depth)
    return "\n".join([*text, f"ENTRY e {{ x = f32[] parameter(0)  ROOT r = f32[] {last} }}"])


@pytest.mark.parametrize("kind", APPLYING)
def test_applications_that_multiply_are_counted_first(kind: str):
    with raises(UnsupportedError, codes.PROGRAM_SIZE, f"({kind})", "200000"):
        CPU.compile(applications(kind, 40))
    CPU.compile(applications(kind, 3))


def test_calls_too_deep():
    with raises(UnsupportedError, codes.CALL_DEPTH, "301 deep", "100 calls"):
        CPU.compile(calls(300, 1))


def test_constants_left_out_are_not_zeros():
    with raises(UnsupportedError, codes.ELIDED_CONSTANT, "c (constant)"):
        CPU.compile("HloModule m\nENTRY e { ROOT c = f32[100] constant({...}) }")


def test_a_program_larger_than_the_memory_is_rejected(monkeypatch: pytest.MonkeyPatch):
    executable = CPU.compile(
        "HloModule m\nENTRY e { x = f32[] parameter(0)\n ROOT r = f32[1024,1024,64] broadcast(x), dimensions={}, "
        'metadata={source_file="model.py" source_line=12} }'
    )
    monkeypatch.setattr(native_call, "available_bytes", lambda: 1 << 20)
    largest = "r (broadcast) at model.py:12 f32[1024,1024,64] 268.4 MB"
    with raises(ExecutionError, running_codes.OUT_OF_MEMORY, "needs 268.4 MB", largest):
        executable(np.float32(1))
