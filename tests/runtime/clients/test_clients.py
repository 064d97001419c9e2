"""Clients of two processes, which mpirun starts: devices, programs, donation, and numbers of devices that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import Finished, run_job

CHECKS = (
    "devices_of_all_processes",
    "programs_of_all_platforms",
    "device_assignments",
    "serialized_programs",
    "donated_buffers",
    "programs_of_one_process",
    "numbers_of_devices_differ",
)


@pytest.fixture(scope="module")
def job() -> Finished:
    return run_job(Path(__file__).parent / "program.py", 2)


@pytest.mark.parametrize("check", CHECKS)
def test_clients_of_two_processes(job: Finished, check: str) -> None:
    """See the function of this name in `program.py`."""
    found = [line for line in job.output.splitlines() if line.startswith(f"{check}:")]
    assert found == [f"{check}: passed"], f"{job.output}\n{job.errors}"


def test_the_processes_end_without_errors(job: Finished) -> None:
    assert (job.code, job.errors) == (0, "")
