"""Exchanges with other processes are pending between their starts and their dones, and end with an error if a process
does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import finish, is_open_mpi, run_job, start_by_hand
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.error_codes.execution import running

FOLDER = Path(__file__).parent

RESULTS = {
    "all-reduce": [1111, 1111, 1111, 1111],
    "all-gather": [1000, 1000, 1000, 1000],
    "collective-permute": [100, 1000, 1, 10],
    "transfer": [100, 1000, 1, 10],
    "reduce-scatter": [1111, 1111, 1111, 1111],
    "all-to-all": [1000, 1000, 1000, 1000],
    "collective-broadcast": [100, 100, 100, 100],
}
"""The largest element of each device's result."""


def test_a_start_does_not_wait_for_other_processes(tmp_path: Path) -> None:
    """What process 0 does between start and done lets process 1 come to its start."""
    program = FOLDER / "overlapping.py"
    done = run_job(program, 2, str(tmp_path), *RESULTS, XLAPY_FLAGS="--collective_timeout=20 --verify_buffers=true")
    found = re.findall(r"process (\d): (\S+) of (\d+): \[([\d.]+), ([\d.]+)\]", done.output)
    values = {(kind, int(size), int(process)): [float(a), float(b)] for process, kind, size, a, b in found}
    expected = {
        (kind, size, process): result[2 * process : 2 * process + 2]
        for kind, result in RESULTS.items()
        for size in (12, 400_000)
        for process in range(2)
    }
    assert values == expected, f"{done.output}\n{done.errors}"


def outcomes(output: str) -> dict[int, list[str]]:
    """What the three launches of each process end with. The second may succeed in a process that has received all data
    before another one fails; the first always does."""
    found: dict[int, list[str]] = {}
    for process, seconds, text in re.findall(
        r"process (\d) after ([\d.]+) s: (.*?)(?=process \d after|$)", output, re.M
    ):
        found.setdefault(int(process), []).append(text)
        assert float(seconds) < 10, output
    assert all(texts[0] == f"sum {15 + process}.0" for process, texts in found.items()), output
    return found


def is_sum_or(text: str, error: str, process: int) -> bool:
    return text == f"sum {15 + process}.0" or error in text


@pytest.mark.parametrize("size", ["10", "500000"])
def test_a_launch_that_fails_while_an_exchange_is_pending(size: str) -> None:
    done = run_job(FOLDER / "pending.py", 3, "fails", size, XLAPY_FLAGS="--collective_timeout=20")
    found = outcomes(done.output)
    assert set(found) == {0, 1, 2}, f"{done.output}\n{done.errors}"
    for process, (_, second, third) in found.items():
        assert is_sum_or(second, "OSError: the disk is full", process), found
        assert "OSError: the disk is full" in third and str(codes.PROCESS_FAILED) in third, found
    assert "OSError" in found[2][1]


@pytest.mark.parametrize("size", ["10", "500000"])
def test_a_process_that_stalls_while_an_exchange_is_pending(size: str) -> None:
    done = run_job(FOLDER / "pending.py", 3, "stalls", size, XLAPY_FLAGS="--collective_timeout=1")
    found = outcomes(done.output)
    for process in range(2):
        _, second, third = found[process]
        assert "d (all-reduce-done)" in second and "waits for device 2 of process 2" in second, found
        assert str(running.WAIT_TIMEOUT) in second or str(codes.PROCESS_FAILED) in second, found
        assert str(codes.PROCESS_FAILED) in third, found


@pytest.mark.parametrize("size", ["10", "500000"])
def test_a_process_that_is_killed_while_an_exchange_is_pending(size: str) -> None:
    """With Open MPI, mpirun ends the other processes, too."""
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    processes = start_by_hand(FOLDER / "pending.py", 3, "killed", size, XLAPY_FLAGS="--collective_timeout=20")
    done = finish(processes)
    for process in range(2):
        ((first, *others),) = outcomes(done[process].output).values()
        assert first == f"sum {15 + process}.0" and len(others) == 2, done
        assert all("process 2 (device 2) has ended: it was killed" in text for text in others[1:]), done
        assert all(str(codes.PROCESS_LOST) in text for text in others[1:]), done
