"""A process of a test: starts exchanges that the other process joins only after what this one does during them.

    mpirun -n 2 python tests/runtime/processes/overlapping.py FOLDER KIND...

The devices of process 1 wait before their starts until a device of process 0 has called the host between its start and
its done. If a start waited for the other process, both would wait for ever. Prints the sum of the results of each kind.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import xlapy as xla

SECONDS = 30
"""How long process 1 waits before it fails."""

SMALL, LARGE = 12, 400_000
"""Numbers of elements: operands that are copied to staging memory, and operands that are read in place."""

PAIRS = "{{0,2},{2,0},{1,3},{3,1}}"
CALLED = {
    "reduce-scatter": "reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum",
    "all-to-all": "all-to-all(x), replica_groups={}, dimensions={0}",
    "collective-broadcast": "collective-broadcast(x), replica_groups={{2,0,1,3}}",
}
"""Collectives that an async-start calls."""


def exchange(kind: str, size: int) -> str:
    """The instructions from the operand `g` to the result `d`, and what they need before the entry, by KIND."""
    operand, one = f"f32[{size}]", f"f32[{size // 4}]"
    if kind == "all-reduce":
        return (
            f"s = {operand} all-reduce-start(g), replica_groups={{}}, to_apply=sum\n d = {operand} all-reduce-done(s)"
        )
    if kind == "all-gather":
        whole = f"f32[{4 * size}]"
        start = f"s = ({operand}, {whole}) all-gather-start(g), replica_groups={{}}, dimensions={{0}}"
        return f"{start}\n d = {whole} all-gather-done(s)"
    if kind == "collective-permute":
        start = f"s = ({operand}, {operand}) collective-permute-start(g), source_target_pairs={PAIRS}"
        return f"{start}\n d = {operand} collective-permute-done(s)"
    if kind == "transfer":
        pairs = f'frontend_attributes={{_xla_send_recv_source_target_pairs="{PAIRS}"}}'
        state = f"({operand}, u32[], token[])"
        return f"""k = token[] after-all()
 s = {state} send(g, k), {pairs}
 v = {state} recv(k), {pairs}
 e = token[] send-done(s)
 w = ({operand}, token[]) recv-done(v)
 d = {operand} get-tuple-element(w), index=0"""
    result = one if kind == "reduce-scatter" else operand
    return f"s = (({operand}), {result}) async-start(g), calls=called\n d = {result} async-done(s)"


def program(kind: str, size: int) -> str:
    """A program of four devices that calls the host before and after the start of an exchange."""
    operand = f"f32[{size}]"
    called = f"called {{ x = {operand} parameter(0)\n ROOT r = {operand} {CALLED[kind]} }}" if kind in CALLED else ""
    if kind == "reduce-scatter":
        called = called.replace(f"ROOT r = {operand}", f"ROOT r = f32[{size // 4}]")
    lines = exchange(kind, size)
    result = lines.rsplit(" d = ", 1)[1].split(" ")[0]
    return f"""HloModule overlapping, replica_count=4
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
{called}
ENTRY e {{ p = {operand} parameter(0)
 g = {operand} custom-call(p), custom_call_target="before", custom_call_has_side_effect=true
 c = {operand} custom-call(p), custom_call_target="during", custom_call_has_side_effect=true
 {lines}
 ROOT t = ({result}, {operand}) tuple(d, c) }}"""


def main(folder: Path, kinds: list[str]) -> None:
    xla.distributed.initialize()
    index = xla.distributed.process_index()
    client = xla.Client("cpu", devices=2)
    event = [folder / "none"]

    def before(x: np.ndarray) -> np.ndarray:
        deadline = time.monotonic() + SECONDS
        while index == 1 and not event[0].exists():
            if time.monotonic() > deadline:
                raise TimeoutError("process 0 has not reached what follows its start")
            time.sleep(0.001)
        return x

    def during(x: np.ndarray) -> np.ndarray:
        if index == 0:
            event[0].touch()
        return x

    xla.register_custom_call_target("before", before)
    xla.register_custom_call_target("during", during)
    for kind in kinds:
        for size in (SMALL, LARGE):
            event[0] = folder / f"{kind}-{size}"
            executable = client.compile(program(kind, size))
            rows = [[np.full(size, 10.0 ** (2 * index + local), np.float32)] for local in range(2)]
            totals = [float(np.asarray(result[0]).max()) for result in executable.execute_sharded(rows)]
            print(f"process {index}: {kind} of {size}: {totals}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
