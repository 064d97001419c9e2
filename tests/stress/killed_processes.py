"""What the processes of `process_kills` do until one of them is killed: random programs over all of them.

With Open MPI, or to see what a process does: `mpirun -n 3 python -m tests.stress.killed_processes FOLDER SEED PHASE`.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.testing.random_modules.collective_module import device_arguments, random_collective_module

PROCESSES = 3
DEVICES = 2
"""The number of devices of each process."""
COUNT = PROCESSES * DEVICES

_SUM = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
_GROUPS = "channel_id=1, replica_groups={{0,1,2,3,4,5}}, use_global_device_ids=true, to_apply=add"
_PAIRS = "{" + ",".join(f"{{{one},{(one + 1) % COUNT}}}" for one in range(COUNT)) + "}"
_CHANNEL = f'channel_id=2, frontend_attributes={{_xla_send_recv_source_target_pairs="{_PAIRS}"}}'

REDUCE = f"""HloModule reduce, num_partitions={COUNT}
{_SUM}
ENTRY e {{ x = f32[LENGTH] parameter(0) ROOT r = f32[LENGTH] all-reduce(x), {_GROUPS} }}"""
ASYNCHRONOUS = f"""HloModule asynchronous, num_partitions={COUNT}
{_SUM}
ENTRY e {{ x = f32[LENGTH] parameter(0) s = f32[LENGTH] all-reduce-start(x), {_GROUPS}
  y = f32[LENGTH] exponential(x) d = f32[LENGTH] all-reduce-done(s) ROOT r = f32[LENGTH] add(y, d) }}"""
RING = f"""HloModule ring, num_partitions={COUNT}
ENTRY e {{ x = f32[LENGTH] parameter(0) t = token[] after-all()
  v = (f32[LENGTH], u32[], token[]) recv(t), {_CHANNEL} s = (f32[LENGTH], u32[], token[]) send(x, t), {_CHANNEL}
  d = token[] send-done(s), channel_id=2 w = (f32[LENGTH], token[]) recv-done(v), channel_id=2
  ROOT r = f32[LENGTH] get-tuple-element(w), index=0 }}"""
CALLBACK = f"""HloModule callback, num_partitions={COUNT}
{_SUM}
ENTRY e {{ x = f32[LENGTH] parameter(0) y = f32[LENGTH] custom-call(x), custom_call_target="killed_processes"
  ROOT r = f32[LENGTH] all-reduce(y), {_GROUPS} }}"""
INFEED = f"""HloModule fed, num_partitions={COUNT}
{_SUM}
ENTRY e {{ t = token[] after-all() i = (f32[LENGTH], token[]) infeed(t) x = f32[LENGTH] get-tuple-element(i), index=0
  r = f32[LENGTH] all-reduce(x), {_GROUPS} o = token[] outfeed(r, t) ROOT z = f32[LENGTH] copy(r) }}"""


class Process:
    """A process of the group. random: draws the same in all processes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.client = xla.Client("cpu", devices=DEVICES)
        self._programs: dict[tuple[str, int, str], Any] = {}
        xla.register_custom_call_target("killed_processes", lambda x: x + 1)

    def step(self) -> None:
        """Does something at random, and checks the result."""
        actions: list[Callable[[], None]] = [
            lambda: self.reduce(REDUCE),
            lambda: self.reduce(REDUCE, platform="interpreter"),
            self.several,
            lambda: self.reduce(CALLBACK, added=1),
            self.ring,
            self.fed,
            self.compile_another,
            self.other_client,
        ]
        self.random.choice(actions)()

    def program(self, text: str, length: int, platform: str = "cpu") -> Any:
        key = text, length, platform
        if key not in self._programs:
            client = self.client if platform == "cpu" else xla.Client(platform, devices=DEVICES)
            self._programs[key] = client.compile(text.replace("LENGTH", str(length)))
        return self._programs[key]

    def length(self) -> int:
        return self.random.choice([1, 37, 5_000, 300_000])

    def rows(self, length: int) -> list[list[np.ndarray[Any, Any]]]:
        return [[np.full(length, device.id, np.float32)] for device in self.client.addressable_devices]

    def reduce(self, text: str, added: int = 0, platform: str = "cpu") -> None:
        length = self.length()
        self.check(self.program(text, length, platform).execute_sharded(self.rows(length)), [15 + COUNT * added] * 2)

    def several(self) -> None:
        """Queues launches whose exchanges are pending at the same time."""
        length = self.length()
        program = self.program(ASYNCHRONOUS, length)
        results = [program.execute_sharded(self.rows(length)) for _ in range(4)]
        for result in results:
            self.check(result, [15 + np.exp(float(device.id)) for device in self.client.addressable_devices])

    def ring(self) -> None:
        length = self.length()
        sources = [(device.id - 1) % COUNT for device in self.client.addressable_devices]
        self.check(self.program(RING, length).execute_sharded(self.rows(length)), sources)

    def fed(self) -> None:
        length = self.length()
        for device in self.client.addressable_devices:
            device.transfer_to_infeed(np.full(length, device.id, np.float32))
        result = self.program(INFEED, length).execute_sharded([[]] * DEVICES)
        self.check(result, [15] * DEVICES)
        for device in self.client.addressable_devices:
            device.transfer_from_outfeed()

    def compile_another(self) -> None:
        """Compiles and runs a random program of all devices."""
        seed = self.random.randrange(10**6)
        module = random_collective_module(seed, COUNT, portable=False, asynchronous=seed % 2 == 0)
        arguments = device_arguments(module, seed)
        first = self.client.process_index * DEVICES
        results = self.client.compile(module).execute_sharded(arguments[first : first + DEVICES])
        for result in results:
            [np.asarray(leaf) for leaf in (result if isinstance(result, tuple) else (result,))]

    def other_client(self) -> None:
        xla.Client("cpu", devices=DEVICES)

    def check(self, results: Sequence[Any], expected: Sequence[float]) -> None:
        for result, value in zip(results, expected, strict=True):
            found = np.asarray(result)
            assert np.allclose(found, value, rtol=1e-5), (found[:3], value)


def work(folder: str, seed: int, phase: str) -> None:
    """Works until the process group fails, after which a launch fails at once, too; a few steps in the phase "end".

    folder: of files that tell that the process has come so far.
    """
    index = xla.distributed.process_index()
    maps = Path("/proc/self/maps").read_text().splitlines()
    shared = {line.split()[5] for line in maps if "/dev/shm/" in line and "(deleted)" not in line}
    Path(folder, f"shared-{index}").write_text("\n".join(shared))
    process = Process(seed)
    steps = 3 if phase == "end" else 10**9
    try:
        for step in range(steps):
            process.step()
            if step == 0:
                Path(folder, f"started-{index}").touch()
    except xla.XlaError:
        Path(folder, f"failed-{index}").touch()
        raise
    Path(folder, f"ended-{index}").touch()


def main(folder: str, seed: str, phase: str) -> None:
    Path(folder, f"process-{os.environ['OMPI_COMM_WORLD_RANK']}").write_text(str(os.getpid()))
    xla.distributed.initialize(timeout=30)
    work(folder, int(seed), phase)


if __name__ == "__main__":
    main(*sys.argv[1:])
