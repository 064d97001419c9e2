"""What a program takes is freed after its last use."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import xlapy as xla
from xlapy.runtime.engine import calls, device_programs

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
REPLICA = "i = u32[] replica-id() f = f32[] convert(i) b = f32[300] broadcast(f), dimensions={}"


@pytest.mark.parametrize("devices", [1, 2])
def test_a_program_that_has_run_is_freed(devices: int) -> None:
    text = f"""HloModule m, replica_count={devices}
        {ADD} ENTRY e {{ p = f32[300] parameter(0) {REPLICA} s = f32[300] add(p, b)
          ROOT r = f32[300] all-reduce(s), replica_groups={{}}, to_apply=add }}"""
    executable = xla.Client("cpu", devices=devices).compile(text)
    results = executable.execute_sharded([[np.ones(300, np.float32)]] * devices)
    assert [float(np.asarray(result)[0]) for result in results] == [devices + sum(range(devices))] * devices
    program = weakref.ref(executable.program)
    gc.collect()
    calls.free_retired()
    before = len(device_programs._runnable)
    del executable, results
    gc.collect()
    assert program() is None
    calls.free_retired()
    assert len(device_programs._runnable) == before - 1
