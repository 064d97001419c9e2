"""Processes that exchange values step after step, until one of them ends in some way.

Arguments: the way, the process that ends, the seconds after which it ends, and the time-out of a step; then those of
`initialize` if the processes are started by hand.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import xlapy as xla
from xlapy.runtime.collectives.process_group import current_process_group

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
SIZES = (1, 1, 100, 5_000, 200_000)
LAST = 53
"""The last step of the victim. The data of the next one is so large that MPI sends it once it is received."""

way, victim, delay, timeout, *place = sys.argv[1:]
if place:
    xla.distributed.initialize(place[0], int(place[1]), int(place[2]), timeout=60)
else:
    xla.distributed.initialize(timeout=60)
group = current_process_group()
assert group is not None
is_victim = group.process_index == int(victim)
group.barrier(what="the start")
print("started", flush=True)
if is_victim and way in SIGNALS:
    threading.Timer(float(delay), lambda: os.kill(os.getpid(), SIGNALS[way])).start()
try:
    for step in range(10**9):
        group.allgather(bytes(SIZES[step % len(SIZES)]), what=f"step {step}", timeout=float(timeout))
        if step == LAST and is_victim and way == "leave":
            sys.exit(0)
        if step == LAST and is_victim and way == "raise":
            raise ValueError("the victim has an error")
        if step == 50 and way == "end":
            break
except xla.XlaError as error:
    print(f"process {group.process_index}: {error}", flush=True)
    sys.exit(1)
