"""Memory estimates: the minimum demand of a program, and the available memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from xlapy.base.shape import Shape
from xlapy.interpreter import make_plan
from xlapy.runtime.engine.memory import memory_demand, value_bytes
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.text import parse_hlo


def need(body: str, before: str = "") -> tuple[int, str]:
    module = parse_hlo(f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n")
    found = memory_demand(module, {c: make_plan(c) for c in module.computations})
    return found.size, "" if found.at is None else found.at.name


def test_bytes_of_values():
    assert value_bytes(Shape.parse("f32[2,3]")) == 24
    assert value_bytes(Shape.parse("s4[5]")) == 5  # a byte each in NumPy
    assert value_bytes(Shape.parse("(f64[], (bf16[2], token[]))")) == 12


def test_live_values_add_up():
    body = "x = f32[100] parameter(0)\n a = f32[100] negate(x)\n b = f32[100] negate(x)\n ROOT c = f32[100] add(a, b)"
    assert need(body) == (1200, "c")


def test_dead_values_do_not_count():
    body = "x = f32[100] parameter(0)\n a = f32[100] negate(x)\n b = f32[100] negate(a)\n ROOT c = f32[100] negate(b)"
    assert need(body) == (800, "b")


def test_views_do_not_add_memory():
    body = "x = f32[] parameter(0)\n a = f32[100] broadcast(x), dimensions={}\n ROOT b = f32[100] copy(a)"
    assert need(body) == (400, "a")


def test_called_computations_count_while_they_run():
    pair = "a = f32[100] negate(x)\n b = f32[100] {}\n ROOT c = f32[100] add(a, b)"
    called = "f {\n x = f32[100] parameter(0)\n " + pair.format("exponential(x)") + "\n}"
    body = "x = f32[100] parameter(0)\n " + pair.format("call(a), to_apply=f")
    assert need(body, called) == (1600, "c")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (4 * 10**15, "4.0 PB"), (10**22, "10000.0 EB")],
)
def test_format_bytes(size: int, text: str):
    assert format_bytes(size) == text


def test_available_memory_is_that_of_the_machine():
    assert 10**6 < available_bytes() < 10**15


def test_a_process_with_a_memory_limit_raises_memory_error():
    code = """
import numpy as np
from xlapy.runtime.system_memory import available_bytes, limit_memory
limit_memory()
size = available_bytes() + (1 << 28)
try:
    np.empty(size, np.uint8)
except MemoryError:
    print("refused")
assert available_bytes() > 1 << 20
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
