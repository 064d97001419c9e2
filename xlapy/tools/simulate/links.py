"""Measures the links between the processes of a process group, which `mpirun` has started.

Every process has one device. Devices send an array to the next one in a loop, so that each process sends while it
receives. The time of some bytes is the latency of a step; larger arrays give the bandwidth.

Responsible for these programs and for what follows from their times. Does not depend on files.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from xlapy.analysis.simulation.machine import Curve, Link, MachineDescription
from xlapy.runtime import Client
from xlapy.runtime.buffer import block_until_ready
from xlapy.text import parse_hlo

SIZES: Final = (8, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23)
"""The bytes of arrays; the first one measures the latency."""

_CALLS: Final = 5
_LOOP_BYTES: Final = 1 << 24
_MAX_TRIPS: Final = 200

Say = Callable[[str], None]


def with_measured_links(machine: MachineDescription, say: Say) -> MachineDescription:
    """Returns a machine whose outermost level has the measured links. All processes of the group call this."""
    client = Client("cpu", devices=1)
    seconds = {size: _permute_seconds(client, size) for size in SIZES}
    latency = seconds[SIZES[0]]
    rates = [(float(size), size / max(taken - latency, latency / 10)) for size, taken in list(seconds.items())[1:]]
    say(f"links between {len(client.devices)} processes: {latency * 1e6:.3g} us a step")
    say(f"bandwidth: {', '.join(f'{size / 1024:.0f} kB {rate / 1e9:.3g} GB/s' for size, rate in rates)}")
    outer = replace(machine.levels[-1], link=Link(latency, Curve(tuple(rates))), collectives={})
    return replace(machine, levels=(*machine.levels[:-1], outer))


def _permute_seconds(client: Client, size: int) -> float:
    """Returns the seconds in which every device sends `size` bytes to the next one. The number of calls is fixed,
    because all processes make the same ones."""
    count = len(client.devices)
    trips = max(4, min(_MAX_TRIPS, _LOOP_BYTES // size))
    executable = client.compile(parse_hlo(_permute_loop(size // 4, count, trips)))
    argument = client.device_put(np.ones(size // 4, np.float32))
    found: list[float] = []
    for _ in range(1 + _CALLS):
        begin = time.perf_counter()
        block_until_ready(executable.execute_sharded([[argument]]))
        found.append((time.perf_counter() - begin) / trips)
    return statistics.median(found[1:])


def _permute_loop(elements: int, devices: int, trips: int) -> str:
    pairs = ",".join(f"{{{device},{(device + 1) % devices}}}" for device in range(devices))
    state = f"(s32[], f32[{elements}])"
    return f"""HloModule links, replica_count={devices}
condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[{elements}] get-tuple-element(s), index=1
  y = f32[{elements}] collective-permute(x), source_target_pairs={{{pairs}}}
  ROOT t = {state} tuple(j, y)
}}
ENTRY main {{
  zero = s32[] constant(0)
  x = f32[{elements}] parameter(0)
  s = {state} tuple(zero, x)
  loop = {state} while(s), condition=condition, body=body
  ROOT y = f32[{elements}] get-tuple-element(loop), index=1
}}
"""
