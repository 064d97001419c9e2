"""Infeeds and outfeeds in native code: the interpreter's values and errors, without callbacks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.llvm.test_rendezvous import leaves
from tests.cpu.test_interruption import interrupted
from tests.interpreter.runners.replica import module
from tests.raising import raises
from tests.threads import run_in_threads
from xlapy.base import flags
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.base.flags import Flags
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import CallbackThunk, FeedThunk, walk_thunks
from xlapy.runtime import Client
from xlapy.runtime.collectives.communicator import DeviceCommunicator


def echo(shape: str) -> str:
    return module(
        f"""k = token[] after-all() i = ({shape}, token[]) infeed(k) x = {shape} get-tuple-element(i), index=0
        t = token[] get-tuple-element(i), index=1 o = token[] outfeed(x, t) ROOT r = {shape} copy(x)"""
    )


def no_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("the host is asked")

    monkeypatch.setattr(DeviceCommunicator, "infeed", refuse)
    monkeypatch.setattr(DeviceCommunicator, "outfeed", refuse)


COMPLEX = np.array([[1 + 2j, np.nan]], np.complex64)
VALUES = {
    "f32[3,5]": np.arange(15, dtype=np.float32).reshape(3, 5),
    "f32[]": np.array(-0.0, np.float32),
    "bf16[7]": np.arange(7).astype(ml_dtypes.bfloat16),
    "f16[7]": np.arange(7).astype(np.float16)[::-1],
    "s4[5]": np.arange(-3, 2).astype(ml_dtypes.int4),
    "pred[3]": np.array([True, False, True]),
    "c64[1,2]": COMPLEX,
    "f32[5,3]{0,1}": np.arange(15, dtype=np.float32).reshape(3, 5).T,
    "s32[0,4]": np.zeros((0, 4), np.int32),
}


@pytest.mark.parametrize("shape", VALUES)
def test_values_go_through(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, value = echo(shape), VALUES[shape]
    thunks = list(walk_thunks(compile_module(xla.parse_hlo(text), ()).program.thunks))
    assert any(isinstance(thunk, FeedThunk) for thunk in thunks)
    assert not any(isinstance(thunk, CallbackThunk) and not isinstance(thunk, FeedThunk) for thunk in thunks)
    no_callbacks(monkeypatch)
    executable = Client("cpu").compile(text)
    device = executable.devices[0]
    device.transfer_to_infeed(value)
    for found in (executable(), device.transfer_from_outfeed()):
        array = np.asarray(found)
        assert array.dtype == value.dtype and array.shape == value.shape and array.tobytes() == value.tobytes()


def test_tuples_of_several_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = module(
        """k = token[] after-all() i = ((f32[2], s8[3], pred[]), token[]) infeed(k)
        t = token[] get-tuple-element(i), index=1 a = (f32[2], s8[3], pred[]) get-tuple-element(i), index=0
        j = (f32[2], token[]) infeed(t) u = token[] get-tuple-element(j), index=1
        b = f32[2] get-tuple-element(j), index=0 o = token[] outfeed(a, u) q = token[] outfeed(b, o)
        ROOT r = f32[2] negate(b)"""
    )
    no_callbacks(monkeypatch)
    executable = Client("cpu").compile(text)
    device = executable.devices[0]
    pair = np.array([1, 2], np.float32), np.array([3, 4, 5], np.int8), np.array(True)
    device.transfer_to_infeed(pair)
    device.transfer_to_infeed(pair[0] * 10)
    executable()
    first, second = device.transfer_from_outfeed(), device.transfer_from_outfeed()
    assert [leaf.tolist() for leaf in leaves(first)] == [[1, 2], [3, 4, 5], True]
    assert np.asarray(second).tolist() == [10, 20]


def sums(count: int, devices: int = 1) -> str:
    """Adds up the values that are fed in, and feeds out each partial sum."""
    return module(
        """i = s32[] constant(0) x = s32[2] parameter(0) s = (s32[], s32[2]) tuple(i, x)
        w = (s32[], s32[2]) while(s), condition=less, body=step ROOT r = s32[2] get-tuple-element(w), index=1""",
        devices,
        computations=f"""
        less {{ s = (s32[], s32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
          ROOT r = pred[] compare(i, n), direction=LT }}
        step {{ s = (s32[], s32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
          x = s32[2] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) k = token[] after-all()
          f = (s32[2], token[]) infeed(k) a = s32[2] get-tuple-element(f), index=0
          t = token[] get-tuple-element(f), index=1 z = s32[2] add(x, a) o = token[] outfeed(z, t)
          ROOT r = (s32[], s32[2]) tuple(j, z) }}""",
    )


ZEROS = np.zeros(2, np.int32)


def number(value: int) -> np.ndarray[Any, Any]:
    return np.array([value, -value], np.int32)


@pytest.mark.parametrize("devices", [1, 3])
def test_the_host_and_the_program_go_back_and_forth(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is lost, taken twice or read before it is whole changes the sums; a wake-up that is lost ends in the
    time-out."""
    no_callbacks(monkeypatch)
    executable = Client("cpu", devices=devices).compile(sums(300, devices))

    def feed() -> None:
        for turn in range(300):
            for place, device in enumerate(executable.devices):
                device.transfer_to_infeed(number(turn + place))
            for place, device in enumerate(executable.devices):
                expected = (turn + 1) * (turn + 2 * place) // 2
                assert np.asarray(device.transfer_from_outfeed(timeout=20)).tolist() == [expected, -expected]

    _, results = run_in_threads(2, lambda thread: executable.execute_sharded([[ZEROS]] * devices) if thread else feed())
    assert [int(np.asarray(result)[0]) for result in results] == [300 * (299 + 2 * p) // 2 for p in range(devices)]
    assert [(len(d.infeed), len(d.outfeed)) for d in executable.devices] == [(0, 0)] * devices


def test_remaining_values_stay_for_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    no_callbacks(monkeypatch)
    executable = Client("cpu").compile(sums(3))
    device = executable.devices[0]
    for turn in range(7):
        device.transfer_to_infeed(number(turn))
    assert np.asarray(executable(ZEROS)).tolist() == [3, -3]
    assert (len(device.infeed), len(device.outfeed)) == (4, 3)
    assert np.asarray(executable(ZEROS)).tolist() == [12, -12]
    assert [int(np.asarray(device.transfer_from_outfeed())[0]) for _ in range(6)] == [0, 1, 3, 3, 7, 12]
    assert (len(device.infeed), len(device.outfeed)) == (1, 0)


def test_arrays_alternate_with_lists() -> None:
    """Lists are converted to the type of the infeed, which only the host knows: after the first list, the program asks
    it.
    """
    executable = Client("cpu").compile(sums(6))
    device = executable.devices[0]
    for turn in range(6):
        device.transfer_to_infeed([turn, -turn] if turn in (2, 3) else number(turn))
    assert np.asarray(executable(ZEROS)).tolist() == [15, -15]
    assert [int(np.asarray(device.transfer_from_outfeed())[0]) for _ in range(6)] == [0, 1, 3, 6, 10, 15]


def test_a_wrong_shape_after_right_ones() -> None:
    executable = Client("cpu").compile(sums(3))
    device = executable.devices[0]
    for value in (number(1), np.zeros(3, np.int32), number(2)):
        device.transfer_to_infeed(value)
    with raises(InvalidArgumentError, calls_codes.ARGUMENT_SHAPE, "f (infeed)", "s32[2] (int32)", "int32[3]"):
        executable(ZEROS).block_until_ready()
    assert (len(device.infeed), len(device.outfeed)) == (1, 1)


def test_two_runs_on_one_device_share_what_is_fed_in() -> None:
    """Only one run is attached to the queue in shared memory: a value that both take, or that is lost when a run
    detaches, changes the sum."""
    executable = Client("cpu").compile(sums(200))
    device = executable.devices[0]

    def run(thread: int) -> int:
        if thread < 2:
            return int(np.asarray(executable(ZEROS))[0])
        for turn in range(400):
            device.transfer_to_infeed(number(turn))
        return 0

    assert sum(run_in_threads(3, run)) == 400 * 399 // 2
    assert (len(device.infeed), len(device.outfeed)) == (0, 400)


def test_feeds_of_loaded_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    no_callbacks(monkeypatch)
    client = Client("cpu")
    executable = client.deserialize(client.compile(sums(3)).serialize())
    for turn in range(3):
        executable.devices[0].transfer_to_infeed(number(turn))
    assert np.asarray(executable(ZEROS)).tolist() == [3, -3]


# -- waits that can never end


def limited(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    values = Flags({"collective_timeout": seconds})
    monkeypatch.setattr(flags, "current", lambda: values)


def test_nothing_is_fed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 0)
    with raises(ExecutionError, codes.WAIT_TIMEOUT, "f (infeed)", "0 seconds"):
        Client("cpu").compile(sums(3))(ZEROS).block_until_ready()


UNEVEN = """
feeds { p = f32[2] parameter(0) k = token[] after-all() i = (f32[2], token[]) infeed(k)
  ROOT r = f32[2] get-tuple-element(i), index=0 }
keeps { ROOT p = f32[2] parameter(0) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"""


def test_others_wait_for_a_device_that_waits_for_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = """i = u32[] replica-id() j = s32[] convert(i) p = f32[2] parameter(0)
      c = f32[2] conditional(j, p, p), branch_computations={feeds, keeps} ROOT r = f32[2] all-reduce(c), to_apply=add"""
    executable = Client("cpu", devices=2).compile(module(entry, 2, computations=UNEVEN))
    ones = np.ones(2, np.float32)
    limited(monkeypatch, 1)
    executable.devices[0].transfer_to_infeed(ones)
    for result in executable.execute_sharded([[ones]] * 2):
        assert np.asarray(result).tolist() == [2, 2]
    with raises(ExecutionError, codes.WAIT_TIMEOUT, "i (infeed)"):
        xla.block_until_ready(executable.execute_sharded([[ones]] * 2))


def test_a_program_that_waits_for_the_host_is_interrupted() -> None:
    executable = Client("cpu").compile(sums(3))
    assert interrupted(lambda: executable(ZEROS)) < 2
    for turn in range(3):
        executable.devices[0].transfer_to_infeed(number(turn))
    assert np.asarray(executable(ZEROS)).tolist() == [3, -3]
