"""Clients of several processes: the devices of each, what the processes agree on, and where programs run.

One process stands for one of several here: the group answers for the others. Tests that start processes are in
`tests/runtime/collectives`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.execution import calls, devices
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime.collectives.process_group import ProcessGroup, set_process_group

NEGATE = "ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }"
IDS = "ENTRY e { ROOT i = u32[] partition-id() }"


class OneOfSeveral:
    """A group in which the other processes give what `others` returns for the value of this one."""

    def __init__(self, index: int, count: int, others: Callable[[Any], Any] = lambda value: value) -> None:
        self.process_index, self.process_count = index, count
        self._others = others

    def allgather(self, value: Any, *, what: str, timeout: float | None = None) -> list[Any]:
        return [value if i == self.process_index else self._others(value) for i in range(self.process_count)]


def join(index: int, count: int, others: Callable[[Any], Any] = lambda value: value) -> None:
    set_process_group(cast(ProcessGroup, OneOfSeveral(index, count, others)))


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    yield
    set_process_group(None)


def test_a_process_alone_has_all_devices():
    client = xla.Client("cpu", devices=3)
    assert (client.process_index, client.process_count) == (0, 1)
    assert client.addressable_devices == client.devices
    assert [(d.id, d.process_index, d.local_hardware_id) for d in client.devices] == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]


def test_devices_of_all_processes():
    join(1, 3)
    client = xla.Client("cpu", devices=2)
    assert (client.process_index, client.process_count) == (1, 3)
    assert [device.process_index for device in client.devices] == [0, 0, 1, 1, 2, 2]
    assert [device.local_hardware_id for device in client.devices] == [0, 1] * 3
    assert [device.id for device in client.devices] == list(range(6))
    assert [device.id for device in client.addressable_devices] == [2, 3]
    assert [device.is_addressable for device in client.devices] == [False] * 2 + [True] * 2 + [False] * 2
    assert repr(client.devices[4]) == "<Device 4 of cpu, in process 2>"


def test_a_client_of_one_process_of_several():
    join(1, 3)
    client = xla.Client("cpu", devices=2, single_process=True)
    assert client.process_count == 1 and len(client.devices) == 2 and client.devices[0].is_addressable


def test_numbers_of_devices_differ():
    join(0, 2, lambda value: (value[0], 4, value[2]))
    with raises(InvalidArgumentError, devices.PROCESS_CLIENTS, "process 0: 2 on cpu; process 1: 4 on cpu"):
        xla.Client("cpu", devices=2)


def test_platforms_differ():
    join(2, 3, lambda value: ("interpreter", *value[1:]))
    message = "processes 0 and 1: 1 on interpreter; process 2: 1 on cpu"
    with raises(InvalidArgumentError, devices.PROCESS_CLIENTS, message):
        xla.Client("cpu")


def test_clients_made_in_another_order():
    join(0, 2, lambda value: (*value[:2], value[2] + 1))
    message = "process 0: 1 on cpu; process 1: 1 on cpu (client 2)"
    with raises(InvalidArgumentError, devices.PROCESS_CLIENTS, message):
        xla.Client("cpu")


def test_programs_that_fit_run_on_devices_of_their_process():
    join(1, 2)
    client = xla.Client("cpu", devices=2)
    negate = client.compile(NEGATE)
    assert [device.id for device in negate.devices] == [2]
    assert np.array(negate(np.float32([1, -2]))).tolist() == [-1, 2]
    ids = client.compile(IDS, num_partitions=2, device_assignment=[3, 2])
    assert [device.id for device in ids.devices] == [3, 2]
    assert [int(one) for one in ids.execute_sharded([[], []])] == [0, 1]
    loaded = client.deserialize(ids.serialize())
    assert [device.id for device in loaded.addressable_devices] == [2, 3]


def test_a_program_on_devices_of_another_process():
    join(1, 2)
    client = xla.Client("cpu", devices=2)
    ids = client.compile(IDS, num_partitions=2, device_assignment=[0, 1])
    assert ids.addressable_devices == ()
    assert ids.execute_sharded([]) == []
    with raises(InvalidArgumentError, calls.DEVICE_ARGUMENTS, "0 devices of this process (2 of all processes)"):
        ids.execute_sharded([[], []])
    negate = client.compile(NEGATE, device_assignment=[1])
    with raises(InvalidArgumentError, devices.ADDRESSABLE_DEVICE, "runs on device 1 of process 0"):
        negate(np.float32([1, 2]))


@pytest.mark.parametrize("assignment", [[0], [0, 0], [0, 4], [-1, 0]])
def test_device_assignments_that_name_no_devices(assignment: list[int]):
    client = xla.Client("cpu", devices=4)
    with raises(InvalidArgumentError, devices.DEVICE_NUMBER, "2 different ids", f"given {assignment}"):
        client.compile(IDS, num_partitions=2, device_assignment=assignment)


def test_programs_need_no_more_devices_than_all_processes_have():
    join(0, 2)
    with raises(InvalidArgumentError, devices.RUN_DEVICES, "runs on 5 devices", "4 in 2 processes", "devices=3"):
        xla.Client("cpu", devices=2).compile(IDS, num_partitions=5)


def test_values_are_exchanged_with_devices_of_this_process():
    join(0, 2)
    device = xla.Client("cpu").devices[1]
    for exchange in (
        lambda: device.transfer_to_infeed(1),
        lambda: device.transfer_from_outfeed(timeout=0),
        lambda: device.transfer_to_channel(1, 1),
        lambda: device.transfer_from_channel(1, timeout=0),
    ):
        with raises(InvalidArgumentError, devices.ADDRESSABLE_DEVICE, "device 1 belongs to process 1"):
            exchange()


def test_the_number_of_rows():
    program = xla.Client("cpu", devices=2).compile(IDS, num_partitions=2)
    with raises(InvalidArgumentError, calls.DEVICE_ARGUMENTS, "runs on 2 devices, given arguments for 1"):
        program.execute_sharded([[]])
