"""Transfers between devices in native code: the interpreter's bits, without callbacks, in any order and number."""

from __future__ import annotations

import resource

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.llvm.test_rendezvous import leaves
from tests.interpreter.runners.replica import module
from tests.interpreter.test_transfer import BRANCHES, CHOICE, PLAIN, exchange
from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import CallbackThunk, TransferThunk, walk_thunks
from xlapy.runtime import Client


def pairs(text: str) -> str:
    return f'frontend_attributes={{_xla_send_recv_source_target_pairs="{text}"}}'


def handed_on(shape: str, made: str, replicas: int = 3) -> str:
    """Returns a program in which each device sends a value computed from p, f32[3,5], to the next device."""
    ring = pairs("{" + ",".join(f"{{{d},{d + 1}}}" for d in range(replicas - 1)) + "}")
    return module(
        f"""p = f32[3,5] parameter(0) {made} k = token[] after-all()
        v = ({shape}, u32[], token[]) recv(k), {ring} s = ({shape}, u32[], token[]) send(x, k), {ring}
        e = token[] send-done(s) w = ({shape}, token[]) recv-done(v)
        ROOT r = {shape} get-tuple-element(w), index=0""",
        replicas,
    )


FORMS = {
    "array": handed_on("f32[3,5]", "x = f32[3,5] negate(p)"),
    "scalar": handed_on("f32[]", "y = f32[1,1] slice(p), slice={[1:2],[2:3]} x = f32[] reshape(y)"),
    "bf16": handed_on("bf16[3,5]", "x = bf16[3,5] convert(p)"),
    "f16": handed_on("f16[3,5]", "x = f16[3,5] convert(p)"),
    "s4": handed_on("s4[3,5]", "x = s4[3,5] convert(p)"),
    "pred": handed_on("pred[3,5]", "n = f32[3,5] negate(p) x = pred[3,5] compare(p, n), direction=GT"),
    "c64": handed_on("c64[3,5]", "n = f32[3,5] negate(p) x = c64[3,5] complex(p, n)"),
    "nothing": handed_on("f32[0,5]", "x = f32[0,5] slice(p), slice={[1:1],[0:5]}"),
    "tuple": handed_on(
        "(f32[3,5], u8[3], f32[])",
        """y = f32[3,1] slice(p), slice={[0:3],[0:1]} z = f32[3] reshape(y) b = u8[3] convert(z) c = f32[] constant(7)
        x = (f32[3,5], u8[3], f32[]) tuple(p, b, c)""",
    ),
    "two targets": handed_on("f32[3,5]", "x = f32[3,5] abs(p)", 2).replace("{{0,1}}", "{{1,0},{1,1}}"),
    "no pairs": module(CHOICE, 2, computations=BRANCHES).replace("f32[2]", "f32[3,5]"),
    "replicas and partitions": exchange("{{1,0}}", ", channel_id=1", replicas=2, partitions=2).replace("[2]", "[3,5]"),
}


@pytest.mark.parametrize("name", FORMS)
def test_native_transfers_have_the_bits_of_the_interpreter(name: str) -> None:
    text = FORMS[name]
    parsed = xla.parse_hlo(text)
    counts = parsed.config.replica_count, parsed.config.num_partitions
    thunks = list(walk_thunks(compile_module(parsed, (), *counts).program.thunks))
    assert any(isinstance(thunk, TransferThunk) for thunk in thunks)
    assert not any(isinstance(thunk, CallbackThunk) and not isinstance(thunk, TransferThunk) for thunk in thunks)
    devices, random = counts[0] * counts[1], np.random.default_rng(1)
    arguments = [[np.float32(3) * random.standard_normal((3, 5), np.float32)] for _ in range(devices)]
    expected, actual = (
        Client(platform, devices=devices).compile(text).execute_sharded(arguments)
        for platform in ("interpreter", "cpu")
    )
    for device, (theirs, ours) in enumerate(zip(expected, actual, strict=True)):
        for a, b in zip(leaves(theirs), leaves(ours), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert a.tobytes() == b.tobytes(), f"device {device}: {a} and {b}"


def loop(count: int, body: str, size: int) -> str:
    """Returns a loop over a counter and x; its body computes z from x and the counter i."""
    return f"""
    less {{ s = (s32[], s32[{size}]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
      ROOT r = pred[] compare(i, n), direction=LT }}
    step {{ s = (s32[], s32[{size}]) parameter(0) i = s32[] get-tuple-element(s), index=0
      x = s32[{size}] get-tuple-element(s), index=1
      one = s32[] constant(1) j = s32[] add(i, one) k = token[] after-all() {body}
      ROOT r = (s32[], s32[{size}]) tuple(j, z) }}"""


def looped(count: int, body: str, devices: int, size: int = 5) -> str:
    state = f"(s32[], s32[{size}])"
    entry = f"""i = s32[] constant(0) x = s32[{size}] parameter(0) s = {state} tuple(i, x)
      w = {state} while(s), condition=less, body=step ROOT r = s32[{size}] get-tuple-element(w), index=1"""
    return module(entry, devices, computations=loop(count, body, size))


RING = """y = (s32[N], u32[], token[]) send(x, k), {pairs} v = (s32[N], u32[], token[]) recv(k), {pairs}
  e = token[] send-done(y) w = (s32[N], token[]) recv-done(v) a = s32[N] get-tuple-element(w), index=0
  d = s32[N] broadcast(i), dimensions={{}} z = s32[N] add(a, d)"""


@pytest.mark.parametrize(("devices", "count", "size"), [(2, 5000, 5), (5, 2000, 5), (3, 400, 100_003)])
def test_values_go_around_thousands_of_times(devices: int, count: int, size: int) -> None:
    """Messages are freed as they are received: together they would need more memory than the process may grow by."""
    around = pairs("{" + ",".join(f"{{{d},{(d + 1) % devices}}}" for d in range(devices)) + "}")
    body = RING.format(pairs=around).replace("[N]", f"[{size}]")
    executable = Client("cpu", devices=devices).compile(looped(count, body, devices, size))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results = executable.execute_sharded([[np.full(size, 1000 * d, np.int32)] for d in range(devices)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    for device, result in enumerate(results):
        origin = (device - count) % devices
        np.testing.assert_array_equal(result, np.full(size, 1000 * origin + count * (count - 1) // 2))


AHEAD = """
sends { x = s32[3] parameter(0) i = s32[] constant(0) s = (s32[], s32[3]) tuple(i, x)
  w = (s32[], s32[3]) while(s), condition=less, body=step y = s32[3] get-tuple-element(w), index=1
  ROOT z = s32[3] all-reduce(y), channel_id=9, replica_groups={}, to_apply=add }
receives { x = s32[3] parameter(0) m = s32[3] all-reduce(x), channel_id=9, replica_groups={}, to_apply=add
  i = s32[] constant(0) s = (s32[], s32[3]) tuple(i, x)
  w = (s32[], s32[3]) while(s), condition=less.2, body=step.2 ROOT y = s32[3] get-tuple-element(w), index=1 }
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }"""


def test_a_sender_may_be_far_ahead() -> None:
    """The sender has sent everything before the receiver begins, which adds up the values."""
    sending = """y = (s32[3], u32[], token[]) send(x, k), channel_id=1 e = token[] send-done(y), channel_id=1
      ones = s32[3] broadcast(one), dimensions={} z = s32[3] add(x, ones)"""
    receiving = """v = (s32[3], u32[], token[]) recv(k), channel_id=1
      w = (s32[3], token[]) recv-done(v), channel_id=1 a = s32[3] get-tuple-element(w), index=0 z = s32[3] add(x, a)"""
    second = loop(3000, receiving, 3).replace("less {", "less.2 {").replace("step {", "step.2 {")
    entry = """i = u32[] replica-id() j = s32[] convert(i) p = s32[3] parameter(0)
      ROOT c = s32[3] conditional(j, p, p), branch_computations={sends, receives}"""
    text = module(entry, 2, computations=loop(3000, sending, 3) + second + AHEAD)
    zeros = np.zeros(3, np.int32)
    results = Client("cpu", devices=2).compile(text).execute_sharded([[zeros], [zeros]])
    assert np.asarray(results[1]).tolist() == [3000 * 2999 // 2] * 3


def test_messages_that_no_device_receives() -> None:
    text = exchange("{{0,1}}", replicas=2)
    head, tail = text.split("v =")[0], text[text.index("s =") :]
    text = head + tail[: tail.index("w =")] + "ROOT r = f32[2] negate(p) }"
    executable = Client("cpu", devices=2).compile(text)
    for _ in range(2):
        with raises(ExecutionError, codes.UNRECEIVED_MESSAGE, "s (send)", "device 0"):
            xla.block_until_ready(executable.execute_sharded([[np.zeros(2, np.float32)]] * 2))


def test_a_message_that_no_device_sends() -> None:
    text = exchange("{{0,1}}", replicas=2)
    text = text[: text.index("s =")] + text[text.index("w =") :]
    with raises(ExecutionError, codes.DEADLOCK, "w (recv-done) on device 1", "a send by device 0", "device 0 has fin"):
        xla.block_until_ready(Client("cpu", devices=2).compile(text).execute_sharded([[np.zeros(2, np.float32)]] * 2))


def test_two_devices_wait_for_each_other() -> None:
    both = pairs("{{0,1},{1,0}}")
    text = module(
        f"""k = token[] after-all() v = (f32[2], u32[], token[]) recv(k), {both} w = (f32[2], token[]) recv-done(v)
        x = f32[2] get-tuple-element(w), index=0 t = token[] get-tuple-element(w), index=1
        s = (f32[2], u32[], token[]) send(x, t), {both} ROOT e = token[] send-done(s)""",
        2,
    )
    with raises(ExecutionError, codes.DEADLOCK, "a send by device 1", "by device 0"):
        xla.block_until_ready(Client("cpu", devices=2).compile(text).execute_sharded([[], []]))


def test_a_third_device_on_a_channel_of_two() -> None:
    sends = PLAIN[: PLAIN.index("v =")] + "ROOT r = f32[2] negate(p)"
    text = module(sends, 2)
    thunks = list(walk_thunks(compile_module(xla.parse_hlo(text), (), 2).program.thunks))
    assert any(isinstance(thunk, TransferThunk) for thunk in thunks)
    with raises(ExecutionError, codes.CHANNEL_ENDS, "(send)", "device 0", "device 1"):
        xla.block_until_ready(Client("cpu", devices=2).compile(text).execute_sharded([[np.zeros(2, np.float32)]] * 2))


def test_transfers_of_loaded_programs() -> None:
    text = exchange("{{1,0}}", ", channel_id=1", replicas=2, partitions=2)
    client = Client("cpu", devices=4)
    executable = client.deserialize(client.compile(text).serialize())
    results = executable.execute_sharded([[np.full(2, device, np.float32)] for device in range(4)])
    assert [np.asarray(result).tolist() for result in results] == [[1, 1], [0, 0], [3, 3], [0, 0]]


@pytest.mark.parametrize(
    ("transfer", "code", "instruction"),
    [
        (
            "s = (f32[2], u32[], token[]) send(p, k), C ROOT e = token[] send-done(s), C",
            codes.UNRECEIVED_MESSAGE,
            "s (send)",
        ),
        (
            "v = (f32[2], u32[], token[]) recv(k), C ROOT w = (f32[2], token[]) recv-done(v), C",
            codes.DEADLOCK,
            "w (recv-done)",
        ),
    ],
)
def test_programs_that_run_by_themselves(transfer: str, code: ErrorCode, instruction: str) -> None:
    text = module(f"p = f32[2] parameter(0) k = token[] after-all() {transfer.replace('C', 'channel_id=1')}")
    program = Client("cpu").compile(text).program
    with raises(ExecutionError, code, instruction):
        program.execute([np.zeros(2, np.float32)])
