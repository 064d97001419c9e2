"""The arguments that a program accepts, and the results that it returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.arguments.dlpack import _pointer_of, _Tensor
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ArgumentTypeError, InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.interpreter import TOKEN
from xlapy.runtime.buffer import Buffer
from xlapy.runtime.engine import native_buffers
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


class Exported:
    """An array of another library: only DLPack reads it. `type_code` replaces the code of its element type."""

    def __init__(self, array: np.ndarray, type_code: int | None = None) -> None:
        self.array, self.type_code = array, type_code

    def __dlpack__(self, **_: object) -> object:
        capsule = self.array.__dlpack__()
        if self.type_code is not None:
            _Tensor.from_address(_pointer_of(capsule, b"dltensor")).type_code = self.type_code
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


DTYPES = {"bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2}
SUM = "ENTRY e {{ x = {} parameter(0)  ROOT r = {} add(x, x) }}"


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The arrays that calls copy."""
    made: list[object] = []
    copied = native_buffers.copied
    monkeypatch.setattr(native_buffers, "copied", lambda *given: made.append(given[1]) or copied(*given))
    return made


def test_arrays_of_other_libraries_lend_their_memory(copies: list[object]):
    add = xla.Client("cpu").compile(SUM.format("f32[3]", "f32[3]"))
    memory = np.float32([1, 2, 3])
    for _ in range(2):  # the first call prepares the others
        assert np.asarray(add(Exported(memory))).tolist() == [2, 4, 6]
    memory[0] = 5
    assert np.asarray(add(Exported(memory))).tolist() == [10, 4, 6]
    assert copies == []


def test_arrays_of_other_libraries_that_cannot_lend_their_memory(copies: list[object]):
    add = xla.Client("cpu").compile(SUM.format("f32[3]", "f32[3]"))
    assert np.asarray(add(Exported(np.arange(6, dtype=np.float32)[::2]))).tolist() == [0, 4, 8]
    assert len(copies) == 1


@pytest.mark.parametrize(("type_code", "name", "dtype"), [(4, "bf16", np.uint16), (12, "f8e5m2", np.uint8)])
def test_floating_point_types_that_numpy_has_not(type_code: int, name: str, dtype: type, copies: list[object]):
    values = np.array([1, -2, 0.5], DTYPES[name])
    tensor = Exported(values.view(dtype), type_code)
    client = xla.Client("cpu")
    add = client.compile(SUM.format(f"{name}[3]", f"{name}[3]"))
    assert np.asarray(add(tensor)).astype(np.float32).tolist() == [2, -4, 1]
    assert copies == []
    assert np.asarray(client.device_put(tensor)).astype(np.float32).tolist() == [1, -2, 0.5]


def test_element_types_that_nothing_reads():
    tensor = Exported(np.zeros(3, np.uint8), 17)
    with raises(InvalidArgumentError, codes.ARGUMENT_ARRAY, "parameter 0 (p0)", "Exported"):
        check_arguments(program("f32[3]"), [tensor])
    with raises(ArgumentTypeError, value_codes.ARRAY_VALUE, "Client.device_put"):
        xla.Client("cpu").device_put(tensor)


def test_a_buffer_copies_what_dlpack_exports():
    memory = np.float32([1, 2])
    for platform in ("cpu", "interpreter"):
        buffer = xla.Client(platform).device_put(Exported(memory))
        memory += 1
        assert (np.asarray(buffer) == memory - 1).all()
