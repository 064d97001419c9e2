"""Forks while threads compile and run programs: every child compiles and runs too, or says at once why not.

A unit is one child. Children are made by `os.fork`, by `multiprocessing` pools of the method `fork`, and as programs by
`subprocess`; a tenth of them end without a word. The parent is a new process; in every second one threads use JAX.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from tests.stress.harness import Amount, Run, Stress, call_in_child

CHILDREN_PER_PROCESS = 40
SECONDS = 30.0
"""The longest time that a child takes, on a machine with other work."""
LENGTH = 100_003
"""Elements of the parent's program, enough for several threads."""


def program(length: int) -> str:
    return (
        f"HloModule m{length}\nENTRY main {{ p = f32[{length}] parameter(0)  ROOT e = f32[{length}] exponential(p) }}"
    )


@cache
def _parents_program() -> Any:
    import xlapy as xla

    return xla.Client("cpu").compile(program(LENGTH))


def compute(length: int) -> str:
    """Compiles and runs a program, and runs the parent's; returns what was wrong."""
    import xlapy as xla

    if not np.all(np.asarray(_parents_program()(np.zeros(LENGTH, np.float32))) == 1):
        return "the parent's program has wrong results"
    values = np.asarray(xla.Client("cpu").compile(program(length))(np.zeros(length, np.float32)))
    return "" if np.all(values == 1) else "the child's program has wrong results"


def _forked(number: int) -> str:
    child = os.fork()
    if not child:
        code = 3
        try:
            if number % 10 == 0:
                os._exit(0)  # without a word, as after an error in native code
            code = 1 if compute(200 + number) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return _end_of(child)


def _end_of(child: int) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return f"a forked child ended with status {status}" if status else ""
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return f"a forked child gave no answer within {SECONDS:g} seconds"


def _in_pool(number: int) -> str:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return "".join(pool.map_async(compute, [300 + number, 301 + number]).get(SECONDS))


def _in_program(number: int) -> str:
    done = subprocess.run([sys.executable, "-c", f"print({number})"], capture_output=True, timeout=SECONDS, check=False)
    return "" if done.stdout == f"{number}\n".encode() else f"a program ended with {done}"


WAYS: tuple[Callable[[int], str], ...] = (_forked, _forked, _forked, _in_pool, _forked, _in_program)


def fork_while_threads_compile(seed: int, children: int, use_jax: bool) -> list[str]:
    """Makes children one after the other; returns what went wrong."""
    _parents_program()
    faults: list[str] = []
    with _busy_threads(_compile_by_jax if use_jax else _compile, faults):
        for number in range(children):
            time.sleep(0.001 * (seed * 7 + number * 3) % 0.02)
            try:
                fault = WAYS[number % len(WAYS)](number)
            except Exception:
                fault = traceback.format_exc()
            faults += [f"child {number}: {fault}"] if fault else []
    return faults


@contextmanager
def _busy_threads(work: Callable[[int], None], faults: list[str]) -> Iterator[None]:
    stop = threading.Event()

    def body(thread: int) -> None:
        number = 0
        try:
            while not stop.is_set():
                work(1000 * thread + number % 997)
                number += 1
        except Exception:
            faults.append(f"thread {thread} of the parent: {traceback.format_exc()}")

    threads = [threading.Thread(target=body, args=(thread,)) for thread in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _compile(number: int) -> None:
    import xlapy as xla

    length = LENGTH + number
    result = np.asarray(xla.Client("cpu").compile(program(length))(np.zeros(length, np.float32)))
    assert np.all(result == 1), number


def _compile_by_jax(number: int) -> None:
    import jax
    import jax.numpy as jnp

    result = jax.jit(lambda x: jnp.exp(x) + number)(np.zeros(LENGTH + number, np.float32))
    assert np.all(np.asarray(result) == 1 + number), number


def run(run: Run) -> None:
    while run.goes_on:
        seed, use_jax = run.seed + run.done, run.done // CHILDREN_PER_PROCESS % 2 == 1
        children = min(CHILDREN_PER_PROCESS, (run.amount.count or run.done + CHILDREN_PER_PROCESS) - run.done)
        arguments = {"seed": seed, "children": children, "use_jax": use_jax}
        answer = call_in_child(
            "tests.stress.forks:fork_while_threads_compile",
            arguments,
            seconds=60 + SECONDS * children,
            environment={"JAX_PLATFORMS": "xlapy"},
        )
        for fault in [answer.death] if answer.is_death else answer.value:
            run.fault(f"{arguments}: {fault}")
        run.count("processes")
        run.advance(children)


STRESS = Stress(
    "forks while threads compile: children compile and run, none hangs",
    short=Amount(count=6),
    long=Amount(count=4000),
    run=run,
)
