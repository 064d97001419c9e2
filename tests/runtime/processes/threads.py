"""Processes of a test in which four threads launch programs. Each process prints its results or its error.

mpirun -n 2 python tests/runtime/processes/threads.py alike|differs|apart|full

alike: the threads use one client and take turns, in the same order in both processes. differs: one thread launches two
programs of one client, in opposite orders in the processes. apart: each thread has a client of its own, and the threads
begin in opposite orders in the processes. full: the same, with more launches than the queues of a client hold.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.base.errors import XlaError
from xlapy.runtime.engine.core.queues import CAPACITY

TEXT = """HloModule NAME, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[1000] parameter(0) f = f32[] constant(FACTOR) g = f32[1000] broadcast(f), dimensions={}
  y = f32[1000] multiply(x, g)
  ROOT total = f32[1000] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true,
    to_apply=sum }"""
THREADS, LAUNCHES = 4, 25


class Launches:
    """The launches of this process. wrong: descriptions of results that are not right."""

    def __init__(self, is_apart: bool) -> None:
        self.index = xla.distributed.process_index()
        clients = [xla.Client("cpu", devices=2) for _ in range(THREADS if is_apart else 1)]
        self.programs: list[Any] = [
            clients[thread % len(clients)].compile(
                TEXT.replace("NAME", f"program_{thread}").replace("FACTOR", f"{thread + 1}.0")
            )
            for thread in range(THREADS)
        ]
        self.rows = [[np.full(1000, 10.0 ** (2 * self.index + local), np.float32)] for local in range(2)]
        self.wrong: list[str] = []

    def launch(self, thread: int) -> list[Any]:
        """Launches the program of a thread."""
        return list(self.programs[thread].execute_sharded(self.rows))

    def check(self, thread: int, results: list[Any]) -> None:
        """Waits for the results of a launch, and checks them."""
        values = [np.asarray(result) for result in results]
        if not all((value == 1111 * (thread + 1)).all() for value in values):
            self.wrong.append(f"thread {thread}: {values}")

    def run_threads(self, body: Any) -> None:
        """Runs a function of the number of the thread in each thread."""
        errors: list[BaseException] = []

        def run(thread: int) -> None:
            try:
                body(thread)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if errors:
            raise errors[0]

    def take_turns(self) -> None:
        turn = threading.Condition()
        done = [0]

        def launch(thread: int) -> None:
            for number in range(LAUNCHES):
                with turn:
                    while done[0] != number * THREADS + thread:
                        turn.wait()
                    results = self.launch(thread)
                    done[0] += 1
                    turn.notify_all()
                self.check(thread, results)

        self.run_threads(launch)

    def launch_in_opposite_orders(self) -> None:
        for thread in (0, 1) if self.index == 0 else (1, 0):
            self.check(thread, self.launch(thread))

    def launch_apart(self, count: int) -> None:
        """Each thread launches its program a number of times, and then checks the results. The threads begin in
        opposite orders in the processes, each after the first launch of the one before; if `count` is more than the
        queues of a client hold, when that one waits for room."""
        order = list(range(THREADS)) if self.index == 0 else list(reversed(range(THREADS)))
        has_queued = [threading.Event() for _ in range(THREADS)]

        def launch(thread: int) -> None:
            place = order.index(thread)
            if place:
                has_queued[order[place - 1]].wait()
            if count > CAPACITY:
                threading.Timer(0.2, has_queued[thread].set).start()
            results = [self.launch(thread)]
            if count <= CAPACITY:
                has_queued[thread].set()
            results += [self.launch(thread) for _ in range(count - 1)]
            for each in results:
                self.check(thread, each)

        self.run_threads(launch)


def main(kind: str) -> None:
    xla.distributed.initialize()
    launches = Launches(kind in ("apart", "full"))
    begin = time.monotonic()
    try:
        if kind == "alike":
            launches.take_turns()
        elif kind == "differs":
            launches.launch_in_opposite_orders()
        else:
            launches.launch_apart(CAPACITY + 2 if kind == "full" else LAUNCHES)
        print(f"process {launches.index}: {len(launches.wrong)} wrong {launches.wrong[:3]}", flush=True)
    except XlaError as error:
        print(f"process {launches.index} after {time.monotonic() - begin:.1f} s: {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
