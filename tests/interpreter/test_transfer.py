"""Transfers: copies, infeed and outfeed, send and recv with the host and between devices."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.replica import compile_on_devices, floats, lists, make_client, module, run_on_devices
from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.execution import interpreting as interpreting_codes
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.error_codes.structure import asynchronous as asynchronous_codes
from xlapy.base.error_codes.structure import editing as editing_codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError, VerificationError, XlaError
from xlapy.interpreter import Context, evaluate_computation
from xlapy.interpreter.transfer import parse_pairs
from xlapy.text import parse_hlo

COPY = """
HloModule copies

ENTRY main {
  p = f32[3] parameter(0)
  start = (f32[3], f32[3], u32[]) copy-start(p)
  context = u32[] get-tuple-element(start), index=2
  done = f32[3] copy-done(start)
  ROOT both = (f32[3], u32[], (f32[3], f32[3], u32[])) tuple(done, context, start)
}
"""


def test_copy_start_gives_the_copy_the_operand_and_a_context() -> None:
    operand = np.array([1, -0.0, np.nan], np.float32)
    module = parse_hlo(COPY, verify=False)  # the verifier lets only copy-done read the result of copy-start
    done, context, start = evaluate_computation(Context(), module.entry_computation, [operand])
    for value in (done, start[0], start[1]):
        assert value.tobytes() == operand.tobytes() and value.dtype == np.float32
    assert (context.dtype, context.shape, len(start)) == (np.uint32, (), 3)


@pytest.mark.parametrize(
    ("instruction", "connection"),
    [
        ("(f32[2], token[]) infeed(t)", "a host"),
        ("token[] outfeed(x, t)", "a host"),
        ("(f32[2], u32[], token[]) recv(t), channel_id=1", "other devices"),
        ("(f32[2], u32[], token[]) send(x, t), channel_id=1", "other devices"),
        ("(f32[2], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true", "a host"),
        ("(f32[2], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true", "a host"),
    ],
)
def test_an_evaluation_without_a_client_has_neither_host_nor_other_devices(instruction: str, connection: str) -> None:
    text = module(f"t = token[] after-all() x = f32[2] constant({{1, 2}}) ROOT i = {instruction}")
    with raises(ExecutionError, editing_codes.CONNECTION, connection):
        evaluate_computation(Context(), parse_hlo(text, verify=False).entry_computation, [])


# -- infeed, outfeed

DOUBLED = """k = token[] after-all()
  i = ((f32[2], s32[]), token[]) infeed(k)
  d = (f32[2], s32[]) get-tuple-element(i), index=0
  t = token[] get-tuple-element(i), index=1
  x = f32[2] get-tuple-element(d), index=0
  y = f32[2] add(x, x)
  j = (s32[2], token[]) infeed(t)
  z = s32[2] get-tuple-element(j), index=0
  u = token[] get-tuple-element(j), index=1
  ROOT o = token[] outfeed(y, u)"""


def test_infeed_and_outfeed() -> None:
    executable = compile_on_devices(module(DOUBLED))
    device = executable.devices[0]
    fed = np.array([1, 2], np.float32)
    device.transfer_to_infeed((fed, 7))
    device.transfer_to_infeed([3, 4])
    fed[:] = 9  # the values that were fed in
    executable()
    assert np.asarray(device.transfer_from_outfeed()).tolist() == [2, 4]
    assert len(device.infeed) == len(device.outfeed) == 0


def test_the_host_may_feed_while_the_program_waits() -> None:
    executable = compile_on_devices(module(DOUBLED))
    device = executable.devices[0]
    thread = threading.Thread(target=executable)
    thread.start()
    device.transfer_to_infeed((np.array([1, 2], np.float32), 7))
    device.transfer_to_infeed(np.array([3, 4], np.int32))
    assert np.asarray(device.transfer_from_outfeed(timeout=10)).tolist() == [2, 4]
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("value", "code", "values"),
    [
        (np.zeros(3, np.float32), codes.ARGUMENT_TUPLE, ("2 elements",)),
        ((np.zeros(3, np.float32), 1), codes.ARGUMENT_SHAPE, ("element 0", "f32[2]", "(float32)", "float32[3]")),
        ((np.zeros(2, np.float64), 1), codes.ARGUMENT_SHAPE, ("f32[2]", "(float32)", "float64[2]")),
        ((np.zeros(2, np.float32), "x"), codes.ARGUMENT_ARRAY, ("element 1",)),
    ],
)
def test_infeed_values_must_have_the_declared_shape(value: Any, code: ErrorCode, values: tuple[str, ...]) -> None:
    executable = compile_on_devices(module(DOUBLED))
    executable.devices[0].transfer_to_infeed(value)
    with raises(InvalidArgumentError, code, *values):
        xla.block_until_ready(executable())


def test_an_infeed_of_the_empty_tuple_does_not_wait() -> None:
    run_on_devices(module("k = token[] after-all() ROOT i = ((), token[]) infeed(k)"))


def test_outfeed_values_outlive_the_arguments() -> None:
    text = module("p = f32[2] parameter(0) k = token[] after-all() ROOT o = token[] outfeed(p, k)")
    executable = compile_on_devices(text)
    (argument,) = floats([1, 2])
    executable(argument)
    argument[:] = 5
    fed_out = executable.devices[0].transfer_from_outfeed()
    assert np.asarray(fed_out).tolist() == [1, 2]
    assert argument.flags.writeable


def test_each_device_has_its_own_feeds() -> None:
    text = module(
        """k = token[] after-all() i = (f32[], token[]) infeed(k) x = f32[] get-tuple-element(i), index=0
        s = f32[] all-reduce(x), replica_groups={}, to_apply=add t = token[] get-tuple-element(i), index=1
        y = (f32[], f32[]) tuple(x, s) ROOT o = token[] outfeed(y, t)""",
        3,
    )
    executable = compile_on_devices(text)
    for device in executable.devices:
        device.transfer_to_infeed(device.id + 1)
    executable.execute_sharded([[], [], []])
    fed_out = [device.transfer_from_outfeed() for device in executable.devices]
    assert lists(fed_out) == [(1, 6), (2, 6), (3, 6)]


def test_transfer_from_outfeed_checks_the_shape_and_the_time() -> None:
    device = make_client().devices[0]
    with raises(ExecutionError, running_codes.WAIT_TIMEOUT, "device 0", "0.01"):
        device.transfer_from_outfeed(timeout=0.01)
    text = module("p = f32[2] parameter(0) k = token[] after-all() ROOT o = token[] outfeed(p, k)")
    executable = compile_on_devices(text)
    executable(*floats([1, 2]))
    executable(*floats([3, 4]))
    shape = executable.program_shape.parameters[0]
    assert np.asarray(executable.devices[0].transfer_from_outfeed(shape)).tolist() == [1, 2]
    with raises(InvalidArgumentError, codes.OUTFEED_SHAPE, "device 0", "f32[2]", "token[]"):
        executable.devices[0].transfer_from_outfeed(executable.program_shape.result)


# -- send and recv with the host


HOST = """k = token[] after-all()
  v = (f32[2], u32[], token[]) recv(k), channel_id=3, is_host_transfer=true
  w = (f32[2], token[]) recv-done(v), channel_id=3, is_host_transfer=true
  x = f32[2] get-tuple-element(w), index=0
  t = token[] get-tuple-element(w), index=1
  y = f32[2] multiply(x, x)
  s = (f32[2], u32[], token[]) send(y, t), channel_id=4, is_host_transfer=true
  d = token[] send-done(s), channel_id=4, is_host_transfer=true
  ROOT r = f32[2] negate(x)"""


def test_transfers_with_the_host_go_by_channel() -> None:
    executable = compile_on_devices(module(HOST))
    device = executable.devices[0]
    device.transfer_to_channel(3, [2.0, 3.0])
    device.transfer_to_channel(4, [9.0, 9.0])
    assert np.asarray(executable()).tolist() == [-2, -3]
    assert np.asarray(device.transfer_from_channel(4)).tolist() == [4, 9]
    with raises(ExecutionError, running_codes.WAIT_TIMEOUT, "channel 3", "device 0", "within 0"):
        device.transfer_from_channel(3, timeout=0)
    device.transfer_to_channel(3, [2.0])
    with raises(InvalidArgumentError, codes.ARGUMENT_SHAPE, "w (recv-done)", "f32[2]", "(float32)", "float32[1]"):
        xla.block_until_ready(executable())


# -- send and recv between devices


def exchange(pairs: str, channel: str = "", replicas: int = 1, partitions: int = 1) -> str:
    attributes = f'frontend_attributes={{_xla_send_recv_source_target_pairs="{pairs}"}}{channel}'
    return module(
        f"""p = f32[2] parameter(0) k = token[] after-all()
        v = (f32[2], u32[], token[]) recv(k), {attributes}
        s = (f32[2], u32[], token[]) send(p, k), {attributes}
        e = token[] send-done(s){channel}
        w = (f32[2], token[]) recv-done(v){channel}
        ROOT r = f32[2] get-tuple-element(w), index=0""",
        replicas,
        partitions,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (exchange("{{1,0}}", replicas=2), [1, None]),
        (exchange("{{0,1},{1,2},{2,0}}", replicas=3), [2, 0, 1]),
        (exchange("{{0,0}}", replicas=2), [0, None]),
        (exchange("{}", replicas=2), [None, None]),
        (exchange("{{1,0}}", ", channel_id=0", replicas=2), [1, None]),
        (exchange("{{1,0}}", ", channel_id=1", partitions=2), [1, None]),
        (exchange("{{1,0}}", replicas=2, partitions=2), [2, 3, None, None]),
        (exchange("{{1,0}}", ", channel_id=1", replicas=2, partitions=2), [1, None, 3, None]),
    ],
)
def test_send_and_recv_between_pairs(text: str, expected: list[int | None]) -> None:
    arguments = [floats([d, d + 0.5]) for d in range(len(expected))]
    wanted = [[0, 0] if source is None else [source, source + 0.5] for source in expected]
    assert lists(run_on_devices(text, arguments)) == wanted


PLAIN = """p = f32[2] parameter(0) k = token[] after-all()
  s = (f32[2], u32[], token[]) send(p, k), channel_id=1
  e = token[] send-done(s), channel_id=1
  v = (f32[2], u32[], token[]) recv(e), channel_id=1
  w = (f32[2], token[]) recv-done(v), channel_id=1
  ROOT r = f32[2] get-tuple-element(w), index=0"""


def test_a_device_may_send_to_itself() -> None:
    assert lists(run_on_devices(module(PLAIN), [floats([1, 2])])) == [[1, 2]]


BRANCHES = """
sender { p = f32[2] parameter(0) k = token[] after-all() s = (f32[2], u32[], token[]) send(p, k), channel_id=1
  e = token[] send-done(s), channel_id=1 q = f32[2] negate(p)
  sb = (f32[2], u32[], token[]) send(q, e), channel_id=1
  e2 = token[] send-done(sb), channel_id=1 ROOT r = f32[2] copy(p) }
receiver { p = f32[2] parameter(0) k = token[] after-all() v = (f32[2], u32[], token[]) recv(k), channel_id=1
  v2 = (f32[2], u32[], token[]) recv(k), channel_id=1
  w2 = (f32[2], token[]) recv-done(v2), channel_id=1 w = (f32[2], token[]) recv-done(v), channel_id=1
  x = f32[2] get-tuple-element(w), index=0 y = f32[2] get-tuple-element(w2), index=0 ten = f32[] constant(10)
  tens = f32[2] broadcast(ten), dimensions={} z = f32[2] multiply(y, tens) ROOT r = f32[2] add(x, z) }
"""
CHOICE = """i = u32[] replica-id() j = s32[] convert(i) p = f32[2] parameter(0)
  ROOT c = f32[2] conditional(j, p, p), branch_computations={sender, receiver}"""


def test_a_channel_without_pairs_connects_two_devices_in_start_order() -> None:
    text = module(CHOICE, 2, computations=BRANCHES)
    assert lists(run_on_devices(text, [floats([1, 2]), floats([0, 0])])) == [[1, 2], [-9, -18]]


def test_a_transfer_in_a_loop() -> None:
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}'
    loop = f"""
    less {{ s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
      ROOT r = pred[] compare(i, n), direction=LT }}
    step {{ s = (s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0 x = f32[] get-tuple-element(s), index=1
      one = s32[] constant(1) j = s32[] add(i, one) k = token[] after-all()
      y = (f32[], u32[], token[]) send(x, k), {pairs} v = (f32[], u32[], token[]) recv(k), {pairs}
      e = token[] send-done(y) w = (f32[], token[]) recv-done(v) z = f32[] get-tuple-element(w), index=0
      h = f32[] constant(0.5) u = f32[] add(z, h) ROOT r = (s32[], f32[]) tuple(j, u) }}
    """
    entry = """i = s32[] constant(0) x = f32[] parameter(0) s = (s32[], f32[]) tuple(i, x)
      w = (s32[], f32[]) while(s), condition=less, body=step ROOT r = f32[] get-tuple-element(w), index=1"""
    text = module(entry, 2, computations=loop)
    assert lists(run_on_devices(text, [floats(10), floats(20)])) == [22.5, 12.5]


@pytest.mark.parametrize(
    ("text", "devices", "code", "values"),
    [
        (exchange("{{0,2}}", replicas=2), 2, annotation_codes.PAIR_MEMBERS, ("id 2", "are 2")),
        (exchange("{{0,1}}", ", channel_id=1", replicas=2), 2, annotation_codes.PAIR_MEMBERS, ("id 1", "are 1")),
        (exchange("0,1", replicas=2), 2, interpreting_codes.PAIR_LIST, ("{{0,1},{1,0}}",)),
        (module(PLAIN, 2), 2, running_codes.CHANNEL_ENDS, ("two devices",)),
    ],
)
def test_senders_and_receivers_must_be_known(text: str, devices: int, code: ErrorCode, values: tuple[str, ...]) -> None:
    with raises(XlaError, code, *values):
        run_on_devices(text, [floats([0, 0])] * devices)


def test_sent_values_must_have_the_shape_of_the_recv() -> None:
    received = PLAIN[PLAIN.index("v =") :]
    text = module(PLAIN.replace(received, received.replace("f32[2]", "f32[3]")))
    with raises(ExecutionError, running_codes.TRANSFER_SHAPE, "w (recv-done)", "f32[2]", "f32[3]"):
        run_on_devices(text, [floats([1, 2])])


def test_a_transfer_is_done_once() -> None:
    text = module(PLAIN.replace("ROOT r =", "w2 = (f32[2], token[]) recv-done(v), channel_id=1 ROOT r ="))
    with raises(VerificationError, asynchronous_codes.ASYNC_READER, "v (recv)", "2 readers (w, w2)"):
        run_on_devices(text, [floats([1, 2])])


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("{{0,1},{1,2}}", ((0, 1), (1, 2))),
        ('"{ {3, 10} }"', ((3, 10),)),
        ("{}", ()),
        ("{{0}}", None),
        ("{{0,1}", None),
        ("{0,1}", None),
        ("{{0,1},}", None),
        ("{{-1,0}}", None),
    ],
)
def test_pairs_are_read_from_text(text: str, pairs: Any) -> None:
    assert parse_pairs(text) == pairs
