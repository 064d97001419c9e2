"""Kernel plans: recorded in the optimized text, followed if the text demands them, refused if they are impossible."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen import region as regions
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import KernelThunk, walk_thunks
from xlapy.lower import Lowering
from xlapy.testing.random_arguments import random_arguments

CPU = xla.Client("cpu")

DOT = """HloModule m
ENTRY e {
  a = s32[48,40] parameter(0)
  b = s32[40,48] parameter(1)
  ROOT d = s32[48,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
TRANSPOSE = """HloModule m
ENTRY e {
  x = s32[70,90] parameter(0)
  y = s32[90,70] parameter(1)
  t = s32[90,70] transpose(x), dimensions={1,0}
  ROOT r = s32[90,70] add(t, y)
}"""
SOFTMAX = """HloModule m
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[64,100] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[64] reduce(x, low), dimensions={1}, to_apply=max
  b = f32[64,100] broadcast(m), dimensions={0}
  d = f32[64,100] subtract(x, b)
  e = f32[64,100] exponential(d)
  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  c = f32[64,100] broadcast(s), dimensions={0}
  ROOT r = f32[64,100] divide(e, c)
}"""
COLUMNS = """HloModule m
add { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] add(a, b) }
ENTRY e {
  x = s32[100,160] parameter(0)
  zero = s32[] constant(0)
  ROOT s = s32[160] reduce(x, zero), dimensions={0}, to_apply=add
}"""
CONVOLUTION = """HloModule m
ENTRY e {
  x = s32[2,9,10,8] parameter(0)
  k = s32[3,3,8,16] parameter(1)
  ROOT c = s32[2,9,10,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}"""
PROGRAMS = {"dot": DOT, "transpose": TRANSPOSE, "softmax": SOFTMAX, "columns": COLUMNS, "convolution": CONVOLUTION}


def with_plan(text: str, plan: object, name: str = "ROOT") -> str:
    """The program with a plan on the instruction in the line that contains `name`."""
    lines = text.splitlines()
    number = max(n for n, line in enumerate(lines) if f"  {name} " in line)
    lines[number] += f", backend_config={json.dumps({'kernel_plan': plan})}"
    return "\n".join(lines)


def plan_in(text: str) -> dict[str, object]:
    """The only plan in the text of a module."""
    (found,) = re.findall(r"backend_config=(\{.*\})", text)
    return json.loads(found)["kernel_plan"]


def optimized(text: str) -> str:
    return CPU.compile(text).as_hlo_text(optimized=True)


def result(text: str) -> np.ndarray:
    executable = CPU.compile(text)
    return np.asarray(executable(*random_arguments(executable.program_shape.parameters, 1)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_plan_in_the_optimized_text_is_followed(name: str):
    """The text compiles to itself, and to the same kernels."""
    text = optimized(PROGRAMS[name])
    again = compile_module(xla.parse_hlo(text))
    assert again.module.to_text() == text
    assert again.loops() == compile_module(xla.parse_hlo(PROGRAMS[name])).loops()


DEMANDS = [
    ("dot", {"strategy": "packed-gemm"}),
    (
        "dot",
        {"strategy": "packed-gemm", "tile_rows": 3, "tile_vectors": 1, "mc_tiles": 2, "kc_inner": 7},
    ),
    ("dot", {"strategy": "direct-gemm", "tile_rows": 5, "tile_vectors": 2}),
    ("dot", {"strategy": "skinny-gemm", "step_terms": 3}),
    ("dot", {"strategy": "loops"}),
    ("transpose", {"strategy": "loops"}),
    ("transpose", {"strategy": "loops", "flat": True}),
    ("transpose", {"strategy": "loops", "lanes": 1}),
    ("transpose", {"strategy": "transpose", "block_rows": 64, "block_columns": 64}),
    ("columns", {"strategy": "loops"}),
    ("columns", {"strategy": "column-reduction", "block_columns": 64, "step_rows": 3}),
    ("convolution", {"strategy": "im2col", "mc_tiles": 1}),
    ("convolution", {"strategy": "direct-convolution", "tile_positions": 2, "tile_vectors": 1}),
    ("convolution", {"strategy": "loops"}),
]


@pytest.mark.parametrize(("name", "plan"), DEMANDS, ids=str)
def test_a_demanded_plan_is_followed(name: str, plan: dict[str, object]):
    """Whatever computes integers, they are the same."""
    text = with_plan(PROGRAMS[name], plan)
    assert plan_in(optimized(text)).items() >= plan.items()
    np.testing.assert_array_equal(result(text), result(PROGRAMS[name]))


def test_a_plan_changes_the_loops():
    def loops(text: str) -> str:
        return compile_module(xla.parse_hlo(text)).loops()

    assert "transpose " in loops(TRANSPOSE)
    assert "transpose " not in loops(with_plan(TRANSPOSE, {"strategy": "loops"}))
    assert "scratch left" in loops(with_plan(DOT, {"strategy": "packed-gemm"}))
    assert "scratch left" not in loops(with_plan(DOT, {"strategy": "direct-gemm"}))


def test_an_instruction_with_a_plan_is_not_fused_into_another_kernel():
    text = with_plan(TRANSPOSE, {"strategy": "loops"}, name="t = s32[90,70]")
    found = optimized(text)
    assert " fusion(" not in found and '"strategy":"loops"' in found
    np.testing.assert_array_equal(result(text), result(TRANSPOSE))


IMPOSSIBLE = [
    ("dot", {"strategy": "gemm"}, ["unknown", "packed-gemm"]),
    ("dot", {"strategy": "scan"}, ["scan", "not a cumulative reduction"]),
    ("dot", {"strategy": "direct-gemm", "tile_rows": 0}, ["tile_rows", "0", "from 1 to 32"]),
    ("dot", {"strategy": "direct-gemm", "tile_rows": 32, "tile_vectors": 16}, ["tile_rows", "512", "64"]),
    ("dot", {"strategy": "direct-gemm", "rows": 4}, ["rows", "tile_rows"]),
    ("dot", {"strategy": "direct-gemm", "tile_rows": True}, ["tile_rows", "integer"]),
    ("dot", {"strategy": "packed-gemm", "mc_tiles": 1 << 20}, ["mc_tiles", "bytes"]),
    ("dot", {"strategy": "packed-gemm", "kc_inner": 41}, ["kc_inner", "41", "40"]),
    ("dot", {"strategy": "packed-gemm", "tile_rows": "8"}, ["tile_rows", '"8"']),
    ("transpose", {"strategy": "transpose", "block_rows": 3}, ["block_rows", "3", "multiple"]),
    ("columns", {"strategy": "column-reduction", "block_columns": 1 << 19}, ["block_columns", "bytes"]),
    ("convolution", {"strategy": "direct-convolution", "tile_positions": 11}, ["tile_positions", "11", "10"]),
]


@pytest.mark.parametrize(("name", "plan", "parts"), IMPOSSIBLE, ids=str)
def test_an_impossible_plan_is_an_error(name: str, plan: dict[str, object], parts: list[str]):
    instruction = {"dot": "d (dot)", "transpose": "r", "columns": "s", "convolution": "c (convolution)"}[name]
    with raises(InvalidArgumentError, codes.KERNEL_PLAN, instruction, *parts):
        CPU.compile(with_plan(PROGRAMS[name], plan))


def test_a_plan_that_no_kernel_can_follow_is_an_error():
    text = with_plan(DOT.replace("ROOT d", "d").replace("}\n}", "}\n  ROOT r = s32[48,40] copy(a)\n}"), {}, name="d")
    with raises(InvalidArgumentError, codes.KERNEL_PLAN, "strategy"):
        CPU.compile(text)
    dead = text.replace('{"kernel_plan": {}}', '{"kernel_plan": {"strategy": "loops"}}')
    with raises(InvalidArgumentError, codes.KERNEL_PLAN, "d (dot)", "loops"):
        CPU.compile(dead)


def test_a_configuration_of_another_compiler_is_kept():
    other = 'backend_config={"outer_dimension_partitions":["2"]}'
    found = optimized(DOT.replace("rhs_contracting_dims={0}", f"rhs_contracting_dims={{0}}, {other}"))
    assert '"outer_dimension_partitions":["2"]' in found and '"kernel_plan"' in found


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_kernel_is_lowered_once(name: str, monkeypatch: pytest.MonkeyPatch):
    """No kernel is lowered to be dropped: every load is emitted into a kernel of the program."""
    lowered: set[object] = set()
    load = Lowering.load

    def recorded(self: Lowering, *arguments: object) -> object:
        lowered.add(self.builder.kernel)
        return load(self, *arguments)

    started: list[object] = []
    make = regions.Builder

    def builder(*arguments: object) -> object:
        started.append(make(*arguments))
        return started[-1]

    monkeypatch.setattr(Lowering, "load", recorded)
    monkeypatch.setattr(regions, "Builder", builder)
    program = compile_module(xla.parse_hlo(PROGRAMS[name])).program
    kernels = {thunk.kernel for thunk in walk_thunks(program.thunks) if isinstance(thunk, KernelThunk)}
    assert lowered == kernels
    # a convolution is described as a product, too, before its strategy is chosen
    assert len(started) == len(kernels) + (name == "convolution")
