"""Calls of compiled programs that run no Python code, and which calls Python has to help with."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime.engine.object_layout import object_layout

ADD = """HloModule add
ENTRY e { x = f32[2,3] parameter(0)
 y = f32[2,3] parameter(1)
 ROOT r = f32[2,3] add(x, y) }"""
PAIR = """HloModule pair
ENTRY e { x = f32[2,3] parameter(0)
 y = s32[] parameter(1)
 n = f32[2,3] negate(x)
 m = s32[] negate(y)
 ROOT r = (f32[2,3], s32[]) tuple(n, m) }"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def prepared(text: str, *arguments: object) -> xla.Executable:
    """A compiled program after its first call."""
    executable = xla.Client("cpu").compile(text)
    executable(*arguments)
    assert executable._native_call is not None
    return executable


def is_native(executable: xla.Executable, *arguments: object) -> bool:
    """Whether a call runs without Python."""
    return executable._native_call(arguments) is not NotImplemented


def buffer_of(array: np.ndarray) -> xla.Buffer:
    return xla.Client("cpu").device_put(array)


def test_buffers_and_arrays_are_taken_without_python():
    add = prepared(ADD, X, X)
    one = buffer_of(X)
    for arguments in ((X, X), (one, X), (X, one), (one, one)):
        result = add._native_call(arguments)
        assert type(result) is xla.Buffer and result.shape == (2, 3) and result.dtype == np.float32
        assert np.asarray(result).tolist() == (2 * X).tolist()
        assert result.is_ready() and result.block_until_ready() is result


@pytest.mark.parametrize(
    "array",
    [
        X.astype(np.float64),
        X.astype(">f4"),
        X.T,
        X[:1],
        X.reshape(3, 2),
        X.reshape(6),
        X.reshape(2, 3, 1),
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
        X[::-1],
        np.frombuffer(b"." * 25, np.uint8)[1:].view(np.float32).reshape(2, 3),
        X.tolist(),
        None,
    ],
    ids=lambda array: str(getattr(array, "strides", type(array).__name__)),
)
def test_what_has_to_be_checked_or_copied_is_left_to_python(array: object):
    add = prepared(ADD, X, X)
    assert not is_native(add, X, array)
    assert not is_native(add, array, X)


def test_arrays_without_elements_in_row_major_order_have_the_values_of_their_elements():
    add = prepared(ADD, X, X)
    wide = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    assert np.asarray(add(wide, X[::-1])).tolist() == (wide + X[::-1]).tolist()


def test_a_read_only_array_lends_its_memory():
    array = X.copy()
    array.flags.writeable = False
    assert is_native(prepared(ADD, X, X), array, array)


def test_subclasses_of_arrays_are_left_to_python():
    class Mine(np.ndarray):
        pass

    add = prepared(ADD, X, X)
    assert not is_native(add, X.view(Mine), X)
    assert np.asarray(add(X.view(Mine), X)).tolist() == (2 * X).tolist()


def test_wrong_calls_have_errors_of_their_own():
    add = prepared(ADD, X, X)
    with raises(InvalidArgumentError, codes.ARGUMENT_COUNT, "2 arguments", "given 3"):
        add(X, X, X)
    with raises(InvalidArgumentError, codes.ARGUMENT_COUNT, "2 arguments", "given 0"):
        add()
    with raises(InvalidArgumentError, codes.ARGUMENT_SHAPE, "parameter 1", "f32[2,3]"):
        add(X, X[:1])
    with raises(InvalidArgumentError, codes.ARGUMENT_SHAPE, "parameter 0", "f32[2,3]"):
        add(buffer_of(X[:1]), X)
    gone = buffer_of(X)
    gone.delete()
    with raises(InvalidArgumentError, codes.DELETED_BUFFER, "parameter 1", "f32[2,3]"):
        add(X, gone)


def test_tuples_of_results():
    pair = prepared(PAIR, X, 1)
    result = pair._native_call((X, np.array(7, np.int32)))
    assert type(result) is tuple and [one.shape for one in result] == [(2, 3), ()]
    assert np.asarray(result[0]).tolist() == (-X).tolist() and int(result[1]) == -7


@pytest.mark.parametrize(
    "shape", ["f32[]", "f32[0]", "f32[0,3]", "pred[5]", "bf16[3]", "f8e4m3fn[3]", "c128[2]", "u64[2,1]"]
)
def test_element_types_and_sizes(shape: str):
    text = f"HloModule same\nENTRY e {{ x = {shape} parameter(0)\n ROOT r = {shape} copy(x) }}"
    parsed = xla.Shape.parse(shape)
    array = np.ones(parsed.dimensions, parsed.dtype)
    same = prepared(text, array)
    for argument in (array, buffer_of(array)):
        result = same._native_call((argument,))
        assert result is not NotImplemented
        assert result.dtype == parsed.dtype and np.asarray(result).tobytes() == array.tobytes()


def test_many_arguments():
    """More buffers, and more lent memory, than fit on the stack."""
    for count in (30, 600):
        lines = [f" p{number} = f32[2] parameter({number})" for number in range(count)]
        names = ", ".join(f"p{number}" for number in range(count))
        types = ", ".join(["f32[2]"] * count)
        text = "\n".join(["HloModule many", "ENTRY e {", *lines, f" ROOT r = ({types}) tuple({names}) }}"])
        arrays = [np.full(2, number, np.float32) for number in range(count)]
        many = prepared(text, *arrays)
        for arguments in (arrays, list(map(buffer_of, arrays))):
            assert [np.asarray(one).tolist() for one in many(*arguments)] == [[number] * 2 for number in range(count)]


def test_references_are_counted():
    """A call leaves the counts of arguments and of shared objects as they were."""
    pair = prepared(PAIR, X, 1)
    seven = np.array(7, np.int32)
    one = buffer_of(X)
    rejected = X.T
    watched = (one, seven, rejected, one._type, None, NotImplemented, xla.Buffer)
    pair(one, seven)
    gc.collect()
    before = [sys.getrefcount(value) for value in watched]
    for _ in range(1000):
        pair(one, seven)
        pair._native_call((rejected, seven))
        one.block_until_ready()
    gc.collect()
    after = [sys.getrefcount(value) for value in watched]
    assert all(abs(b - a) < 100 for a, b in zip(before, after, strict=True))


def test_results_keep_their_memory():
    add = prepared(ADD, X, X)
    results = [np.asarray(add(X, np.full_like(X, number))) for number in range(50)]
    del add
    gc.collect()
    assert all((array == X + number).all() for number, array in enumerate(results))


def test_a_canceled_call_raises_the_error(monkeypatch: pytest.MonkeyPatch):
    """The native call of a program whose code reports that it was canceled."""
    slow = """HloModule slow
    body { p = (s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      v = f32[] get-tuple-element(p), index=1
      one = s32[] constant(1)
      n = s32[] add(i, one)
      d = f32[] sine(v)
      ROOT t = (s32[], f32[]) tuple(n, d) }
    condition { p = (s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      k = s32[] constant(-1)
      ROOT c = pred[] compare(i, k), direction=NE }
    ENTRY e { x = f32[] parameter(0)
      start = s32[] parameter(1)
      s = (s32[], f32[]) tuple(start, x)
      w = (s32[], f32[]) while(s), condition=condition, body=body
      ROOT v = f32[] get-tuple-element(w), index=1 }"""
    one, end, begin = np.array(1, np.float32), np.array(-1, np.int32), np.array(0, np.int32)
    slow_call = prepared(slow, one, end)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            slow_call(one, begin)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert float(slow_call(one, end)) == 1.0


def test_threads_call_at_once():
    add = prepared(ADD, X, X)
    one = buffer_of(X)
    failures: list[object] = []

    def work(number: int) -> None:
        other = np.full_like(X, number)
        results = (np.asarray(add(one, other)) for _ in range(300))
        failures.extend(number for result in results if (result != X + number).any())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_donated_and_nested_programs_are_left_to_python():
    client = xla.Client("cpu")
    donating = client.compile(ADD, donate=[0])
    donating(buffer_of(X), X)
    assert donating._native_call is None
    nested = "HloModule n\nENTRY e { p = (f32[2]) parameter(0)\n ROOT r = f32[2] get-tuple-element(p), index=0 }"
    executable = client.compile(nested)
    executable((np.ones(2, np.float32),))
    assert executable._native_call is None


def test_the_layout_of_objects_is_known():
    assert object_layout() is not None


def test_calls_on_several_devices():
    """The arguments of one device after the other; values, places, and wrong calls."""
    executable = xla.Client("cpu", devices=3).compile(PAIR, num_replicas=3)
    rows = [[X + device, np.array(device, np.int32)] for device in range(3)]
    first = executable.execute_sharded(rows)
    assert executable.program.engine_call.native is not None
    kept = [[x, m] for x, m in first]
    for arguments, sign in ((rows, 1), (kept, -1), ([tuple(row) for row in rows], 1)):
        results = executable.execute_sharded(arguments)
        assert type(results) is list and all(type(row) is tuple for row in results)
        for device, (x, m) in enumerate(results):
            assert np.asarray(x).tolist() == (-sign * (X + device)).tolist() and int(m) == -sign * device
    swapped = executable.execute_sharded(kept[::-1])  # buffers of other devices
    assert [int(m) for _, m in swapped] == [2, 1, 0]
    with raises(InvalidArgumentError, codes.ARGUMENT_COUNT, "device 0", "2 arguments", "given 3"):
        executable.execute_sharded([[*rows[0], rows[0][0]], rows[1][:1], rows[2]])
    with raises(InvalidArgumentError, codes.ARGUMENT_SHAPE, "device 2", "parameter 1"):
        executable.execute_sharded([rows[0], rows[1], [X, X]])
    with raises(InvalidArgumentError, codes.DEVICE_ARGUMENTS):
        executable.execute_sharded([rows[0], rows[1], "xy"])


def test_programs_without_arguments_or_results_on_several_devices():
    client = xla.Client("cpu", devices=2)
    seven = client.compile("HloModule s\nENTRY e { ROOT r = s32[] constant(7) }", num_replicas=2)
    nothing = client.compile("HloModule n\nENTRY e { p = s32[] parameter(0)\n ROOT r = () tuple() }", num_replicas=2)
    for _ in range(3):
        assert [int(one) for one in seven.execute_sharded([[], []])] == [7, 7]
        assert nothing.execute_sharded([[np.array(1, np.int32)]] * 2) == [(), ()]


def test_devices_that_synchronize_start_no_threads_per_call():
    text = """HloModule sum
    add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[2,3] parameter(0)
      ROOT r = f32[2,3] all-reduce(x), replica_groups={}, to_apply=add }"""
    executable = xla.Client("cpu", devices=4).compile(text, num_replicas=4)
    results = executable.execute_sharded([[X]] * 4)
    running = set(os.listdir("/proc/self/task"))
    for _ in range(20):
        results = executable.execute_sharded([[one] for one in results])
    assert set(os.listdir("/proc/self/task")) == running
    assert np.asarray(results[3]).tolist() == (X * 4.0**21).tolist()


def test_types_that_others_give_functions_of_python_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    """`ctypes.pythonapi` is shared by all modules of the process."""
    for name in ("PyCapsule_New", "PyCapsule_GetPointer", "PyCFunction_NewEx"):
        monkeypatch.setattr(getattr(ctypes.pythonapi, name), "argtypes", (ctypes.c_double,))
        monkeypatch.setattr(getattr(ctypes.pythonapi, name), "restype", ctypes.c_double)
    add = prepared(ADD, X, X)
    assert np.asarray(add(buffer_of(X), X).block_until_ready()).tolist() == (2 * X).tolist()


def test_a_fast_path_may_be_any_function(monkeypatch: pytest.MonkeyPatch):
    """Back ends that others register have no native calls."""
    executable = xla.Client("interpreter").compile(ADD)
    monkeypatch.setattr(
        executable, "_fast_path", lambda arguments: len(arguments) if arguments[0] is X else NotImplemented
    )
    assert [executable(X, X), executable(X, X)] == [2, 2]
    assert np.asarray(executable(X + 1, X)).tolist() == (2 * X + 1).tolist()
