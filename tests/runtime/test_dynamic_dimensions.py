"""Dynamic dimensions in the runtime: arguments and results of any size up to the bound, feeds, traces, `xlapy run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.replica import compile_on_devices, module
from tests.raising import raises
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.runtime.engine.observe import check_nans, trace
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.command_line import invoke

DOUBLE = """HloModule double

ENTRY main {
  x = f32[<=5] parameter(0)
  ROOT r = f32[<=5] add(x, x)
}
"""


def run(text: str, *arguments: Any, **options: Any) -> Any:
    return xla.Client("interpreter").compile(text)(*arguments, **options)


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


@pytest.mark.parametrize("size", range(6))
def test_arguments_and_results_have_any_size_up_to_the_bound(size: int):
    argument = np.arange(size, dtype=np.float32)
    result = run(DOUBLE, argument)
    assert (result.shape, result.xla_shape, len(result)) == ((size,), Shape.parse(f"f32[{size}]"), size)
    np.testing.assert_array_equal(np.asarray(result), 2 * argument)
    np.testing.assert_array_equal(np.from_dlpack(result), 2 * argument)


def test_results_are_arguments_again():
    executable = xla.Client("interpreter").compile(DOUBLE)
    assert np.asarray(executable(executable([1.0, 2.0]))).tolist() == [4, 8]


def test_results_do_not_share_memory_with_arguments():
    text = "HloModule m\nENTRY e {\n  ROOT x = f32[<=2] parameter(0)\n}\n"
    for argument in (floats(1, 2), floats(1)):
        result = np.asarray(run(text, argument))
        argument[0] = 9
        assert result[0] == 1


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        (floats(1, 2, 3, 4, 5, 6), ["float32[6]"]),
        (np.zeros((2, 2), np.float32), ["float32[2,2]"]),
        (np.zeros(2, np.float64), ["float64[2]", ".astype('float32')"]),
    ],
)
def test_arguments_that_do_not_fit(argument: Any, given: list[str]):
    with raises(InvalidArgumentError, codes.ARGUMENT_SHAPE, "parameter 0 (x)", "f32[<=5] (float32)", *given):
        run(DOUBLE, argument)


def test_static_dimensions_next_to_dynamic_ones_are_exact():
    text = "HloModule m\nENTRY e {\n  ROOT x = f32[<=2,3] parameter(0)\n}\n"
    assert run(text, np.ones((1, 3), np.float32)).shape == (1, 3)
    with raises(InvalidArgumentError, codes.ARGUMENT_SHAPE, "f32[<=2,3] (float32)", "float32[2,2]"):
        run(text, np.ones((2, 2), np.float32))


def test_tuples():
    text = """HloModule m
ENTRY e {
  p = (f32[<=3], (s32[2,<=2])) parameter(0)
  x = f32[<=3] get-tuple-element(p), index=0
  n = s32[] get-dimension-size(x), dimensions={0}
  ROOT t = ((f32[<=3], (s32[2,<=2])), s32[]) tuple(p, n)
}
"""
    (x, (y,)), size = run(text, (floats(1, 2), (np.ones((2, 1), np.int32),)))
    assert (x.shape, y.shape, int(size)) == ((2,), (2, 1), 2)


# -- between devices, and with the host


def test_sent_values_keep_their_sizes():
    """Each of two devices sends its array to the other; their sizes differ."""
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}'
    text = module(
        f"""p = f32[<=3] parameter(0) k = token[] after-all()
        v = (f32[<=3], u32[], token[]) recv(k), {pairs}
        s = (f32[<=3], u32[], token[]) send(p, k), {pairs}
        e = token[] send-done(s)
        w = (f32[<=3], token[]) recv-done(v)
        ROOT r = f32[<=3] get-tuple-element(w), index=0""",
        replicas=2,
    )
    results = compile_on_devices(text).execute_sharded([[floats(1)], [floats(2, 3)]])
    assert [np.asarray(result).tolist() for result in results] == [[2, 3], [1]]


def test_fed_values_keep_their_sizes():
    text = module(
        """k = token[] after-all()
        i = (f32[<=3], token[]) infeed(k)
        x = f32[<=3] get-tuple-element(i), index=0
        t = token[] get-tuple-element(i), index=1
        y = f32[<=3] negate(x)
        ROOT o = token[] outfeed(y, t)"""
    )
    executable = compile_on_devices(text)
    device = executable.devices[0]
    for fed in ([1.0, 2.0], []):
        device.transfer_to_infeed(np.array(fed, np.float32))
        executable()
        assert np.asarray(device.transfer_from_outfeed(Shape.parse("f32[<=3]"))).tolist() == [-x for x in fed]
    device.transfer_to_infeed(floats(1, 2, 3, 4))
    with raises(InvalidArgumentError, codes.ARGUMENT_SHAPE, "i (infeed)", "f32[<=3] (float32)", "float32[4]"):
        executable()


# -- observers


def test_traces_show_sizes():
    lines: list[str] = []
    run(DOUBLE, floats(1, 2), observer=trace(lines.append))
    assert lines == ["main: r = f32[<=5] add(x, x) -> [2] [2. 4.]"]


def test_nans_in_padding_are_ignored():
    """The square root of -1 in the padding is ignored; within the size, it is found."""
    text = """HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  n = s32[] parameter(1)
  d = f32[<=3] set-dimension-size(x, n), dimensions={0}
  ROOT r = f32[<=3] sqrt(d)
}
"""
    argument = floats(4, 9, -1)
    assert np.asarray(run(text, argument, 2, observer=check_nans)).tolist() == [2, 3]
    with raises(ExecutionError, running_codes.INVALID_VALUE, "r (sqrt)", "[3]", "nan]", "operand 0"):
        run(text, argument, 3, observer=check_nans)


# -- random arguments, the command line


def test_random_arguments_have_the_same_size_for_the_same_bound():
    shapes = [Shape.parse(text) for text in ("f32[<=9]", "s32[2,<=9]", "f32[<=5,<=9]", "f32[9]")]
    for seed in range(5):
        first, second, third, fourth = (argument.shape for argument in random_arguments(shapes, seed))
        assert 1 <= first[0] <= 9 and 1 <= third[0] <= 5
        assert (second, third[1], fourth) == ((2, first[0]), first[0], (9,))
    assert len({random_arguments(shapes[:1], seed)[0].shape for seed in range(20)}) > 3


def test_xlapy_run_prints_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "double.hlo").write_text(DOUBLE)
    np.save(tmp_path / "x.npy", floats(1, 2))
    assert invoke(["run", str(tmp_path / "double.hlo"), "--input", str(tmp_path / "x.npy")]) == 0
    assert capsys.readouterr().out == "result: f32[<=5] of [2] [2., 4.]\n"
    assert invoke(["run", str(tmp_path / "double.hlo"), "--random", "1"]) == 0
    assert capsys.readouterr().out.startswith("parameter 0 (x): f32[<=5] of [")
