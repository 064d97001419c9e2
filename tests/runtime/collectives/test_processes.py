"""Processes that exchange data through MPI: values, errors, and what the others do when one of them ends."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import xlapy as xla
from tests.processes import Finished, environment, finish, is_open_mpi, mpi_version, run_job, start_by_hand
from tests.raising import raises
from xlapy.base.error_codes.execution import processes as codes

PROGRAMS = Path(__file__).parent / "programs"
CHECKS = (
    "values_of_the_host",
    "other_values_of_the_host",
    "sizes",
    "strides",
    "order",
    "threads",
    "pairs",
    "waiting_sleeps",
    "other_program",
    "other_sizes",
    "told_failure",
    "late_data_of_a_failed_clique",
    "time_out",
    "fork",
    "twice",
)


@pytest.fixture(scope="module")
def exchanges() -> Finished:
    return run_job(PROGRAMS / "exchanges.py", 4)


@pytest.mark.parametrize("check", CHECKS)
def test_exchanges(exchanges: Finished, check: str) -> None:
    """See the function of this name in `programs/exchanges.py`."""
    found = [line for line in exchanges.output.splitlines() if line.startswith(f"{check}:")]
    assert found == [f"{check}: passed"], f"{exchanges.output}\n{exchanges.errors}"


def test_the_processes_of_a_job_end_without_errors(exchanges: Finished) -> None:
    assert exchanges.code == 0, exchanges.errors
    assert exchanges.errors == ""


def test_messages_are_split_above_a_limit() -> None:
    done = run_job(PROGRAMS / "chunks.py", 2)
    assert done.output.splitlines() == [f"{check}: passed" for check in ("sizes", "strides", "order")], done


# --- the start


def by_hand(count: int, *arguments: str, **variables: str) -> list[Finished]:
    return finish(start_by_hand(PROGRAMS / "steps.py", count, *arguments, **variables))


def test_processes_start_by_hand() -> None:
    """MPICH's processes find each other through the coordinator address. Open MPI's cannot, and say so."""
    done = by_hand(3, "end", "0", "0", "20")
    if is_open_mpi():
        assert [one.code for one in done] == [1, 1, 1]
        assert str(codes.LAUNCHER) in done[0].errors and "mpirun -n 3" in done[0].errors
        assert not done[1].errors and not done[2].errors
    else:
        assert [(one.code, one.output, one.errors) for one in done] == [(0, "started\n", "")] * 3


def test_a_process_that_does_not_start_is_named() -> None:
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    code = "import sys, xlapy as xla; xla.distributed.initialize(sys.argv[1], 3, int(sys.argv[3]), timeout=2)"
    done = finish(start_by_hand(program(code), 2))
    assert [one.code for one in done] == [1, 1]
    assert "of 3 processes, 2 did not join in 2 seconds" in done[0].errors and str(codes.COORDINATOR) in done[0].errors
    assert not done[1].errors


def program(code: str) -> Path:
    """A file with a program."""
    path = Path(tempfile.mkdtemp()) / "program.py"
    path.write_text(code)
    return path


BAD_STARTS = {
    "alone": ("initialize()", {}, codes.PROCESS_COUNT, "mpirun -n N"),
    "another count": (
        "initialize(num_processes=3)",
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"},
        codes.PROCESS_COUNT,
        "num_processes=3, but mpirun of Open MPI has started this process as process 0 of 2",
    ),
    "address": (
        "initialize('nowhere', 2, 0)",
        {},
        codes.COORDINATOR,
        "coordinator_address is HOST:PORT, not 'nowhere'",
    ),
    "no server": (
        "initialize('localhost:1', 2, 1, timeout=0.5)",
        {},
        codes.COORDINATOR,
        "process 1 does not reach process 0 at localhost:1",
    ),
}


@pytest.mark.parametrize("name", BAD_STARTS)
def test_bad_starts(name: str) -> None:
    call, variables, code, message = BAD_STARTS[name]
    if is_open_mpi() and ("localhost" in call or "nowhere" in call):
        pytest.skip("Open MPI's processes are started by mpirun")
    done = run_python(f"import xlapy as xla; xla.distributed.{call}", **variables)
    assert done.returncode == 1
    assert message in done.stderr and f"[{code}]" in done.stderr, done.stderr


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment(**variables)
    )


def test_the_mpirun_of_another_library() -> None:
    """Process 0 says so; the others end with code 1 and without a message."""
    names = ("PMI_RANK", "PMI_SIZE") if is_open_mpi() else ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    library = mpi_version().split(",")[0].split()[0]
    for rank in range(2):
        variables = dict(zip(names, (str(rank), "2"), strict=True))
        done = run_python("import xlapy as xla; xla.distributed.initialize()", **variables)
        assert done.returncode == 1
        if rank:
            assert not done.stderr
        else:
            assert "has started 2 processes, but mpi4py has loaded" in done.stderr and library in done.stderr
            assert f"[{codes.MPI_BUILD}]" in done.stderr


def test_mpi4py_is_missing() -> None:
    code = (
        "import sys; sys.modules['mpi4py'] = None; import xlapy as xla; xla.distributed.initialize('localhost:1', 2, 0)"
    )
    done = run_python(code)
    assert done.returncode == 1
    assert "pip install 'xlapy[mpi]'" in done.stderr and f"[{codes.MPI_MISSING}]" in done.stderr


def test_the_thread_level_is_too_low() -> None:
    code = (
        "import mpi4py; mpi4py.rc.thread_level = 'single'; from mpi4py import MPI; "
        "import xlapy as xla; xla.distributed.initialize(num_processes=1, process_id=0)"
    )
    done = run_python(code)
    assert done.returncode == 1
    assert "MPI_THREAD_SINGLE" in done.stderr and f"[{codes.THREAD_LEVEL}]" in done.stderr


def test_bad_arguments() -> None:
    with raises(xla.errors.InvalidArgumentError, codes.PROCESS_COUNT, "num_processes=2", "5"):
        xla.distributed.initialize("localhost:9999", num_processes=2, process_id=5)
    with raises(xla.errors.InvalidArgumentError, codes.PROCESS_COUNT, "num_processes", "0"):
        xla.distributed.initialize("localhost:9999", num_processes=0, process_id=0)
    assert not xla.distributed.is_initialized()
    assert (xla.distributed.process_index(), xla.distributed.process_count()) == (0, 1)


def test_another_version_is_refused() -> None:
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    code = (
        "import sys; import xlapy.base.version as version\n"
        "if sys.argv[3] == '1': version.VERSION = '0.0.7'\n"
        "import xlapy as xla; xla.distributed.initialize(sys.argv[1], 2, int(sys.argv[3]), timeout=20)"
    )
    done = finish(start_by_hand(program(code), 2))
    assert [one.code for one in done] == [1, 1]
    assert "xlapy 0.0.7" in done[0].errors and f"[{codes.PROCESS_VERSIONS}]" in done[0].errors
    assert not done[1].errors


def test_machines_with_the_same_name_are_refused() -> None:
    """MPI would take them for one machine, and wait for ever."""
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    code = (
        "import sys; from xlapy.runtime.collectives.mpi import start\n"
        "start.memory_name = lambda: sys.argv[3]; start.socket.gethostname = lambda: 'node'\n"
        "import xlapy as xla; xla.distributed.initialize(sys.argv[1], 2, int(sys.argv[3]), timeout=20)"
    )
    done = finish(start_by_hand(program(code), 2))
    assert [one.code for one in done] == [1, 1]
    assert "host name node" in done[0].errors and f"[{codes.HOST_NAMES}]" in done[0].errors
    assert not done[1].errors


# --- processes that end


def is_clean(finished: Finished) -> bool:
    """Whether a process has printed one error, and nothing else."""
    lines = [line for line in finished.output.splitlines() if line != "started"]
    return finished.code == 1 and len(lines) == 1 and not finished.errors


def end_by_hand(way: str, victim: int, delay: float, count: int = 3, timeout: float = 3) -> None:
    """Starts processes, one of which ends in some way; checks what the others say, and that they end in time."""
    processes = start_by_hand(PROGRAMS / "steps.py", count, way, str(victim), str(delay), str(timeout))
    try:
        others = [process for index, process in enumerate(processes) if index != victim]
        done = finish(others, timeout=40)
    finally:
        processes[victim].kill()
        processes[victim].communicate()
    for finished in done:
        assert is_clean(finished), (victim, delay, done)
        if way == "kill":
            ended = rf"process {victim} has ended: it was killed, or has crashed; step \d+(: it has waited for .*)?"
            assert re.search(rf"{ended} \[{codes.PROCESS_LOST}\]", finished.output), finished
        else:
            named = rf"process {victim}\b|processes [\d, and]*\b{victim}\b"  # others may be late, too
            assert re.search(named, finished.output), finished


def test_a_process_that_is_killed_by_hand() -> None:
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    for victim, delay in ((0, 0.0), (2, 0.05)):
        end_by_hand("kill", victim, delay)


def test_a_process_that_is_stopped_by_hand() -> None:
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    end_by_hand("stop", 1, 0.05, timeout=2)


@pytest.mark.parametrize("way", ["leave", "raise"])
def test_all_processes_end_after_one_leaves_whose_data_is_under_way(way: str) -> None:
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    done = finish(start_by_hand(PROGRAMS / "steps.py", 3, way, "1", "0", "3"), timeout=30)
    assert done[1].code == (way == "raise"), done[1]
    for finished in (done[0], done[2]):
        assert is_clean(finished), done
        left = r"process 1 has left the process group: its program has ended; step 54: it has waited for process 1"
        assert re.search(rf"{left} \[{codes.PROCESS_LOST}\]", finished.output), finished


@pytest.mark.parametrize("way", ["kill", "stop", "leave", "raise"])
def test_a_process_of_a_job_ends(way: str) -> None:
    """mpirun ends with an error, in time, and no process is left. Those that mpirun does not end themselves name it."""
    begin = time.monotonic()
    done = run_job(PROGRAMS / "steps.py", 3, way, "1", "0.05", "2", timeout=60, XLAPY_TEST_JOB=f"job{os.getpid()}")
    assert done.code != 0, done
    assert time.monotonic() - begin < 40
    said = [line for line in done.output.splitlines() if line.startswith("process ")]
    assert len(said) <= 3 and all("process 1" in line or "[E67" in line for line in said), said
    if way == "raise":
        assert done.errors.count("ValueError: the victim has an error") == 1
    if way in ("leave", "stop"):
        assert said, done
    assert processes_of_job(f"job{os.getpid()}") == []


def processes_of_job(name: str) -> list[int]:
    """The processes that still run in a job, which its environment names."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"XLAPY_TEST_JOB={name}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return [one for one in found if one != os.getpid()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_processes_killed_at_random_points(seed: int) -> None:
    """25 jobs, in each of which a process is killed at a random point of its steps: 200 in all."""
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    chance = random.Random(seed)
    for _ in range(25):
        count = chance.choice((2, 3, 4))
        end_by_hand("kill", chance.randrange(count), chance.random() * 0.2, count)


@pytest.mark.slow
def test_processes_stopped_at_random_points() -> None:
    if is_open_mpi():
        pytest.skip("Open MPI's processes are started by mpirun")
    chance = random.Random(8)
    for _ in range(20):
        end_by_hand("stop", chance.randrange(3), chance.random() * 0.2, timeout=1)
