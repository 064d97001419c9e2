"""`xlapy run`: arguments, results, timing, traces, and errors."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.tools.programs import AXPY, COUNT_TO_3, SEVEN
from xlapy import opcodes
from xlapy.base.error_codes.execution.calls import ARGUMENT_SHAPE
from xlapy.base.error_codes.execution.running import INVALID_VALUE
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.lower import elementwise
from xlapy.tools.command_line import invoke

X = np.array([1, 2, 3], np.float32)
Y = np.array([10, 20, 30], np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.hlo").write_text(AXPY)
    (tmp_path / "count.hlo").write_text(COUNT_TO_3)
    (tmp_path / "seven.hlo").write_text(SEVEN)
    np.savez("named.npz", y=Y, x=X, a=np.float32(2))
    np.savez("ordered.npz", np.float32(2), X, Y)
    np.save("a.npy", np.float32(2))
    np.save("x.npy", X)
    np.save("y.npy", Y)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = invoke(["run", *arguments])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    assert invoke(["run", *arguments]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.usefixtures("folder")
class TestArguments:
    @pytest.mark.parametrize(
        "inputs",
        [["named.npz"], ["ordered.npz"], ["a.npy", "x.npy", "y.npy"]],
        ids=["by name", "in order", "one file each"],
    )
    def test_input_files(self, capsys, inputs):
        options = [word for name in inputs for word in ("--input", name)]
        assert printed(capsys, "axpy.hlo", *options) == "result: f32[3] [12., 24., 36.]\n"

    def test_a_renamed_parameter_is_found_under_the_name_in_the_text(self, capsys, folder):
        (folder / "renamed.hlo").write_text(COUNT_TO_3.replace("start", "value"))
        np.savez("value.npz", other=np.int32(9), value=np.int32(1))
        assert printed(capsys, "renamed.hlo", "--input", "value.npz") == "result: s32[] 3\n"

    def test_no_arguments_are_needed_without_parameters(self, capsys):
        assert printed(capsys, "seven.hlo") == "result: s32[] 7\n"

    def test_random_arguments_are_shown_and_repeat_with_their_seed(self, capsys):
        first = printed(capsys, "axpy.hlo", "--random", "5")
        assert re.match(r"parameter 0 \(a\): f32\[\] [-\d.]+\nparameter 1 \(x\): f32\[3\] \[", first)
        assert printed(capsys, "axpy.hlo", "--random", "5") == first
        assert printed(capsys, "axpy.hlo", "--random", "6") != first

    def test_tuple_parameters_take_one_array_per_leaf(self, capsys, folder):
        (folder / "tuple.hlo").write_text(
            "HloModule t\nENTRY main {\n  t = (f32[3], f32[3]) parameter(0)\n"
            "  x = f32[3] get-tuple-element(t), index=0\n"
            "  y = f32[3] get-tuple-element(t), index=1\n  ROOT s = f32[3] subtract(x, y)\n}\n"
        )
        assert (
            printed(capsys, "tuple.hlo", "--input", "y.npy", "--input", "x.npy") == "result: f32[3] [ 9., 18., 27.]\n"
        )

    def test_the_byte_order_of_a_file_does_not_matter(self, capsys):
        np.savez("big.npz", a=np.array(2, ">f4"), x=X.astype(">f4"), y=Y.astype(">f4"))
        assert printed(capsys, "axpy.hlo", "--input", "big.npz") == "result: f32[3] [12., 24., 36.]\n"

    def test_missing_arguments(self, capsys):
        assert refused(capsys, "axpy.hlo") == (
            "xlapy: the program takes arguments, give --input FILE or --random SEED: "
            f"(a: f32[], x: f32[3], y: f32[3]) -> f32[3] [{codes.INPUT_GIVEN}]\n"
        )

    def test_too_few_arrays(self, capsys):
        message = refused(capsys, "axpy.hlo", "--input", "x.npy")
        assert message.startswith("xlapy: the program takes 3 arrays, the input files hold 1: (a: f32[], ")

    def test_a_named_array_is_missing(self, capsys):
        np.savez("partly.npz", a=np.float32(2), x=X, z=Y)
        message = refused(capsys, "axpy.hlo", "--input", "partly.npz")
        assert message == f"xlapy: partly.npz has no array named y; it has a, x, z [{codes.INPUT_FILES}]\n"

    def test_the_wrong_shape_names_the_parameter(self, capsys):
        np.savez("long.npz", a=np.float32(2), x=np.zeros(4, np.float32), y=Y)
        message = refused(capsys, "axpy.hlo", "--input", "long.npz")
        assert message == f"xlapy: parameter 1 (x) takes f32[3] (float32), given float32[4] [{ARGUMENT_SHAPE}]\n"

    def test_the_wrong_type_says_how_to_convert(self, capsys):
        np.savez("double.npz", a=np.float32(2), x=X, y=Y.astype(np.float64))
        message = refused(capsys, "axpy.hlo", "--input", "double.npz")
        assert message == (
            "xlapy: parameter 2 (y) takes f32[3] (float32), given float64[3]; convert it with .astype('float32') "
            f"[{ARGUMENT_SHAPE}]\n"
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--input", "x.npy", "--random", "1"], "give --input or --random, not both"),
            (["--random", "-1"], "Invalid value for '--random': -1 is not in the range x>=0."),
            (["--random", "x"], "Invalid value for '--random': 'x' is not a valid integer"),
            (["--random", "1", "--repeat", "0"], "Invalid value for '--repeat': 0 is not in the range x>=1."),
            (["--random", "1", "--trace=("], "Invalid value for --trace: '(' is not a regular expression"),
            (["--random", "1", "--bogus"], "--bogus"),
            (["--random", "1", "--save", "."], "Invalid value for '--save': File '.' is a directory."),
        ],
    )
    def test_wrong_usage(self, capsys, options, message):
        assert message in refused(capsys, "axpy.hlo", *options, code=2)

    def test_unknown_platform(self, capsys):
        message = refused(capsys, "seven.hlo", "--platform", "tpu")
        assert message.startswith("xlapy: unknown platform 'tpu'; known platforms: ")
        assert "interpreter" in message


@pytest.mark.usefixtures("folder")
class TestResults:
    def test_tuples_show_each_leaf(self, capsys, folder):
        (folder / "pair.hlo").write_text(
            "HloModule p\nENTRY main {\n  a = pred[] constant(true)\n  i = s32[2,2] iota(), iota_dimension=1\n"
            "  ROOT t = (pred[], (s32[2,2])) tuple(a, u)\n}\n".replace("  ROOT", "  u = (s32[2,2]) tuple(i)\n  ROOT")
        )
        assert printed(capsys, "pair.hlo") == "result 0: pred[] True\nresult 1: s32[2,2]\n[[0, 1],\n [0, 1]]\n"

    def test_a_result_without_arrays_says_so(self, capsys, folder):
        (folder / "empty.hlo").write_text("HloModule e\nENTRY main {\n  ROOT t = () tuple()\n}\n")
        assert printed(capsys, "empty.hlo") == "the result, of shape (), holds no array\n"

    def test_long_arrays_are_shortened_unless_print_is_given(self, capsys, folder):
        (folder / "long.hlo").write_text("HloModule l\nENTRY main {\n  ROOT i = s32[100] iota(), iota_dimension=0\n}\n")
        assert printed(capsys, "long.hlo") == "result: s32[100] [ 0,  1,  2, ..., 97, 98, 99]\n"
        whole = printed(capsys, "long.hlo", "--print")
        assert [int(number) for number in re.findall(r"\d+", whole.partition("]")[2])] == list(range(100))

    def test_save(self, capsys):
        assert printed(capsys, "axpy.hlo", "--input", "named.npz", "--save", "out.npz") == "saved 1 array to out.npz\n"
        with np.load("out.npz") as saved:
            assert np.array_equal(saved["result0"], [12, 24, 36])

    def test_types_unknown_to_numpy_files_survive(self, capsys, folder):
        (folder / "half.hlo").write_text(
            "HloModule h\nENTRY main {\n  x = bf16[2] parameter(0)\n  s = s4[2] convert(x)\n"
            "  ROOT t = (bf16[2], s4[2]) tuple(x, s)\n}\n"
        )
        np.save("half.npy", np.array([1.5, -3], ml_dtypes.bfloat16).view("V2"))
        printed(capsys, "half.hlo", "--input", "half.npy", "--save", "half.npz")
        with np.load("half.npz") as saved:
            assert np.array_equal(saved["result0"].view(ml_dtypes.bfloat16), np.array([1.5, -3], ml_dtypes.bfloat16))
            assert np.array_equal(saved["result1"].view(ml_dtypes.int4), np.array([1, -3], ml_dtypes.int4))

    def test_save_and_print(self, capsys):
        output = printed(capsys, "seven.hlo", "--save", "out.npz", "--print")
        assert output == "saved 1 array to out.npz\nresult: s32[] 7\n"

    def test_repeat_prints_times(self, capsys):
        output = printed(capsys, "seven.hlo", "--repeat", "3")
        assert re.fullmatch(r"3 runs: median [\d.]+ ms, best [\d.]+ ms, worst [\d.]+ ms\nresult: s32\[\] 7\n", output)

    def test_the_output_folder_must_exist_before_the_run(self, capsys):
        message = refused(capsys, "axpy.hlo", "--save", "nowhere/out.npz")
        assert message == "xlapy: nowhere/out.npz: its folder does not exist\n"

    def test_an_existing_output_survives_a_failing_run(self, capsys, folder):
        (folder / "out.npz").write_bytes(b"precious")
        refused(capsys, "axpy.hlo", "--input", "x.npy", "--save", "out.npz")
        assert (folder / "out.npz").read_bytes() == b"precious"
        assert sorted(path.name for path in folder.glob("*out*")) == ["out.npz"]


@pytest.mark.usefixtures("folder")
class TestObservers:
    def test_trace_shows_every_instruction_in_loops_each_time(self, capsys):
        np.save("one.npy", np.int32(1))
        assert printed(capsys, "--trace", "count.hlo", "--input", "one.npy").splitlines() == [
            "condition: limit = s32[] constant -> 3",
            "condition: below = pred[] compare(value, limit) -> True",
            "body: one = s32[] constant -> 1",
            "body: after = s32[] add(before, one) -> 2",
            "condition: limit = s32[] constant -> 3",
            "condition: below = pred[] compare(value, limit) -> True",
            "body: one = s32[] constant -> 1",
            "body: after = s32[] add(before, one) -> 3",
            "condition: limit = s32[] constant -> 3",
            "condition: below = pred[] compare(value, limit) -> False",
            "main: count = s32[] while(start) -> 3",
            "result: s32[] 3",
        ]

    def test_trace_of_one_instruction(self, capsys):
        np.save("one.npy", np.int32(1))
        assert printed(capsys, "count.hlo", "--input", "one.npy", "--trace=aft|count").splitlines() == [
            "body: after = s32[] add(before, one) -> 2",
            "body: after = s32[] add(before, one) -> 3",
            "main: count = s32[] while(start) -> 3",
            "result: s32[] 3",
        ]

    def test_check_nans_names_the_first_instruction(self, capsys, folder):
        (folder / "nan.hlo").write_text(
            "HloModule n\nENTRY main {\n  x = f32[2] parameter(0)\n  n = s4[2] convert(x)\n"
            '  l = f32[2] log(x), metadata={source_file="model.py" source_line=7}\n  ROOT s = f32[2] add(l, l)\n}\n'
        )
        np.save("positive.npy", np.array([1, 4], np.float32))
        np.save("negative.npy", np.array([1, -4], np.float32))
        assert printed(capsys, "nan.hlo", "--input", "positive.npy", "--check-nans").startswith("result: f32[2] ")
        made = "(log) at model.py:7 is the first to make a NaN: [ 0. nan]; operand 0 = [ 1. -4.]"
        words = ["nan.hlo", "--input", "negative.npy", "--check-nans"]
        assert refused(capsys, *words, "--platform", "interpreter") == f"xlapy: l {made} [{INVALID_VALUE}]\n"
        on_cpu = refused(capsys, *words)
        assert made in on_cpu and on_cpu.endswith(f"; it is computed in s.fusion [{INVALID_VALUE}]\n")
        np.save("zero.npy", np.array([1, 0], np.float32))
        assert "is the first to make an infinity: [ 0. -inf]" in refused(
            capsys, "nan.hlo", "--input", "zero.npy", "--check-infs"
        )


SOFTMAX = """
HloModule m
plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[4,10] parameter(0)
  zero = f32[] constant(0)
  e = f32[4,10] exponential(x)
  s = f32[4] reduce(e, zero), dimensions={1}, to_apply=plus
  t = f32[4,10] broadcast(s), dimensions={0}
  ROOT quotient = f32[4,10] divide(e, t)
}
"""


class TestCompare:
    @pytest.fixture(autouse=True)
    def programs(self, folder: Path):
        (folder / "softmax.hlo").write_text(SOFTMAX)

    def test_platforms_that_agree(self, capsys):
        out = printed(capsys, "softmax.hlo", "--random", "0", "--platform", "cpu", "--compare", "interpreter")
        assert out == "cpu and the interpreter agree: all results, and 5 instructions one by one\n"

    def test_the_first_instruction_that_differs(self, capsys, monkeypatch):
        monkeypatch.setitem(elementwise.FLOATS, opcodes.DIVIDE, elementwise.FLOATS[opcodes.MULTIPLY])
        arguments = ["run", "softmax.hlo", "--random", "0", "--platform", "cpu", "--compare", "interpreter"]
        assert invoke(arguments) == 1
        out = capsys.readouterr().out
        assert out.startswith(
            "the results differ: result: float32[4, 10]: 40 of 40 elements differ by more than rounding errors"
        )
        assert "the first instruction that differs, compiled alone:\n  quotient = f32[4,10] divide(e, t)\n" in out
        assert "break the rule 'exact': within 0 ULP" in out
        for value in ("  operand 0 (e): [[", "  operand 1 (t): [[", "  cpu: [[", "  interpreter: [["):
            assert value in out

    def test_invalid_comparisons(self, capsys):
        few = ("softmax.hlo", "--random", "0", "--compare", "interpreter")
        assert "give --platform" in refused(capsys, *few, "--platform", "interpreter", code=2)
        assert "goes with arguments, --platform and --print only" in refused(
            capsys, *few, "--platform", "cpu", "--repeat", "3", code=2
        )
        assert "runs on 2 devices" in refused(capsys, *few, "--platform", "cpu", "--num-replicas", "2")
