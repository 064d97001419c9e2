"""Several devices in one process: the interface, deadlocks, errors, and unsupported programs."""

from __future__ import annotations

import re
import signal
import threading
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered
from tests.interpreter.runners.replica import compile_on_devices, floats, lists, make_client, module, run_on_devices
from tests.raising import raises
from tests.testing.test_samples import assert_conforms
from xlapy import opcodes, ops
from xlapy.base import flags
from xlapy.base.error_codes.compilation import compiling as compiling_codes
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import devices as devices_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError, UnsupportedError
from xlapy.base.flags import Flags
from xlapy.base.shape import Shape
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import RULES
from xlapy.interpreter.transfer import source_target_pairs
from xlapy.runtime import Buffer, Device
from xlapy.runtime.backends.interpreter import InterpreterBackend
from xlapy.runtime.collectives.communicator import DeviceCommunicator
from xlapy.runtime.collectives.rendezvous import LaunchRendezvous
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.samples import Sample, samples_of

SUM = "p = f32[] parameter(0) ROOT r = f32[] all-reduce(p), replica_groups={}, to_apply=add"


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Flags({"collective_timeout": 1})
    monkeypatch.setattr(flags, "current", lambda: values)


# -- the interface


def test_execute_sharded_runs_each_device_on_its_arguments() -> None:
    client = make_client(4)
    executable = client.compile(module(SUM, 2))
    assert executable.devices == client.devices[:2]
    assert (executable.num_replicas, executable.num_partitions) == (2, 1)
    results = executable.execute_sharded([[1], [np.float32(2.5)]])
    assert all(isinstance(result, Buffer) for result in results)
    assert [float(result) for result in results] == [3.5, 3.5]
    assert [float(result) for result in executable.execute_sharded([results[:1], [1]])] == [4.5, 4.5]


def test_counts_given_to_compile_replace_those_of_the_module() -> None:
    ids = "r = u32[] replica-id() p = u32[] partition-id() ROOT t = (u32[], u32[]) tuple(r, p)"
    executable = make_client(6).compile(module(ids, 2), num_replicas=3, num_partitions=2)
    assert lists(executable.execute_sharded([[]] * 6)) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_devices_of_a_client() -> None:
    client = make_client(3)
    assert [device.id for device in client.devices] == [0, 1, 2]
    assert repr(client.devices[1]) == f"<Device 1 of {client.platform}>"
    with raises(InvalidArgumentError, devices_codes.CLIENT_DEVICES, "has 1", "65536 devices", "devices=0"):
        make_client(0)


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, ["m runs on 8 devices (replica_count=4, num_partitions=2)", "has 2"]),
        ({"num_replicas": 0}, ["m: ", "given 0 and 2"]),
        ({"num_replicas": 2, "num_partitions": -1}, ["given 2 and -1"]),
    ],
)
def test_too_few_devices_are_an_error(options: dict[str, int], values: list[str]) -> None:
    with raises(InvalidArgumentError, devices_codes.RUN_DEVICES, *values):
        make_client(2).compile(module(SUM, 4, 2), **options)


def test_arguments_are_checked_per_device() -> None:
    executable = compile_on_devices(module(SUM, 2))
    with raises(InvalidArgumentError, calls_codes.DEVICE_ARGUMENTS, "2 devices", "for 1"):
        executable.execute_sharded([[1]])
    with raises(InvalidArgumentError, calls_codes.ARGUMENT_SHAPE, "device 1", "0 (p)", "f32[]"):
        executable.execute_sharded([[1], [np.zeros(())]])
    with raises(InvalidArgumentError, calls_codes.DEVICE_ARGUMENTS, "for 1"):
        executable.execute_sharded([[1], 2])
    with raises(InvalidArgumentError, calls_codes.DEVICE_ARGUMENTS, "2 devices", "execute_sharded"):
        executable(1)


def test_results_never_share_memory_with_the_arguments_of_any_device() -> None:
    text = module("p = f32[2] parameter(0) ROOT r = f32[2] collective-permute(p), source_target_pairs={{0,1},{1,0}}", 2)
    arguments = [floats([1, 2]), floats([3, 4])]
    results = run_on_devices(text, arguments)
    for (argument,) in arguments:
        argument[:] = 9
    assert lists(results) == [[3, 4], [1, 2]]


def test_a_program_built_with_the_builder() -> None:
    b = xla.XlaBuilder("normalise")
    x = ops.parameter(b, 0, Shape.parse("f32[2]"), "x")
    add = xla.XlaBuilder("add")
    ops.add(ops.parameter(add, 0, Shape.parse("f32[]"), "a"), ops.parameter(add, 1, Shape.parse("f32[]"), "b"))
    ops.div(x, ops.all_reduce(x, add.build()))
    executable = make_client(2).compile(b.build(), num_replicas=2)
    assert lists(executable.execute_sharded([floats([1, 2]), floats([3, 2])])) == [[0.25, 0.5], [0.75, 0.5]]


def test_observers_run_in_the_thread_of_the_device() -> None:
    seen: set[tuple[str, float]] = set()

    def observe(instruction: Instruction, _: Any, value: Any) -> None:
        if instruction.op is opcodes.NEGATE:
            seen.add((threading.current_thread().name, float(value)))

    executable = compile_on_devices(module("p = f32[] parameter(0) ROOT n = f32[] negate(p)", 2))
    executable.execute_sharded([[1], [2]], observer=observe)
    assert seen == {("device 0", -1.0), ("device 1", -2.0)}


def test_many_collectives_in_a_loop() -> None:
    loop = """
    add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
    less { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(200)
      ROOT r = pred[] compare(i, n), direction=LT }
    step { s = (s32[], s32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0 x = s32[] get-tuple-element(s), index=1
      one = s32[] constant(1) j = s32[] add(i, one) y = s32[] all-reduce(x), replica_groups={{0,2},{1,3}}, to_apply=add
      z = s32[] collective-permute(y), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
      n = s32[] constant(1009) w = s32[] remainder(z, n) ROOT r = (s32[], s32[]) tuple(j, w) }
    """
    entry = """i = s32[] constant(0) x = s32[] parameter(0) s = (s32[], s32[]) tuple(i, x)
      w = (s32[], s32[]) while(s), condition=less, body=step ROOT r = s32[] get-tuple-element(w), index=1"""
    values = [1, 2, 3, 4]
    for _ in range(200):
        sums = [values[0] + values[2], values[1] + values[3]] * 2
        values = [sums[(d - 1) % 4] % 1009 for d in range(4)]
    arguments = [[np.array(d + 1, np.int32)] for d in range(4)]
    assert lists(run_on_devices(module(entry, 4, computations=loop), arguments)) == values


# -- deadlocks

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
IDLE = "ROOT n = f32[] negate(p)"
TOGETHER = "ROOT x = f32[] all-reduce(p), replica_groups={}, to_apply=add"
NEGATED = "q = f32[] negate(p) ROOT y = f32[] all-reduce(q), replica_groups={}, to_apply=add"
PAIRED = "ROOT x = f32[] all-reduce(p), replica_groups={{0,1},{2,3}}, to_apply=add"
FOREVER = "ROOT w = f32[] while(p), condition=yes, body=b0"
ENDLESS = """yes { p = f32[] parameter(0) ROOT t = pred[] constant(true) }
"""


def diverge(bodies: list[str], choices: list[int]) -> list[Any]:
    """A program in which each replica runs the body of its choice on the scalar parameter p, its number plus 1."""
    branches = "".join(f"b{i} {{ p = f32[] parameter(0) {body} }}\n" for i, body in enumerate(bodies))
    names = ", ".join(f"b{i}" for i in range(len(bodies)))
    entry = f"""i = s32[] parameter(0) p = f32[] parameter(1)
      ROOT c = f32[] conditional(i, {", ".join("p" for _ in bodies)}), branch_computations={{{names}}}"""
    endless = ENDLESS if any("condition=yes" in body for body in bodies) else ""
    text = module(entry, len(choices), computations=f"{ADD}\n{endless}{branches}")
    return run_on_devices(text, [[np.int32(choice), np.float32(d + 1)] for d, choice in enumerate(choices)])


def test_devices_that_take_the_same_branch_synchronize() -> None:
    bodies = [IDLE, TOGETHER, TOGETHER.replace("x =", "y =")]
    assert lists(diverge(bodies, [1, 1])) == lists(diverge(bodies, [2, 2])) == [3, 3]


def test_a_channel_joins_different_instructions() -> None:
    first = "ROOT x = f32[] all-reduce(p), channel_id=5, replica_groups={{0,1}}, to_apply=add"
    second = f"q = f32[] negate(p) {first.replace('x =', 'y =').replace('(p)', '(q)')}"
    assert lists(diverge([first, second], [0, 1])) == [-1, -1]
    assert lists(diverge([first, second], [1, 1])) == [-3, -3]


@pytest.mark.parametrize(
    ("bodies", "choices", "message"),
    [
        (
            [IDLE, TOGETHER], [1, 0],
            r"x \(all-reduce\) on device 0 waits for device 1; device 1 has finished",
        ),
        (
            [TOGETHER, NEGATED], [0, 1],
            r"x \(all-reduce\) on device 0 waits for device 1; y \(all-reduce\) on device 1 waits for device 0",
        ),
        (
            [IDLE, TOGETHER], [1, 0, 0, 1],
            r"x \(all-reduce\) on device [03] waits for .*device [12] has finished",
        ),
        (
            # devices 2 and 3 would run forever
            [IDLE, PAIRED, PAIRED.replace("x =", "y ="), FOREVER], [1, 2, 3, 3],
            r"x \(all-reduce\) on device 0 waits for device 1; y \(all-reduce\) on device 1 waits for device 0",
        ),
        (
            [IDLE, """k = token[] after-all() v = (f32[], u32[], token[]) recv(k), channel_id=1
            d = (f32[], token[]) recv-done(v), channel_id=1 ROOT r = f32[] get-tuple-element(d), index=0"""], [1, 0, 0],
            r"d \(recv-done\) on device 0 waits for a send by device 1 or device 2; device 1 has finished; "
            "device 2 has finished",
        ),
    ],
)  # fmt: skip
def test_a_deadlock_fails_at_once(bodies: list[str], choices: list[int], message: str) -> None:
    with raises(ExecutionError, codes.DEADLOCK) as raised:
        diverge(bodies, choices)
    assert re.match(f"the program can never finish: .*{message}", raised.value.message)


def test_a_send_without_a_receive_is_an_error() -> None:
    sender = """k = token[] after-all() s = (f32[], u32[], token[]) send(p, k), channel_id=1
      d = token[] send-done(s), channel_id=1 ROOT r = f32[] copy(p)"""
    with raises(ExecutionError, codes.UNRECEIVED_MESSAGE, "s (send)", "device 1"):
        diverge([IDLE, sender], [0, 1])


def test_different_collectives_on_a_channel_are_an_error() -> None:
    reduced = "ROOT x = f32[] all-reduce(p), channel_id=5, replica_groups={{0,1}}, to_apply=add"
    gathered = """q = f32[1] reshape(p) y = f32[2] all-gather(q), channel_id=5, replica_groups={{0,1}}, dimensions={0}
      z = f32[1] slice(y), slice={[0:1]} ROOT r = f32[] reshape(z)"""
    with raises(ExecutionError, codes.COLLECTIVE_MISMATCH, "all-gather(f32[1])", "all-reduce(f32[])"):
        diverge([reduced, gathered], [0, 1])


def test_devices_are_named_by_replica_and_partition() -> None:
    text = module(
        """q = u32[] partition-id() i = s32[] convert(q) p = f32[] constant(1)
        ROOT c = f32[] conditional(i, p, p), branch_computations={b0, b1}""",
        2,
        2,
        computations=f"{ADD} b0 {{ p = f32[] parameter(0) {TOGETHER.replace('{}', '{{0},{1}}', 1)} }}"
        f" b1 {{ p = f32[] parameter(0) {IDLE} }}".replace("to_apply", "channel_id=1, to_apply"),
    )
    with raises(ExecutionError, codes.DEADLOCK, "1 (replica 0, partition 1)", "device 1"):
        run_on_devices(text)


@pytest.mark.usefixtures("short_timeout")
def test_waiting_for_a_running_device_times_out() -> None:
    with raises(ExecutionError, codes.WAIT_TIMEOUT, "1 seconds", "x (all-reduce) on device 0", "device 1 is running"):
        diverge([IDLE, TOGETHER, FOREVER], [1, 2])


FED = "k = token[] after-all() i = (f32[], token[]) infeed(k) ROOT r = f32[] get-tuple-element(i), index=0"
FED_SUM = f"{FED.replace('ROOT r', 'f')} ROOT s = f32[] all-reduce(f), replica_groups={{}}, to_apply=add"


@pytest.mark.usefixtures("short_timeout")
def test_waiting_for_the_host_times_out() -> None:
    with raises(ExecutionError, codes.WAIT_TIMEOUT, "i (infeed)", "1 seconds"):
        run_on_devices(module(FED))
    executable = compile_on_devices(module(FED_SUM, 2))
    executable.devices[0].transfer_to_infeed(1)
    with raises(ExecutionError, codes.WAIT_TIMEOUT, "1 seconds", "i (infeed)", "device 1"):
        xla.block_until_ready(executable.execute_sharded([[], []]))


def test_waiting_for_the_host_is_not_a_deadlock() -> None:
    executable = compile_on_devices(module(FED_SUM, 2))
    executable.devices[0].transfer_to_infeed(1)
    feeder = threading.Timer(0.2, executable.devices[1].transfer_to_infeed, [10])
    feeder.start()
    assert lists(executable.execute_sharded([[], []])) == [11, 11]


# -- errors of one device


def test_an_error_on_one_device_cancels_the_others_and_names_it() -> None:
    def observe(instruction: Instruction, _: Any, __: Any) -> None:
        if instruction.op is opcodes.NEGATE:
            raise ZeroDivisionError("observed")

    text = module(
        """i = u32[] replica-id() j = s32[] convert(i) p = f32[] parameter(0)
        ROOT c = f32[] conditional(j, p, p, p), branch_computations={b1, b0, fed}""",
        3,
        computations=f"{ADD} {ENDLESS} idle {{ p = f32[] parameter(0) ROOT m = f32[] copy(p) }}"
        f"b0 {{ p = f32[] parameter(0) {IDLE} }} b1 {{ p = f32[] parameter(0) {FOREVER.replace('b0', 'idle')} }}"
        f"fed {{ p = f32[] parameter(0) {FED} }}",
    )
    executable = compile_on_devices(text)
    before = threading.active_count()
    with raises(ExecutionError, codes.FOREIGN_ERROR, "device 1: observed") as raised:
        executable.execute_sharded([[1], [1], [1]], observer=observe)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert threading.active_count() == before


def test_a_single_device_raises_its_error_unchanged() -> None:
    def observe(instruction: Instruction, _: Any, __: Any) -> None:
        raise ZeroDivisionError(instruction.name)

    with pytest.raises(ZeroDivisionError, match=r"^x$"):
        compile_on_devices(module(f"p = f32[] parameter(0) {TOGETHER}"))(1, observer=observe)


def test_control_c_stops_all_devices() -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(instruction: Instruction, _: Any, __: Any) -> None:
        if instruction.op is opcodes.NEGATE and not interrupted.is_set():
            interrupted.set()
            signal.pthread_kill(main, signal.SIGINT)

    interrupted = threading.Event()
    loop = f"idle {{ p = f32[] parameter(0) {IDLE} }} {ENDLESS}"
    text = module(f"p = f32[] parameter(0) {FOREVER.replace('b0', 'idle')}", 2, computations=loop)
    executable = compile_on_devices(text)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        executable.execute_sharded([[1], [1]], observer=interrupt)
    assert threading.active_count() == before


def test_the_first_failure_counts() -> None:
    woken: list[bool] = []
    rendezvous = LaunchRendezvous(["a", "b"], 1.0, lambda: woken.append(True))
    rendezvous.fail(0, ValueError("first"))
    rendezvous.fail(1, ValueError("second"))
    assert str(rendezvous.failure) == f"a: first [{codes.FOREIGN_ERROR}]"
    assert rendezvous.canceled.is_set() and woken
    with raises(ExecutionError, codes.CANCELED, "here: "):
        rendezvous.join(1, "key", [0, 1], None, "here", "")


# -- programs that are not partitioned yet


@pytest.mark.parametrize(
    "sharding",
    [
        "{replicated}",
        "{manual}",
        "{maximal device=1}",
        "{devices=[1,2]<=[2] last_tile_dim_replicate}",
        "{devices=[1,2]<=[2] last_tile_dims={manual}}",
        "{mesh['x'=2], [{}]}",
        "{mesh['x'=2], replicated}",
    ],
)
def test_shardings_with_whole_values_on_every_partition(sharding: str) -> None:
    text = module(f"p = f32[4] parameter(0), sharding={sharding} ROOT r = f32[4] negate(p)", 1, 2)
    assert lists(run_on_devices(text, [floats([1, 2, 3, 4])] * 2)) == [[-1, -2, -3, -4]] * 2


@pytest.mark.parametrize(
    ("shape", "sharding"),
    [
        ("f32[4]", "{devices=[2]<=[2]}"),
        ("f32[4,4]", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
        ("f32[4]", "{devices=[2]0,1}"),
        ("f32[4]", "{unreduced}"),
        ("f32[4]", "{mesh['x'=2], [{'x'}]}"),
        ("(f32[4], f32[4])", "{{replicated}, {devices=[2]<=[2]}}"),
    ],
)
def test_shardings_that_split_values_are_rejected(shape: str, sharding: str) -> None:
    text = module(f"ROOT p = {shape} parameter(0), sharding={sharding}", 1, 2)
    with raises(UnsupportedError, compiling_codes.SHARDED_VALUE, "p (parameter)", "sharding="):
        make_client(2).compile(text)
    make_client().compile(text, num_partitions=1)
    scheduled = text.replace("HloModule m", "HloModule m, is_scheduled=true")
    make_client(2).compile(scheduled)


def test_transfers_bound_to_one_partition_are_rejected() -> None:
    text = module(FED.replace("infeed(k)", "infeed(k), sharding={{maximal device=0}, {maximal device=0}}"), 1, 2)
    with raises(UnsupportedError, compiling_codes.SHARDED_VALUE, "i (infeed)", "sharding="):
        make_client(2).compile(text)


# -- the samples, on the number of devices that they need


def replicas_of(parsed: Module) -> int:
    """The replica and partition counts of the header; the pairs of a send may need more replicas."""
    pairs = [source_target_pairs(i) or () for i in parsed.instructions() if i.op in (opcodes.SEND, opcodes.RECV)]
    named = max((identifier for some in pairs for pair in some for identifier in pair), default=0)
    return max(parsed.config.replica_count, named + 1)


def is_executable(sample: Sample) -> bool:
    instructions = list(xla.parse_hlo(sample.text).instructions())
    return not any(i.shape.is_dynamic or i.op in RULES.refusals for i in instructions)


def arguments_of(parsed: Module, device: int) -> list[Any]:
    """Random arguments, except that integers are 0 if they select rows or devices."""
    arguments = random_arguments([p.shape for p in parsed.entry_computation.parameters], seed=device)
    met = list(parsed.instructions())
    if any(i.op is opcodes.RAGGED_ALL_TO_ALL or getattr(i.attributes, "has_dynamic_root", False) for i in met):
        return [a * 0 if a.dtype.kind == "i" else a for a in arguments]
    return arguments


SAMPLES = [sample for family in ("collectives", "transfer") for sample in samples_of(family) if is_executable(sample)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_samples_run_on_their_devices(sample: Sample) -> None:
    parsed = xla.parse_hlo(sample.text)
    replicas, partitions = replicas_of(parsed), parsed.config.num_partitions
    devices = [Device(number) for number in range(replicas * partitions)]
    for device in devices:
        feed(device, parsed)
    program = InterpreterBackend().compile(parsed, replicas, partitions)
    results = program.execute_sharded([arguments_of(parsed, device.id) for device in devices], devices)
    sent = [outfed(device) for device in devices]
    for device, result, values in zip(devices, results, sent, strict=True):
        assert_conforms(result, parsed.entry_computation.root_instruction.shape)
        assert not device.infeed
        assert len(values) == sum(i.op is opcodes.OUTFEED for i in parsed.instructions())
    compiled = xla.Client("cpu", devices=len(devices)).compile(parsed, replicas, partitions)
    for device in compiled.devices:
        feed(device, parsed)
    ours = xla.block_until_ready(compiled.execute_sharded([arguments_of(parsed, device.id) for device in devices]))
    assert_close(plain(tuple(ours)), plain(tuple(results)), rule="bits", where=sample.name)
    assert_close(tuple(map(outfed, compiled.devices)), tuple(sent), rule="bits", where=f"{sample.name}: outfeed")


def outfed(device: Device) -> tuple[Any, ...]:
    """Takes all values that a program has sent to the host."""
    return tuple(plain(device.transfer_from_outfeed(timeout=10)) for _ in range(len(device.outfeed)))


def feed(device: Device, parsed: Module) -> None:
    """The values that the program takes from the host, in order."""
    for instruction in parsed.instructions():
        shape = instruction.shape
        if instruction.op is opcodes.INFEED and shape.tuple_shapes[0] != Shape.tuple(()):
            device.transfer_to_infeed(random_arguments([shape.tuple_shapes[0]], seed=1)[0])
        if instruction.op is opcodes.RECV and instruction.is_host_transfer:
            device.transfer_to_channel(instruction.channel_id, random_arguments([shape.tuple_shapes[0]], seed=1)[0])


def test_a_custom_call_reads_the_id_of_its_device():
    text = """HloModule m, num_partitions=2
        ENTRY e { p = f32[3] parameter(0) i = u32[] partition-id()
          ROOT r = f32[3] custom-call(i, p), custom_call_target="target" }"""
    with registered(lambda i, p: p + np.float32(i)):
        executable = make_client(2).compile(text)
        results = xla.block_until_ready(
            executable.execute_sharded([[np.full(3, device, np.float32)] for device in (5, 7)])
        )
    assert [np.asarray(result).tolist() for result in results] == [[5.0] * 3, [8.0] * 3]


@pytest.mark.parametrize(
    "code",
    [
        "ROOT r = u8[2,3]{0,1} all-reduce(t), replica_groups={{0,1},{2}}, to_apply=max",
        """s = u8[2,3]{0,1} all-reduce-start(t), replica_groups={{0,1},{2}}, to_apply=max
           ROOT r = u8[2,3]{0,1} all-reduce-done(s)""",
    ],
)
def test_groups_of_different_sizes_reduce_arrays_of_any_layout(code: str):
    """Such groups are left to the host, which reads and writes arrays where native code does."""
    text = f"""HloModule m, replica_count=3
        max {{ a = u8[] parameter(0) b = u8[] parameter(1) ROOT m = u8[] maximum(a, b) }}
        ENTRY e {{ p = u8[3,2] parameter(0) t = u8[2,3]{{0,1}} transpose(p), dimensions={{1,0}} {code} }}"""
    given = [[np.arange(6, dtype=np.uint8).reshape(3, 2) * (device + 1)] for device in range(3)]
    results = make_client(3).compile(text).execute_sharded(given)
    assert [np.asarray(result).tolist() for result in results] == [
        [[0, 4, 8], [2, 6, 10]], [[0, 4, 8], [2, 6, 10]], [[0, 6, 12], [3, 9, 15]],
    ]  # fmt: skip


def test_a_collective_reduce_of_several_arrays_keeps_each_until_it_is_copied():
    """The first member of a group receives its own sums, whose memory must not be reused before."""
    text = """HloModule m, replica_count=4
        max { a = u32[] parameter(0) b = u32[] parameter(1) ROOT m = u32[] maximum(a, b) }
        ENTRY e { p = u32[32,2] parameter(0) n = u32[32,2] not(p)
          c = (u32[32,2], u32[32,2], u32[32,2]) collective-reduce(n, p, p), replica_groups={{0,2},{1,3}},
            has_dynamic_root=false, to_apply=max
          x = u32[32,2] get-tuple-element(c), index=0
          y = u32[32,2] get-tuple-element(c), index=1
          z = u32[32,2] get-tuple-element(c), index=2
          q = u32[32,2] collective-permute(x), source_target_pairs={{0,0},{1,1}}
          ROOT t = (u32[32,2], u32[32,2], u32[32,2]) tuple(y, z, q) }"""
    values = [np.arange(64, dtype=np.uint32).reshape(32, 2) * (device + 1) for device in range(4)]
    results = make_client(4).compile(text).execute_sharded([[value] for value in values])
    for device, result in enumerate(results):
        largest = np.maximum(values[device], values[device + 2]) if device < 2 else np.zeros_like(values[0])
        inverted = ~values[device] if device < 2 else np.zeros_like(values[0])
        for got, expected in zip(result, (largest, largest, inverted), strict=True):
            np.testing.assert_array_equal(np.asarray(got), expected)


def test_a_device_that_gives_up_waiting_for_the_host_fails_the_run_at_once() -> None:
    """It must be the first to report: devices that wait for it exceed their time at the same moment."""
    feed = xla.parse_hlo(module("t = token[] after-all() ROOT i = ((), token[]) infeed(t)", 2)).entry.root
    assert feed is not None
    rendezvous = LaunchRendezvous(["device 0", "device 1"], 0)
    communicator = DeviceCommunicator(rendezvous, Device(1, "cpu"), 1, 2, 1, 0)
    communicator.check_host_wait(feed, 1)
    with raises(ExecutionError, codes.WAIT_TIMEOUT, "i (infeed)", "0 seconds"):
        communicator.check_host_wait(feed, 1)
    assert isinstance(rendezvous.failure, ExecutionError)
    assert rendezvous.failure.message == "device 1: i (infeed) waits for the host: nothing came within 0 seconds"
    assert rendezvous.canceled.is_set()


def test_an_error_in_a_wait_for_the_host_fails_the_run_while_the_device_waits() -> None:
    seen = list[bool]()
    rendezvous = LaunchRendezvous(["device 0", "device 1"], 0, lambda: seen.append(rendezvous.is_waiting_for_host()))
    with raises(ExecutionError, codes.WAIT_TIMEOUT), rendezvous.waiting_for_host(0, "waits in i (infeed)"):
        raise ExecutionError(codes.WAIT_TIMEOUT, "late")
    assert str(rendezvous.failure) == f"device 0: late [{codes.WAIT_TIMEOUT}]"
    assert seen == [True]
    assert not rendezvous.is_waiting_for_host()
