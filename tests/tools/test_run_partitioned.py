"""`xlapy run` of programs with shardings: global arguments and results, replicas, comparisons, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.processes import run_job
from xlapy.base.error_codes.compilation.partitioner import DYNAMIC_SHARDED, PARTITION_COUNT, PARTITIONED_OPERATION
from xlapy.base.error_codes.execution.calls import ARGUMENT_SHAPE
from xlapy.base.error_codes.execution.devices import RUN_DEVICES
from xlapy.base.error_codes.interfaces.commands import INPUT_GIVEN, SINGLE_DEVICE
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.command_line import invoke
from xlapy.tools.run.devices import load_program
from xlapy.tools.run.unpartitioned import compare_with_unpartitioned

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
DOT = """HloModule dot
ENTRY e { x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[4,6] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = s32[] constant(3)
  ROOT t = (f32[8,6], s32[]) tuple(y, n), sharding={{devices=[2,2]<=[4]}, {replicated}} }
"""
TOTAL = f"""HloModule total, num_partitions=4
{ADD}ENTRY e {{ x = f32[512] parameter(0), sharding={{devices=[4]<=[4]}}
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=add }}
"""
SCALED = f"""HloModule scaled, replica_count=2
{ADD}ENTRY e {{ x = f32[4] parameter(0), sharding={{devices=[2]<=[2]}}
  s = f32[4] all-reduce(x), replica_groups={{}}, to_apply=add
  i = u32[] replica-id()
  c = f32[] convert(i)
  b = f32[4] broadcast(c), dimensions={{}}
  ROOT y = f32[4] multiply(s, b), sharding={{devices=[2]<=[2]}} }}
"""
SHARDY = """module @shardy {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%x: tensor<4x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
      %w: tensor<8x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>})
      -> (tensor<4x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
    return %0 : tensor<4x2xbf16>
  }
}
"""
GSPMD = """module @gspmd attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
      -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]1,0}"}) {
    %0 = stablehlo.negate %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
MANUAL = """module @manual {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"}
        (%local: tensor<2xf32>) {
      %1 = stablehlo.reverse %local, dims = [0] : tensor<2xf32>
      sdy.return %1 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
X, W = np.arange(32, dtype=np.float32).reshape(8, 4), np.arange(24, dtype=np.float32).reshape(4, 6)
PROGRAMS = {
    "dot.hlo": DOT, "total.hlo": TOTAL, "scaled.hlo": SCALED, "shardy.mlir": SHARDY, "gspmd.mlir": GSPMD,
    "manual.mlir": MANUAL,
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in PROGRAMS.items():
        Path(name).write_text(text)
    np.savez("dot.npz", x=X, w=W)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert invoke(["run", *arguments]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err if captured.err else captured.out


def saved(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, np.ndarray]:
    run(capsys, *arguments, "--save", "out.npz")
    with np.load("out.npz") as found:
        return dict(found)


def test_results_are_global(capsys: pytest.CaptureFixture[str]) -> None:
    found = saved(capsys, "dot.hlo", "--input", "dot.npz")
    assert sorted(found) == ["result0", "result1"] and found["result1"] == 3
    np.testing.assert_array_equal(found["result0"], X @ W)
    assert run(capsys, "dot.hlo", "--input", "dot.npz", "--print").count("result") == 2


@pytest.mark.parametrize("name", ["dot.hlo", "total.hlo", "shardy.mlir", "gspmd.mlir"])
def test_the_output_is_that_of_one_device(capsys: pytest.CaptureFixture[str], name: str) -> None:
    alone = run(capsys, name, "--random", "3", "--num-partitions", "1", "--platform", "interpreter")
    split = run(capsys, name, "--random", "3", "--platform", "interpreter")
    assert split.splitlines()[:-1] == alone.splitlines()[:-1]
    if name != "total.hlo":  # sums of four devices are rounded otherwise
        assert split == alone and "device" not in split


def test_the_number_of_partitions_is_that_of_the_program() -> None:
    for name, partitions in (
        ("dot.hlo", 4),
        ("total.hlo", 4),
        ("shardy.mlir", 4),
        ("gspmd.mlir", 2),
        ("manual.mlir", 2),
    ):
        executable = load_program("cpu", name, None, None, "error").executable
        assert (executable.num_replicas, executable.num_partitions) == (1, partitions)
        assert executable.entry_shardings is not None
    assert load_program("cpu", "dot.hlo", None, 1, "error").executable.entry_shardings is None
    executable = load_program("cpu", "dot.hlo", 2, 4, "error").executable
    assert (executable.num_replicas, executable.num_partitions) == (2, 4)


def test_manual_regions(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.float32([1, 2, 3, 4]))
    assert run(capsys, "manual.mlir", "--input", "x.npy") == "result: f32[4] [2., 1., 4., 3.]\n"
    message = run(capsys, "manual.mlir", "--random", "0", "--compare", "single", code=1)
    assert f"[{SINGLE_DEVICE}]" in message and "does not run on one device" in message


def test_processes_compare_manual_regions_with_one_process_only(tmp_path: Path) -> None:
    found = run_job(
        Path("-m"), 2, "xlapy", "run", str(tmp_path / "manual.mlir"), "--random", "3", "--compare", "single"
    )
    first, second = found.output.splitlines()
    assert (found.code, found.errors) == (0, "")
    assert first == "the results of 2 devices in 2 processes have the same bits as those of one process"
    assert second.startswith("they are not compared with those of one device: ") and f"[{SINGLE_DEVICE}]" in second


def test_types_of_other_packages(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    w = np.eye(8, 2).astype(ml_dtypes.bfloat16)
    np.savez("bf16.npz", x=x.view("V2"), w=w.view("V2"))
    found = saved(capsys, "shardy.mlir", "--input", "bf16.npz")["result0"].view(ml_dtypes.bfloat16)
    assert found.tolist() == x[:, :2].tolist()


def test_replicas_have_arguments_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("a.npy", np.float32([1, 2, 3, 4]))
    np.save("b.npy", np.float32([10, 20, 30, 40]))
    text = run(capsys, "scaled.hlo", "--input", "a.npy", "--input", "1=b.npy")
    assert text == "replica 0: result: f32[4] [0., 0., 0., 0.]\nreplica 1: result: f32[4] [11., 22., 33., 44.]\n"
    found = saved(capsys, "scaled.hlo", "--input", "a.npy", "--input", "1=b.npy")
    assert {name: array.tolist() for name, array in found.items()} == {
        "replica0_result0": [0, 0, 0, 0], "replica1_result0": [11, 22, 33, 44]
    }  # fmt: skip
    random = run(capsys, "scaled.hlo", "--random", "5", "--print").splitlines()
    drawn = [random_arguments([xla.Shape.parse("f32[4]")], seed)[0] for seed in (5, 6)]
    assert random[0].startswith("replica 0: parameter 0 (x): f32[4] [")
    np.testing.assert_allclose(json.loads(random[3].partition("f32[4] ")[2]), drawn[0] + drawn[1], rtol=1e-6)
    assert "replica 1 has no input" in run(capsys, "scaled.hlo", "--input", "0=a.npy", code=1)
    message = "there is no replica 2, the program runs on 2 (0 to 1)"
    assert message in run(capsys, "scaled.hlo", "--input", "2=a.npy", code=2)


def test_a_compiled_program_takes_global_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["compile", "dot.hlo", "-o", "dot.xla"]) == 0
    np.testing.assert_array_equal(saved(capsys, "dot.xla", "--input", "dot.npz")["result0"], X @ W)
    text = run(capsys, "dot.xla", "--input", "dot.npz", "--compare", "single")
    assert text.endswith("the results of 4 devices in 1 process have the same bits as those of one process\n")


def test_other_commands_partition_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["profile", "dot.hlo", "--repeat", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["devices"] == 4
    assert invoke(["show", "dot.hlo", "--profile", "--input", "dot.npz"]) == 0
    assert "f32[2,4]" in capsys.readouterr().out
    assert invoke(["show", "dot.hlo", "--optimized"]) == 0
    assert "f32[2,4]" in capsys.readouterr().out
    assert invoke(["explain", "y.1", "dot.hlo"]) == 0
    assert "dot(x.1" in capsys.readouterr().out
    assert invoke(["explain", "dot.hlo"]) == 0
    assert "memory of a run on one device" in capsys.readouterr().out
    assert invoke(["show", "dot.hlo"]) == 0  # the file as it is
    assert "f32[8,4]" in capsys.readouterr().out


# -- comparisons


def test_comparisons_with_the_unpartitioned_program(capsys: pytest.CaptureFixture[str]) -> None:
    other = "those of the unpartitioned program on one device"
    same = run(capsys, "dot.hlo", "--input", "dot.npz", "--compare", "single")
    assert same == f"the results have the same bits as {other}\n"
    rounded = run(capsys, "total.hlo", "--random", "1", "--compare", "single", "--platform", "interpreter")
    assert rounded == f"the results agree with {other}: they differ by rounding errors only\n"
    replicas = run(capsys, "scaled.hlo", "--random", "1", "--compare", "single")
    assert replicas == f"the results have the same bits as {other} for each replica\n"


def test_results_that_differ_from_the_unpartitioned_program(capsys: pytest.CaptureFixture[str]) -> None:
    program = load_program("cpu", "dot.hlo", None, None, "error")
    assert program.source is not None
    wrong = X @ W
    wrong[3, 2] += 0.01
    results = {0: [wrong, np.array(3, np.int32)]}
    assert compare_with_unpartitioned(program.source, program.executable, {0: [X, W]}, results) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("result 0: ") and last.endswith("by more than rounding errors")


# -- errors


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["dot.hlo", "--random", "0", "--num-partitions", "8"], PARTITION_COUNT, "names 4 devices"),
        (["dot.hlo", "--random", "0", "--num-partitions", "3"], PARTITION_COUNT, "num_partitions=3"),
        (["dot.hlo", "--random", "0", "--num-replicas", "500"], RUN_DEVICES, "replica_count=500, num_partitions=4"),
        (["dot.hlo"], INPUT_GIVEN, "(x: f32[8,4], w: f32[4,6])"),
        (["dot.hlo", "--input", "local.npz"], ARGUMENT_SHAPE, "parameter 0 (x) takes f32[8,4] (float32), given"),
        (["scaled.hlo", "--input", "0=x.npy", "--input", "1=y.npy"], ARGUMENT_SHAPE, "replica 1: parameter 0 (x)"),
        (["infeed.hlo"], PARTITIONED_OPERATION, "infeed"),
        (["dynamic.hlo", "--random", "0"], DYNAMIC_SHARDED, "f32[<=8,4]"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], code: str, message: str) -> None:
    np.savez("local.npz", x=X[:2], w=W)
    np.save("x.npy", np.ones(4, np.float32))
    np.save("y.npy", np.ones(2, np.float32))
    Path("infeed.hlo").write_text(
        "HloModule m ENTRY e { t = token[] after-all() i = (f32[4], token[]) infeed(t)\n"
        "x = f32[4] get-tuple-element(i), index=0 ROOT y = f32[4] negate(x), sharding={devices=[2]<=[2]} }"
    )
    Path("dynamic.hlo").write_text(
        "HloModule m ENTRY e { ROOT x = f32[<=8,4] parameter(0), sharding={devices=[1,2]<=[2]} }"
    )
    error = run(capsys, *arguments, code=1)
    assert f"[{code}]" in error and message in error


# -- several processes


@pytest.mark.parametrize("name", ["dot.hlo", "scaled.hlo"])
def test_processes_print_what_one_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    found = run_job(Path("-m"), 2, "xlapy", "run", str(tmp_path / name), "--random", "3", "--print")
    assert (found.code, found.errors) == (0, "")
    assert found.output == run(capsys, name, "--random", "3", "--print")


def test_processes_compare_twice(tmp_path: Path) -> None:
    found = run_job(Path("-m"), 2, "xlapy", "run", str(tmp_path / "total.hlo"), "--random", "3", "--compare", "single")
    assert (found.code, found.errors) == (0, "")
    first, second = found.output.splitlines()
    assert first == "the results of 4 devices in 2 processes have the same bits as those of one process"
    assert "those of the unpartitioned program on one device" in second and "differ from" not in second
