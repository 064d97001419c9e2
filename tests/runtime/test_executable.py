"""Properties of an executable: its optimized module, its cost, its memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import xlapy as xla

TEXT = """
HloModule m
ENTRY main {
  x = f32[1000] parameter(0)
  u = f32[2] parameter(1)
  i = s32[] constant(5)
  e = f32[1000] exponential(x)
  n = f32[1000] negate(e)
  s = f32[1000] sort(n), dimensions={0}, to_apply=less
  y = f32[1000] dynamic-update-slice(x, u, i)
  ROOT r = (f32[1000], f32[1000]) tuple(s, y)
}
"""
LESS = """
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
ENTRY"""
TEXT = TEXT.replace("ENTRY", LESS)


@pytest.fixture(params=["cpu", "interpreter"])
def executable(request: pytest.FixtureRequest) -> xla.Executable:
    return xla.Client(request.param).compile(TEXT, donate=[0])


def test_memory(executable: xla.Executable):
    found = executable.memory_analysis()
    assert found.argument_size_in_bytes == 4008
    assert found.output_size_in_bytes == 8000
    native = executable.platform == "cpu"
    assert found.alias_size_in_bytes == (4000 if native else 0)
    assert (found.generated_code_size_in_bytes > 0) == native
    assert found.temp_size_in_bytes <= (0 if native else 8192)
    assert found.peak_memory_in_bytes == (12008 - found.alias_size_in_bytes + found.temp_size_in_bytes)


def test_cost(executable: xla.Executable):
    found = executable.cost_analysis()
    assert found["transcendentals"] == 1000
    assert found["flops"] == 1000 + 1000 * 10
    assert found["bytes accessed"] >= 16_000


def test_text(executable: xla.Executable):
    assert executable.as_hlo_text() == xla.parse_hlo(TEXT).to_text()
    optimized = executable.as_hlo_text(optimized=True)
    assert ("fusion(" in optimized) == (executable.platform == "cpu")
    assert xla.parse_hlo(optimized).entry_computation.program_shape == executable.program_shape


def test_threads_with_small_stacks_call_programs_with_thousands_of_arguments():
    count = 4000
    parameters = " ".join(f"p{number} = f32[] parameter({number})" for number in range(count))
    text = f"HloModule m\nENTRY e {{ {parameters} ROOT r = f32[] add(p1, p{count - 1}) }}"
    program = xla.Client("cpu").compile(text)
    arguments = [np.full((), number, np.float32) for number in range(count)]
    results = list[float]()
    before = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=lambda: results.append(float(program(*arguments))))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert results == [count]
