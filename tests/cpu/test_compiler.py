"""The passes of the CPU compiler: the kernels of programs, and that results agree with the interpreter's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import MAX_SIMPLIFICATION_ROUNDS, compile_module, passes
from xlapy.cpu.program.thunks import KernelThunk, WhileThunk, walk_thunks
from xlapy.custom_calls.registry import register_custom_call_target, unregister_custom_call_target
from xlapy.passes import Pipeline
from xlapy.passes.pipeline import Fixpoint
from xlapy.testing.comparison import assert_close
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.text import parse_hlo

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


def checked(text: str) -> int:
    """Returns the kernels of a program, after checking that its results equal the interpreter's."""
    module = parse_hlo(text)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    random = np.random.default_rng(0)
    arguments = [random.standard_normal(shape.dimensions).astype(shape.dtype) for shape in shapes]
    expected, actual = (np.asarray(xla.Client(name).compile(module)(*arguments)) for name in ("interpreter", "cpu"))
    assert_close(actual, expected, rule="bits", where=module.name)
    return sum(isinstance(thunk, KernelThunk) for thunk in walk_thunks(compile_module(module).program.thunks))


LAYOUTS = {
    "entry": """HloModule m, entry_computation_layout={(f32[3,4]{0,1})->f32[4,3]{0,1}}
        ENTRY e { p = f32[3,4]{0,1} parameter(0)  n = f32[3,4]{0,1} negate(p)
          ROOT r = f32[4,3]{0,1} transpose(n), dimensions={1,0} }""",
    "both orders": """HloModule m, entry_computation_layout={(f32[3,4]{0,1}, f32[3,4]{1,0})->f32[3,4]{0,1}}
        ENTRY e { p = f32[3,4]{0,1} parameter(0)  q = f32[3,4]{1,0} parameter(1)  b = f32[12]{0} bitcast(p)
          c = f32[3,4]{0,1} bitcast(b)  d = f32[3,4]{0,1} multiply(c, q)  ROOT r = f32[3,4]{0,1} maximum(d, c) }""",
    "another width": """HloModule m
        ENTRY e { p = f32[3,4]{0,1} parameter(0)  ROOT r = s16[3,4,2]{0,1,2} bitcast(p) }""",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_and_bitcasts_agree_with_the_interpreter(name: str):
    assert checked(LAYOUTS[name]) <= 1


def test_movements_that_cancel_leave_no_kernel():
    text = """HloModule m ENTRY e { p = f32[8,4] parameter(0)  t = f32[4,8] transpose(p), dimensions={1,0}
      s = f32[32] reshape(t)  u = f32[4,8] reshape(s)  ROOT r = f32[8,4] transpose(u), dimensions={1,0} }"""
    assert checked(text) == 0


def test_loop_invariants_are_computed_before_the_loop():
    text = """HloModule m
      c { s = (s32[], f32[64], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(5)
        ROOT r = pred[] compare(i, n), direction=LT }
      b { s = (s32[], f32[64], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
        x = f32[64] get-tuple-element(s), index=1  w = f32[64] get-tuple-element(s), index=2  e = f32[64] exponential(w)
        f = f32[64] sort(e), dimensions={0}, to_apply=lt
        g = f32[64] reverse(x), dimensions={0}
        y = f32[64] add(g, f)  j = s32[] add(i, one)  ROOT t = (s32[], f32[64], f32[64]) tuple(j, y, w) }
      lt { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
      ENTRY e { x = f32[64] parameter(0)  w = f32[64] parameter(1)  zero = s32[] constant(0)
        t = (s32[], f32[64], f32[64]) tuple(zero, x, w)  l = (s32[], f32[64], f32[64]) while(t), condition=c, body=b
        ROOT r = f32[64] get-tuple-element(l), index=1 }"""
    program = compile_module(parse_hlo(text)).program
    (loop,) = (thunk for thunk in walk_thunks(program.thunks) if isinstance(thunk, WhileThunk))
    kernels = [thunk for thunk in walk_thunks(program.thunks) if isinstance(thunk, KernelThunk)]
    outside = [thunk.op_name for thunk in kernels if thunk not in list(walk_thunks(loop.body))]
    assert any(origin.startswith("f") for origin in outside), outside


def test_a_large_computation_that_is_called_often_is_compiled_once():
    lines = "  ".join(f"v{n + 1} = f32[8] sine(v{n})" for n in range(80))
    calls = "  ".join(f"c{n + 1} = f32[8] call(c{n}), to_apply=f" for n in range(30))
    text = f"""HloModule m
      f {{ v0 = f32[8] parameter(0)  {lines}  ROOT r = f32[8] negate(v80) }}
      ENTRY e {{ c0 = f32[8] parameter(0)  {calls}  ROOT r = f32[8] copy(c30) }}"""
    compiled = compile_module(parse_hlo(text))
    assert sum(i.op.name == "call" for i in compiled.module.instructions()) == 30


def test_kernels_that_do_the_same_to_other_memory_are_one_function():
    text = """HloModule m ENTRY e { x = f32[4096] parameter(0)  y = f32[4096] parameter(1)
      a = f32[4096] sine(x)  b = f32[4096] sine(y)  c = f32[2048] slice(y), slice={[0:2048]}  d = f32[2048] sine(c)
      ROOT r = (f32[4096], f32[4096], f32[2048]) tuple(a, b, d) }"""
    compiled = compile_module(parse_hlo(text))
    assert sum(isinstance(thunk, KernelThunk) for thunk in walk_thunks(compiled.program.thunks)) == 3
    assert compiled.llvm.count("define internal void @kernel") == 2
    x, y = (np.random.default_rng(seed).standard_normal(4096).astype(np.float32) for seed in range(2))
    a, b, d = xla.Client("cpu").compile(text)(x, y)
    assert_close(np.asarray(b)[:2048], np.asarray(d), rule="bits", where="the same elements")
    assert_close(np.asarray(a), np.sin(x), rule="elementwise", where="sine")


LAYERS = """HloModule layers
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  sorted0 = f32[4096] parameter(0)
  y = f32[4096] parameter(1)
"""


def test_a_short_program_is_one_function_and_its_kernels():
    text = "HloModule short ENTRY e { x = f32[8] parameter(0) ROOT r = f32[8] add(x, x) }"
    assert compile_module(xla.parse_hlo(text)).llvm.count("\ndefine ") == 1


def test_polls_and_tasks_are_functions_of_the_whole_process():
    text = "HloModule large ENTRY e { x = f32[1000000] parameter(0) ROOT r = f32[1000000] add(x, x) }"
    compiled = compile_module(xla.parse_hlo(text))
    assert set(compiled.code.imports) == {"xlapy_poll", "xlapy_parallel", "xlapy_task2"}
    assert compiled.llvm.count("\ndefine ") == 2, "the program and its kernel"


def test_addresses_are_read_where_they_are_needed():
    """If hundreds of addresses were loaded at the start, registers would spill them all to the stack."""
    parameters = [f"p{n} = f32[{300 + n}] parameter({n})" for n in range(20)]
    results = [f"r{n} = f32[{300 + n}] sine(p{n})" for n in range(20)]
    shapes, names = (", ".join(parts) for parts in zip(*((f"f32[{300 + n}]", f"r{n}") for n in range(20)), strict=True))
    text = "\n".join(["HloModule m ENTRY e {", *parameters, *results, f"ROOT t = ({shapes}) tuple({names}) }}"])
    run = compile_module(parse_hlo(text)).llvm.split("@xlapy_run(")[1]
    between = run.split("call void @kernel")
    assert [part.count("load ptr") for part in between] == [2] * 20 + [0]


def test_a_program_with_many_arguments_and_results_is_outlined_into_short_functions():
    """LLVM's compile time grows with the square of the number of memory accesses in a function."""
    count = 200
    parameters = [f"p{n} = f32[16] parameter({n})" for n in range(count)]
    results = [f"r{n} = f32[16] multiply(p{n}, p{(n + 1) % count})" for n in range(count)]
    shapes, names = (", ".join(parts) for parts in zip(*(("f32[16]", f"r{n}") for n in range(count)), strict=True))
    text = "\n".join(["HloModule m ENTRY e {", *parameters, *results, f"ROOT t = ({shapes}) tuple({names}) }}"])
    parts = compile_module(parse_hlo(text)).llvm.split("\ndefine internal i32 @outlined")[1:]
    assert len(parts) > 3
    assert max(part.split("\n}")[0].count("load ") for part in parts) < 500


def test_equal_instructions_share_a_kernel_whatever_memory_they_overwrite():
    """The first layer reads an argument, which it must not overwrite; each later one may overwrite a value that it uses
    last.
    """
    layer = """
  sine{m} = f32[4096] sine(sorted{n})
  cosine{m} = f32[4096] cosine(sine{m})
  layer{m} = f32[4096] multiply(cosine{m}, y)
  sorted{m} = f32[4096] sort(layer{m}), dimensions={{0}}, to_apply=less"""
    layers = "".join(layer.format(n=n, m=n + 1) for n in range(3))
    text = f"{LAYERS}{layers}\n  ROOT r = f32[4096] add(sorted3, sorted0) }}"
    thunks = [
        thunk for thunk in walk_thunks(compile_module(parse_hlo(text)).program.thunks) if isinstance(thunk, KernelThunk)
    ]
    made = [thunk for thunk in thunks if thunk.op_name.startswith("layer")]
    assert len(made) == 3
    assert len({thunk.kernel for thunk in made}) == 1
    x, y = (np.random.default_rng(seed).standard_normal(4096).astype(np.float32) for seed in range(2))
    actual = np.asarray(xla.Client("cpu").compile(text)(x, y))
    program_tolerance(parse_hlo(text), [x, y], flush_denormals=True).assert_close(actual, "three layers")


@pytest.mark.parametrize("name", ["nbody_step", "mapped_loops", "sorts"])
def test_scheduled_modules_stay_valid(name: str):
    """A module that XLA printed after optimization is scheduled: its fusions are expanded and formed anew in that
    order.
    """
    module = parse_hlo((PROGRAMS / f"{name}.optimized.hlo").read_text())
    assert module.config.is_scheduled
    Pipeline(passes(), verify_each=True).run(module)


def test_the_page_on_the_compiler_lists_its_passes() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "cpu.md").read_text()
    section = page.split("\n## Passes\n")[1].split("\n## ")[0]
    items = re.findall(r"^\d+\. (.*(?:\n    .*)*)", section, re.MULTILINE)
    listed = passes(overlaps=True)
    assert len(items) == len(listed)
    for pass_, item in zip(listed, items, strict=True):
        if isinstance(pass_, Fixpoint):
            assert f"`MAX_SIMPLIFICATION_ROUNDS` ({MAX_SIMPLIFICATION_ROUNDS})" in item
            assert re.findall(r"`([a-z-]+)`", item) == [inner.name for inner in pass_.passes]
        else:
            assert re.match(r"`([a-z-]+)`", item)[1] == pass_.name  # type: ignore[index]


def test_the_log_says_once_what_the_host_computes_and_why(caplog: pytest.LogCaptureFixture) -> None:
    register_custom_call_target("doubled", lambda x: x * 2, platform="cpu")
    text = """HloModule called
      ENTRY e { x = f32[4] parameter(0)
        a = f32[4] custom-call(x), custom_call_target="doubled"
        b = f32[4] custom-call(a), custom_call_target="doubled"
        m = f32[4] custom-call(b), custom_call_target="MoveToHost"
        ROOT r = f32[4] add(a, m) }"""
    try:
        with caplog.at_level("INFO", logger="xlapy"):
            compile_module(xla.parse_hlo(text))
    finally:
        unregister_custom_call_target("doubled", "cpu")
    assert [record.getMessage() for record in caplog.records] == [
        "called calls the host for 2 instructions: a (custom-call): its target is a function of Python; "
        "b (custom-call): its target is a function of Python"
    ]
    caplog.clear()
    with caplog.at_level("INFO", logger="xlapy"):
        compile_module(xla.parse_hlo(text.replace("doubled", "MoveToHost")))
    assert caplog.records == []
