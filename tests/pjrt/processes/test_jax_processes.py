"""JAX programs on xlapy in several processes, started by mpirun and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import Finished, environment, finish, free_port, is_open_mpi, run_job, start_by_hand
from xlapy.base.error_codes.execution.devices import PROCESS_CLIENTS
from xlapy.base.error_codes.execution.processes import LAUNCHER, MPI_MISSING

PROGRAMS = Path(__file__).parent / "programs"
PLATFORM = {"JAX_PLATFORMS": "xlapy", "XLAPY_FLAGS": "--num_devices=2"}
CHECKS = (
    "devices",
    "programs_of_one_process",
    "local_data",
    "collectives",
    "partitioned_programs",
    "random_numbers",
    "donation",
    "utilities",
    "devices_of_another_process",
    "executables",
    "serialized_executables",
    "training",
    "checkpoints",
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_job(PROGRAMS / "arrays.py", 2, str(tmp_path_factory.mktemp("checkpoint")), **PLATFORM)


@pytest.mark.parametrize("check", CHECKS)
def test_arrays_over_processes(job: Finished, check: str) -> None:
    """See the function of this name in `programs/arrays.py`."""
    found = [line for line in job.output.splitlines() if line.startswith(f"{check}:")]
    assert found == [f"{check}: passed"], f"{job.output}\n{job.errors}"


def test_the_processes_end_without_errors(job: Finished) -> None:
    assert job.code == 0, job.errors
    assert "WatchTasksAsync failed" not in job.errors


def test_processes_that_are_started_by_hand(tmp_path: Path) -> None:
    """MPICH's processes find each other through JAX's coordination service; those of Open MPI cannot."""
    processes = finish(start_by_hand(PROGRAMS / "arrays.py", 2, str(tmp_path), **PLATFORM))
    if is_open_mpi():
        assert f"[{LAUNCHER}]" in processes[0].errors
        assert "the error of process 0 says why" in processes[1].errors
        return
    assert [process.code for process in processes] == [0, 0], processes
    assert processes[0].output.splitlines() == [f"{check}: passed" for check in CHECKS[:2]], processes


def join(way: str) -> Finished:
    return run_job(PROGRAMS / "joins.py", 2, way, f"localhost:{free_port()}", **PLATFORM)


def test_jax_may_count_the_processes_in_another_order_than_mpi() -> None:
    output = join("reversed").output
    for line in ("index 0: [0, 1]", "index 1: [2048, 2049]", "index 0 sums to 22.0", "index 1 sums to 22.0"):
        assert output.count(line) == 1, output


def test_processes_with_different_numbers_of_devices() -> None:
    output = join("devices").output
    assert output.count(f"process 0: 2 on cpu; process 1: 3 on cpu [{PROCESS_CLIENTS}]") == 2, output


def test_several_processes_need_mpi(tmp_path: Path) -> None:
    """Without MPI, processes do not compute alone: each has an error."""
    (tmp_path / "mpi4py.py").write_text("raise ImportError('there is no MPI')\n")
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    processes = finish(start_by_hand(PROGRAMS / "arrays.py", 2, str(tmp_path), PYTHONPATH=path, **PLATFORM))
    assert f"[{MPI_MISSING}]" in processes[0].errors and "there is no MPI" in processes[0].errors
    assert "the error of process 0 says why" in processes[1].errors
    assert not any(process.output for process in processes)
