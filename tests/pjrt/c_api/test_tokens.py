"""Tokens as arguments and results of programs that native code launches: they have no bytes, and their events order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.pjrt.c_api.calls import (
    PjrtError,
    array_of,
    buffer_of,
    call,
    compile_program,
    default_memory,
    destroy,
    execute,
    ready,
)
from tests.raising import raises
from xlapy.base.element_types import TOKEN
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.execution import custom_calls as custom_calls_codes
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.custom_calls.registry import register_custom_call_target, unregister_custom_call_target
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.types import number_of
from xlapy.pjrt.objects.buffers import PendingBuffer, pending_buffer
from xlapy.pjrt.objects.executable import executable_at
from xlapy.pjrt.objects.layouts import row_major
from xlapy.pjrt.objects.records import read_words
from xlapy.runtime.engine.launch_errors import error_record

MIXED = """
func.func @main(%t: !stablehlo.token, %k: tensor<3xi32>, %u: !stablehlo.token,
                %x: tensor<4xf32> {tf.aliasing_output = 2 : i32})
    -> (!stablehlo.token, tensor<3xi32>, tensor<4xf32>, !stablehlo.token) {
  %after = stablehlo.after_all %t, %u : !stablehlo.token
  %l = stablehlo.negate %k : tensor<3xi32>
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %after, %l, %y, %u : !stablehlo.token, tensor<3xi32>, tensor<4xf32>, !stablehlo.token
}
"""
CALLING = """
func.func @main(%t: !stablehlo.token, %x: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
  %r:2 = stablehlo.custom_call @test_tokens_note(%t, %x) {has_side_effect = true}
    : (!stablehlo.token, tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>)
  return %r#0, %r#1 : !stablehlo.token, tensor<4xf32>
}
"""
ONES = np.ones(4, np.float32)


@pytest.fixture
def noted() -> Iterator[list[float]]:
    """What the program's callback was called with."""
    found: list[float] = []

    def note(token: object, x: Any) -> Any:
        assert token is None
        if x[0] == 13:
            raise LookupError("thirteen")
        found.append(float(x[0]))
        return None, x * 2

    register_custom_call_target("test_tokens_note", note)
    yield found
    unregister_custom_call_target("test_tokens_note")


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of programs that Python launched."""
    from xlapy.pjrt.objects import execute as launches

    found: list[str] = []
    run = launches._run
    monkeypatch.setattr(
        launches, "_run", lambda loaded, *rest: (found.append(loaded.executable.name), run(loaded, *rest))
    )
    return found


def pending_token() -> PendingBuffer:
    return pending_buffer(number_of(TOKEN), (0,), default_memory(), row_major(1))


def ready_token() -> int:
    token = pending_token()
    token.complete()
    return token.handle


def assert_token(buffer: int) -> None:
    assert call("Buffer_ElementType", buffer=buffer).type == number_of(TOKEN)
    dims = call("Buffer_Dimensions", buffer=buffer)
    assert read_words(dims.dims, dims.num_dims) == [0]
    assert call("Buffer_OnDeviceSizeInBytes", buffer=buffer).on_device_size_in_bytes == 0
    ready(buffer)


def test_tokens_between_arrays_and_donated_arrays(in_python):
    executable = compile_program(MIXED)
    assert len(executable_at(executable).device_programs) == 1
    token, other = ready_token(), buffer_of(np.zeros(0, np.float32))  # JAX's first token is an array without elements
    k, x = buffer_of(np.arange(3, dtype=np.int32)), buffer_of(ONES)
    for _ in range(3):
        ((after, negated, y, same),) = execute(executable, [token, k, other, x], results=4)
        assert array_of(negated).tolist() == [0, -1, -2]
        assert call("Buffer_IsDeleted", buffer=x).is_deleted
        assert_token(after)
        assert_token(same)
        destroy(token, other, x, negated)
        token, other, x = after, same, y
    assert array_of(x).tolist() == [8.0] * 4
    destroy(token, other, x, k)
    assert not in_python


def test_arguments_that_do_not_fit_beside_tokens():
    executable = compile_program(MIXED)
    token, k, x = ready_token(), buffer_of(np.arange(3, dtype=np.int32)), buffer_of(ONES)
    with raises(PjrtError, codes.ARGUMENT_SHAPE, "parameter 1", "s32[3]", "f32[4]"):
        execute(executable, [token, x, token, k], results=4)
    assert not call("Buffer_IsDeleted", buffer=x).is_deleted
    deleted = ready_token()
    call("Buffer_Delete", buffer=deleted)
    with raises(PjrtError, codes.DELETED_BUFFER):
        execute(executable, [deleted, k, token, x], results=4)
    assert not call("Buffer_IsDeleted", buffer=x).is_deleted
    destroy(token, deleted, k, x)


def test_callbacks_with_tokens_are_launched_natively(noted, in_python):
    executable = compile_program(CALLING)
    token = ready_token()
    for number in range(5):
        x = buffer_of(ONES * number)
        ((after, y),) = execute(executable, [token, x], results=2)
        assert array_of(y).tolist() == [2.0 * number] * 4
        assert_token(after)
        destroy(token, x, y)
        token = after
    x = buffer_of(ONES * 13)
    with raises(PjrtError, custom_calls_codes.FAILED_TARGET, "LookupError: thirteen"):
        execute(executable, [token, x], results=2)
    assert_token(token)
    destroy(token, x)
    assert noted == [0, 1, 2, 3, 4]
    assert not in_python


def test_a_launch_waits_for_its_token(noted):
    executable, first, x, z = compile_program(CALLING), pending_token(), buffer_of(ONES), buffer_of(ONES * 2)
    ((second, y),) = execute(executable, [first.handle, x], results=2)
    ((third, w),) = execute(executable, [second, z], results=2)
    assert noted == []
    first.complete()
    ready(third)
    assert noted == [1, 2]
    assert array_of(y).tolist() == [2.0] * 4
    destroy(first.handle, second, third, x, y, z, w)


def test_the_error_of_a_token_fails_the_launch(noted):
    executable, first, x = compile_program(CALLING), pending_token(), buffer_of(ONES)
    ((second, y),) = execute(executable, [first.handle, x], results=2)
    first.complete(error_record(native(), ValueError("no token")))
    with raises(PjrtError, running_codes.FOREIGN_ERROR, "no token"):
        array_of(y)
    with raises(PjrtError, running_codes.FOREIGN_ERROR, "no token"):
        ready(second)
    assert noted == []
    destroy(first.handle, second, x, y)
