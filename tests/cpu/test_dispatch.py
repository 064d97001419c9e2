"""Calls of native programs: arguments of all kinds, results that never share memory, many calls at once."""

from __future__ import annotations

import gc
import os
import weakref

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from tests.threads import run_in_threads
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import InvalidArgumentError

CPU = xla.Client("cpu")
ADD = "HloModule add\nENTRY e {{ a = {0} parameter(0)\n b = {0} parameter(1)\n ROOT r = {0} add(a, b) }}"
MANY = 20


def negations(count: int, shape: str) -> str:
    lines = [f"p{i} = {shape} parameter({i})\n r{i} = {shape} negate(p{i})" for i in range(count)]
    results = ", ".join(f"r{i}" for i in range(count))
    shapes = ", ".join([shape] * count)
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + f"\n ROOT t = ({shapes}) tuple({results}) }}"


def misaligned(values: np.ndarray) -> np.ndarray:
    raw = np.zeros(values.nbytes + 1, np.uint8)
    array = raw[1:].view(values.dtype)
    array[...] = values
    return array


def readonly(values: np.ndarray) -> np.ndarray:
    copy = values.copy()
    copy.flags.writeable = False
    return copy


X = np.arange(6, dtype=np.float32)
KINDS = {
    "array": X.copy,
    "buffer": lambda: CPU.device_put(X),
    "result": lambda: CPU.compile(ADD.format("f32[6]"))(X, np.zeros(6, np.float32)),
    "buffer of an array": lambda: xla.Buffer(X.copy()),
    "strided": lambda: np.repeat(X, 2)[::2],
    "reversed": lambda: X[::-1].copy()[::-1],
    "misaligned": lambda: misaligned(X),
    "read-only": lambda: readonly(X),
    "list": X.tolist,
    "subclass": lambda: np.ma.masked_array(X),
}


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", ["array", "result"])
def test_arguments_of_all_kinds(first: str, second: str):
    result = CPU.compile(ADD.format("f32[6]"))(KINDS[first](), KINDS[second]())
    assert np.array_equal(result, 2 * X)
    assert (result.shape, result.dtype, str(result.xla_shape)) == ((6,), np.float32, "f32[6]{0}")


@pytest.mark.parametrize("shape", ["f32[]", "f32[0]", "f32[3,0,2]", "bf16[5]", "c128[2]", "s8[7]", "f32[50,50]"])
def test_results_are_the_arguments_of_the_next_call(shape: str):
    add = CPU.compile(ADD.format(shape))
    type = xla.Shape.parse(shape)
    value = np.arange(type.size).reshape(type.dimensions).astype(type.dtype)
    once = add(value, value)
    assert np.array_equal(np.asarray(add(once, value)), (value + value + value).astype(type.dtype))


def test_mismatched_arguments_name_the_parameter():
    add = CPU.compile(ADD.format("f32[6]"))
    buffer = CPU.device_put(X)
    for wrong, code, given in (
        (CPU.device_put(X[:5]), codes.ARGUMENT_SHAPE, "float32[5]"),
        (CPU.device_put(np.arange(6)), codes.ARGUMENT_SHAPE, "int64[6]"),
        (X.reshape(2, 3), codes.ARGUMENT_SHAPE, "float32[2,3]"),
        (X.astype(ml_dtypes.bfloat16), codes.ARGUMENT_SHAPE, "bfloat16[6]"),
        (None, codes.ARGUMENT_ARRAY, "NoneType"),
    ):
        with raises(InvalidArgumentError, code, "parameter 1 (b)", f"given {given}"):
            add(buffer, wrong)
    with raises(InvalidArgumentError, codes.ARGUMENT_COUNT, "2 arguments", "given 3"):
        add(buffer, buffer, buffer)


def test_a_deleted_buffer_is_not_an_argument():
    add = CPU.compile(ADD.format("f32[6]"))
    buffer = CPU.device_put(X)
    kept = np.asarray(buffer)
    buffer.delete()
    buffer.delete()
    with raises(InvalidArgumentError, codes.DELETED_BUFFER, "0 (a)", "f32[6]"):
        add(buffer, X)
    assert np.array_equal(kept, X)


@pytest.mark.parametrize("shape", ["f32[4]", "f32[1000]", "f32[20000]"])
def test_many_arguments_and_results(shape: str):
    program = CPU.compile(negations(MANY, shape))
    type = xla.Shape.parse(shape)
    given = [np.full(type.dimensions, i, np.float32) for i in range(MANY)]
    results = program(*program(*map(CPU.device_put, given)))
    assert len(results) == MANY
    for value, result in zip(given, results, strict=True):
        assert np.array_equal(result, value)


def test_a_parameter_that_is_returned_is_a_copy():
    program = CPU.compile("HloModule m\nENTRY e { ROOT x = f32[6] parameter(0) }")
    mine, ours = X.copy(), CPU.device_put(X)
    results = [program(mine), program(ours)]
    mine[:] = 0
    assert np.array_equal(results[0], X)
    assert not np.shares_memory(np.asarray(results[1]), np.asarray(ours))


def test_results_outlive_their_program_and_each_other():
    program = CPU.compile(negations(MANY, "f32[100]"))
    one = program(*[np.full(100, i, np.float32) for i in range(MANY)])[7]
    array = np.asarray(one)
    del program, one
    gc.collect()
    for _ in range(3):
        CPU.compile(negations(3, "f32[100]"))(*[np.zeros(100, np.float32)] * 3)
    assert np.array_equal(array, np.full(100, -7, np.float32))


def test_unreferenced_programs_are_freed():
    program = CPU.compile(negations(2, "f32[4]"))
    program(X[:4], X[:4])
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None


def test_memory_of_small_calls_does_not_grow():
    program = CPU.compile(negations(MANY, "f32[4]"))
    given = [np.zeros(4, np.float32)] * MANY
    for _ in range(100):
        given = program(*given)
    growth: list[int] = []
    for _ in range(3):  # a leak grows in each round; what other threads of the process allocate meanwhile does not
        before = _resident()
        for _ in range(10_000):
            given = program(*given)
        growth.append(_resident() - before)
    assert min(growth) < 4 << 20, growth


def test_memory_of_loops_that_hold_their_state_does_not_grow():
    program = CPU.compile("""HloModule m
    below { s = (s32[], f32[9]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(20)
      ROOT r = pred[] compare(i, n), direction=LT }
    next { s = (s32[], f32[9]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
      j = s32[] add(i, one)  x = f32[9] get-tuple-element(s), index=1  y = f32[9] reverse(x), dimensions={0}
      z = f32[9] subtract(y, x)  ROOT r = (s32[], f32[9]) tuple(j, z) }
    ENTRY e { zero = s32[] constant(0)  x = f32[9] parameter(0)  t = (s32[], f32[9]) tuple(zero, x)
      w = (s32[], f32[9]) while(t), condition=below, body=next  ROOT y = f32[9] get-tuple-element(w), index=1 }""")
    given = np.arange(9, dtype=np.float32)
    for _ in range(100):
        program(given)
    growth: list[int] = []
    for _ in range(3):
        before = _resident()
        for _ in range(10_000):
            result = program(given)
        growth.append(_resident() - before)
    assert min(growth) < 4 << 20, growth
    assert np.array_equal(np.asarray(result), 2.0**19 * (given - given[::-1]))


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_one_executable_in_many_threads():
    """Three executables in 8 threads, all of which call the same one at the same time.

    Catches runs that share an arena or an address table: a run would sort or add the numbers of another thread.
    """
    shape = "f32[64,300]"
    text = f"""
    HloModule m
    ENTRY e {{ x = {shape} parameter(0)
      y = {shape} parameter(1)
      s = {shape} sort(x), dimensions={{1}}, to_apply=less
      v = {shape} reverse(s), dimensions={{1}}
      d = {shape} subtract(s, v)
      ROOT r = {shape} add(d, y) }}
    """.replace(
        "ENTRY",
        "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT l = pred[] compare(a, b), direction=LT }\nENTRY",
    )
    programs = [CPU.compile(text) for _ in range(3)]
    assert programs[0].memory_analysis().temp_size_in_bytes >= 4 * 64 * 300
    rows = np.random.default_rng(0).standard_normal((64, 300)).astype(np.float32)

    def work(number: int) -> int:
        own = rows * np.float32(number + 1)
        shift = np.full(rows.shape, number, np.float32)
        ordered = np.sort(own, axis=1)
        expected = (ordered - ordered[:, ::-1]) + shift
        return sum(np.array_equal(programs[turn % 3](own, shift), expected) for turn in range(60))

    assert run_in_threads(8, work) == [60] * 8


def test_trim_frees_arenas():
    program = CPU.compile(negations(1, "f32[2000000]"))
    (result,) = program(np.ones(2_000_000, np.float32))
    result.block_until_ready()
    del result
    assert CPU.trim() >= 8_000_000
    assert np.asarray(program(np.ones(2_000_000, np.float32))[0])[5] == -1


def test_dlpack_consumers_without_versions():
    """They ask for a capsule without a version, which cannot mark elements as read-only."""
    result = CPU.compile(ADD.format("f32[6]"))(X, X)

    class Old:
        def __dlpack__(self, stream=None):
            return result.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return result.__dlpack_device__()

    assert "dltensor" in repr(result.__dlpack__())
    assert np.shares_memory(np.from_dlpack(result), np.asarray(result))
