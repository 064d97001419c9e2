"""Bisecting finds the run of a pass, or the kernel, that makes a program wrong, whatever it does to the process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.cpu.compiler import passes
from xlapy.debugging.bisecting import Finding, Kind, Settings, bisect
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
    """A copy of the faults under a name, which says which of them are there."""

    def load(name: str = "faults.py") -> tuple[str, ...]:
        return (str(shutil.copyfile(FAULTS, tmp_path / name)),)

    return load


def found(text: str = TEXT, **settings: Any) -> Finding:
    module = parse_hlo(text, verify=True)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, seed=0)
    return bisect(module, [arguments] * module.config.replica_count, Settings(**settings))


def test_a_pass_that_changes_the_result_in_a_later_run(loaded):
    finding = found(loads=loaded(), passes="dce,fixpoint(cse,tinker{how=change},simplify)", reducing=30.0)
    assert finding.fault is not None and finding.fault.kind is Kind.CHANGES
    assert finding.fault.message.startswith("result[0]: float32[4]: 4 of 4 elements break the rule 'program'")
    assert str(finding.place) == ("pass run 2: tinker{how=change} at place 1.1 (its 1st run, round 1 of its group)")
    assert "subtract(" in finding.before and "subtract(" not in (finding.after or "")
    assert finding.reduced is not None and finding.kernel is None and finding.notes == []
    reduced = parse_hlo(finding.reduced.text)
    assert "subtract" in {i.op.name for i in reduced.instructions()} and reduced.instruction_count < 6
    assert reduced.entry_computation.program_shape.result.size == 1


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("raise", Kind.RAISES, "InvalidArgumentError: no subtractions, please"),
        ("die", Kind.DIES, "died by SIGSEGV: it said nothing"),
        ("hang", Kind.HANGS, "no answer within 2 seconds"),
        ("break", Kind.BREAKS, "main: d (subtract): subtract of (f32[4], f32[4]) has shape f32[4], declared f32[3]"),
    ],
)
def test_a_pass_that_does_not_get_through(loaded, how, kind, message):
    finding = found(loads=loaded(), passes=f"cse,tinker{{how={how}}},simplify", seconds=2.0, reducing=0.0)
    assert finding.fault is not None
    assert (finding.fault.kind, finding.fault.message) == (kind, message)
    assert finding.place is not None and (finding.place.place, finding.runs) == ("1", 2)
    assert (finding.after is not None) == (how == "break")


@pytest.mark.slow
def test_nothing_is_wrong():
    finding = found(IN_A_LOOP)
    assert finding.fault is None and finding.place is None and finding.notes == []
    assert finding.runs > 20 and finding.changes > 0


@pytest.mark.slow
def test_a_pass_that_lies(loaded):
    finding = found(loads=loaded(), passes="simplify,tinker{how=lie}", reducing=0.0)
    assert finding.fault is not None and finding.fault.kind is Kind.CHANGES
    assert finding.notes == [
        "pass run 1: tinker{how=lie} at place 1 (its 1st run) changes the module and reports that it does not"
    ]


def test_the_pipeline_of_cpu(loaded):
    finding = found(loads=loaded("broken_pipeline.py"), reducing=0.0)
    assert finding.fault is not None and finding.fault.kind is Kind.CHANGES
    group = next(number for number, pass_ in enumerate(passes()) if isinstance(pass_, Fixpoint))
    assert finding.place is not None
    assert (finding.place.name, finding.place.place) == ("tinker{how=change}", f"{group}.0")


def test_wrong_code_in_a_fusion_of_a_loop(loaded):
    finding = found(IN_A_LOOP, loads=loaded("broken_code.py"))
    assert finding.fault is not None and finding.fault.kind is Kind.CHANGES and finding.place is None
    kernel = finding.kernel
    assert kernel is not None and kernel.alone
    assert " fusion(" in kernel.instruction and kernel.inside.startswith("d.") and " subtract(" in kernel.inside
    assert kernel.computation.startswith("body") and len(kernel.arguments) == 1
    assert [i.op.name for i in parse_hlo(kernel.text).entry_computation] == ["parameter", "fusion", "tuple"]


@pytest.mark.slow
def test_making_code_ends_the_process(loaded):
    finding = found(loads=loaded("deadly_code.py"))
    assert finding.fault is not None and finding.fault.message.startswith("died by SIGABRT")
    assert finding.fault.kind is Kind.DIES and finding.kernel is not None
    assert " subtract(" in finding.kernel.inside


@pytest.mark.slow
def test_a_pass_that_makes_what_has_no_code(loaded):
    finding = found(loads=loaded("refused_code.py"))
    assert finding.fault is not None and finding.fault.kind is Kind.REFUSED and finding.place is None
    assert finding.fault.message == "UnsupportedError: later (copy-start) runs on cpu only together with its other half"
    (note,) = finding.notes
    assert note.startswith("later is made by pass run ") and ": defer at place " in note


@pytest.mark.slow
def test_programs_of_several_devices_and_of_dynamic_dimensions(loaded):
    devices = TEXT.replace("HloModule m", "HloModule m, replica_count=2")
    assert found(devices, reducing=0.0).fault is None
    dynamic = """
    HloModule m
    ENTRY main {
      x = f32[<=8] parameter(0)
      y = f32[<=8] parameter(1)
      ROOT d = f32[<=8] subtract(x, y)
    }
    """
    assert found(dynamic).fault is None
    finding = found(dynamic, loads=loaded("broken_pipeline.py"), reducing=0.0)
    assert finding.place is not None and finding.place.name == "tinker{how=change}"


@pytest.mark.slow
def test_rounding_that_a_program_amplifies_is_no_fault():
    """Near the pole of 1 / sin(x), the last bit of x decides."""
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
    finding = found(text)
    assert finding.fault is None
    assert all("amplifies rounding" in note for note in finding.notes)


def test_what_cannot_be_bisected():
    infeed = "HloModule m\nENTRY e { t = token[] after-all()  ROOT i = (f32[2], token[]) infeed(t) }"
    with pytest.raises(UnsupportedError, match=r"i \(infeed\) exchanges data with the host"):
        found(infeed)


@pytest.mark.slow
def test_what_has_no_result_to_compare_with():
    forever = IN_A_LOOP.replace("compare(i, n), direction=LT", "constant(true)")
    with pytest.raises(ExecutionError, match="the interpreter gives no result to compare with: no answer within 2 sec"):
        found(forever, seconds=2.0)
    with pytest.raises(ExecutionError, match="the pipeline has no pass at place 9; there are 0 remove-dead"):
        found(passes="dce", only="9")


@pytest.mark.slow
def test_against_xla():
    pytest.importorskip("jaxlib")
    assert found(against="xla").fault is None
    drawn = """
    HloModule m
    ENTRY e {
      a = f32[] constant(0)
      b = f32[] constant(1)
      ROOT r = f32[64] rng(a, b), distribution=rng_uniform
    }
    """
    finding = found(drawn, against="xla")
    assert not finding.agrees_before_passes and finding.fault is not None and finding.runs == 0
