"""Native custom-call targets of XLA's typed FFI: frames, attributes, errors, stages, states, XLA's own kernels."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.ffi
import numpy as np
import pytest
from jaxlib import lapack
from jaxlib.cpu import _lapack

import xlapy as xla
from tests import xla_reference
from tests.custom_calls.typed_handlers import FUNCTIONS, HANDLER, NO_TYPE, TYPED, Frame, Token, X, call, double, handler
from tests.interpreter.runners.custom import entry, plain, registered, run
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.base.flags import Flags
from xlapy.custom_calls.ffi import structures as c

# -- registering


@pytest.mark.parametrize("version", [xla.CustomCallApiVersion.TYPED_FFI, 4])
def test_a_handler_by_function_address_and_capsule(version: Any) -> None:
    function = handler(double)
    address = ctypes.cast(function, ctypes.c_void_p).value
    for target in (function, address, jax.ffi.pycapsule(address)):
        with registered(target, api_version=version):
            assert run(call(), X).tolist() == (2 * X).tolist()


def test_a_bundle_of_handlers_needs_no_version() -> None:
    with registered({"execute": handler(double)}):
        assert run(call(), X).tolist() == (2 * X).tolist()


_NUMBER = ctypes.c_int64(0)
DATA = ctypes.addressof(_NUMBER)


@pytest.mark.parametrize(
    ("target", "options", "code", "values"),
    [
        ({"execute": handler(double), "run": 1}, {}, codes.TARGET_STAGES, ["'run'", "instantiate, prepare"]),
        ({"prepare": handler(double)}, {}, codes.TARGET_STAGES, ["stage execute"]),
        ({"execute": len}, {}, codes.TARGET_CODE, ["execute", "builtin_function"]),
        ({"execute": 0}, {}, codes.TARGET_ADDRESS, ["address 0"]),
        ({"execute": 5}, {}, codes.TARGET_ADDRESS, ["'target'", "address 5", "code"]),
        (5, TYPED, codes.TARGET_ADDRESS, ["'target'", "address 5", "code"]),
        (5, {}, codes.TARGET_ADDRESS, ["'target'", "address 5", "code"]),
        (1 << 70, {}, codes.TARGET_ADDRESS, ["'target'", "address 1180591620717411303424", "code"]),
        pytest.param(DATA, TYPED, codes.TARGET_ADDRESS, ["'target'", f"address {DATA}", "code"], id="data"),
        ({"execute": handler(double)}, {"api_version": 2}, codes.TARGET_STAGES, ["API_VERSION_TYPED_FFI"]),
        (handler(double, (0, 5)), TYPED, codes.INTERFACE_VERSION, ["version 0.5", "0.1 to 0.4"]),
        (handler(double, (0, 0)), TYPED, codes.INTERFACE_VERSION, ["version 0.0"]),
        (handler(double), {"api_version": 5}, codes.API_VERSION, ["from 1 to 4", "given 5"]),
        (handler(double), {"api_version": True}, codes.API_VERSION, ["given True"]),
        (handler(double), {"api_version": 0}, codes.API_VERSION, ["API_VERSION_UNSPECIFIED"]),
    ],
)
def test_invalid_registrations(target: Any, options: dict[str, Any], code: ErrorCode, values: list[str]) -> None:
    with raises(InvalidArgumentError, code, *values):
        xla.register_custom_call_target("target", target, **options)


def test_a_handler_that_does_not_report_its_version() -> None:
    function = HANDLER(lambda address: Frame(address).error(9, b"not ready"))
    with raises(InvalidArgumentError, codes.INTERFACE_VERSION, "'target'", "FAILED_PRECONDITION: not ready"):
        xla.register_custom_call_target("target", function, **TYPED)


def test_calls_of_another_version_are_refused() -> None:
    with (
        registered(handler(double), **TYPED),
        raises(xla.errors.UnsupportedError, codes.CALL_VERSION, "API_VERSION_ORIGINAL", "API_VERSION_TYPED_FFI"),
    ):
        run(call().replace("TYPED_FFI", "ORIGINAL"), X)


# -- what a handler receives


def test_buffers_of_every_kind() -> None:
    text = entry("""
      p = (pred[2], (u8[], c64[1,2])) parameter(0)
      k = token[] after-all()
      e = bf16[0,3] constant({})
      ROOT r = ((s16[3]), token[], f8e4m3fn[]) custom-call(p, k, e), custom_call_target="target",
        api_version=API_VERSION_TYPED_FFI
    """)
    met: list[Any] = []

    def look(frame: Frame) -> int | None:
        assert frame.stage == c.Stage.EXECUTE and frame.attributes() == {}
        met.append(frame.arguments())
        numbers, token, scalar = frame.results()
        assert token == Token() and (str(scalar.dtype), scalar.shape) == ("float8_e4m3fn", ())
        numbers[...] = [1, -2, 3]
        scalar[...] = 1.5
        return None

    given = np.array([True, False]), (np.uint8(7), np.array([[1j, 2]], np.complex64))
    with registered(handler(look), **TYPED):
        result = xla.Client("interpreter").compile(text)(given)
    assert plain(result[0][0]).tolist() == [1, -2, 3] and float(result[2].array) == 1.5
    flag, byte, numbers, token, empty = met[0]
    assert [a.dtype.name for a in (flag, byte, numbers, empty)] == ["bool", "uint8", "complex64", "bfloat16"]
    assert (flag.tolist(), byte.tolist(), numbers.tolist(), empty.shape) == ([True, False], 7, [[1j, 2]], (0, 3))
    assert token == Token()


def test_elements_lie_in_the_declared_layouts() -> None:
    def copy(frame: Frame) -> int | None:
        assert frame.arguments()[0].shape == (2, 3)
        assert frame.arguments()[0].ravel().tolist() == [0, 3, 1, 4, 2, 5]
        frame.results()[0][...] = frame.arguments()[0]
        return None

    more = ", operand_layout_constraints={f32[2,3]{0,1}}"
    with registered(handler(copy), **TYPED):
        assert run(call(result="f32[2,3]{0,1}", more=more), X).tolist() == X.tolist()
        assert run(call(result="f32[2,3]{1,0}", more=more), X).tolist() == [[0, 3, 1], [4, 2, 5]]


def test_aliased_results_share_the_buffer_of_their_operand() -> None:
    def add_one(frame: Frame) -> int | None:
        (x,), (y,) = frame.arguments(), frame.results()
        assert x.ctypes.data == y.ctypes.data
        y += 1
        return None

    with registered(handler(add_one), **TYPED):
        assert run(call(more=", output_to_operand_aliasing={{}: (0, {})}"), X).tolist() == (X + 1).tolist()


CONFIG = """{b = true, "a b" = "x\\22\\C3\\A9", i8 = -1 : i8, i16 = 2 : i16, i32 = 3 : i32, i64 = 4, u8 = 255 : ui8,
 u16 = 6 : ui16, u32 = 7 : ui32, u64 = 18446744073709551615 : ui64, f32 = 1.5 : f32, f64 = -2.5e-3,
 array = array<i32: 1, 2>, none = array<f64>, dense = dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>,
 more = {inner = {x = 1.0 : f32}, n = "v"}}"""


def test_attributes_of_every_kind() -> None:
    met: list[dict[str, Any]] = []
    with registered(handler(lambda frame: met.append(frame.attributes()) or double(frame)), **TYPED):
        run(call(CONFIG), X)
    (found,) = met
    assert list(found) == sorted(found)  # handlers search attributes by bisection
    wanted = {
        "i8": np.int8(-1), "i16": np.int16(2), "i32": np.int32(3), "i64": np.int64(4), "u8": np.uint8(255),
        "u16": np.uint16(6), "u32": np.uint32(7), "u64": np.uint64(2**64 - 1), "f32": np.float32(1.5),
        "f64": np.float64(-0.0025), "b": np.bool_(True),
    }  # fmt: skip
    assert {name: (found[name], found[name].dtype) for name in wanted} == {
        name: (value, value.dtype) for name, value in wanted.items()
    }
    assert found["a b"] == b'x"\xc3\xa9'
    assert (found["array"].tolist(), found["array"].dtype) == ([1, 2], np.int32)
    assert (found["none"].tolist(), found["none"].dtype) == ([], np.float64)
    assert found["dense"].tolist() == [1, 2, 3, 4]
    assert found["more"] == {"inner": {"x": np.float32(1)}, "n": b"v"}


def test_malformed_attributes_are_refused_when_the_program_is_compiled() -> None:
    refused = partial(raises, InvalidArgumentError, codes.CALL_ATTRIBUTES, "r (custom-call)", "API_VERSION_TYPED_FFI")
    with registered(handler(double), **TYPED), refused("line 1, column 6: flag"):
        xla.Client("interpreter").compile(call("{flag}"))
    with registered(lambda x, *, ffi_attributes: x), refused("line 1, column 1: ", "'axis'"):
        xla.Client("interpreter").compile(call('"axis=1"'))
    with registered(lambda x, **info: x):
        assert run(call('"axis=1"'), X).tolist() == X.tolist()


def test_python_targets_receive_the_attributes() -> None:
    def scaled(x: Any, *, ffi_attributes: dict[str, Any]) -> Any:
        return x * ffi_attributes["by"]

    with registered(scaled):
        assert run(call("{by = 3.0 : f32}"), X).tolist() == (3 * X).tolist()


# -- what a handler can do


def test_an_error_of_a_handler_names_the_call_and_its_target() -> None:
    def fail(frame: Frame) -> int | None:
        return frame.error(3, b"negative sizes")

    with registered(handler(fail), **TYPED):
        executable = xla.Client("interpreter").compile(call())
        for _ in range(2):
            with pytest.raises(
                ExecutionError, match=r"^r \(custom-call\): target 'target' failed: INVALID_ARGUMENT: neg"
            ):
                executable(X)


def test_an_error_object_that_does_not_exist() -> None:
    with (
        registered(handler(lambda _: 4711), **TYPED),
        raises(ExecutionError, codes.FAILED_TARGET),
    ):
        run(call(), X)


def test_errors_are_created_read_and_destroyed() -> None:
    met: list[Any] = []

    def look(frame: Frame) -> int | None:
        error = frame.error(11, b"beyond")
        assert error is not None
        met.append((frame.message(error), frame.message(error)))  # the second call finds it removed
        old = c.ErrorDetailsArgs(c.size_up_to(c.ErrorDetailsArgs, "message"), None, frame.error(99, b"?"), None, 77)
        frame._procedure("Error_GetDetails", old)
        met.append((ctypes.string_at(old.message), old.errc))
        return double(frame)

    with registered(handler(look), **TYPED):
        run(call(), X)
    assert met == [((11, "beyond"), (2, "an error that another library created")), (b"?", 77)]


def test_run_and_device_ids() -> None:
    met: list[Any] = []

    def look(frame: Frame) -> int | None:
        run_id = frame.ask("RunId_Get", c.RunIdArgs).run_id
        device = frame.ask("DeviceOrdinal_Get", c.DeviceOrdinalArgs).device_ordinal
        threads = ctypes.c_int64(0)
        frame.ask("ThreadPool_NumThreads", c.NumThreadsArgs, num_threads=ctypes.pointer(threads))
        extension = frame.ask("FindExtension", c.FindExtensionArgs, extension_type=5, extension=9).extension
        met.append((device, run_id, threads.value, extension))
        return double(frame)

    with registered(handler(look), **TYPED):
        text = call().replace("HloModule m", "HloModule m, replica_count=2")
        executable = xla.Client(devices=2).compile(text)
        for _ in range(2):
            xla.block_until_ready(executable.execute_sharded([[X], [X]]))
    assert sorted(device for device, *_ in met) == [0, 0, 1, 1]
    assert len({run_id for _, run_id, *_ in met}) == 2 and {row[2:] for row in met} == {(1, None)}


def test_memory_and_tasks() -> None:
    met: list[Any] = []

    def work(frame: Frame) -> int | None:
        memory = frame.ask("DeviceMemory_Allocate", c.MemoryAllocateArgs, size=24, alignment=64).data
        assert memory % 64 == 0
        ctypes.memmove(memory, frame.arguments()[0].ctypes.data, 24)
        task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(met.append)
        frame.ask("ThreadPool_Schedule", c.ScheduleArgs, task=ctypes.cast(task, ctypes.c_void_p).value, data=memory)
        frame.results()[0][...] = np.frombuffer(ctypes.string_at(memory, 24), np.float32).reshape(2, 3) + 1
        frame.ask("DeviceMemory_Free", c.MemoryFreeArgs, size=24, data=memory)
        return None

    with registered(handler(work), **TYPED):
        assert run(call(), X).tolist() == (X + 1).tolist()
    assert len(met) == 1 and met[0] % 64 == 0


REFUSED: list[tuple[str, Any, dict[str, Any], tuple[int, str]]] = [
    ("Stream_Get", c.StreamGetArgs, {}, (12, "there are no streams")),
    ("Handler_Register", c.HandlerRegisterArgs, {}, (12, "cannot register itself")),
    ("ExecutionContext_Get", c.ContextGetArgs, {"type_id": NO_TYPE}, (5, "no user data")),
    ("State_Get", c.StateArgs, {"stage": 0, "type_id": NO_TYPE}, (5, "state is not set")),
    ("State_Set", c.StateArgs, {"stage": 3, "type_id": NO_TYPE}, (9, "no state of the stage 3")),
    ("State_Set", c.StateArgs, {"stage": 0, "type_id": NO_TYPE}, (13, "no type is registered")),
    ("DeviceMemory_Allocate", c.MemoryAllocateArgs, {"size": 8, "alignment": 3}, (3, "cannot be aligned to 3")),
    ("DeviceMemory_Allocate", c.MemoryAllocateArgs, {"size": 1 << 62, "alignment": 8}, (8, "there is no memory")),
    ("DeviceMemory_Free", c.MemoryFreeArgs, {"size": 8, "data": 64}, (3, "was not allocated by this call")),
    ("ThreadPool_Schedule", c.ScheduleArgs, {}, (3, "a task must not be null")),
    ("Future_SetAvailable", c.FutureErrorArgs, {}, (3, "there is no such future")),
    ("Future_SetError", c.FutureErrorArgs, {}, (3, "the error of a future must not be null")),
    ("RunId_Get", c.RunIdArgs, {"struct_size": 8}, (3, "RunId_Get: its structure has 32 bytes in version 0.4")),
    ("RunId_Get", c.RunIdArgs, {"ctx": 64}, (9, "there is no such call in progress")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "structure", "fields", "expected"), REFUSED)
def test_unsupported_functions_return_an_error(
    name: str, structure: Any, fields: dict[str, Any], expected: tuple[int, str]
) -> None:
    met: list[Any] = []

    def look(frame: Frame) -> int | None:
        given = (
            fields
            if "ctx" in fields or "ctx" not in dict(structure._fields_)
            else fields | {"ctx": frame.structure.ctx}
        )
        _, error = frame.call(name, structure, **given)
        met.append(None if error is None else frame.message(error))
        return double(frame)

    with registered(handler(look), **TYPED):
        run(call(), X)
    assert met[0] is not None and met[0][0] == expected[0] and expected[1] in met[0][1]


def test_the_table_has_every_function() -> None:
    table = c.Sized.from_address(xla.ffi_api())
    assert table.struct_size == 16 + 24 + 8 + 8 * len(FUNCTIONS)
    functions = (ctypes.c_void_p * (1 + len(FUNCTIONS))).from_address(xla.ffi_api() + 40)
    assert all(functions)
    internal = (ctypes.c_void_p * 64).from_address(functions[0])
    frame = c.CallFrame(api=xla.ffi_api())
    error = HANDLER(internal[63])(None)
    code, message = Frame(ctypes.addressof(frame)).message(error)
    assert code == 12 and "XLA's internal interface is not available" in message


# -- futures


def later(frame: Frame, action: Callable[[int], None]) -> None:
    args, error = frame.call("Future_Create", c.FutureCreateArgs, struct_size=16)
    assert error is None
    frame.structure.future = args.future
    threading.Timer(0.02, action, [args.future]).start()


def test_a_call_ends_with_its_future() -> None:
    def start(frame: Frame) -> int | None:
        result = frame.results()[0]

        def finish(future: int) -> None:
            result[...] = 5
            frame.call("Future_SetAvailable", c.FutureErrorArgs, future=future)

        later(frame, finish)
        return None

    with registered(handler(start), **TYPED):
        assert run(call(), X).tolist() == np.full((2, 3), 5).tolist()


def test_a_future_can_fail() -> None:
    def start(frame: Frame) -> int | None:
        def finish(future: int) -> None:
            frame.call("Future_SetError", c.FutureErrorArgs, future=future, error=frame.error(14, b"line is down"))

        later(frame, finish)
        return None

    with registered(handler(start), **TYPED), raises(ExecutionError, codes.FAILED_TARGET, "UNAVAILABLE: line is down"):
        run(call(), X)


def test_a_future_that_never_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Flags({"collective_timeout": 0})
    monkeypatch.setattr(flags, "current", lambda: values)
    with (
        registered(handler(lambda frame: later(frame, lambda _: None)), **TYPED),
        raises(ExecutionError, codes.TARGET_FUTURE, "r (custom-call)", "0 seconds"),
    ):
        run(call(), X)


# -- XLA's own kernels

_lapack.initialize()
KERNELS = {name: capsule for name, capsule, version in lapack.registrations()["cpu"] if version == 1}
A = np.array([[[4, 2, 1], [2, 5, 3], [1, 3, 6]], [[2, 0, 1], [0, 3, 1], [1, 1, 4]]])
BY_COLUMN = "{1,2,0}"


def kernel(name: str, result: str, element: str, config: str = "") -> str:
    return f"""HloModule m
ENTRY e {{
  a = {element}[2,3,3] parameter(0)
  ROOT r = {result} custom-call(a), custom_call_target="{name}", api_version=API_VERSION_TYPED_FFI,
    operand_layout_constraints={{{element}[2,3,3]{BY_COLUMN}}}{config and f", backend_config={config}"}
}}
"""


KERNEL_CALLS = [
    ("lapack_spotrf_ffi", f"(f32[2,3,3]{BY_COLUMN}, s32[2]{{0}})", "f32", "{uplo = 76 : ui8}"),
    ("lapack_zpotrf_ffi", f"(c128[2,3,3]{BY_COLUMN}, s32[2]{{0}})", "c128", "{uplo = 85 : ui8}"),
    ("lapack_dgetrf_ffi", f"(f64[2,3,3]{BY_COLUMN}, s32[2,3]{{1,0}}, s32[2]{{0}})", "f64", ""),
    ("lapack_sgeqrf_ffi", f"(f32[2,3,3]{BY_COLUMN}, f32[2,3]{{1,0}})", "f32", ""),
    (
        "lapack_dsyevd_ffi",
        f"(f64[2,3,3]{BY_COLUMN}, f64[2,3]{{1,0}}, s32[2]{{0}})",
        "f64",
        "{mode = 86 : ui8, uplo = 76 : ui8}",
    ),
]


@pytest.mark.parametrize(("name", "result", "element", "config"), KERNEL_CALLS)
def test_kernels_of_jaxlib_give_the_same_results_as_in_xla(name: str, result: str, element: str, config: str) -> None:
    dtype = {"f32": np.float32, "f64": np.float64, "c128": np.complex128}[element]
    text = kernel(name, result, element, config)
    given = A.astype(dtype)
    with registered(KERNELS[name], name=name, **TYPED):
        ours = plain(xla.Client("interpreter").compile(text)(given))
    for mine, theirs in zip(ours, xla_reference.run_hlo(text, [given]), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_kernels_of_jaxlib_report_errors_in_a_call() -> None:
    name, result, element, config = KERNEL_CALLS[0]
    with registered(KERNELS[name], name=name, **TYPED):
        for wrong, message in [
            (config.replace("uplo", "lower"), "Attribute name mismatch: lower vs uplo"),
            (config.replace("ui8", "i32"), "Wrong scalar data type: expected U8 but got S32"),
            ("{}", "Wrong number of attributes: expected 1 but got 0"),
        ]:
            with raises(ExecutionError, codes.FAILED_TARGET, f"target '{name}'", "INVALID_ARGUMENT: ", message):
                xla.Client("interpreter").compile(kernel(name, result, element, wrong))(A.astype(np.float32))
