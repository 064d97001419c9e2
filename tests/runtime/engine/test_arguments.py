"""The arguments that a program accepts, and the results that it returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
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


def refusal(shape: str, argument: object) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        check_arguments(program(shape), [argument])
    return str(caught.value)


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
    ("shape", "argument", "message"),
    [
        ("s8[]", 128, "parameter 0 (p0): 128 does not fit s8"),
        ("s4[2]", [7, 8], "parameter 0 (p0): [7, 8] does not fit s4"),
        ("u2[]", -1, "parameter 0 (p0): -1 does not fit u2"),
        ("pred[]", 2, "parameter 0 (p0): 2 does not fit pred"),
        ("s32[]", 2.5, "parameter 0 (p0) takes s32, given the float64 value 2.5"),
        ("s4[]", 2.0, "parameter 0 (p0) takes s4, given the float64 value 2.0"),
        ("f32[]", 1j, "parameter 0 (p0) takes f32, given the complex128 value 1j"),
        ("f32[2]", [1, "x"], "parameter 0 (p0) takes numbers, given [1, 'x']"),
        ("f32[2]", [1, [2]], "parameter 0 (p0): setting an array element"),
        ("u64[]", 2**64, "parameter 0 (p0)"),
        ("f32[2]", [1, 2, 3], "parameter 0 (p0) takes f32[2] (float32), given float32[3]"),
        ("f32[2]", 1, "parameter 0 (p0) takes f32[2] (float32), given float32[]"),
    ],
)
def test_python_numbers_that_do_not_fit(shape: str, argument: object, message: str):
    assert refusal(shape, argument).startswith(message)


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
    ("argument", "message"),
    [
        (np.ones(3, np.float32), "parameter 0 (p0) takes f32[2] (float32), given float32[3]"),
        (np.ones((2, 1), np.float32), "parameter 0 (p0) takes f32[2] (float32), given float32[2,1]"),
        (
            np.ones(2),
            "parameter 0 (p0) takes f32[2] (float32), given float64[2]; convert it with .astype('float32')",
        ),
        (np.ones(2, ">f4"), "parameter 0 (p0) takes f32[2] (float32), given >f4[2]; convert it"),
        (np.array([1, None]), "parameter 0 (p0) takes f32[2] (float32), given object[2]"),
        ("ones", "parameter 0 (p0) takes an array, given str"),
        (None, "parameter 0 (p0) takes an array, given NoneType"),
        ((1.0, 2.0), "parameter 0 (p0) takes an array, given tuple"),
        (HasBrokenDlpack(), "parameter 0 (p0): the HasBrokenDlpack cannot be read as an array: on the moon"),
    ],
)
def test_arrays_that_do_not_match(argument: object, message: str):
    assert refusal("f32[2]", argument).startswith(message)


def test_tuples():
    value = check_arguments(program("(f32[], (s32[2], token[]))"), [(1, ([1, 2], None))])[0]
    assert isinstance(value[0], np.ndarray)
    assert np.array_equal(value[1][0], [1, 2])
    assert value[1][1] is TOKEN
    assert refusal("(f32[], s32[])", [1]) == "parameter 0 (p0) takes a tuple of 2 elements, given 1 elements"
    assert refusal("(f32[], s32[])", 1) == "parameter 0 (p0) takes a tuple of 2 elements, given int"
    assert refusal("(f32[], (s32[2]))", (1, ([1, 2, 3],))).startswith(
        "parameter 0 (p0) element 1 element 0 takes s32[2]"
    )


def test_the_number_of_arguments():
    with pytest.raises(InvalidArgumentError, match=r"takes 2 arguments, given 1: \(p0: f32\[\], p1: f32\[\]\) -> f32"):
        check_arguments(program("f32[]", "f32[]"), [1])


def test_shapes_that_cannot_be_arguments():
    assert refusal("opaque[]", 1) == "parameter 0 (p0) has shape opaque[], which cannot be an argument"


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
