"""Threads that compile and run programs at once in a new process: each gets its right results, and the process lives.

A unit is one process, in which nothing is compiled before the threads start: they also compile what all programs
share. Threads compile programs of their own and programs that others compile too. Every fourth process uses JAX.
"""

from __future__ import annotations

import os
import threading
import traceback

import numpy as np

from tests.stress.harness import Amount, Run, Stress, call_in_child

THREADS, PROGRAMS = 8, 3
ELEMENTS = 1 << 15
"""So many that a program uses the thread pool."""


def program(number: int) -> str:
    """HLO text of exp(p + number % 50) for vectors of a length of its own, in a loop that polls."""
    length = ELEMENTS + number
    return f"""HloModule m{number}
        body {{
          s = (f32[{length}], s32[]) parameter(0)
          v = f32[{length}] get-tuple-element(s), index=0
          i = s32[] get-tuple-element(s), index=1
          one = s32[] constant(1)
          j = s32[] add(i, one)
          f = f32[] constant(1)
          b = f32[{length}] broadcast(f), dimensions={{}}
          w = f32[{length}] add(v, b)
          ROOT r = (f32[{length}], s32[]) tuple(w, j)
        }}
        condition {{
          s = (f32[{length}], s32[]) parameter(0)
          i = s32[] get-tuple-element(s), index=1
          n = s32[] constant({number % 50})
          ROOT go = pred[] compare(i, n), direction=LT
        }}
        ENTRY main {{
          p = f32[{length}] parameter(0)
          zero = s32[] constant(0)
          s = (f32[{length}], s32[]) tuple(p, zero)
          l = (f32[{length}], s32[]) while(s), condition=condition, body=body
          v = f32[{length}] get-tuple-element(l), index=0
          ROOT e = f32[{length}] exponential(v)
        }}"""


def compile_in_threads(seed: int) -> list[str]:
    """Compiles programs in threads; returns what went wrong."""
    import xlapy as xla

    client = xla.Client("cpu")

    def work(thread: int) -> None:
        for step in range(PROGRAMS):
            number = 100 * (seed % 100) + (step if thread % 2 else 10 * thread + step)
            added = number % 50
            x = np.linspace(-added - 1, -added, ELEMENTS + number, dtype=np.float32)
            y = np.asarray(client.compile(program(number))(x))
            np.testing.assert_allclose(y, np.exp(x + np.float32(added)), rtol=1e-5)

    return _in_threads(work)


def compile_in_threads_of_jax(seed: int) -> list[str]:
    """The same with `jax.jit` on xlapy's plugin."""
    os.environ["JAX_PLATFORMS"] = "xlapy"
    import jax
    import jax.numpy as jnp

    def work(thread: int) -> None:
        for step in range(PROGRAMS):
            length = ELEMENTS + seed % 100 + 10 * thread + step
            y = jax.jit(lambda x: jnp.exp(x + thread) * step)(np.zeros(length, np.float32))  # noqa: B023
            np.testing.assert_allclose(np.asarray(y), np.exp(np.float32(thread)) * step, rtol=1e-5)

    return _in_threads(work)


def _in_threads(work: object) -> list[str]:
    errors: list[str] = []
    start = threading.Barrier(THREADS)

    def body(number: int) -> None:
        try:
            start.wait()
            work(number)  # type: ignore[operator]
        except Exception:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=body, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def run(run: Run) -> None:
    while run.goes_on:
        seed = run.seed + run.done
        function = compile_in_threads_of_jax if run.done % 4 == 3 else compile_in_threads
        answer = call_in_child(f"tests.stress.first_use:{function.__name__}", {"seed": seed}, seconds=120)
        for fault in [answer.death] if answer.is_death else answer.value:
            run.fault(f"{function.__name__}({seed}): {fault}")
        run.count("programs", THREADS * PROGRAMS)
        run.advance()


STRESS = Stress(
    "threads that compile and run programs at once in new processes: right results, no death",
    short=Amount(count=1),
    long=Amount(count=1000),
    run=run,
)
