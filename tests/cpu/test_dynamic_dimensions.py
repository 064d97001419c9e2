"""Dynamic dimensions on cpu: sizes of arguments, random programs, and programs that stay dynamic."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from tests.testing.test_random_dynamic import cut
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules.dynamic import random_dynamic_module

CPU = xla.Client("cpu")
INTERPRETER = xla.Client("interpreter")

DOUBLE = """HloModule double
ENTRY main {
  p = (f32[<=5,3], s32[]) parameter(0)
  x = f32[<=5,3] get-tuple-element(p), index=0
  n = s32[] get-dimension-size(x), dimensions={0}
  y = f32[<=5,3] add(x, x)
  inner = (f32[<=5,3]) tuple(y)
  ROOT r = (s32[], (f32[<=5,3])) tuple(n, inner)
}
"""


@pytest.mark.parametrize("size", [0, 2, 5])
def test_arguments_and_results_have_any_size_up_to_the_bound(size: int):
    argument = np.arange(size * 3, dtype=np.float32).reshape(size, 3)
    executable = CPU.compile(DOUBLE)
    count, (result,) = executable((argument, np.int32(0)))
    assert (int(count), result.shape) == (size, (size, 3))
    np.testing.assert_array_equal(np.asarray(result), 2 * argument)
    count, (result,) = executable((result, 0))
    np.testing.assert_array_equal(np.asarray(result), 4 * argument)


def test_random_programs_agree_with_the_interpreter():
    for seed in range(25):
        module = random_dynamic_module(seed, instructions=8)
        arguments = random_arguments(module.entry_computation.program_shape.parameters, seed)
        results = [cut(client.compile(module)(*arguments)) for client in (CPU, INTERPRETER)]
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"seed {seed}")


def test_sizes_of_static_arrays_are_known():
    text = """HloModule m
ENTRY main {
  x = f32[4,3] parameter(0)
  ROOT n = s32[] get-dimension-size(x), dimensions={0}
}
"""
    assert int(CPU.compile(text)(np.zeros((4, 3), np.float32))) == 4


FOURIER = """HloModule m
ENTRY main {
  x = c64[<=4] parameter(0)
  y = c64[<=4] add(x, x)
  z = c64[<=4] fft(y), fft_type=FFT, fft_length={4}
  n = s32[] get-dimension-size(z), dimensions={0}
  ROOT r = (c64[<=4], s32[]) tuple(z, n)
}
"""


def test_programs_without_a_static_form_fall_back_to_the_interpreter():
    values = np.arange(4, dtype=np.complex64)
    program = CPU.compile(FOURIER)
    assert "xlapy.interpret" in program.as_hlo_text(optimized=True)
    for again in (program, CPU.deserialize(program.serialize())):
        result, size = again(values)
        np.testing.assert_array_equal(np.asarray(result), np.fft.fft(2 * values).astype(np.complex64))
        assert int(size) == 4
        with pytest.raises(
            ExecutionError, match=r"z \(fft\), with the sizes at run time: .* dimension 0 of c64\[3\] must be 4"
        ):
            again(values[:3])


def test_a_target_that_takes_no_sizes_is_refused():
    text = """HloModule m
ENTRY main {
  x = f32[<=4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="lapack_spotrf_ffi"
}
"""
    with raises(UnsupportedError, codes.LAPACK_CALL, "r (custom-call)"):
        CPU.compile(text)


def test_a_copied_tuple_keeps_its_sizes():
    text = "HloModule m\nENTRY e { p = (f32[<=4], s32[]) parameter(0) ROOT r = (f32[<=4], s32[]) copy(p) }"
    array, number = xla.Client("cpu").compile(text)((np.array([1, 2, 3], np.float32), np.int32(7)))
    assert (np.asarray(array).tolist(), int(np.asarray(number))) == ([1, 2, 3], 7)
