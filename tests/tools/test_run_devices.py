"""`xlapy run` on several devices: arguments of all devices or of one, infeeds, outfeeds, results, and errors."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from xlapy.tools.command_line import invoke

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
SUM = f"""HloModule m, replica_count=2
{ADD}ENTRY e {{ p = f32[2] parameter(0) s = f32[2] all-reduce(p), replica_groups={{}}, to_apply=add
  n = u32[] replica-id() ROOT t = (f32[2], u32[]) tuple(s, n) }}
"""
FED = """HloModule m
ENTRY e { k = token[] after-all() i = ((f32[2], bf16[]), token[]) infeed(k)
  d = (f32[2], bf16[]) get-tuple-element(i), index=0 l = token[] get-tuple-element(i), index=1
  j = (s32[], token[]) infeed(l) n = s32[] get-tuple-element(j), index=0
  o = token[] outfeed(d, k) q = token[] outfeed(n, o) ROOT r = s32[] negate(n) }
"""
FIRST = "device 0: result 0: f32[2] {}\ndevice 0: result 1: u32[] 0\n"
SECOND = "device 1: result 0: f32[2] {}\ndevice 1: result 1: u32[] 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sum.hlo").write_text(SUM)
    Path("fed.hlo").write_text(FED)
    np.save("p.npy", np.array([1, 2], np.float32))
    np.save("q.npy", np.array([10, 20], np.float32))
    bf16 = np.array(1.5, ml_dtypes.bfloat16)
    np.savez("fed.npz", np.array([3, 4], np.float32), bf16, np.array(7, np.int32))


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert invoke(["run", *arguments]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and bool(captured.err) is (code != 0)
    return captured.err if code else captured.out


def test_the_same_arguments_on_each_device(capsys: pytest.CaptureFixture[str]) -> None:
    values = "[2., 4.]"
    assert run(capsys, "sum.hlo", "--input", "p.npy") == FIRST.format(values) + SECOND.format(values)


def test_arguments_of_one_device(capsys: pytest.CaptureFixture[str]) -> None:
    values = "[11., 22.]"
    expected = FIRST.format(values) + SECOND.format(values)
    assert run(capsys, "sum.hlo", "--input", "p.npy", "--input", "1=q.npy") == expected
    assert run(capsys, "sum.hlo", "--input", "0=p.npy", "--input", "1=q.npy") == expected
    assert "device 1 has no input" in run(capsys, "sum.hlo", "--input", "0=p.npy", code=1)
    message = "Invalid value for --input: there is no device 2, the program runs on 2 (0 to 1)"
    assert message in run(capsys, "sum.hlo", "--input", "2=p.npy", code=2)


def test_random_arguments_differ_from_device_to_device(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "sum.hlo", "--random", "5").splitlines()
    assert lines[0].startswith("device 0: parameter 0 (p): f32[2] [")
    assert lines[0].partition("f32[2]")[2] != lines[1].partition("f32[2]")[2]
    alone = run(capsys, "sum.hlo", "--random", "6", "--num-replicas", "1").splitlines()
    assert alone[0] == lines[1].removeprefix("device 1: ")  # device n uses the n-th seed after the given one


@pytest.mark.parametrize("option", ["--num-replicas", "--num_replicas"])
def test_the_number_of_replicas(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert run(capsys, "sum.hlo", "--input", "p.npy", option, "1") == "result 0: f32[2] [1., 2.]\nresult 1: u32[] 0\n"


def test_replicas_of_several_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "sum.hlo", "--input", "p.npy", "--num_partitions", "2").splitlines()
    assert lines[6:] == [
        "device 3 (replica 1, partition 1): result 0: f32[2] [2., 4.]",
        "device 3 (replica 1, partition 1): result 1: u32[] 1",
    ]


def test_too_many_devices(capsys: pytest.CaptureFixture[str]) -> None:
    message = "runs on 5000 devices (replica_count=5000, num_partitions=1)"
    assert message in run(capsys, "sum.hlo", "--input", "p.npy", "--num-replicas", "5000", code=1)


def test_results_of_each_device_are_saved(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "sum.hlo", "--input", "p.npy", "--save", "out.npz") == "saved 4 arrays to out.npz\n"
    saved = np.load("out.npz")
    assert sorted(saved) == [f"device{d}_result{i}" for d in range(2) for i in range(2)]
    assert saved["device1_result0"].tolist() == [2, 4] and saved["device1_result1"] == 1


def test_a_trace_names_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "sum.hlo", "--input", "p.npy", "--trace=^n$").splitlines()
    assert sorted(lines[:2]) == [f"device {d}: e: n = u32[] replica-id -> {d}" for d in range(2)]


def test_infeeds_and_outfeeds(capsys: pytest.CaptureFixture[str]) -> None:
    expected = [
        "outfeed 0 leaf 0: f32[2] [3., 4.]",
        "outfeed 0 leaf 1: bf16[] 1.5",
        "outfeed 1: s32[] 7",
        "result: s32[] -7",
    ]
    assert run(capsys, "fed.hlo", "--infeed", "fed.npz").splitlines() == expected
    assert run(capsys, "fed.hlo", "--infeed", "fed.npz", "--repeat", "3").splitlines()[1:] == expected
    twice = run(capsys, "fed.hlo", "--infeed", "0=fed.npz", "--infeed", "1=fed.npz", "--num-replicas", "2").splitlines()
    assert twice == [f"device {d}: {line}" for d in range(2) for line in expected]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fed.hlo", "--infeed", "p.npy"], "p.npy: infeed 0 takes 2 arrays ((f32[2], bf16[])), 1 are left"),
        (["sum.hlo", "--input", "p.npy", "--infeed", "p.npy"], "p.npy: the program has no infeed"),
        (
            ["fed.hlo", "--infeed", "fed.npz", "--infeed", "fed.npz"],
            "did not take all that was fed in: 2 values are left",
        ),
        (["fed.hlo", "--infeed", "none.npz"], "none.npz: No such file or directory"),
    ],
)
def test_invalid_infeeds(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert message in run(capsys, *arguments, code=1)
