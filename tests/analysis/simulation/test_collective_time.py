"""Times of collectives, computed by hand: 100 bytes per second within nodes of 4 devices, 10 between nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.raising import raises
from xlapy.analysis.simulation.collective_time import CollectiveKind, group_seconds, permute_seconds
from xlapy.analysis.simulation.machine import Algorithm, Curve, DeviceRates, Level, Link, MachineDescription
from xlapy.analysis.simulation.topology import Topology, make_topology, with_topology
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError

RATES = DeviceRates({"default": Curve.constant(1.0)}, 1.0, 1.0, Curve.constant(1.0))
NODE = Level("node", 4, Link(1.0, Curve.constant(100.0)), Algorithm.RING)
RACK = Level("rack", 2, Link(5.0, Curve.constant(10.0)), Algorithm.RING)
MACHINE = MachineDescription("m", RATES, (NODE, RACK))


def _topology(devices: int, *levels: Level) -> Topology:
    return make_topology(replace(MACHINE, levels=levels or MACHINE.levels), devices)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        (CollectiveKind.ALL_REDUCE, 2 * 3 * (1 + 100 / 100)),  # 2 (n - 1) steps of B / n = 100 bytes
        (CollectiveKind.ALL_GATHER, 3 * (1 + 1)),
        (CollectiveKind.REDUCE_SCATTER, 3 * (1 + 1)),
        (CollectiveKind.ALL_TO_ALL, 3 * (1 + 1)),
        (CollectiveKind.BROADCAST, 2 * 1 + 4),  # a tree of 2 steps; 400 bytes
    ],
)
def test_a_ring_of_four(kind: CollectiveKind, seconds: float) -> None:
    assert group_seconds(kind, 400, range(4), _topology(4)) == pytest.approx(seconds)


def test_halving_takes_fewer_steps() -> None:
    node = replace(NODE, algorithm=Algorithm.HALVING)
    assert group_seconds(CollectiveKind.ALL_GATHER, 400, range(4), _topology(4, node)) == pytest.approx(2 + 3)
    # Three members: the third one sends everything to another first, and gets everything from it.
    assert group_seconds(CollectiveKind.ALL_REDUCE, 400, range(3), _topology(4, node)) == pytest.approx(
        2 * (1 + 200 / 100 + 1 + 400 / 100)
    )


def test_the_best_algorithm_is_the_faster_one() -> None:
    best, ring = replace(NODE, algorithm=Algorithm.BEST), NODE
    for members in (2, 3, 4):
        found = group_seconds(CollectiveKind.ALL_REDUCE, 400, range(members), _topology(4, best))
        assert found <= group_seconds(CollectiveKind.ALL_REDUCE, 400, range(members), _topology(4, ring))
    assert group_seconds(CollectiveKind.ALL_GATHER, 400, range(3), _topology(4, best)) == pytest.approx(
        2 * (1 + 400 / 3 / 100)
    )


def test_an_all_reduce_over_two_levels_exchanges_a_part_between_nodes() -> None:
    within = 2 * 3 * (1 + 1)
    between = 2 * 1 * (5 + 100 / 2 / 10)  # 100 of the 400 bytes, in rings of two
    assert group_seconds(CollectiveKind.ALL_REDUCE, 400, range(8), _topology(8)) == pytest.approx(within + between)


def test_a_group_with_one_member_in_each_node_uses_only_the_outer_links() -> None:
    seconds = group_seconds(CollectiveKind.ALL_REDUCE, 400, (1, 5), _topology(8))
    assert seconds == pytest.approx(2 * (5 + 200 / 10))


def test_an_all_to_all_sends_half_of_its_bytes_between_two_nodes() -> None:
    seconds = group_seconds(CollectiveKind.ALL_TO_ALL, 400, range(8), _topology(8))
    assert seconds == pytest.approx(3 * (1 + 50 / 100) + (5 + 200 / 10))


def test_a_group_of_one_takes_no_time() -> None:
    assert group_seconds(CollectiveKind.ALL_REDUCE, 400, (3,), _topology(8)) == 0


def test_the_slowest_pair_of_a_permute_decides() -> None:
    topology = _topology(8)
    assert permute_seconds(400, [(0, 1), (1, 0)], topology) == pytest.approx(1 + 4)
    assert permute_seconds(400, [(0, 1), (3, 4)], topology) == pytest.approx(5 + 40)
    assert permute_seconds(400, [(0, 0)], topology) == 0


def test_devices_of_a_process_share_its_memory() -> None:
    """Two groups of two among four devices: all four move their bytes at the same time."""
    process = replace(NODE, algorithm=Algorithm.SHARED_MEMORY)
    topology = _topology(4, process)
    assert group_seconds(CollectiveKind.ALL_REDUCE, 400, (0, 1), topology) == pytest.approx(4 * (1 + 4))
    assert permute_seconds(400, [(0, 1)], topology) == pytest.approx(4 * (1 + 4))


def test_a_kind_can_have_figures_of_its_own() -> None:
    node = replace(NODE, collectives={"all-gather": Link(0.0, Curve.constant(50.0))})
    assert group_seconds(CollectiveKind.ALL_GATHER, 400, range(4), _topology(4, node)) == pytest.approx(3 * 2)


def test_a_curve_changes_between_its_points() -> None:
    curve = Curve(((1024, 4.0), (4096, 2.0)))
    assert [curve.at(size) for size in (1, 1024, 4096, 1e9)] == [4, 4, 2, 2]
    assert curve.at(2048) == pytest.approx(1 / (0.5 / 4 + 0.5 / 2))


# -- topologies


def test_fan_outs_count_members_by_level() -> None:
    topology = _topology(8)
    assert topology.fan_outs((0, 1, 4, 5)) == [2, 2]
    assert topology.fan_outs((0, 4)) == [1, 2]
    assert [topology.level_between(0, device) for device in (0, 3, 4)] == [-1, 0, 1]
    assert topology.describe() == "2 nodes of 4 devices"


def test_a_level_without_bound_holds_all_devices() -> None:
    machine = replace(MACHINE, levels=(NODE, replace(RACK, size=0)))
    topology = make_topology(machine, 9)
    assert topology.unit_sizes == (4, 12) and topology.describe() == "3 nodes of 4 devices"


def test_too_many_devices_are_refused() -> None:
    with raises(InvalidArgumentError, codes.TOPOLOGY_SIZE, "8 devices", "node=4,rack=2", "9"):
        _topology(9)


def test_sizes_of_levels_are_read() -> None:
    assert [level.size for level in with_topology(MACHINE, "2x8").levels] == [2, 8]
    assert [level.size for level in with_topology(MACHINE, "rack=3").levels] == [4, 3]
    assert [level.size for level in with_topology(MACHINE, "16").levels] == [16, 2]


@pytest.mark.parametrize("text", ["", "8x", "8x4x2", "0x2", "cage=2", "node=-1", "8,4"])
def test_other_topologies_are_refused(text: str) -> None:
    with raises(InvalidArgumentError, codes.TOPOLOGY, repr(text), "node=4,rack=2"):
        with_topology(MACHINE, text)
