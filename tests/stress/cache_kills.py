"""Processes that compile with a shared cache and are killed at random times: the cache is always readable.

A unit is one killed process. Several at once compile and run programs, which they load from the cache or store there;
the cache is too small for all programs, entries are deleted and damaged meanwhile. All of them are forks of a process
that has compiled before, so that most of their time is spent on the cache and on compiling. After each round, every
entry is whole, unless it is one that was damaged and that no process has read since.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from tests.stress.harness import Amount, Run, Stress, call_in_child

KILLS_PER_PROCESS = 500
AT_ONCE = 4
PROGRAMS = 150
"""So many programs take more than `CACHE_MIB`."""
CACHE_MIB = 1
MAX_LIFE_SECONDS = 0.15
"""The longest life of a process. It compiles a few programs in that time."""
MAX_UNFINISHED = 2000
"""Unfinished files that may lie around: those of the last seconds."""


def program(number: int) -> str:
    """HLO text with an object file of a few kilobytes."""
    length = 40 + number
    return f"""HloModule m{number}
        ENTRY main {{
          p = f32[{length}] parameter(0)
          c = f32[] constant({number})
          b = f32[{length}] broadcast(c), dimensions={{}}
          ROOT s = f32[{length}] add(p, b)
        }}"""


def compile_and_run(client: Any, number: int) -> bool:
    """Compiles a program, or loads it; returns whether its result is right."""
    result = client.compile(program(number))(np.ones(40 + number, np.float32))
    return bool(np.all(np.asarray(result) == number + 1))


def kill_compilers(seed: int, kills: int, folder: str) -> dict[str, Any]:
    """Starts and kills processes; returns faults and counts."""
    programs = min(PROGRAMS, kills)
    import logging

    import xlapy as xla

    logging.getLogger("xlapy").setLevel(logging.ERROR)  # damaged entries are reported
    generator, client = random.Random(seed), xla.Client("cpu")
    assert all(compile_and_run(client, number) for number in range(3))
    cache = _Cache(Path(folder))
    faults: list[str] = []
    killed = ended = 0
    while killed + ended < kills:
        children = [
            _compiler(client, generator.random(), programs) for _ in range(min(AT_ONCE, kills - killed - ended))
        ]
        for child in children:
            time.sleep(generator.uniform(0, MAX_LIFE_SECONDS / len(children)))
            cache.disturb(generator)
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            killed += os.WIFSIGNALED(status)
            ended += not os.WIFSIGNALED(status)
            if status not in (0, signal.SIGKILL):
                faults.append(f"after {killed + ended} processes, one ended with status {status}")
        faults += [f"after {killed + ended} processes: {fault}" for fault in cache.faults()]
    # What all of them left behind serves the next process.
    faults += [f"program {n} has a wrong result" for n in range(programs) if not compile_and_run(client, n)]
    faults += cache.faults()
    return {"faults": faults, "killed": killed, **cache.counts}


def _compiler(client: Any, seed: float, programs: int) -> int:
    """Starts a process that compiles programs until it is killed; returns its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for number in random.Random(seed).sample(range(programs), programs):
            if not compile_and_run(client, number):
                os._exit(2)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class _Cache:
    """The files of a compile cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._damaged: dict[str, bytes] = {}
        self.counts = {"entries seen": 0, "damaged": 0, "damaged and replaced": 0}

    def disturb(self, generator: random.Random) -> None:
        """Deletes an entry now and then, or damages one, as a disk or another program may do."""
        entries = sorted(self._folder.glob("*.xla"))
        if not entries or generator.random() > 0.2:
            return
        path = generator.choice(entries)
        try:
            data = bytearray(path.read_bytes())
            if generator.random() < 0.5:
                path.unlink(missing_ok=True)
                return
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
            damaged = bytes(data[: generator.choice([len(data), len(data) // 2])])
            other = path.with_name("damaged")
            other.write_bytes(damaged)
            other.rename(path)
        except FileNotFoundError:  # the cache has deleted it
            return
        self._damaged[path.name] = damaged
        self.counts["damaged"] += 1

    def faults(self) -> list[str]:
        """Reads every entry; returns what is wrong."""
        from xlapy.base.container import unpack
        from xlapy.base.errors import XlaError
        from xlapy.runtime.storage.compile_cache import KIND

        faults: list[str] = []
        for path in self._folder.glob("*.xla"):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            self.counts["entries seen"] += 1
            if path.name in self._damaged:
                if data == self._damaged[path.name]:
                    continue
                del self._damaged[path.name]
                self.counts["damaged and replaced"] += 1
            try:
                assert unpack(KIND, data).header["key"] == path.stem
            except (XlaError, AssertionError) as error:
                faults.append(f"{path.name} with {len(data)} bytes: {error}")
        unfinished = len(list(self._folder.glob(".*.unfinished")))
        return [*faults, *([f"{unfinished} unfinished files"] if unfinished > MAX_UNFINISHED else [])]


def run(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        while run.goes_on:
            kills = min(KILLS_PER_PROCESS, (run.amount.count or run.done + KILLS_PER_PROCESS) - run.done)
            arguments = {"seed": run.seed + run.done, "kills": kills, "folder": folder}
            answer = call_in_child(
                "tests.stress.cache_kills:kill_compilers",
                arguments,
                seconds=120 + kills,
                environment={"XLAPY_FLAGS": f"--cache_dir={folder} --cache_size={CACHE_MIB} --num_threads=1"},
            )
            if answer.is_death:
                run.fault(f"{arguments}: {answer.death}")
            else:
                for fault in answer.value.pop("faults"):
                    run.fault(f"{arguments}: {fault}")
                for figure, number in answer.value.items():
                    run.count(figure, number)
            run.advance(kills)


STRESS = Stress(
    "processes that compile with a shared cache are killed: the cache is always readable",
    short=Amount(count=24),
    long=Amount(count=10_000),
    run=run,
)
