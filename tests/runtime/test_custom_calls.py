"""Registration of custom-call targets, and Python functions as targets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import entry, registered, run
from tests.interpreter.runners.replica import make_client
from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.error_codes.execution.calls import ARGUMENT_COUNT
from xlapy.base.errors import ExecutionError, InvalidArgumentError, ShapeError, UnsupportedError

CALL = 'x = f32[2,3] parameter(0)\nROOT r = {result} custom-call(x), custom_call_target="target"'
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def call(result: str = "f32[2,3]", more: str = "") -> str:
    return entry(CALL.format(result=result) + more, "double { a = f32[3] parameter(0)\n ROOT b = f32[3] add(a, a) }")


# -- registration


def test_an_unknown_target_is_rejected_at_compile_time() -> None:
    text = entry('ROOT r = f32[] custom-call(), custom_call_target="normalizes"')
    values = [
        "r (custom-call)",
        "'normalizes'",
        "(did you mean 'normalize'?)",
        "registered: 'normalize', 'other'",
        "TopK",
    ]
    with (
        registered(np.sin, name="other"),
        registered(np.cos, name="normalize"),
        raises(UnsupportedError, codes.TARGET_REGISTERED, "r (custom-call)", *values),
    ):
        make_client().compile(text)


def test_the_message_without_any_registered_targets() -> None:
    with raises(UnsupportedError, codes.TARGET_REGISTERED, "'topk'", "(did you mean 'TopK'?)"):
        run(entry('ROOT r = f32[] custom-call(), custom_call_target="topk"'))


def test_an_unregistered_target_is_an_error_at_run_time() -> None:
    with registered(np.sin):
        executable = make_client().compile(call())
    with raises(UnsupportedError, codes.TARGET_REGISTERED, "r (custom-call)", "'target'"):
        xla.block_until_ready(executable(X))


def test_the_last_registration_counts() -> None:
    with registered(np.sin):
        executable = make_client().compile(call())
        xla.register_custom_call_target("target", np.negative)
        assert executable(X).array.tolist() == (-X).tolist()


@pytest.mark.parametrize(
    ("arguments", "code", "values"),
    [
        (("f", 1.5), codes.TARGET_CODE, ["'f'", "given float"]),
        (("f", True), codes.TARGET_CODE, ["given bool"]),
        (("f", 0), codes.TARGET_ADDRESS, ["'f'", "address 0"]),
        (("", np.sin), codes.TARGET_NAME, ["given ''"]),
        (("f", np.sin, "gpu"), codes.TARGET_PLATFORM, ["'gpu'", "interpreter, cpu"]),
        (
            ("f", np.sin, "interpreter", xla.CustomCallApiVersion.UNSPECIFIED),
            codes.API_VERSION,
            ["'f'", "API_VERSION_UNSPECIFIED"],
        ),
    ],
)
def test_invalid_registrations(arguments: tuple[Any, ...], code: ErrorCode, values: list[str]) -> None:
    with raises(InvalidArgumentError, code, *values):
        xla.register_custom_call_target(*arguments)


def test_only_registered_targets_can_be_unregistered() -> None:
    with raises(InvalidArgumentError, codes.TARGET_REGISTERED, "'nobody'"):
        xla.unregister_custom_call_target("nobody")


# -- operands of Python targets


def test_operands_are_read_only_arrays() -> None:
    def look(x: Any) -> Any:
        assert type(x) is np.ndarray and x.dtype == np.float32 and x.flags.c_contiguous
        x[0, 0] = 5

    with (
        registered(look),
        raises(ExecutionError, codes.FAILED_TARGET, "raised ValueError: assignment destination is read-only"),
    ):
        run(call(), X)
    assert X[0, 0] == 0


def test_a_result_that_is_only_reshaped() -> None:
    text = entry(
        'x = f32[2,3] parameter(0)\np = f32[2,3] custom-call(x), custom_call_target="target"\n'
        "ROOT r = f32[3,1,2] reshape(p)"
    )
    with registered(np.negative):
        assert make_client().compile(text)(X).array.tolist() == (-X).reshape(3, 1, 2).tolist()


def test_an_operand_that_reuses_memory_of_another_type() -> None:
    """Integers that overwrite the floating-point numbers from which they are computed."""
    text = entry(
        "x = f32[2,3] parameter(0)\n"
        'p = f32[2,3] custom-call(x), custom_call_target="target"\n'
        "e = pred[2,3] compare(p, x), direction=LT\ni = s32[2,3] iota(), iota_dimension=1\n"
        "z = s32[] constant(7)\nb = s32[2,3] broadcast(z), dimensions={}\nv = s32[2,3] select(e, i, b)\n"
        'ROOT r = s32[2,3] custom-call(v), custom_call_target="target"'
    )
    with registered(np.negative):
        assert make_client().compile(text)(X).array.tolist() == [[-7, -1, -2], [0, -1, -2]]


def test_an_operand_that_is_only_reshaped_keeps_its_constraint() -> None:
    text = entry(
        "x = f32[2,3] parameter(0)\ny = f32[3,1,2] reshape(x)\n"
        'ROOT r = f32[3,1,2] custom-call(y), custom_call_target="target", '
        "operand_layout_constraints={f32[3,1,2]{0,2,1}}"
    )
    with registered(np.negative):
        assert make_client().compile(text)(X).array.tolist() == (-X).reshape(3, 1, 2).tolist()


@pytest.mark.parametrize(("layout", "strides"), [("{1,0}", (12, 4)), ("{0,1}", (4, 8))])
def test_operands_have_the_constrained_layouts(layout: str, strides: tuple[int, int]) -> None:
    met: list[Any] = []

    def look(x: Any) -> Any:
        met.append((x.tolist(), x.strides))
        return x

    more = f", operand_layout_constraints={{f32[2,3]{layout}}}"
    with registered(look):
        assert run(call("f32[2,3]{0,1}", more), X).tolist() == X.tolist()
    assert met == [(X.tolist(), strides)]


def test_tuples_and_tokens() -> None:
    text = entry("""
      p = (f32[2], (s32[])) parameter(0)
      k = token[] after-all()
      c = ((s32[]), token[], f32[2]) custom-call(p, k), custom_call_target="target"
      ROOT r = f32[2] get-tuple-element(c), index=2
    """)
    met: list[Any] = []

    def look(p: Any, k: Any) -> Any:
        met.append((p[0].tolist(), p[1][0].tolist(), k))
        return (p[1][0],), None, p[0] * np.float32(2)

    with registered(look):
        assert run(text, (np.array([1, 2], np.float32), (np.int32(7),))).tolist() == [2, 4]
    assert met == [([1, 2], 7, None)]


def test_what_a_target_can_query() -> None:
    met: dict[str, Any] = {}

    def look(x: Any, **info: Any) -> Any:
        met.update(info)
        return x

    more = ', api_version=API_VERSION_TYPED_FFI, frontend_attributes={a="b"}, backend_config={n = 1 : i32}'
    with registered(look):
        run(call(more=more), X)
    assert met["opaque"] == "{n = 1 : i32}"
    assert met["shape"] == xla.Shape.parse("f32[2,3]{1,0}")
    assert met["attributes"].api_version is xla.CustomCallApiVersion.TYPED_FFI
    assert met["frontend_attributes"] == {"a": "b"}
    assert (met["instruction_name"], met["replica_id"], met["partition_id"]) == ("r", 0, 0)
    assert met["computations"] == ()


def test_a_target_can_apply_the_called_computations() -> None:
    def rows(x: Any, *, computations: tuple[Callable[..., Any], ...]) -> Any:
        (double,) = computations
        return np.stack([double(row) for row in x])

    with registered(rows):
        assert run(call(more=", to_apply=double"), X).tolist() == (2 * X).tolist()


def test_a_called_computation_takes_only_what_it_declares() -> None:
    def whole(x: Any, *, computations: tuple[Callable[..., Any], ...]) -> Any:
        return computations[0](x)

    with (
        registered(whole),
        raises(ExecutionError, codes.FAILED_TARGET, "double is given as element 0 float32[2,3]"),
    ):
        run(call(more=", to_apply=double"), X)


def test_each_device_calls_the_target() -> None:
    line = 'ROOT r = s32[] custom-call(), custom_call_target="target"'
    text = f"HloModule m, replica_count=2\nENTRY e {{ {line} }}"

    def number(*, replica_id: int) -> Any:
        return np.int32(10 + replica_id)

    with registered(number):
        executable = make_client(2).compile(text)
        assert [int(np.asarray(value)) for value in executable.execute_sharded([[], []])] == [10, 11]


# -- results of Python targets


@pytest.mark.parametrize(
    ("result", "returned", "values"),
    [
        ("f32[2,3]", X[0], ["float32[3]", "f32[2,3] (float32)"]),
        (
            "f32[2,3]",
            X.astype(np.float64),
            ["float64[2,3]", ".astype('float32')"],
        ),
        ("f32[2,3]", None, ["object[]", "f32[2,3]"]),
        ("f32[2]", [[1], [2, 3]], ["list of 2"]),
        (
            "(f32[2,3], f32[])",
            X,
            ["ndarray", "(f32[2,3], f32[])"],
        ),
        ("(f32[2,3], f32[])", (X,), ["tuple of 1", "(f32[2,3], f32[])"]),
        ("(f32[2,3], f32[])", (X, X), ["element 1", "float32[2,3]", "f32[]"]),
    ],
)
def test_results_must_have_the_declared_shape(result: str, returned: Any, values: list[str]) -> None:
    with (
        registered(lambda _: returned),
        raises(ExecutionError, codes.TARGET_RESULT, "r (custom-call): target 'target' returned", *values),
    ):
        run(call(result), X)


def test_results_are_copied() -> None:
    kept = np.ones((2, 3), np.float32)
    with registered(lambda _: kept):
        result = run(call(), X)
    kept[:] = 0
    assert result.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_an_exception_names_the_instruction_and_the_target() -> None:
    def fail(_: Any) -> Any:
        raise KeyError("weights")

    message = "r (custom-call): target 'target' raised KeyError: 'weights'"
    with registered(fail), raises(ExecutionError, codes.FAILED_TARGET, message) as caught:
        run(call(), X)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("error", [GeneratorExit("given up"), StopIteration("given up"), MemoryError("given up")])
def test_a_target_may_raise_what_ends_generators(error: BaseException, devices: int) -> None:
    def fails(x: Any) -> Any:
        raise error

    client = xla.Client("cpu", devices=devices)
    with registered(fails):
        executable = client.compile(call(), num_replicas=devices)
        for _ in range(2):
            with pytest.raises((ExecutionError, GeneratorExit), match="given up"):
                np.asarray(executable.execute_sharded([[X]] * devices)[0])
    with registered(np.negative):
        assert np.array_equal(client.compile(call(), num_replicas=devices).execute_sharded([[X]] * devices)[0], -X)


def test_a_python_target_can_be_for_one_version() -> None:
    with registered(np.sin, api_version=xla.CustomCallApiVersion.TYPED_FFI):
        with raises(UnsupportedError, codes.CALL_VERSION, "API_VERSION_ORIGINAL", "'target'"):
            run(call(), X)
        assert run(call(more=", api_version=API_VERSION_TYPED_FFI"), X).tolist() == np.sin(X).tolist()


def test_a_program_of_the_builder() -> None:
    b = xla.XlaBuilder("softplus")
    x = xla.ops.parameter(b, 0, xla.Shape.parse("f32[3]"), "x")
    xla.ops.custom_call(b, "softplus", [x * 2.0], xla.Shape.parse("f32[3]"), opaque="3")

    def softplus(v: Any, *, opaque: str) -> Any:
        return np.log1p(np.exp(v)) + np.float32(opaque)

    given = np.array([-1, 0, 1], np.float32)
    with registered(softplus, name="softplus"):
        result = np.asarray(make_client().compile(b.build())(given))
    assert np.allclose(result, np.log1p(np.exp(2 * given)) + 3, rtol=1e-6)


# -- errors of targets


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raise_missing_entry(x: Any) -> Any:
    xla.parse_hlo("ENTRY e { ROOT x = f32[] paramter(0) }")


def raise_shape(x: Any) -> Any:
    raise ShapeError(ARGUMENT_COUNT, "three of four")


def raise_unspeakable(x: Any) -> Any:
    raise UnspeakableError


@pytest.mark.parametrize("platform", ["cpu", "interpreter", "reference"])
@pytest.mark.parametrize(
    "target, values",
    [
        (raise_shape, ["ShapeError: three of four"]),
        (raise_missing_entry, ["ParseError: line 1, column 26", "paramter"]),
        (raise_unspeakable, ["UnspeakableError", "__str__ raised RuntimeError"]),
    ],
)
def test_the_error_of_a_target_has_one_code_and_names_the_call(
    platform: str, target: Callable[..., Any], values: list[str]
) -> None:
    with registered(target):
        executable = xla.Client(platform).compile(call())
        with raises(ExecutionError, codes.FAILED_TARGET, "r (custom-call)", "'target'", *values) as caught:
            xla.block_until_ready(executable(X))
    assert re.findall(r"\[E\d{4}\]", str(caught.value)) == [f"[{codes.FAILED_TARGET}]"]
