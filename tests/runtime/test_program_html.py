"""Executables as HTML in notebooks: platform, memory and what runs."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.text.test_html import HOSTILE, ROWS, elements
from xlapy.runtime.program_html import MAX_ROWS

CHAIN = """HloModule chain
ENTRY main {
  x = f32[4,256] parameter(0)
  y = f32[4,256] tanh(x)
  w = f32[256,256] parameter(1)
  d = f32[4,256] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[4,256], f32[4,256]) tuple(d, y)
}
"""


def test_kernels_of_cpu() -> None:
    executable = xla.Client("cpu").compile(CHAIN)
    text = elements(executable).text
    assert executable.as_hlo_text(optimized=True).count(" dot(") == 1
    assert "ytanhf32[4,256]4,096" in text and "ddotf32[4,256]4,096" in text
    assert "chain on cpu (x: f32[4,256], w: f32[256,256]) -> (f32[4,256], f32[4,256])" in text
    assert "arguments 260 KiB, results 8 KiB" in text and "code " in text


def test_a_fusion_shows_its_contents_and_its_plan() -> None:
    text = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[64,1000] parameter(0)
  zero = f32[] constant(0)
  e = f32[64,1000] exponential(x)
  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  t = f32[64,1000] broadcast(s), dimensions={0}
  ROOT p = f32[64,1000] divide(e, t)
}"""
    found = elements(xla.Client("cpu").compile(text))
    assert "p.fusionexponential, reduce, broadcast, dividef32[64,1000]256,000row-reduction" in found.text
    assert len(found.of("tr")) == 2


def test_the_interpreter_runs_instructions() -> None:
    found = elements(xla.Client("interpreter").compile(ROWS))
    assert "rows on interpreter" in found.text
    assert "eexponentialf32[2,3]24" in found.text
    assert len(found.of("tr")) == 3  # the head, the exponential and the reduction
    assert "code" not in found.text


def test_devices() -> None:
    client = xla.Client("cpu", devices=2)
    assert "rows on cpu, 2 devices" in elements(client.compile(ROWS, num_replicas=2)).text


def test_a_loaded_program() -> None:
    client = xla.Client("cpu")
    compiled = client.compile(CHAIN)
    assert elements(client.deserialize(compiled.serialize())).text == elements(compiled).text


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_names_are_escaped(platform: str) -> None:
    module = xla.parse_hlo(ROWS)
    module.name = HOSTILE
    module.entry_computation.find("e").name = HOSTILE
    found = elements(xla.Client(platform).compile(module))
    assert found.tags() == {"div", "style", "b", "span", "table", "tr", "th", "td"}
    assert found.text.count(HOSTILE) == (1 if platform == "cpu" else 2)  # cpu names the fusion after its root


def test_long_programs_are_cut() -> None:
    lines = "\n".join(f"  x{n} = f32[2] negate(x{n - 1})" for n in range(1, 3 * MAX_ROWS + 1))
    program = xla.Client("interpreter").compile(f"HloModule m\nENTRY e {{\n  x0 = f32[2] parameter(0)\n{lines}\n}}")
    found = elements(program)
    assert len(found.of("tr")) == MAX_ROWS + 1
    assert found.text.endswith(f"... {2 * MAX_ROWS} more")
    assert np.asarray(program(np.ones(2, np.float32))).tolist() == [1.0, 1.0]
