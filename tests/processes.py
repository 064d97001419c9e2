"""Starting programs as several processes that communicate through MPI.

The extra `test` installs mpi4py and MPICH. With other libraries, the same tests run in an environment that has them.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 90


@dataclass(frozen=True)
class Finished:
    """A process that has ended, or all processes of a job."""

    code: int
    output: str
    errors: str


@functools.cache
def mpi_version() -> str:
    """The version of the MPI library of this environment. A test that needs one fails here without it."""
    code = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        remedy = "this test needs mpi4py and an MPI library, as `pip install 'xlapy[test]'` installs"
        pytest.fail(f"{remedy}:\n{done.stderr}")
    return done.stdout.strip("\0\n ")


def is_open_mpi() -> bool:
    """Whether the MPI library of this environment is Open MPI."""
    return "Open MPI" in mpi_version()


def mpirun(count: int) -> list[str]:
    """The command that starts a number of processes, for a program to follow."""
    is_open = is_open_mpi()
    beside = Path(sys.executable).parent / "mpirun"
    command = str(beside) if beside.exists() else shutil.which("mpirun")
    if command is None:
        pytest.fail(f"this test needs the mpirun of {mpi_version()}")
    options = ["--allow-run-as-root", "--oversubscribe"] if is_open else []
    return [command, *options, "-n", str(count)]


def environment(**variables: str) -> dict[str, str]:
    """The environment of a process that is started. Output is buffered: else a line is written in two pieces, and
    mpirun may join lines of two processes."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", **variables}


def run_job(program: Path, count: int, *arguments: str, timeout: float = SECONDS, **variables: str) -> Finished:
    """Runs a program as a number of processes under mpirun; returns what all of them print."""
    command = [*mpirun(count), sys.executable, str(program), *arguments]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        # files, because processes that mpirun leaves behind would hold a pipe open
        pipes = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": errors}
        done = subprocess.run(command, **pipes, timeout=timeout, env=environment(**variables))
        output.seek(0)
        errors.seek(0)
        return Finished(done.returncode, output.read(), errors.read())


def start_by_hand(program: Path, count: int, *arguments: str, **variables: str) -> list[subprocess.Popen[str]]:
    """Starts processes of a program, which get the coordinator address, their number and their index as arguments."""
    address = f"localhost:{free_port()}"
    return [
        subprocess.Popen(
            [sys.executable, str(program), *arguments, address, str(count), str(index)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**variables),
        )
        for index in range(count)
    ]


def finish(processes: Sequence[subprocess.Popen[str]], timeout: float = SECONDS) -> list[Finished]:
    """Waits for processes; a process that does not end is killed, and the test fails."""
    try:
        outputs = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return [Finished(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


def free_port() -> int:
    """A port that no program uses now."""
    with socket.create_server(("localhost", 0)) as server:
        return int(server.getsockname()[1])
