"""`xlapy tune`: what it chooses, writes and refuses. Times are made up, so that the choice is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation.compiling import KERNEL_PLAN
from xlapy.base.error_codes.execution.running import OUT_OF_MEMORY
from xlapy.base.error_codes.interfaces.commands import SINGLE_DEVICE
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.codegen import plan_variants
from xlapy.codegen.plan import DemandedPlan, KernelPlan
from xlapy.codegen.region import Region
from xlapy.codegen.tuning import TunedKernel, parse_tuning, tuning_text
from xlapy.hlo.instruction import Instruction
from xlapy.runtime.machine import Bandwidth, Machine, Roofline
from xlapy.tools.command_line import invoke
from xlapy.tools.tune import annotation, command, search, trials, tuner
from xlapy.tools.tune.kernels import TunableKernel
from xlapy.tools.tune.search import Settings
from xlapy.tools.tune.trials import Bench
from xlapy.tools.tune.tuner import TunedProgram, tune_module

FAST = Roofline(1, {"f32": 1e18, "f64": 1e18}, (Bandwidth(1 << 14, 1e18, 1e18),))

DOT = """HloModule dots
ENTRY e {
  a = f32[48,64] parameter(0)
  b = f32[64,96] parameter(1)
  d = f32[48,96] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[48,96] tanh(d)
}"""

TWO_DOTS = DOT.replace("ROOT r = f32[48,96] tanh(d)", """t = f32[48,96] tanh(d)
  c = f32[32,96] parameter(2)
  ROOT p = f32[48,32] dot(t, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}""")  # fmt: skip


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose limits no kernel reaches."""
    monkeypatch.setattr(tuner, "machine_roofline", lambda: Machine("test", FAST, FAST))


def _with_other_tasks(instruction: Instruction, region: Region, plan: KernelPlan) -> list[KernelPlan]:
    """Few of the neighboring plans, to save time: those with other numbers of tiles in a task."""
    plans = plan_variants.neighboring_plans(instruction, region, plan)
    return [p for p in plans if getattr(p.parameters, "mc_tiles", 0) != getattr(plan.parameters, "mc_tiles", 0)]


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[KernelPlan], float]], None]:
    """Sets the time of every plan, and makes the winner faster in the program, too."""

    monkeypatch.setattr(plan_variants, "TILE_SIDES", (2, 7, 8))
    monkeypatch.setattr(search, "neighboring_plans", _with_other_tasks)

    def use(seconds: Callable[[KernelPlan], float]) -> None:
        plans: dict[int, tuple[object, KernelPlan]] = {}
        compiled = Bench.compiled

        def recorded(self: Bench, plan: KernelPlan) -> xla.Executable:
            executable = compiled(self, plan)
            plans[id(executable)] = executable, plan
            return executable

        def ratio(self: Bench, executable: object, reference: object, *_: object) -> float:
            return seconds(plans[id(executable)][1]) / seconds(plans[id(reference)][1])

        monkeypatch.setattr(Bench, "compiled", recorded)
        monkeypatch.setattr(Bench, "ratio", ratio)

        def in_program(self: tuner._Comparison, executable: xla.Executable) -> tuple[dict[int, float], float]:
            choices = tuner.form_of(executable).record.plans
            found = {id(one): seconds(choices[one.kernel.instructions[0].name].plan) for one in self.found}
            return found, sum(found.values())

        def walls(self: tuner._Comparison, executable: xla.Executable) -> list[float]:
            return [in_program(self, self.plain)[1], in_program(self, executable)[1]]

        monkeypatch.setattr(tuner._Comparison, "walls", walls)
        monkeypatch.setattr(tuner._Comparison, "seconds", in_program)

    return use


def tuned(text: str, **options) -> TunedProgram:
    module = xla.parse_hlo(text, verify=True)
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(p.shape.dimensions, np.float32) for p in module.entry_computation.parameters]
    return tune_module(module, arguments, settings=Settings(runs=1), repeat=2, **options)


def time_of(plan: KernelPlan) -> float:
    """The fastest plan is a packed GEMM with tiles of seven rows and two vectors, and two tiles in a task."""
    if plan.strategy != "packed-gemm":
        return 1.0
    p = plan.parameters
    return 0.9 - 0.2 * ((p.tile_rows, p.tile_vectors) == (7, 2)) - 0.1 * (p.mc_tiles == 2)


def test_the_fastest_strategy_and_its_parameters_are_found(gains):
    gains(time_of)
    found = tuned(DOT)
    (row,) = found.rows
    (kernel,) = found.kernels
    assert row.is_kept and row.after == pytest.approx(0.6) and row.before == 1.0
    parameters = dict(kernel.plan.parameters)
    assert kernel.plan.strategy == "packed-gemm"
    assert (parameters["tile_rows"], parameters["tile_vectors"], parameters["mc_tiles"]) == (7, 2, 2)
    assert kernel.what == "dot, tanh f32[48,64] f32[64,96] -> f32[48,96]"
    assert {trial.plan.strategy for trial in row.found.trials} >= {"direct-gemm", "packed-gemm", "skinny-gemm"}
    assert len({trial.plan for trial in row.found.trials}) == len(row.found.trials)


def test_the_default_plan_stays_if_no_other_one_saves_enough(gains):
    gains(lambda plan: 1.0 if plan.strategy == "direct-gemm" else 0.98)
    found = tuned(DOT)
    assert not found.kernels and found.rows[0].found.reason == "no faster plan"
    assert found.before == found.after and not found.rows[0].is_kept


def test_a_plan_with_wrong_results_is_never_chosen(gains, monkeypatch, caplog):
    gains(time_of)
    compiled = Bench.compiled
    wrong = xla.Client("cpu").compile(DOT.replace("tanh(d)", "negate(d)"))

    def sabotaged(self: Bench, plan: KernelPlan) -> xla.Executable:
        executable = compiled(self, plan)
        if time_of(plan) < 0.75:
            executable._fast_path = wrong._fast_path
        return executable

    monkeypatch.setattr(Bench, "compiled", sabotaged)
    (row,) = tuned(DOT).rows
    assert row.found.wrong and all(time_of(plan) < 0.75 for plan in row.found.wrong)
    assert row.found.winner is None or time_of(row.found.winner.plan) >= 0.75
    assert "wrong results" in caplog.text


def test_results_that_differ_within_the_tolerance_are_right():
    module = xla.parse_hlo(DOT, verify=True)
    compiled = tuner.compile_with_plans(module, tuner.NO_TUNED_PLANS)
    arguments = [np.ones((48, 64), np.float32), np.ones((64, 96), np.float32)]
    rows, _ = tuner._profile(compiled, tuner.Session(compiled, [arguments]), 2)
    (kernel,) = tuner.tunable_kernels(rows, tuner.form_of(compiled).record.plans)
    bench = Bench(kernel, 0)
    near = xla.Client("cpu").compile(DOT.replace("tanh(d)", "tanh(m)").replace(
        "  ROOT", "  c = f32[] constant(1.0000001)\n  w = f32[48,96] broadcast(c), dimensions={}\n"
        "  m = f32[48,96] multiply(d, w)\n  ROOT"))  # fmt: skip
    far = xla.Client("cpu").compile(DOT.replace("tanh(d)", "sine(d)"))
    assert np.any(bench.results(near)[0] != bench.results(bench.default)[0])
    assert bench.is_right(bench.default) and bench.is_right(near) and not bench.is_right(far)


def test_plans_whose_results_cannot_be_checked_are_not_chosen(gains, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise InvalidArgumentError(OUT_OF_MEMORY, "out of memory")

    gains(lambda plan: 0.5 if plan.strategy == "loops" else 1.0)
    monkeypatch.setattr(trials, "program_tolerance", refused)
    monkeypatch.setattr(plan_variants, "MAX_COST_RATIO", 1e9)
    results = Bench.results

    def changed(self: Bench, executable: xla.Executable) -> list[np.ndarray]:
        is_default = getattr(self, "default", executable) is executable
        return [array if is_default else array + 1 for array in results(self, executable)]

    monkeypatch.setattr(Bench, "results", changed)
    assert not tuned(DOT).kernels


def test_a_kernel_whose_arguments_do_not_fit_keeps_its_plan(gains, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise InvalidArgumentError(OUT_OF_MEMORY, "the random argument 0 does not fit in memory")

    gains(time_of)
    monkeypatch.setattr(trials, "random_arguments", refused)
    (row,) = tuned(DOT).rows
    assert "does not fit" in row.found.reason and not row.is_kept


def test_a_kernel_at_its_limit_is_not_searched(gains, monkeypatch):
    gains(time_of)
    monkeypatch.setattr(TunableKernel, "limit", 0.97)
    found = tuned(DOT)
    assert not found.rows[0].found.trials and found.rows[0].found.reason == "at 97% of the machine's limit"


def test_the_search_ends_when_the_kernel_reaches_its_limit(gains, monkeypatch):
    gains(time_of)
    monkeypatch.setattr(TunableKernel, "limit", 0.65)
    (row,) = tuned(DOT).rows
    assert row.found.reason == "reaches 108% of the machine's limit" and row.after == pytest.approx(0.6)
    assert row.found.trials[-1].ratio == pytest.approx(0.6)


def test_limits_that_a_kernel_exceeds_do_not_end_the_search(gains, monkeypatch):
    gains(time_of)
    monkeypatch.setattr(TunableKernel, "limit", 2.0)
    (row,) = tuned(DOT).rows
    assert row.is_kept and row.after == pytest.approx(0.6) and not row.found.reason


def test_without_time_nothing_is_tried(gains):
    gains(time_of)
    found = tuned(DOT, time_limit=0.0)
    assert len(found.rows[0].found.trials) == 1 and found.rows[0].found.reason == "out of time"
    assert not found.kernels


def test_a_plan_that_makes_the_program_no_faster_is_left_out(gains, monkeypatch):
    gains(time_of)
    monkeypatch.setattr(tuner._Comparison, "seconds", lambda self, _: ({id(one): 1.0 for one in self.found}, 1.0))
    found = tuned(DOT)
    assert not found.kernels and not found.rows[0].is_kept and found.rows[0].found.winner is not None


def test_plans_that_make_the_whole_program_slower_are_left_out_one_by_one(gains, monkeypatch):
    """The plan that gains less goes first; the program is faster without it."""
    gains(lambda plan: 0.5 if plan.strategy == "loops" else 1.0)
    monkeypatch.setattr(plan_variants, "MAX_COST_RATIO", 1e9)
    counts: list[int] = []

    def walls(self: tuner._Comparison, executable: xla.Executable) -> list[float]:
        changed = sum(choice.is_tuned for choice in tuner.form_of(executable).record.plans.values())
        counts.append(changed)
        return [1.0, 1.1 if changed == 2 else 0.9]

    monkeypatch.setattr(tuner._Comparison, "walls", walls)
    found = tuned(TWO_DOTS)
    assert counts == [2, 1] and len(found.kernels) == 1 and (found.before, found.after) == (1.0, 0.9)
    assert [row.is_kept for row in found.rows].count(True) == 1


def test_programs_on_several_devices_are_refused():
    with raises(UnsupportedError, SINGLE_DEVICE, "2 devices"):
        tuned(DOT.replace("HloModule dots", "HloModule dots, replica_count=2"))


MANY = """HloModule many
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
body { s = (s32[], f32[32,48], f32[48,48]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[32,48] get-tuple-element(s), index=1
  w = f32[48,48] get-tuple-element(s), index=2
  one = s32[] constant(1)
  m = s32[] add(n, one)
  d = f32[32,48] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[32,48] tanh(d)
  ROOT r = (s32[], f32[32,48], f32[48,48]) tuple(m, t, w) }
condition { s = (s32[], f32[32,48], f32[48,48]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT less = pred[] compare(n, three), direction=LT }
ENTRY e {
  x = f32[32,48] parameter(0)
  w = f32[48,48] parameter(1)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  start = (s32[], f32[32,48], f32[48,48]) tuple(zero, x, w)
  loop = (s32[], f32[32,48], f32[48,48]) while(start), condition=condition, body=body
  y = f32[32,48] get-tuple-element(loop), index=1
  columns = f32[48] reduce(y, none), dimensions={0}, to_apply=add
  e = f32[32,48] exponential(y)
  rows = f32[32] reduce(e, none), dimensions={1}, to_apply=add
  ROOT r = (f32[32,48], f32[32], f32[48]) tuple(e, rows, columns)
}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dot.hlo").write_text(DOT)
    (tmp_path / "many.hlo").write_text(MANY)
    return tmp_path


QUICK = ["--runs", "1", "--time-limit", "20"]


def test_the_command_writes_a_tuning_file_and_a_program(folder, gains, capsys):
    gains(time_of)
    assert invoke(["tune", "dot.hlo", *QUICK, "--tuning-file", "t", "-o", "out.hlo", "--json", "t.json"]) == 0
    shown = capsys.readouterr().out
    assert "packed-gemm" in shown and "was direct-gemm" in shown
    figures = json.loads((folder / "t.json").read_text())
    (kernel,) = figures["kernels"]
    assert kernel["is_kept"] and kernel["trials"][0] == {"plan": kernel["default_plan"], "ratio": 1.0}
    by_file = xla.Client("cpu").compile(DOT, tuning_file="t").as_hlo_text(optimized=True)
    by_module = xla.Client("cpu").compile((folder / "out.hlo").read_text()).as_hlo_text(optimized=True)
    assert by_file == by_module
    assert re.search(r'"strategy":"packed-gemm".*"mc_tiles":2.*"tile_rows":7,"tile_vectors":2', by_file)


def test_a_plan_that_cannot_be_written_into_the_program_is_named(folder, gains, monkeypatch, capsys):
    gains(time_of)
    monkeypatch.setattr(annotation, "_stored_name", lambda *_: "unknown")
    assert invoke(["tune", "dot.hlo", *QUICK, "-o", "out.hlo"]) == 0
    shown = capsys.readouterr().out
    assert "the program with 0 plans" in shown and "the plan of dot, tanh f32[48,64] f32[64,96]" in shown
    assert "kernel_plan" not in (folder / "out.hlo").read_text()


def test_further_plans_are_added_to_the_file(folder, gains):
    gains(time_of)
    (folder / "other.hlo").write_text(DOT.replace("96", "80"))
    texts: list[str] = []
    for order in (("dot.hlo", "other.hlo"), ("other.hlo", "dot.hlo")):
        for name in order:
            assert invoke(["tune", name, *QUICK, "--tuning-file", "t"]) == 0
        texts.append((folder / "t").read_text())
        (folder / "t").unlink()
    assert texts[0] == texts[1] and texts[0].count('"kernel"') == 2


def interrupted_at(call: int, function: Callable) -> Callable:
    """Returns a function that Ctrl-C interrupts in one of its calls."""
    calls: list[int] = []

    def interrupted(*args, **named):
        calls.append(len(calls))
        if len(calls) == call:
            raise KeyboardInterrupt
        return function(*args, **named)

    return interrupted


@pytest.mark.parametrize("where", ["search", "comparison"])
def test_an_interruption_keeps_the_plans_that_were_found(folder, gains, monkeypatch, capsys, where: str):
    gains(lambda plan: 0.5 if plan.strategy == "loops" else 1.0)
    monkeypatch.setattr(plan_variants, "MAX_COST_RATIO", 1e9)
    (folder / "other.hlo").write_text(DOT.replace("96", "80"))
    assert invoke(["tune", "other.hlo", *QUICK, "--tuning-file", "t"]) == 0
    (known,) = parse_tuning((folder / "t").read_text(), "t")
    (folder / "two.hlo").write_text(TWO_DOTS)
    if where == "search":
        monkeypatch.setattr(tuner, "search", interrupted_at(2, tuner.search))
    else:
        monkeypatch.setattr(tuner._Comparison, "walls", interrupted_at(1, tuner._Comparison.walls))
    capsys.readouterr()
    assert invoke(["tune", "two.hlo", *QUICK, "--tuning-file", "t", "-o", "out.hlo", "--json", "t.json"]) == 130
    output = capsys.readouterr()
    count = 1 if where == "search" else 2
    assert output.out == f"wrote {count} plans to t\n" and output.err.strip() == "xlapy: interrupted"
    kernels = parse_tuning((folder / "t").read_text(), "t")
    assert len(kernels) == 1 + count and known in kernels
    assert {kernel.plan.strategy for kernel in kernels} == {"loops"}
    assert sorted(path.name for path in folder.iterdir()) == ["dot.hlo", "many.hlo", "other.hlo", "t", "two.hlo"]


def test_an_interruption_before_a_plan_was_found_writes_nothing(folder, gains, monkeypatch, capsys):
    gains(time_of)
    monkeypatch.setattr(tuner, "search", interrupted_at(1, tuner.search))
    assert invoke(["tune", "dot.hlo", *QUICK, "--tuning-file", "t"]) == 130
    assert capsys.readouterr().out == "" and not (folder / "t").exists()


@pytest.mark.slow
def test_loops_and_kernels_with_several_results_by_real_times(folder):
    """Whatever is chosen, the results are the same to rounding, and the module has the plans of the file."""
    assert invoke(["tune", "many.hlo", *QUICK, "--tuning-file", "t", "-o", "out.hlo", "--min-gain", "0"]) == 0
    rng = np.random.default_rng(1)
    arguments = [rng.standard_normal(shape, np.float32) for shape in ((32, 48), (48, 48))]
    expected = xla.Client("interpreter").compile(MANY)(*arguments)
    for executable in (
        xla.Client("cpu").compile(MANY, tuning_file="t"),
        xla.Client("cpu").compile((folder / "out.hlo").read_text()),
    ):
        for one, other in zip(executable(*arguments), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def test_wrong_usage(folder, capsys):
    assert invoke(["tune", "dot.hlo", "-o", "out.mlir"]) == 2
    assert invoke(["tune", "dot.hlo", "-o", "out"]) == 2
    (folder / "bad").write_text("{")
    assert invoke(["tune", "dot.hlo", "--tuning-file", "bad"]) == 1
    assert "bad is no tuning file" in capsys.readouterr().err
    assert (folder / "bad").read_text() == "{"
    assert invoke(["tune", "dot.hlo", "--tuning-file", "missing/t"]) == 1
    (folder / "binary").write_bytes(b"\xff")
    assert invoke(["tune", "dot.hlo", "--tuning-file", "binary"]) == 1
    assert "the tuning file binary cannot be read" in capsys.readouterr().err
    assert invoke(["tune", "dot.hlo", "--tuning-file", "same.hlo", "-o", "./same.hlo"]) == 2
    assert "different files" in capsys.readouterr().err
    assert invoke(["tune", "dot.hlo", "--time-limit", "nan"]) == 2


def test_plans_that_others_write_during_a_search_stay_in_the_file(folder, gains, monkeypatch):
    gains(time_of)
    other = TunedKernel("OTHER", "0" * 32, DemandedPlan("loops", ()))

    def tune_and_write(*arguments, **options):
        (folder / "t").write_text(tuning_text([other]))
        return tune_module(*arguments, **options)

    monkeypatch.setattr(command, "tune_module", tune_and_write)
    assert invoke(["tune", "dot.hlo", *QUICK, "--tuning-file", "t"]) == 0
    kernels = parse_tuning((folder / "t").read_text(), "t")
    assert other in kernels and len(kernels) == 2


def test_a_program_without_kernels(folder, capsys):
    (folder / "none.hlo").write_text("HloModule none\nENTRY e { ROOT x = f32[3] parameter(0) }")
    assert invoke(["tune", "none.hlo", *QUICK, "--tuning-file", "t"]) == 0
    assert "0 of 0 plans changed" in capsys.readouterr().out
    assert xla.Client("cpu").compile(DOT, tuning_file="t") is not None


def test_a_module_is_refused_that_the_compiler_refuses(folder):
    with raises(InvalidArgumentError, KERNEL_PLAN, "'magic'"):
        tuned(DOT.replace("tanh(d)", 'tanh(d), backend_config={"kernel_plan":{"strategy":"magic"}}'))
