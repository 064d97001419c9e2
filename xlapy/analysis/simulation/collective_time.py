"""The time of a collective by alpha-beta models: steps times a latency, and bytes over a bandwidth, for each level.

A collective over several levels runs level by level. An all-reduce of B bytes over nodes of 8 devices reduces and
scatters within each node, exchanges B / 8 bytes of each device between nodes, and gathers within each node.

Responsible for the formulas. Does not depend on instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import ceil, log2

from xlapy.analysis.simulation.machine import Algorithm, Level
from xlapy.analysis.simulation.topology import Topology


class CollectiveKind(Enum):
    """What a collective does; the values are names of XLA's opcodes."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    PERMUTE = "collective-permute"
    BROADCAST = "collective-broadcast"
    REDUCE = "collective-reduce"


_PASSES = {CollectiveKind.ALL_REDUCE: 2, CollectiveKind.ALL_GATHER: 1, CollectiveKind.REDUCE_SCATTER: 1}
"""How often each part of the whole array travels around a ring."""


def group_seconds(kind: CollectiveKind, size: float, group: Sequence[int], topology: Topology) -> float:
    """Returns the seconds of a collective within one group of devices.

    size: the bytes of the largest array of one device: the operand of an all-reduce, reduce-scatter or all-to-all, the
    result of an all-gather.
    """
    fan_outs = topology.fan_outs(group)
    total, inner = 0.0, 1
    if _is_shared(topology.levels[0]) and fan_outs[0] > 1:
        total += _shared_seconds(kind, size, topology)
        inner, fan_outs[0] = fan_outs[0], 1
    members = inner
    for fan_out in fan_outs:
        members *= fan_out
    for level, fan_out in zip(topology.levels, fan_outs, strict=True):
        if fan_out > 1:
            total += _level_seconds(kind, size, level, fan_out, inner, members)
            inner *= fan_out
    return total


def level_seconds(kind: CollectiveKind, size: float, level: Level, members: int) -> float:
    """Returns the seconds of a collective among members that are all units of one level; `size` as above."""
    return _level_seconds(kind, size, level, members, 1, members)


def permute_seconds(size: float, pairs: Sequence[tuple[int, int]], topology: Topology) -> float:
    """Returns the seconds until every device has sent `size` bytes to its target; the slowest pair decides."""
    crossed = {topology.level_between(source, target) for source, target in pairs} - {-1}
    seconds = 0.0
    for number in crossed:
        level = topology.levels[number]
        if _is_shared(level):
            seconds = max(seconds, _shared_seconds(CollectiveKind.PERMUTE, size, topology))
        else:
            link = level.link_of(CollectiveKind.PERMUTE.value)
            seconds = max(seconds, link.latency + size / link.bandwidth.at(size))
    return seconds


def _is_shared(level: Level) -> bool:
    return level.algorithm is Algorithm.SHARED_MEMORY


def _shared_seconds(kind: CollectiveKind, size: float, topology: Topology) -> float:
    """All devices of the unit take part, in one group or in several at the same time, and share the bandwidth."""
    link, devices = topology.levels[0].link_of(kind.value), topology.innermost_devices
    return devices * (link.latency + size / link.bandwidth.at(devices * size))


def _level_seconds(kind: CollectiveKind, size: float, level: Level, fan_out: int, inner: int, members: int) -> float:
    """inner: the members in a unit of the level below, which the levels below have reduced or will gather."""
    link = level.link_of(kind.value)
    bandwidth = link.bandwidth.at(size)
    passes = _PASSES.get(kind)
    if passes is not None:
        return passes * _pass_seconds(size / inner, level.algorithm, fan_out, link.latency, bandwidth)
    if kind is CollectiveKind.ALL_TO_ALL:
        return (fan_out - 1) * (link.latency + inner / members * size / bandwidth)
    # A tree, through which a large array passes in pieces.
    return ceil(log2(fan_out)) * link.latency + size / bandwidth


def _pass_seconds(size: float, algorithm: Algorithm, members: int, latency: float, bandwidth: float) -> float:
    """Returns the seconds of an all-gather or a reduce-scatter of `size` bytes.

    Halving needs a power of two; with other numbers, the members beyond it first send all to one of the others.
    """
    ring = (members - 1) * (latency + size / members / bandwidth)
    power = 1 << members.bit_length() - 1
    halving = log2(power) * latency + (power - 1) / power * size / bandwidth
    if power < members:
        halving += latency + size / bandwidth
    if algorithm is Algorithm.BEST:
        return min(ring, halving)
    return ring if algorithm is Algorithm.RING else halving
