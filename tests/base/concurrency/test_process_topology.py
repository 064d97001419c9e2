"""Which devices of a program belong to which process."""

from __future__ import annotations

from tests.raising import raises
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError


def test_local_devices_are_ordered_by_their_logical_number() -> None:
    topology = ProcessTopology(1, (0, 1, 2, 1))
    assert topology.local_devices == (1, 3)
    assert [topology.is_local(device) for device in range(4)] == [False, True, False, True]
    assert topology.processes == (0, 1, 2) and topology.device_count == 4


def test_remote_processes_of_a_group() -> None:
    topology = ProcessTopology(1, (0, 1, 2, 1))
    assert topology.remote_processes([1, 3]) == ()
    assert topology.remote_processes([0, 1, 2]) == (0, 2)


def test_a_topology_of_one_process_spans_no_processes() -> None:
    assert not ProcessTopology.single_process(4, 2).spans_processes
    assert ProcessTopology(0, (0, 1)).spans_processes
    assert ProcessTopology(2, (0, 0)).spans_processes, "this process only knows the program"


def test_topologies_need_devices_and_processes() -> None:
    with raises(InvalidArgumentError, codes.RUN_DEVICES, "process 0", "[]"):
        ProcessTopology(0, ())
    with raises(InvalidArgumentError, codes.RUN_DEVICES, "-1"):
        ProcessTopology(0, (0, -1))
