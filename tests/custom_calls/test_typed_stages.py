"""Custom calls of API_VERSION_TYPED_FFI: the stages of a target and the states they share."""

from __future__ import annotations

import ctypes
import gc
from functools import partial
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.custom_calls.typed_handlers import NO_TYPE, Frame, X, call, double, handler
from tests.interpreter.runners.custom import entry, registered, run
from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.custom_calls.ffi import structures as c

_deleted: list[int] = []
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_deleted.append)
_INFO = c.TypeInfo(24, None, ctypes.cast(_DELETER, ctypes.c_void_p).value)
_TYPE = ctypes.c_int64(0)
LIBRARY = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value
WRONG_INFO = c.TypeInfo(24, None, 72)


def state_type() -> Any:
    """Registers the type of this test's states, once, and returns a pointer to its id."""
    if not _TYPE.value:
        xla.register_custom_call_type("test state", ctypes.addressof(_TYPE), ctypes.addressof(_INFO))
    assert _TYPE.value > 0
    return ctypes.pointer(_TYPE)


def staged(met: list[Any]) -> dict[str, Any]:
    """Builds a handler bundle of all stages; each sets a state, and execute reads them."""

    def start(frame: Frame) -> int | None:
        met.append((frame.stage, frame.attributes(), len(frame.arguments())))
        frame.ask("State_Set", c.StateArgs, stage=frame.stage, type_id=state_type(), state=100 + frame.stage)
        return None

    def execute(frame: Frame) -> int | None:
        states = [frame.ask("State_Get", c.StateArgs, stage=s, type_id=state_type()).state for s in range(3)]
        old = frame.ask("State_Get", c.InstantiateStateArgs, type_id=state_type()).state
        met.append((frame.stage, states, old))
        return double(frame)

    begin = handler(start)
    return {"instantiate": begin, "prepare": begin, "initialize": begin, "execute": handler(execute)}


def test_stages_run_in_order_and_states_have_the_right_lifetimes() -> None:
    met: list[Any] = []
    _deleted.clear()
    with registered(staged(met)):
        executable = xla.Client("interpreter").compile(call("{n = 1}"))
        assert met == [(0, {"n": 1}, 0)]
        executable(X)
        executed = (3, [100, 101, 102], 100)
        assert met[1:] == [(1, {"n": 1}, 1), (2, {"n": 1}, 1), executed]
        assert sorted(_deleted) == [101, 102]  # the run has ended
        executable(X)
        assert met[4:] == met[1:4]
    del executable
    gc.collect()
    assert sorted(_deleted) == [100, 101, 101, 102, 102]


def test_stages_before_a_run_are_not_repeated_in_its_loop() -> None:
    met: list[Any] = []
    loop = entry(
        """i = s32[] parameter(0)
        ROOT w = s32[] while(i), condition=below, body=step""",
        """below { p = s32[] parameter(0) n = s32[] constant(3) ROOT r = pred[] compare(p, n), direction=LT }
        step { p = s32[] parameter(0) o = s32[] constant(1)
          x = f32[2,3] constant({{1,1,1},{1,1,1}})
          c = f32[2,3] custom-call(x), custom_call_target="target", api_version=API_VERSION_TYPED_FFI,
            custom_call_has_side_effect=true
          ROOT r = s32[] add(p, o) }""",
    )
    with registered(staged(met)):
        assert run(loop, np.int32(0)) == 3
    assert [row[0] for row in met] == [0, 1, 2, 3, 3, 3]


def test_an_error_of_a_stage_names_it() -> None:
    def fail(frame: Frame) -> int | None:
        return frame.error(8, b"no room")

    bundle = {"execute": handler(double), "instantiate": handler(fail)}
    failed = partial(raises, ExecutionError, codes.FAILED_TARGET, "r (custom-call): target 'target' failed")
    with registered(bundle), failed("stage instantiate: RESOURCE_EXHAUSTED: no room"):
        xla.Client("interpreter").compile(call())
    bundle = {"execute": handler(double), "prepare": handler(fail)}
    with registered(bundle), failed("stage prepare: RESOURCE_EXHAUSTED: no room"):
        run(call(), X)


def test_a_target_that_is_registered_again_is_instantiated_again() -> None:
    met: list[Any] = []
    with registered(staged(met)):
        executable = xla.Client("interpreter").compile(call())
        xla.register_custom_call_target("target", staged(met))
        executable(X)
    assert [row[0] for row in met] == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "code", "values"),
    [
        (("test state", ctypes.addressof(NO_TYPE.contents)), codes.REGISTERED_TYPE, ["test state", "type id"]),
        (("other", None), codes.TARGET_ADDRESS, ["id of type 'other'", "given None"]),
        (("other", 0), codes.TARGET_ADDRESS, ["given 0"]),
        (
            ("other", ctypes.addressof(NO_TYPE.contents), "info"),
            codes.TARGET_ADDRESS,
            ["info of type 'other'", "given 'info'"],
        ),
        (("other", 5), codes.TARGET_ADDRESS, ["id of type 'other'", "address 5", "writable memory"]),
        (("other", 1 << 70), codes.TARGET_ADDRESS, ["id of type 'other'", "address 1180591620717411303424"]),
        (("other", LIBRARY), codes.TARGET_ADDRESS, ["id of type 'other'", "writable memory"]),
        (
            ("other", ctypes.addressof(NO_TYPE.contents), 64),
            codes.TARGET_ADDRESS,
            ["info of type 'other'", "address 64", "readable memory"],
        ),
        (
            ("other", ctypes.addressof(NO_TYPE.contents), ctypes.addressof(WRONG_INFO)),
            codes.TARGET_ADDRESS,
            ["deleter of type 'other'", "address 72", "code"],
        ),
    ],
)
def test_types_that_cannot_be_registered(arguments: tuple[Any, ...], code: ErrorCode, values: list[str]) -> None:
    state_type()
    with raises(InvalidArgumentError, code, *values):
        xla.register_custom_call_type(*arguments)
