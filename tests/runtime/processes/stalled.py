"""Processes of a test in which some do not do what others wait for. Each prints the error that it gets.

mpirun -n 3 python tests/runtime/processes/stalled.py stalls|awaits|differs|fails|leaves PLATFORM

awaits: as stalls, with an asynchronous collective.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.base import flags
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.errors import XlaError
from xlapy.runtime.backend import load_backend
from xlapy.runtime.collectives.process_group import current_process_group
from xlapy.runtime.device import Device

TEXT = """HloModule awaited, replica_count=3
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[2] parameter(0) ROOT total = f32[2] all-reduce(x), to_apply=sum, replica_groups={} }"""
AWAITING = TEXT.replace(
    "ROOT total = f32[2] all-reduce(x), to_apply=sum, replica_groups={}",
    "s = f32[2] all-reduce-start(x), to_apply=sum, replica_groups={}\n ROOT total = f32[2] all-reduce-done(s)",
)
OTHER = TEXT.replace("awaited", "other").replace("add(", "multiply(")
FAILING = """HloModule failing, replica_count=3
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[2] parameter(0) i = (f32[2], token[]) infeed(t), t = token[] after-all()
  y = f32[2] get-tuple-element(i), index=0
  ROOT total = f32[2] all-reduce(y), to_apply=sum, replica_groups={} }""".replace(
    "i = (f32[2], token[]) infeed(t), t = token[] after-all()",
    "t = token[] after-all() i = (f32[2], token[]) infeed(t)",
)


def main(kind: str, platform: str) -> None:
    xla.distributed.initialize()
    group = current_process_group()
    assert group is not None
    last = group.process_count - 1
    is_last = group.process_index == last
    if kind == "fails" and not is_last:  # what the last process waits for ends first
        os.environ["XLAPY_FLAGS"] = "--collective_timeout=30"
        flags.current.cache_clear()
    topology = ProcessTopology(group.process_index, tuple(range(last + 1)))
    text = {"fails": FAILING, "awaits": AWAITING}.get(kind, OTHER if kind == "differs" and is_last else TEXT)
    program: Any = load_backend(platform).compile(xla.parse_hlo(text), last + 1, 1, topology=topology)
    program.connect(group, range(last + 1))
    device = Device(group.process_index, platform)
    if hasattr(program, "bind"):
        program.bind([device])
    group.barrier(what="the start")
    begin = time.monotonic()
    try:
        if kind == "leaves" and is_last:
            return
        if kind in ("stalls", "awaits") and is_last:
            time.sleep(float(sys.argv[3]))
        else:
            if kind == "fails" and not is_last:
                device.transfer_to_infeed(np.zeros(2, np.float32))
            rows = [[np.ones(2, np.float32)]]
            call = program.sharded_fast_path or (lambda given: program.execute_sharded(given, [device]))
            print(f"process {group.process_index}: {np.asarray(call(rows)[0])}", flush=True)
    except XlaError as error:
        seconds = time.monotonic() - begin
        print(f"process {group.process_index} after {seconds:.1f} s: {type(error).__name__}: {error}", flush=True)
    try:
        print(f"process {group.process_index}: {np.asarray(call(rows)[0])}", flush=True)
    except XlaError as error:
        print(f"process {group.process_index} again: {error}", flush=True)
    except UnboundLocalError:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:3])
