"""Bisecting finds the pass run or the kernel that makes a program wrong, even if it ends or hangs the process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.raising import raises
from xlapy.base.error_codes.compilation.compiling import ASYNC_HALF, LOWERED_INSTRUCTION
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.error_codes.operations.operands import RESULT_SHAPE
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.cpu.compiler import passes
from xlapy.debugging.bisecting import BisectResult, BisectSettings, FaultKind, bisect
from xlapy.passes import Fixpoint
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import parse_hlo

FAULTS = Path(__file__).with_name("faults.py")

TEXT = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = f32[4] constant({0,0,0,0})
  a = f32[4] add(x, zero)
  e = f32[4] exponential(a)
  d = f32[4] subtract(e, y)
  ROOT t = (f32[4], f32[4]) tuple(d, e)
}
"""

IN_A_LOOP = """
HloModule m
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[4] cosine(v)
  d = f32[4] subtract(c, v)
  ROOT t = (s32[], f32[4]) tuple(j, d)
}
condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[4] parameter(0)
  k = s32[] constant(0)
  s = (s32[], f32[4]) tuple(k, x)
  w = (s32[], f32[4]) while(s), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
}
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    """Returns a function that copies `faults.py` under a name, which selects the fault."""

    def load(name: str = "faults.py") -> tuple[str, ...]:
        return (str(shutil.copyfile(FAULTS, tmp_path / name)),)

    return load


def run_bisect(text: str = TEXT, **settings: Any) -> BisectResult:
    module = parse_hlo(text, verify=True)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, seed=0)
    return bisect(module, [arguments] * module.config.replica_count, BisectSettings(**settings))


def test_a_pass_that_changes_the_result_in_a_later_run(loaded):
    finding = run_bisect(loads=loaded(), passes="dce,fixpoint(cse,tinker{how=change},simplify)", reduce_seconds=30.0)
    assert finding.fault is not None and finding.fault.kind is FaultKind.CHANGES
    assert finding.fault.message.startswith(
        "result[0]: float32[4]: 4 of 4 elements differ by more than rounding errors"
    )
    assert str(finding.position) == (
        "pass run 2: tinker{how=change} at position 1.1 (its 1st run, iteration 1 of its group)"
    )
    assert "subtract(" in finding.before and "subtract(" not in (finding.after or "")
    assert finding.reduced is not None and finding.kernel is None and finding.notes == []
    reduced = parse_hlo(finding.reduced.text)
    assert "subtract" in {i.op.name for i in reduced.instructions()} and reduced.instruction_count < 6
    assert reduced.entry_computation.program_shape.result.size == 1


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("raise", FaultKind.RAISES, f"InvalidArgumentError: no subtractions, please [{LOWERED_INSTRUCTION}]"),
        ("die", FaultKind.DIES, f"died by SIGSEGV: it said nothing [{codes.WORKER}]"),
        ("hang", FaultKind.HANGS, f"no answer within 2 seconds [{codes.WORKER}]"),
        (
            "break",
            FaultKind.BREAKS,
            f"main: d (subtract): subtract of (f32[4], f32[4]) has shape f32[4], declared f32[3] [{RESULT_SHAPE}]",
        ),
    ],
)
def test_a_pass_that_raises_dies_hangs_or_leaves_an_invalid_module(loaded, how, kind, message):
    finding = run_bisect(
        loads=loaded(), passes=f"cse,tinker{{how={how}}},simplify", timeout_seconds=2.0, reduce_seconds=0.0
    )
    assert finding.fault is not None
    assert (finding.fault.kind, finding.fault.message) == (kind, message)
    assert finding.position is not None and (finding.position.position, finding.pass_runs) == ("1", 2)
    assert (finding.after is not None) == (how == "break")


@pytest.mark.slow
def test_no_difference():
    finding = run_bisect(IN_A_LOOP)
    assert finding.fault is None and finding.position is None and finding.notes == []
    assert finding.pass_runs > 20 and finding.changing_runs > 0


@pytest.mark.slow
def test_a_pass_that_reports_no_change_but_makes_one(loaded):
    finding = run_bisect(loads=loaded(), passes="simplify,tinker{how=lie}", reduce_seconds=0.0)
    assert finding.fault is not None and finding.fault.kind is FaultKind.CHANGES
    assert finding.notes == [
        "pass run 1: tinker{how=lie} at position 1 (its 1st run) changes the module but reports no change"
    ]


def test_a_wrong_pass_in_the_pipeline_of_cpu(loaded):
    finding = run_bisect(loads=loaded("broken_pipeline.py"), reduce_seconds=0.0)
    assert finding.fault is not None and finding.fault.kind is FaultKind.CHANGES
    group = next(number for number, pass_ in enumerate(passes()) if isinstance(pass_, Fixpoint))
    assert finding.position is not None
    assert (finding.position.name, finding.position.position) == ("tinker{how=change}", f"{group}.0")


def test_wrong_code_of_a_fusion_in_a_loop(loaded):
    finding = run_bisect(IN_A_LOOP, loads=loaded("broken_code.py"))
    assert finding.fault is not None and finding.fault.kind is FaultKind.CHANGES and finding.position is None
    kernel = finding.kernel
    assert kernel is not None and kernel.compiled_alone
    assert (
        " fusion(" in kernel.instruction
        and kernel.fused_instruction.startswith("d.")
        and " subtract(" in kernel.fused_instruction
    )
    assert kernel.computation.startswith("body") and len(kernel.arguments) == 1
    assert [i.op.name for i in parse_hlo(kernel.text).entry_computation] == ["parameter", "fusion", "tuple"]


@pytest.mark.slow
def test_code_generation_ends_the_process(loaded):
    finding = run_bisect(loads=loaded("deadly_code.py"))
    assert finding.fault is not None and finding.fault.message.startswith("died by SIGABRT")
    assert finding.fault.kind is FaultKind.DIES and finding.kernel is not None
    assert " subtract(" in finding.kernel.fused_instruction


@pytest.mark.slow
def test_a_pass_that_creates_an_instruction_without_code(loaded):
    finding = run_bisect(loads=loaded("refused_code.py"))
    assert finding.fault is not None and finding.fault.kind is FaultKind.REFUSED and finding.position is None
    assert finding.fault.message == (
        f"UnsupportedError: later (copy-start) runs on cpu only together with its other half [{ASYNC_HALF}]"
    )
    (note,) = finding.notes
    assert note.startswith("later is made by pass run ") and ": defer at position " in note


@pytest.mark.slow
def test_programs_for_several_devices_and_with_dynamic_dimensions(loaded):
    devices = TEXT.replace("HloModule m", "HloModule m, replica_count=2")
    assert run_bisect(devices, reduce_seconds=0.0).fault is None
    dynamic = """
    HloModule m
    ENTRY main {
      x = f32[<=8] parameter(0)
      y = f32[<=8] parameter(1)
      ROOT d = f32[<=8] subtract(x, y)
    }
    """
    assert run_bisect(dynamic).fault is None
    finding = run_bisect(dynamic, loads=loaded("broken_pipeline.py"), reduce_seconds=0.0)
    assert finding.position is not None and finding.position.name == "tinker{how=change}"


@pytest.mark.slow
def test_amplified_rounding_is_not_a_fault():
    """Near a pole of 1 / sin(x), the last bit of x changes the result beyond any tolerance."""
    text = """
    HloModule m
    ENTRY main {
      x = f32[512] parameter(0)
      big = f32[] constant(123456)
      b = f32[512] broadcast(big), dimensions={}
      e = f32[512] exponential(x)
      m = f32[512] multiply(e, b)
      s = f32[512] sine(m)
      c = f32[512] copy(s)
      ROOT r = f32[512] divide(b, c)
    }
    """
    assert run_bisect(text).fault is None


def test_programs_that_exchange_data_with_the_host_are_refused():
    infeed = "HloModule m\nENTRY e { t = token[] after-all()  ROOT i = (f32[2], token[]) infeed(t) }"
    with raises(UnsupportedError, codes.HOST_EXCHANGE, "i (infeed)"):
        run_bisect(infeed)


@pytest.mark.slow
def test_programs_without_a_result_to_compare_with_are_refused():
    forever = IN_A_LOOP.replace("compare(i, n), direction=LT", "constant(true)")
    with raises(ExecutionError, codes.REFERENCE_RESULT, "2 sec"):
        run_bisect(forever, timeout_seconds=2.0)
    with raises(ExecutionError, codes.PASS_POSITION, "position 9", "are 0"):
        run_bisect(passes="dce", only_position="9")


@pytest.mark.slow
def test_against_xla():
    pytest.importorskip("jaxlib")
    assert run_bisect(against="xla").fault is None
    drawn = """
    HloModule m
    ENTRY e {
      a = f32[] constant(0)
      b = f32[] constant(1)
      ROOT r = f32[64] rng(a, b), distribution=rng_uniform
    }
    """
    finding = run_bisect(drawn, against="xla")
    assert not finding.agrees_before_passes and finding.fault is not None and finding.pass_runs == 0
