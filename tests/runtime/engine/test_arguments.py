"""The arguments that a program accepts, and the results that it returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.interpreter import TOKEN
from xlapy.runtime.buffer import Buffer
from xlapy.runtime.engine.arguments import check_arguments, leaves, wrap_result


def program(*shapes: str) -> ProgramShape:
    parameters = [Shape.parse(shape) for shape in shapes]
    return ProgramShape(parameters, parameters[0], [f"p{number}" for number in range(len(shapes))])


def value_of(shape: str, argument: object) -> np.ndarray:
    (value,) = check_arguments(program(shape), [argument])
    assert (value.shape, value.dtype) == (Shape.parse(shape).dimensions, Shape.parse(shape).dtype)
    return value


def refuse(shape: str, argument: object, code: ErrorCode, *values: str) -> None:
    with raises(InvalidArgumentError, code, "parameter 0 (p0)", *values):
        check_arguments(program(shape), [argument])


@pytest.mark.parametrize(
    ("shape", "argument"),
    [
        ("f32[]", 2), ("f32[]", 2.5), ("f32[]", True), ("f32[2]", [1, 2.5]), ("f32[2,1]", [[1], [2]]), ("f32[0]", []),
        ("s8[]", -128), ("u64[]", 2**64 - 1), ("s4[]", -8), ("pred[]", 1), ("pred[]", False), ("c64[]", 1 + 2j),
        ("c64[2]", [1, 2j]), ("bf16[]", 1.5), ("f8e4m3fn[2]", [1, 2]),
    ],
)  # fmt: skip
def test_python_numbers_take_the_parameters_type(shape: str, argument: object):
    assert np.array_equal(value_of(shape, argument).astype(np.complex128), np.asarray(argument, np.complex128))


@pytest.mark.parametrize(
    ("shape", "argument", "code", "values"),
    [
        ("s8[]", 128, codes.ARGUMENT_VALUE, ["128", "s8"]),
        ("s4[2]", [7, 8], codes.ARGUMENT_VALUE, ["[7, 8]", "s4"]),
        ("u2[]", -1, codes.ARGUMENT_VALUE, ["-1", "u2"]),
        ("pred[]", 2, codes.ARGUMENT_VALUE, ["2 ", "pred"]),
        ("s32[]", 2.5, codes.ARGUMENT_VALUE, ["s32", "float64", "2.5"]),
        ("s4[]", 2.0, codes.ARGUMENT_VALUE, ["s4", "float64", "2.0"]),
        ("f32[]", 1j, codes.ARGUMENT_VALUE, ["f32", "complex128", "1j"]),
        ("f32[2]", [1, "x"], codes.ARGUMENT_ARRAY, ["[1, 'x']"]),
        ("f32[2]", [1, [2]], codes.ARGUMENT_ARRAY, ["inhomogeneous"]),
        ("u64[]", 2**64, codes.ARGUMENT_ARRAY, ["18446744073709551616"]),
        ("f32[2]", [1, 2, 3], codes.ARGUMENT_SHAPE, ["f32[2]", "given float32[3]"]),
        ("f32[2]", 1, codes.ARGUMENT_SHAPE, ["f32[2]", "given float32[]"]),
    ],
)
def test_python_numbers_that_do_not_fit(shape: str, argument: object, code: ErrorCode, values: list[str]):
    refuse(shape, argument, code, *values)


class HasArray:
    def __array__(self, dtype=None, copy=None):
        return np.ones(2, np.float32)


class HasDlpack:
    def __dlpack__(self, **options):
        return np.ones(2, np.float32).__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)


class HasBrokenDlpack:
    def __dlpack__(self, **options):
        raise BufferError("on the moon")

    def __dlpack_device__(self):
        return (1, 0)


def test_arrays_of_all_kinds():
    for argument in (np.ones(2, np.float32), HasArray(), HasDlpack(), Buffer(np.ones(2, np.float32))):
        assert np.array_equal(value_of("f32[2]", argument), [1, 1])
    assert value_of("f32[]", np.float32(3)) == 3
    masked = np.ma.masked_array(np.ones(2, np.float32))
    assert type(value_of("f32[2]", masked)) is np.ndarray  # subclasses compute in ways of their own
    assert np.array_equal(value_of("bf16[1]", np.ones(1, ml_dtypes.bfloat16)), [1])


@pytest.mark.parametrize(
    ("argument", "code", "values"),
    [
        (np.ones(3, np.float32), codes.ARGUMENT_SHAPE, ["f32[2]", "given float32[3]"]),
        (np.ones((2, 1), np.float32), codes.ARGUMENT_SHAPE, ["f32[2]", "given float32[2,1]"]),
        (
            np.ones(2),
            codes.ARGUMENT_SHAPE,
            ["f32[2]", "given float64[2]"],
        ),
        (np.ones(2, ">f4"), codes.ARGUMENT_SHAPE, ["f32[2]", "given >f4[2]"]),
        (np.array([1, None]), codes.ARGUMENT_SHAPE, ["f32[2]", "given object[2]"]),
        ("ones", codes.ARGUMENT_ARRAY, ["given str"]),
        (None, codes.ARGUMENT_ARRAY, ["given NoneType"]),
        ((1.0, 2.0), codes.ARGUMENT_ARRAY, ["given tuple"]),
        (HasBrokenDlpack(), codes.ARGUMENT_ARRAY, ["HasBrokenDlpack", "on the moon"]),
    ],
)
def test_arrays_that_do_not_match(argument: object, code: ErrorCode, values: list[str]):
    refuse("f32[2]", argument, code, *values)


def test_tuples():
    value = check_arguments(program("(f32[], (s32[2], token[]))"), [(1, ([1, 2], None))])[0]
    assert isinstance(value[0], np.ndarray)
    assert np.array_equal(value[1][0], [1, 2])
    assert value[1][1] is TOKEN
    refuse("(f32[], s32[])", [1], codes.ARGUMENT_TUPLE, "2 elements", "given 1")
    refuse("(f32[], s32[])", 1, codes.ARGUMENT_TUPLE, "2 elements", "given int")
    refuse("(f32[], (s32[2]))", (1, ([1, 2, 3],)), codes.ARGUMENT_SHAPE, "element 1 element 0", "s32[2]", "int32[3]")


def test_the_number_of_arguments():
    with raises(
        InvalidArgumentError, codes.ARGUMENT_COUNT, "2 arguments", "given 1", "1: (p0: f32[], p1: f32[]) -> f32"
    ):
        check_arguments(program("f32[]", "f32[]"), [1])


def test_shapes_that_cannot_be_arguments():
    refuse("opaque[]", 1, codes.OPAQUE_ARGUMENT, "opaque[]")


def test_results_that_share_memory_with_arguments_are_copied():
    argument = np.ones(4, np.float32)
    view, (fresh,) = wrap_result((argument[1:3], (np.zeros(2),)), [argument])
    argument[:] = 5
    assert np.array_equal(view, [1, 1])
    assert argument.flags.writeable
    assert np.array_equal(fresh, [0, 0])


def test_tokens_are_returned_unchanged():
    assert wrap_result((TOKEN,), []) == (TOKEN,)


def test_leaves_are_flattened_in_order():
    first, second = np.zeros(1), np.ones(1)
    assert leaves((first, (TOKEN, (second,)))) == [first, second]


@pytest.fixture
def small_stacks() -> Iterator[None]:
    """Threads that start meanwhile have stacks of 128 KiB."""
    before = threading.stack_size(1 << 17)
    yield
    threading.stack_size(before)


@pytest.mark.parametrize("is_buffer", [False, True])
@pytest.mark.parametrize(("count", "devices"), [(2000, 1), (200, 100)])
def test_many_arguments_and_devices_do_not_overflow_a_stack(
    count: int, devices: int, is_buffer: bool, small_stacks: None
) -> None:
    parameters = " ".join(f"p{number} = f32[1] parameter({number})" for number in range(count))
    text = f"HloModule m, replica_count={devices} ENTRY e {{ {parameters} ROOT r = f32[1] add(p1, p{count - 1}) }}"
    client = xla.Client("cpu", devices=devices)
    executable = client.compile(text)
    arrays = [np.full(1, number, np.float32) for number in range(count)]
    arguments = [client.device_put(array) if is_buffer else array for array in arrays]
    results: list[Buffer] = []

    def call() -> None:
        results.extend([executable(*arguments)] if devices == 1 else executable.execute_sharded([arguments] * devices))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert [float(np.asarray(result)[0]) for result in results] == [count] * devices
