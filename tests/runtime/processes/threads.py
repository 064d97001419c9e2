"""Processes of a test in which four threads launch programs on the same devices. Each prints its results or its error.

mpirun -n 2 python tests/runtime/processes/threads.py alike|apart|differs

alike: the threads take turns, in the same order in both processes; differs: the processes launch two programs in
opposite orders.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.base.errors import XlaError

TEXT = """HloModule NAME, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[1000] parameter(0) f = f32[] constant(FACTOR) g = f32[1000] broadcast(f), dimensions={}
  y = f32[1000] multiply(x, g)
  ROOT total = f32[1000] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true,
    to_apply=sum }"""
THREADS, LAUNCHES = 4, 25


def main(kind: str) -> None:
    xla.distributed.initialize()
    index = xla.distributed.process_index()
    client = xla.Client("cpu", devices=2)
    programs: list[Any] = [
        client.compile(TEXT.replace("NAME", f"program_{thread}").replace("FACTOR", f"{thread + 1}.0"))
        for thread in range(THREADS)
    ]
    rows = [[np.full(1000, 10.0 ** (2 * index + local), np.float32)] for local in range(2)]
    turn = threading.Condition()
    done = [0]
    wrong: list[str] = []

    def launch(thread: int) -> None:
        for number in range(LAUNCHES):
            with turn:
                while done[0] != number * THREADS + thread:
                    turn.wait()
                results = programs[thread].execute_sharded(rows)
                done[0] += 1
                turn.notify_all()
            values = [np.asarray(result) for result in results]
            is_right = all((value == 1111 * (thread + 1)).all() for value in values)
            wrong.extend([] if is_right else [f"thread {thread}, launch {number}: {values}"])

    begin = time.monotonic()
    try:
        if kind == "differs":
            for program in programs[:2] if index == 0 else programs[1::-1]:
                print([np.asarray(result)[0] for result in program.execute_sharded(rows)], flush=True)
        threads = [threading.Thread(target=launch, args=(thread,)) for thread in range(THREADS)]
        for thread in threads if kind != "differs" else []:
            thread.start()
        for thread in threads if kind != "differs" else []:
            thread.join()
        print(f"process {index}: {len(wrong)} wrong {wrong[:3]}", flush=True)
    except XlaError as error:
        print(f"process {index} after {time.monotonic() - begin:.1f} s: {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
