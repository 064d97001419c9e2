"""Programs of several devices have the same bits at every split of the devices over processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.processes import run_job
from tests.raising import raises
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.error_codes.execution import running
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.runtime.backend import load_backend
from xlapy.runtime.device import Device
from xlapy.runtime.storage.lazy_module import LazyModule

FOLDER = Path(__file__).parent


def check(count: int, *arguments: str, timeout: float = 90) -> None:
    """Runs the driver as a number of processes, and checks that each has run programs and found no differences."""
    done = run_job(FOLDER / "driver.py", count, *arguments, timeout=timeout, XLAPY_FLAGS="--collective_timeout=60")
    found = re.findall(r"process (\d+): (\d+) runs, (\d+) refused, 0 differences", done.output)
    assert {int(process) for process, *_ in found} == set(range(count)), f"{done.output}\n{done.errors}"
    runs, refused = (sum(int(row[position]) for row in found) for position in (1, 2))
    assert runs > 2 * refused, "most programs run"


@pytest.mark.parametrize(
    ("count", "arguments"),
    [
        (2, ("samples", "0", "100", "13", "cpu")),
        (2, ("transfers", "0", "0", "1", "cpu")),
        (4, ("random", "0", "2", "1", "cpu")),
        (2, ("random", "2", "2", "1", "interpreter")),
    ],
)
def test_programs_have_the_bits_of_one_process(count: int, arguments: tuple[str, ...]) -> None:
    check(count, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("count", [2, 4])
def test_all_samples_have_the_bits_of_one_process(count: int, platform: str) -> None:
    check(count, "samples", "0", "100", "1", platform, timeout=1200)
    check(count, "transfers", "0", "0", "1", platform, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_random_programs_have_the_bits_of_one_process(count: int, first: int) -> None:
    check(count, "random", str(first), "50", "1", "cpu", timeout=1200)


# --- processes that do not do what others wait for


def errors_of(kind: str, platform: str, *arguments: str) -> dict[int, str]:
    """Returns the first error of each of three processes."""
    flags = "--collective_timeout=2"
    done = run_job(FOLDER / "stalled.py", 3, kind, platform, *arguments, XLAPY_FLAGS=flags)
    # mpirun may join the lines of two processes
    found = re.findall(r"process (\d) after [\d.]+ s: (.*?)(?=process \d after|$)", done.output, re.MULTILINE)
    assert found, f"{done.output}\n{done.errors}"
    return {int(process): text for process, text in found}


@pytest.mark.parametrize(
    ("kind", "platform", "waiting"),
    [
        ("stalls", "cpu", "all-reduce"),
        ("awaits", "cpu", "all-reduce-done"),
        ("stalls", "interpreter", "all-reduce"),
    ],
)
def test_an_all_reduce_with_a_process_that_stalls_ends_in_time(kind: str, platform: str, waiting: str) -> None:
    found = errors_of(kind, platform, "5")
    assert set(found) == {0, 1}
    for text in found.values():
        assert f"total ({waiting})" in text and "device 2 of process 2" in text, text
        assert any(str(code) in text for code in (running.WAIT_TIMEOUT, codes.PROCESS_FAILED, codes.PROCESS_TIMEOUT))


def test_programs_that_differ_are_an_error_in_all_processes() -> None:
    found = errors_of("differs", "cpu")
    assert set(found) == {0, 1, 2}
    for process, text in found.items():
        assert "(device 2) executes other" in text and "executes awaited" in text, found
        assert f"total (all-reduce) on device {process} of process {process} waits for device" in text, found
        assert f"[{codes.DIFFERENT_PROGRAMS}]" in text, found


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_a_process_that_leaves_is_named_with_what_waits_for_it(platform: str) -> None:
    found = errors_of("leaves", platform)
    assert set(found) == {0, 1}
    for process, text in found.items():
        assert "process 2 (device 2) has left the process group" in text and f"[{codes.PROCESS_LOST}]" in text, text
        if platform == "cpu":
            waits = (
                rf"total \(all-reduce\) on device {process} of process {process} waits for .*device 2 of process 2 \["
            )
        else:
            waits = r"total \(all-reduce\) of .*: it has waited for .*process 2 \(device 2\) \["
        assert re.search(waits, text), text


def test_threads_launch_in_an_order_that_all_processes_have() -> None:
    done = run_job(FOLDER / "threads.py", 2, "alike", XLAPY_FLAGS="--collective_timeout=20")
    assert sorted(done.output.splitlines()) == [f"process {one}: 0 wrong []" for one in range(2)], done


def test_launches_in_another_order_are_an_error_in_all_processes() -> None:
    done = run_job(FOLDER / "threads.py", 2, "differs", XLAPY_FLAGS="--collective_timeout=20")
    errors = re.findall(r"process \d after \d\.\d s: launch 1: .*?\[E\d+\]", done.output)
    assert len(errors) == 2, done
    for error in errors:
        assert str(codes.DIFFERENT_PROGRAMS) in error and "the same order in all processes" in error
        for process, devices in enumerate(("0, 1", "2, 3")):
            assert f"process {process} (devices {devices}) executes program_{process}" in error


@pytest.mark.parametrize("kind", ["apart", "full"])
def test_clients_of_different_threads_need_no_common_order(kind: str) -> None:
    done = run_job(FOLDER / "threads.py", 2, kind, XLAPY_FLAGS="--collective_timeout=20")
    assert sorted(re.findall(r"process \d: 0 wrong \[\]", done.output)) == [
        f"process {one}: 0 wrong []" for one in range(2)
    ], done


def test_a_process_that_fails_fails_the_launch_in_all_processes() -> None:
    found = errors_of("fails", "cpu")
    assert set(found) == {0, 1, 2}
    assert all("device 2 of process 2: i (infeed)" in text for text in found.values()), found


# --- programs that are not connected, or cannot be


TWO_DEVICES = """HloModule m, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] all-reduce(x), to_apply=sum, replica_groups={} }"""
ONE_OF_TWO = ProcessTopology(0, (0, 1))


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_a_program_that_is_not_connected_does_not_run(platform: str) -> None:
    program: Any = load_backend(platform).compile(xla.parse_hlo(TWO_DEVICES), 2, 1, topology=ONE_OF_TWO)
    rows, calls = [[np.ones(2, np.float32)]], [lambda given: program.execute_sharded(given, [Device(0, platform)])]
    for call in [*calls, *([program.sharded_fast_path] if platform == "cpu" else [])]:
        with raises(InvalidArgumentError, device_codes.RUN_DEVICES, "m runs on devices of processes [0, 1]"):
            call(rows)


def test_code_of_one_process_cannot_span_several() -> None:
    program: Any = load_backend("cpu").compile(xla.parse_hlo(TWO_DEVICES), 2, 1)
    with raises(InvalidArgumentError, device_codes.RUN_DEVICES, "2 devices of one process", "[0, 1]"):
        program.placed(ONE_OF_TWO)
    spanning: Any = load_backend("cpu").compile(xla.parse_hlo(TWO_DEVICES), 2, 1, topology=ONE_OF_TWO)
    assert spanning.placed(ProcessTopology(1, (1, 0))).topology.local_devices == (0,)
    with raises(InvalidArgumentError, device_codes.RUN_DEVICES, "2 devices", "3 devices"):
        spanning.placed(ProcessTopology(0, (0, 1, 2)))


def test_code_that_spans_processes_runs_in_one_and_is_serialized() -> None:
    module = xla.parse_hlo(TWO_DEVICES)
    backend: Any = load_backend("cpu")
    spanning = backend.compile(module, 2, 1, topology=ONE_OF_TWO)
    rows = [[np.float32([1, 2])], [np.float32([3, 5])]]
    devices = [Device(number, "cpu") for number in range(2)]
    alone = spanning.placed(None)
    assert [np.asarray(result).tolist() for result in alone.execute_sharded(rows, devices)] == [[4, 7]] * 2
    serialized = spanning.serialize()
    source = LazyModule(module.name, module.entry_computation.program_shape, lambda: module)
    loaded = backend.load(serialized, source, 1, topology=ProcessTopology(1, (0, 1)))
    assert loaded.topology.local_devices == (1,)
    groups = loaded.compiled.program.placement.plans.groups
    assert [transfer.block.byte_count for transfer in groups[0].transfers] == [8, 8]


ASYNCHRONOUS = TWO_DEVICES.replace(
    "ROOT r = f32[2] all-reduce(x), to_apply=sum, replica_groups={}",
    """s = f32[2] all-reduce-start(x), to_apply=sum, replica_groups={}
  v = ((f32[2]), f32[1]) async-start(x), calls=scatter
  n = f32[2] negate(x) d = f32[2] all-reduce-done(s) w = f32[1] async-done(v)
  ROOT r = (f32[2], f32[1], f32[2]) tuple(d, w, n)""",
).replace(
    "ENTRY",
    """scatter { x = f32[2] parameter(0)
  ROOT r = f32[1] reduce-scatter(x), to_apply=sum, replica_groups={}, dimensions={0} }
ENTRY""",
)


def test_a_program_with_asynchronous_collectives_is_serialized() -> None:
    """It runs as before, and its dones wait for the exchanges of their starts."""
    module, backend = xla.parse_hlo(ASYNCHRONOUS), load_backend("cpu")
    serialized = backend.compile(module, 2, 1, topology=ONE_OF_TWO).serialize()  # type: ignore[call-arg]
    source = LazyModule(module.name, module.entry_computation.program_shape, lambda: module)
    loaded: Any = backend.load(serialized, source, 1, topology=ONE_OF_TWO)  # type: ignore[call-arg]
    groups = loaded.compiled.program.placement.plans.groups
    assert [(group.thunk, group.awaited_in) for group in groups] == [(0, 2), (1, 3)]
    rows, devices = [[np.float32([1, 2])], [np.float32([3, 5])]], [Device(number, "cpu") for number in range(2)]
    results = loaded.placed(None).execute_sharded(rows, devices)
    found = [[np.asarray(array).tolist() for array in result] for result in results]
    assert found == [[[4, 7], [4], [-1, -2]], [[4, 7], [7], [-3, -5]]]


def test_transfers_between_processes_name_their_pairs() -> None:
    text = """HloModule m, replica_count=2
ENTRY e { p = f32[2] parameter(0) k = token[] after-all()
  s = (f32[2], u32[], token[]) send(p, k), channel_id=1 e = token[] send-done(s), channel_id=1
  v = (f32[2], u32[], token[]) recv(e), channel_id=1 w = (f32[2], token[]) recv-done(v), channel_id=1
  ROOT r = f32[2] get-tuple-element(w), index=0 }"""
    with raises(UnsupportedError, running.CHANNEL_ENDS, "s (send)", "_xla_send_recv_source_target_pairs"):
        load_backend("cpu").compile(xla.parse_hlo(text), 2, 1, topology=ONE_OF_TWO)  # type: ignore[call-arg]
