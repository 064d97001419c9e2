"""A process of a program that uses the client over 2 processes: prints `name: passed` for each check."""

from __future__ import annotations

import traceback

import numpy as np

import xlapy as xla
from xlapy.base.error_codes.execution.devices import PROCESS_CLIENTS

SUM = """HloModule m, num_partitions=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[3] parameter(0)
  s = f32[3] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  n = u32[] partition-id() ROOT t = (f32[3], u32[]) tuple(s, n) }
"""
PLATFORMS = ("cpu", "interpreter", "reference")

xla.distributed.initialize()
index = xla.distributed.process_index()


def rows(program: xla.Executable) -> list[list[np.ndarray]]:
    """The arguments of this process's devices: device n of the program has the number 10 ** n."""
    numbers = [n for n, device in enumerate(program.devices) if device.is_addressable]
    return [[np.full(3, 10.0**number, np.float32)] for number in numbers]


def plain(results: list) -> list:
    return [(np.array(array).tolist(), int(number)) for array, number in results]


def devices_of_all_processes() -> None:
    client = xla.Client("cpu", devices=2)
    assert (client.process_index, client.process_count, len(client.devices)) == (index, 2, 4)
    assert [device.id for device in client.addressable_devices] == [2 * index, 2 * index + 1]


def programs_of_all_platforms() -> None:
    for platform in PLATFORMS:
        program = xla.Client(platform, devices=2).compile(SUM)
        for _ in range(3):
            results = plain(program.execute_sharded(rows(program)))
            assert results == [([1111.0] * 3, 2 * index), ([1111.0] * 3, 2 * index + 1)], (platform, results)


def device_assignments() -> None:
    client = xla.Client("cpu", devices=2)
    program = client.compile(SUM, device_assignment=[3, 0, 2, 1])
    numbers = [[1, 3], [0, 2]][index]
    assert [device.id for device in program.addressable_devices] == [[0, 1], [3, 2]][index]
    assert plain(program.execute_sharded(rows(program))) == [([1111.0] * 3, number) for number in numbers]
    moved = client.place(program, [0, 1, 2, 3])
    assert plain(moved.execute_sharded(rows(moved))) == [([1111.0] * 3, 2 * index + local) for local in (0, 1)]
    assert plain(program.execute_sharded(rows(program))) == [([1111.0] * 3, number) for number in numbers]


def serialized_programs() -> None:
    client = xla.Client("cpu", devices=2)
    program = client.deserialize(client.compile(SUM).serialize())
    assert plain(program.execute_sharded(rows(program))) == [([1111.0] * 3, 2 * index + local) for local in (0, 1)]


def donated_buffers() -> None:
    client = xla.Client("cpu", devices=2)
    program = client.compile(SUM, donate=[0])
    buffers = [[client.device_put(row[0])] for row in rows(program)]
    results = plain(program.execute_sharded(buffers))
    assert [array for array, _ in results] == [[1111.0] * 3] * 2
    assert all(buffer.is_deleted for (buffer,) in buffers)


def programs_of_one_process() -> None:
    client = xla.Client("cpu", devices=2)
    negate = client.compile("ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }")
    assert float(negate(index + 1)) == -(index + 1)
    if index == 0:  # the other process does not take part
        alone = xla.Client("cpu", devices=4, single_process=True).compile(SUM)
        assert plain(alone.execute_sharded(rows(alone)))[3] == ([1111.0] * 3, 3)


def numbers_of_devices_differ() -> None:
    try:
        xla.Client("cpu", devices=1 + index)
    except xla.errors.InvalidArgumentError as error:
        assert error.code == PROCESS_CLIENTS and "process 0: 1 on cpu; process 1: 2 on cpu" in str(error)
    else:
        raise AssertionError("the clients differ")


CHECKS = (
    devices_of_all_processes,
    programs_of_all_platforms,
    device_assignments,
    serialized_programs,
    donated_buffers,
    programs_of_one_process,
    numbers_of_devices_differ,
)

for check in CHECKS:
    try:
        check()
    except Exception:
        print(f"{check.__name__}: failed in process {index}\n{traceback.format_exc()}", flush=True)
    else:
        if index == 0:
            print(f"{check.__name__}: passed", flush=True)
