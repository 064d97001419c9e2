"""Custom-call targets that compiled programs call directly: every calling convention, in loops, in threads,
deserialized.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.machine_code_targets import targets
from tests.custom_calls.typed_handlers import Frame, handler
from tests.interpreter.runners.custom import entry, registered
from tests.raising import raises
from tests.threads import run_in_threads
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError, UnsupportedError
from xlapy.cpu.program import host_callbacks

CPU = xla.Client("cpu")
VERSIONS = {
    "original": "API_VERSION_ORIGINAL",
    "status": "API_VERSION_STATUS_RETURNING",
    "unified": "API_VERSION_STATUS_RETURNING_UNIFIED",
    "typed": "API_VERSION_TYPED_FFI",
}
NUMBERS = {name: number + 1 for number, name in enumerate(VERSIONS)}
ONE = np.float32(1)


def call(name: str, operand: str = "x", more: str = "") -> str:
    config = ', backend_config="a"' if name == "unified" else ""
    version = VERSIONS[name]
    return f'f32[] custom-call({operand}), custom_call_target="target", api_version={version}{config}{more}'


def loop(name: str, rounds: int) -> str:
    return entry(
        """x = f32[] parameter(0) i = s32[] constant(0) s = (s32[], f32[]) tuple(i, x)
        w = (s32[], f32[]) while(s), condition=less, body=step ROOT r = f32[] get-tuple-element(w), index=1""",
        f"""less {{ s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({rounds})
          ROOT r = pred[] compare(i, n), direction=LT }}
        step {{ s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
          x = f32[] get-tuple-element(s), index=1 y = {call(name)} h = f32[] constant(0.5) z = f32[] multiply(y, h)
          one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], f32[]) tuple(j, z) }}""",
    )


def native(name: str) -> Any:
    return registered(targets()[name], api_version=NUMBERS[name])


@pytest.mark.parametrize("name", VERSIONS)
def test_no_python_runs_in_a_loop_of_native_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_callbacks.HostCallbackHandler, "_execute", lambda *_: pytest.fail("the host is asked"))
    with native(name):
        assert float(CPU.compile(loop(name, 3))(np.float32(2))) == 1.125


def test_the_text_of_a_call_is_read_by_its_length() -> None:
    text = entry(f"x = f32[] parameter(0)\nROOT r = {call('unified')}".replace('"a"', '"abc"'))
    with native("unified"):
        assert float(CPU.compile(text)(ONE)) == 4


def test_a_failure_ends_the_loop_and_the_next_run_is_correct() -> None:
    text = loop("status", 4).replace("constant(0.5)", "constant(1)")
    with native("status"):
        executable = CPU.compile(text)
        for _ in range(2):
            with raises(ExecutionError, codes.FAILED_TARGET, "y (custom-call): target 'target' failed"):
                executable(np.float32(0))
            assert float(executable(np.float32(-4))) == 0


def test_unaligned_operands_are_aligned_for_targets() -> None:
    met: list[int] = []

    def look(frame: Frame) -> int | None:
        (x,), (y,) = frame.arguments(), frame.results()
        met.extend((x.ctypes.data % 64, y.ctypes.data % 64))
        y[...] = 2 * x
        return None

    text = entry(
        'x = f32[3] parameter(0)\nROOT r = f32[3] custom-call(x), custom_call_target="target", '
        "api_version=API_VERSION_TYPED_FFI"
    )
    raw = np.arange(32, dtype=np.float32)
    with registered(handler(look), api_version=4):
        executable = CPU.compile(text, donate=[0])
        for start in range(1, 5):
            given = raw[start : start + 3]
            assert np.asarray(executable(given)).tolist() == (2 * given).tolist()
    assert set(met) == {0} and raw.tolist() == list(range(32))


def test_threads_call_the_same_target_at_once() -> None:
    """Catches calls that get the frame of another thread's run: x becomes (x + 1) / 2 in each of 20 iterations, and is
    as far from 1 as a thread's number says."""
    with native("typed"):
        executable = CPU.compile(loop("typed", 20))

        def work(number: int) -> int:
            given, expected = np.float32(1 + (number + 1) * 2**20), float(number + 2)
            return sum(float(executable(given)) == expected for _ in range(200))

        assert run_in_threads(6, work) == [200] * 6


def test_the_last_registration_counts_for_programs_compiled_before() -> None:
    text = entry(f"x = f32[] parameter(0)\nROOT r = {call('typed')}")
    with native("typed"):
        executable = CPU.compile(text)
        assert float(executable(ONE)) == 2
        xla.register_custom_call_target("target", lambda x: x * np.float32(10))
        assert float(executable(ONE)) == 10
        xla.register_custom_call_target("target", targets()["typed"], api_version=4)
        assert float(executable(ONE)) == 2
        xla.register_custom_call_target("target", targets()["original"])
        with raises(UnsupportedError, codes.CALL_VERSION, "'target'", "API_VERSION_ORIGINAL"):
            executable(ONE)
    with raises(UnsupportedError, codes.TARGET_REGISTERED, "r (custom-call)", "'target'"):
        executable(ONE)


def test_a_result_in_the_memory_of_a_donated_argument() -> None:
    aliased = ", output_to_operand_aliasing={{}: (0, {})}"
    text = entry(f"x = f32[] parameter(0)\nROOT r = {call('typed', more=aliased)}")
    with native("typed"):
        executable = CPU.compile(text, donate=[0])
        given = CPU.device_put(ONE)
        assert float(executable(given)) == 2
        assert given.is_deleted() and executable.memory_analysis().alias_size_in_bytes == 4


def test_a_result_in_the_memory_of_an_argument_that_several_devices_donate() -> None:
    aliased = ", output_to_operand_aliasing={{}: (0, {})}"
    text = entry(f"x = f32[] parameter(0)\nROOT r = {call('typed', more=aliased)}")
    with native("typed"):
        executable = xla.Client("cpu", devices=2).compile(text, num_replicas=2, donate=[0])
        given = np.arange(9, dtype=np.float32)
        results = executable.execute_sharded([[given[4:5].reshape(())], [given[5:6].reshape(())]])
        xla.block_until_ready(results)
    assert [float(result) for result in results] == [5, 6] and given.tolist() == list(range(9))


def test_devices_know_their_numbers_and_one_run() -> None:
    met: list[tuple[int, int]] = []

    def look(frame: Frame) -> int | None:
        from xlapy.custom_calls.ffi import structures as c

        met.append(
            (
                frame.ask("DeviceOrdinal_Get", c.DeviceOrdinalArgs).device_ordinal,
                frame.ask("RunId_Get", c.RunIdArgs).run_id,
            )
        )
        frame.results()[0][...] = frame.arguments()[0]
        return None

    text = f"x = f32[] parameter(0)\nROOT r = {call('typed')}"
    both = entry(text).replace("HloModule m", "HloModule m, replica_count=2")
    with registered(handler(look), api_version=4):
        xla.block_until_ready(xla.Client("cpu", devices=2).compile(both).execute_sharded([[ONE], [ONE]]))
        alone = CPU.compile(entry(text))
        alone(ONE)
        alone(ONE)
    (_, first), (_, second), *others = met
    assert sorted(device for device, _ in met[:2]) == [0, 1] and first == second
    assert [device for device, _ in others] == [0, 0] and len({first, *(run for _, run in others)}) == 3


# -- from bytes


@pytest.mark.parametrize("name", VERSIONS)
def test_programs_find_their_targets_by_name(name: str) -> None:
    with native(name):
        data = CPU.compile(loop(name, 3)).serialize()
        assert float(CPU.deserialize(data)(np.float32(2))) == 1.125
    with raises(UnsupportedError, codes.TARGET_REGISTERED, "y (custom-call)", "'target'"):
        CPU.deserialize(data)
    with registered(lambda x: x + ONE):
        assert float(CPU.deserialize(data)(np.float32(2))) == 1.125


def test_attributes_that_are_none_are_refused_when_the_program_is_loaded() -> None:
    text = entry(f"x = f32[] parameter(0)\nROOT r = {call('typed', more=', backend_config={flag}')}")
    with registered(lambda x: x):
        data = CPU.compile(text).serialize()
    with native("typed"), raises(InvalidArgumentError, codes.CALL_ATTRIBUTES):
        CPU.deserialize(data)


PROCESS = """
import sys, numpy as np, xlapy as xla
from tests.cpu.machine_code_targets import targets
xla.register_custom_call_target("target", targets()["typed"], api_version=4)
print(float(xla.Client("cpu").deserialize(open(sys.argv[1], "rb").read())(np.float32(8))))
"""


def test_another_process_runs_them(tmp_path: Path) -> None:
    with native("typed"):
        (tmp_path / "program.xla").write_bytes(CPU.compile(loop("typed", 1)).serialize())
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "program.xla")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "4.5\n"
