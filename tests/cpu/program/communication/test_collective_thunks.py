"""Collectives on cpu: runs the interpreter's tests on native programs."""

import numpy as np

import xlapy as xla
from tests.cpu.platform_switch import on_cpu as on_cpu
from tests.interpreter.test_collectives import *  # noqa: F403


def test_a_group_of_many_devices_meets_without_the_host():
    count = 150
    text = """HloModule m
    add { a = s32[] parameter(0)
      b = s32[] parameter(1)
      ROOT c = s32[] add(a, b) }
    ENTRY e { x = s32[2] parameter(0)
      ROOT r = s32[2] all-reduce(x), replica_groups={}, to_apply=add }"""
    executable = xla.Client("cpu", devices=count).compile(text, num_replicas=count)
    assert [type(one).__name__ for one in executable.program.compiled.program.host_calling_thunks] == [
        "CollectiveThunk"
    ]
    results = executable.execute_sharded([[np.array([device, 1], np.int32)] for device in range(count)])
    assert {tuple(np.asarray(one).tolist()) for one in results} == {(sum(range(count)), count)}
