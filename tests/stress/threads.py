"""Eight threads that compile and run different programs at once: no death, no hang, no wrong result.

A unit is one task of `programs` or `jax_programs`. Every thread has as many tasks, in an order of its own, among them
programs that fail, are canceled and donate their arguments; another thread collects garbage all the time. The own
interface and JAX alternate, each time in a new process.
"""

from __future__ import annotations

import threading
import time
import traceback
from functools import partial
from typing import Any

from tests.stress import programs
from tests.stress.harness import Amount, Run, Stress, call_in_child

THREADS = 8
TASKS_PER_THREAD = {"own": 500, "jax": 500}
SHORT_TASKS_PER_THREAD = {"own": 9, "jax": 2}
REPETITIONS = 3
SECONDS_PER_TASK = 3.0
"""The limit of a process is that of all its tasks one after the other, on a machine with other work."""

ENVIRONMENTS = {"own": {}, "jax": {"JAX_PLATFORMS": "xlapy", "XLAPY_FLAGS": "--num_devices=4"}}


# -- in the child process


def work(interface: str, seed: int, tasks: int) -> dict[str, Any]:
    """Runs the tasks of all threads; returns how many ran and what failed."""
    table = _tasks(interface)
    gate = threading.Barrier(THREADS)
    counts, faults = [0] * THREADS, list[str]()

    def one(thread: int) -> None:
        gate.wait()
        for position, task in enumerate(programs.shuffled(table, tasks, seed * 1000 + thread)):
            number = (seed * THREADS + thread) * tasks + position
            try:
                task(number)
            except BaseException:
                faults.append(f"task {_name(task)}({number}):\n{traceback.format_exc()[-1500:]}")
            counts[thread] += 1

    started = time.monotonic()
    with programs.Collector():
        threads = [threading.Thread(target=one, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {"done": sum(counts), "faults": faults, "seconds": time.monotonic() - started}


def _tasks(interface: str) -> list[Any]:
    if interface == "jax":
        from tests.stress import jax_programs  # JAX is imported only where it is tested

        return list(jax_programs.TASKS)
    import xlapy as xla

    programs.register_targets()
    client = xla.Client("cpu", devices=programs.DEVICES)
    return [partial(_with_client, task, client) for task in programs.TASKS]


def _with_client(task: programs.Task, client: Any, number: int) -> None:
    task(number, client)


def _name(task: Any) -> str:
    return str((task.args[0] if isinstance(task, partial) else task).__name__)


# -- the process that starts others


def run(run: Run) -> None:
    repetition = 0
    while run.goes_on:
        interface = ("own", "jax")[repetition % 2]
        tasks = (SHORT_TASKS_PER_THREAD if run.short else TASKS_PER_THREAD)[interface]
        _one(run, interface, run.seed + repetition // 2, tasks)
        repetition += 1


def _one(run: Run, interface: str, seed: int, tasks: int) -> None:
    arguments = {"interface": interface, "seed": seed, "tasks": tasks}
    limit = 60 + SECONDS_PER_TASK * tasks * THREADS
    answer = call_in_child(f"{__name__}:work", arguments, limit, environment=ENVIRONMENTS[interface])
    if answer.is_death:
        run.count("deaths")
        run.fault(f"{interface}, seed {seed}, {tasks} tasks in each of {THREADS} threads: {answer.death}")
        run.advance(tasks * THREADS)
        return
    for fault in answer.value["faults"]:
        run.fault(f"{interface}, seed {seed}, {tasks} tasks in each of {THREADS} threads: {fault}")
    run.count(f"{interface}: modules", answer.value["done"])
    run.advance(answer.value["done"], f"{interface} {answer.value['seconds']:.1f} s")


def _amount(tasks: dict[str, int], repetitions: int) -> Amount:
    return Amount(THREADS * sum(tasks.values()) * repetitions)


STRESS = Stress(
    "eight threads compile and run different programs at once",
    _amount(SHORT_TASKS_PER_THREAD, 1),
    _amount(TASKS_PER_THREAD, REPETITIONS),
    run,
)
