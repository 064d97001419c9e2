"""A process of a test: an exchange is pending while one of the processes is killed, stands still, or fails.

    mpirun -n 3 python tests/runtime/processes/pending.py killed|stalls|fails SIZE

The last process does so between its start and its done, in the second of three launches; with `stalls`, before its
start. Prints what each launch ends with. Arguments of `initialize` follow if the processes are started by hand.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

import xlapy as xla
from xlapy.base.errors import XlaError

TEXT = """HloModule pending, replica_count=3
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[SIZE] parameter(0)
 x = f32[SIZE] custom-call(p), custom_call_target="before", custom_call_has_side_effect=true
 q = f32[SIZE] multiply(x, x)
 s = f32[SIZE] all-reduce-start(q), replica_groups={}, to_apply=sum
 c = f32[SIZE] custom-call(p), custom_call_target="during", custom_call_has_side_effect=true
 d = f32[SIZE] all-reduce-done(s)
 ROOT r = f32[SIZE] add(d, c) }"""


def main(kind: str, size: str, *place: str) -> None:
    if place:
        xla.distributed.initialize(place[0], int(place[1]), int(place[2]), timeout=60)
    else:
        xla.distributed.initialize(timeout=60)
    index = xla.distributed.process_index()
    is_last = index == xla.distributed.process_count() - 1
    launches = [0]

    def before(x: np.ndarray) -> np.ndarray:
        launches[0] += 1
        if launches[0] == 2 and is_last and kind == "stalls":
            time.sleep(4)
        return x

    def during(x: np.ndarray) -> np.ndarray:
        if launches[0] == 2 and is_last and kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if launches[0] == 2 and is_last and kind == "fails":
            raise OSError("the disk is full")
        return x

    xla.register_custom_call_target("before", before)
    xla.register_custom_call_target("during", during)
    executable = xla.Client("cpu", devices=1).compile(TEXT.replace("SIZE", size))
    rows = [[np.full(int(size), 1.0 + index, np.float32)]]
    for _ in range(3):
        begin = time.monotonic()
        try:
            text = f"sum {np.asarray(executable.execute_sharded(rows)[0]).max()}"
        except XlaError as error:
            text = f"error {error}"
        print(f"process {index} after {time.monotonic() - begin:.1f} s: {text}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
