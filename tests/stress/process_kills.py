"""Processes that execute programs together, one of which is killed or stopped at a random time: the others end in time.

A unit is a job of three processes. One of them is killed, or stopped in every tenth job, while the processes start, run
random programs (`killed_processes`), or end. Then

- the others end within the time-out, with code 1, or with code 0 if all have ended before,
- one of them prints one error, which names the process, and the instruction that waited unless the launch began later,
- no process, zombie, shared memory or temporary file is left.

With MPICH, processes are forks of a process that has imported xlapy, and start by address. With Open MPI, they are
started by `mpirun --enable-recovery`, which lets the others live when one ends.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import environment, free_port, is_open_mpi, mpirun
from tests.stress.harness import Amount, Run, Stress, call_in_child
from tests.stress.killed_processes import PROCESSES, work

KILLS_PER_PROCESS = 20
TIMEOUT = 4.0
"""The flag `collective_timeout`, in seconds."""
START_SECONDS = 8.0
"""The time-out of `initialize`. Processes that are killed before they have joined are noticed by it."""
SLACK = 60.0
"""Seconds that a busy machine adds to time-outs."""
STOP_EVERY = 10
_LINE_LIMIT = 80
"""The largest number of lines that all processes print: one traceback, and its causes."""


@dataclass
class Job:
    """A job. victim: the index of the process that is killed. phase: when: "start", "run" or "end"."""

    seed: int
    folder: Path
    victim: int
    phase: str
    signal: signal.Signals
    pids: dict[int, int] = field(default_factory=dict[int, int])
    codes: dict[int, int] = field(default_factory=dict[int, int])
    launcher: subprocess.Popen[bytes] | None = None

    def __str__(self) -> str:
        return f"seed {self.seed}: process {self.victim}, {self.signal.name} at the {self.phase}"

    def errors(self, index: int) -> str:
        path = self.folder / f"errors-{index}"
        return path.read_text(errors="replace") if path.exists() else ""

    def has(self, what: str, index: int) -> bool:
        """Whether a process has come to a point of its work."""
        return (self.folder / f"{what}-{index}").exists()

    # -- starting

    def start(self) -> None:
        if is_open_mpi():
            self._start_by_mpirun()
            return
        address = f"localhost:{free_port()}"
        for index in range(PROCESSES):
            self.pids[index] = self._fork(index, address)

    def _fork(self, index: int, address: str) -> int:
        child = os.fork()
        if child:
            return child
        try:
            with open(self.folder / f"errors-{index}", "wb", buffering=0) as errors:
                os.dup2(errors.fileno(), 2)
            os.environ["TMPDIR"] = str(self.folder / "temporary")
            tempfile.tempdir = None
            import xlapy as xla

            xla.distributed.initialize(address, PROCESSES, index, timeout=START_SECONDS)
            work(str(self.folder), self.seed, self.phase)
        except SystemExit as error:
            os._exit(int(error.code or 0))
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
            _end(1)
        _end(0)
        return 0

    def _start_by_mpirun(self) -> None:
        command = [*mpirun(PROCESSES), "--enable-recovery", sys.executable, "-m", "tests.stress.killed_processes"]
        with open(self.folder / "errors-0", "wb") as errors:
            self.launcher = subprocess.Popen(
                [*command, str(self.folder), str(self.seed), self.phase],
                stdout=subprocess.DEVNULL, stderr=errors,
                env=environment(TMPDIR=str(self.folder / "temporary"), XLAPY_STRESS_JOB=str(self.folder)),
            )  # fmt: skip
        while len(self.pids) < PROCESSES and self.launcher.poll() is None:
            for index in range(PROCESSES):
                if self.has("process", index):
                    text = (self.folder / f"process-{index}").read_text()
                    self.pids |= {index: int(text)} if text else {}
            time.sleep(0.01)

    # -- killing

    def kill(self, chance: random.Random) -> None:
        """Kills the victim at a random time of the phase."""
        if self.phase == "start":
            time.sleep(chance.uniform(0, 1.5))
        else:
            self._await_start()
            time.sleep(chance.uniform(0, 0.3 if self.phase == "end" else 1.0))
        os.kill(self.pids[self.victim], self.signal)

    def _await_start(self) -> None:
        deadline = time.monotonic() + START_SECONDS + SLACK
        while not all(self.has("started", index) for index in range(PROCESSES)) and time.monotonic() < deadline:
            time.sleep(0.002)

    def finish(self) -> list[str]:
        """Waits for the other processes; returns faults."""
        begin, faults = time.monotonic(), []
        limit = (START_SECONDS if self.phase == "start" else 0) + TIMEOUT + SLACK
        waiting = {one for one in self.pids if one != self.victim}
        while waiting and time.monotonic() - begin < limit:
            waiting -= {one for one in waiting if self._has_ended(one)}
            time.sleep(0.01)
        if waiting:
            faults.append(f"{self}: processes {sorted(waiting)} have not ended {limit:g} seconds later")
        for one in [*waiting, self.victim]:
            self._end(one)
        if self.launcher is not None:
            self.launcher.wait(SLACK)
        return faults

    def _has_ended(self, index: int) -> bool:
        if self.launcher is not None:
            return not _is_running(self.pids[index])
        pid, status = os.waitpid(self.pids[index], os.WNOHANG)
        if pid:
            self.codes[index] = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def _end(self, index: int) -> None:
        if self.launcher is not None:
            if _is_running(self.pids[index]):
                os.kill(self.pids[index], signal.SIGKILL)
        elif index not in self.codes:
            os.kill(self.pids[index], signal.SIGKILL)
            self.codes[index] = os.waitstatus_to_exitcode(os.waitpid(self.pids[index], 0)[1])

    # -- what is left

    def faults(self) -> list[str]:
        """What is wrong with the ends of the other processes, and with what they have printed."""
        faults = []
        printed = {index: self.errors(index) for index in range(PROCESSES) if self.errors(index).strip()}
        others = [index for index in range(PROCESSES) if index != self.victim]
        wrong = {index: code for index, code in self.codes.items() if index != self.victim and code not in (0, 1)}
        failed = [index for index in others if self.has("failed", index)]
        if wrong:
            faults.append(f"{self}: exit codes {wrong}: {printed}")
        if self.codes and any(self.codes.get(index) != 1 for index in failed):
            faults.append(f"{self}: processes {failed} have failed and end with {self.codes}")
        lines = sum(len(text.splitlines()) for text in printed.values())
        if lines > _LINE_LIMIT:
            faults.append(f"{self}: {lines} lines are printed: {printed}")
        if self.phase != "start" and failed:
            faults += self._faults_of_error(printed)
        return faults

    def _faults_of_error(self, printed: dict[int, str]) -> list[str]:
        """What is wrong with the error that one of the processes prints."""
        whole = "\n".join(printed.values())
        chained = whole.count("was the direct cause of") + whole.count("During handling of the above")
        if len(printed) != 1 or whole.count("Traceback (most") - chained != 1:
            return [f"{self}: not one process prints one error: {printed}"]
        errors = re.findall(r"^\S*Error: .* \[E6\d+\]$", whole, re.MULTILINE)
        if not errors or f"process {self.victim}" not in errors[-1]:
            return [f"{self}: the error does not name the process: {whole}"]
        operations = "all-reduce|async|recv|all-gather|all-to-all|collective|reduce-scatter|infeed|custom"
        names = rf"\(({operations})|a client"
        is_later = re.search(r"(has ended: it was killed, or has crashed|its program has ended) \[E6714\]$", errors[-1])
        if not is_later and not re.search(names, errors[-1]):  # a launch that begins later has not waited
            return [f"{self}: the error does not name what waited: {errors[-1]}"]
        return []


def _end(code: int) -> None:
    """Ends a forked process as the interpreter does."""
    import atexit

    try:
        atexit._run_exitfuncs()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _left_behind(folder: Path) -> list[str]:
    """The files of shared memory of a job that are left. Its processes tell them once they have started; before that,
    MPICH may leave one."""
    told = {name for path in folder.glob("shared-*") for name in path.read_text().split()}
    return sorted(name for name in told if Path(name).exists())


def _descendants() -> list[str]:
    """The processes that this one has started, and the servers of coordinator addresses that have lost their parent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text().replace("\0", " ")
            is_own = b"XLAPY_STRESS_KILLS=" + str(os.getpid()).encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() or (is_own and int(folder.name) != os.getpid()):
            found.append(f"{folder.name} {command}")
    return found


def run_job(seed: int, number: int) -> tuple[list[str], str]:
    """Runs a job; returns faults, and what happened."""
    chance = random.Random(seed)
    sent = signal.SIGSTOP if number % STOP_EVERY == STOP_EVERY - 1 else signal.SIGKILL
    phase = chance.choice(["start", "run", "run", "run", "run", "run", "end"])
    name = tempfile.mkdtemp()  # a `TemporaryDirectory` is deleted at the end of each forked process, too
    (Path(name) / "temporary").mkdir()
    job = Job(seed, Path(name), chance.randrange(PROCESSES), phase, sent)
    job.start()
    job.kill(chance)
    faults = job.finish()
    faults = faults or job.faults()
    left = [path.name for path in (Path(name) / "temporary").iterdir()]
    if left:
        faults.append(f"{job}: temporary files {left} are left")
    deadline = time.monotonic() + SLACK
    while (_descendants() or _left_behind(Path(name))) and time.monotonic() < deadline:
        time.sleep(0.05)
    if _descendants() or _left_behind(Path(name)):
        faults.append(f"{job}: {_descendants()} and {_left_behind(Path(name))} are left")
    shutil.rmtree(name)
    return faults, f"{sent.name} at the {phase}"


def kill_processes(seed: int, first: int, kills: int) -> dict[str, Any]:
    """Runs jobs; returns faults and counts."""
    os.environ["XLAPY_STRESS_KILLS"] = str(os.getpid())
    os.environ["XLAPY_FLAGS"] = f"--collective_timeout={TIMEOUT:g} --num_threads=1"
    faults: list[str] = []
    counts: dict[str, int] = {}
    for number in range(first, first + kills):
        try:
            found, what = run_job(1000 * seed + number, number)
        except Exception:
            found, what = [f"job {number} of seed {seed}: {traceback.format_exc()}"], "broken"
        faults += found
        counts[what] = counts.get(what, 0) + 1
    return {"faults": faults, **counts}


def run(run: Run) -> None:
    while run.goes_on:
        kills = min(KILLS_PER_PROCESS, (run.amount.count or run.done + KILLS_PER_PROCESS) - run.done)
        arguments = {"seed": run.seed, "first": run.done, "kills": kills}
        answer = call_in_child("tests.stress.process_kills:kill_processes", arguments, seconds=120 + 60 * kills)
        if answer.is_death:
            run.fault(f"{arguments}: {answer.death}")
        else:
            for fault in answer.value.pop("faults"):
                run.fault(fault)
            for figure, number in answer.value.items():
                run.count(figure, number)
        run.advance(kills)


STRESS = Stress(
    "processes that run programs together are killed or stopped: the others end in time with one error",
    short=Amount(count=1),
    long=Amount(count=220),
    run=run,
)
