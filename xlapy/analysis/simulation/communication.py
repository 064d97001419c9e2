"""The collectives of a module: which devices take part, how many bytes they exchange, and how long that takes.

Responsible for reading groups, pairs and sizes off instructions. Does not depend on when they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost import array_bytes
from xlapy.analysis.simulation.collective_time import CollectiveKind, group_seconds, permute_seconds
from xlapy.analysis.simulation.outcome import CollectiveUse
from xlapy.analysis.simulation.topology import Topology
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.shape import Ints
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.interpreter.transfer import source_target_pairs, transfer_group_mode
from xlapy.opcodes.attributes.replica_groups import GroupMode, participants
from xlapy.opcodes.collectives import CollectivePermuteAttributes, GroupedAttributes, group_mode_of

KINDS: Final = {
    opcodes.ALL_REDUCE: CollectiveKind.ALL_REDUCE,
    opcodes.ALL_REDUCE_START: CollectiveKind.ALL_REDUCE,
    opcodes.ALL_GATHER: CollectiveKind.ALL_GATHER,
    opcodes.ALL_GATHER_START: CollectiveKind.ALL_GATHER,
    opcodes.REDUCE_SCATTER: CollectiveKind.REDUCE_SCATTER,
    opcodes.ALL_TO_ALL: CollectiveKind.ALL_TO_ALL,
    opcodes.RAGGED_ALL_TO_ALL: CollectiveKind.ALL_TO_ALL,
    opcodes.COLLECTIVE_PERMUTE: CollectiveKind.PERMUTE,
    opcodes.COLLECTIVE_PERMUTE_START: CollectiveKind.PERMUTE,
    opcodes.COLLECTIVE_BROADCAST: CollectiveKind.BROADCAST,
    opcodes.COLLECTIVE_REDUCE: CollectiveKind.REDUCE,
    opcodes.RECV: CollectiveKind.PERMUTE,
}
"""The operations that exchange data. A receive stands for its send, too."""

STARTS: Final = frozenset({
    opcodes.ALL_REDUCE_START, opcodes.ALL_GATHER_START, opcodes.COLLECTIVE_PERMUTE_START, opcodes.ASYNC_START,
    opcodes.RECV,
})  # fmt: skip
DONES: Final = frozenset({
    opcodes.ALL_REDUCE_DONE, opcodes.ALL_GATHER_DONE, opcodes.COLLECTIVE_PERMUTE_DONE, opcodes.ASYNC_DONE,
    opcodes.RECV_DONE,
})  # fmt: skip
HALVES: Final = frozenset({opcodes.SEND, opcodes.SEND_DONE, opcodes.ASYNC_UPDATE})
"""Operations whose time is that of a receive or of the start of their chain."""


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """The numbers of replicas and partitions. Device r * partitions + p is partition p of replica r."""

    replicas: int
    partitions: int

    @property
    def devices(self) -> int:
        return self.replicas * self.partitions


def device_counts(module: Module, devices: int | None) -> DeviceCounts:
    """Returns the numbers of replicas and partitions that the module and its collectives name.

    If neither names any: `devices` replicas of a program with collectives among replicas, else partitions.
    `InvalidArgumentError` if `devices` is another number than the module names.
    """
    replicas, partitions = max(1, module.config.replica_count), max(1, module.config.num_partitions)
    flattened, modes = 0, set[GroupMode | None]()
    for instruction in module.instructions():
        mode, count = _named_devices(instruction)
        modes.add(mode)
        if mode is GroupMode.CROSS_PARTITION:
            partitions = max(partitions, count)
        elif mode is GroupMode.FLATTENED_ID:
            flattened = max(flattened, count)
        elif mode is not None:
            replicas = max(replicas, count)
    partitions = max(partitions, -(-flattened // replicas))
    found = DeviceCounts(replicas, partitions)
    if devices is None or devices == found.devices:
        return found
    if found.devices == 1:
        is_replicated = GroupMode.CROSS_REPLICA in modes
        return DeviceCounts(devices, 1) if is_replicated else DeviceCounts(1, devices)
    raise InvalidArgumentError(
        codes.DEVICE_COUNT,
        f"module {module.name} is partitioned for {found.devices} devices (replicas: {replicas}, partitions: "
        f"{partitions}), {devices} are to be simulated",
    )


def _named_devices(instruction: Instruction) -> tuple[GroupMode | None, int]:
    """Returns what the ids of a collective number, and the smallest number of them that has every id."""
    attributes = instruction.attributes
    if instruction.op is opcodes.RECV or isinstance(attributes, CollectivePermuteAttributes):
        pairs, mode = _pairs(instruction)
        return mode, max((max(pair) for pair in pairs), default=-1) + 1
    if isinstance(attributes, GroupedAttributes):
        groups = attributes.replica_groups
        return group_mode_of(attributes), sum(map(len, groups.groups))
    return None, 0


def _pairs(instruction: Instruction) -> tuple[Sequence[Ints], GroupMode]:
    """Returns the pairs of source and target of a permute or a receive, and what their ids number."""
    attributes = instruction.attributes
    if not isinstance(attributes, CollectivePermuteAttributes):
        return source_target_pairs(instruction) or (), transfer_group_mode(instruction)
    mode = GroupMode.CROSS_REPLICA if attributes.channel_id is None else GroupMode.CROSS_PARTITION
    return attributes.source_target_pairs, mode


class Communication:
    """The collectives of a module on a number of devices in a topology."""

    def __init__(self, counts: DeviceCounts, topology: Topology) -> None:
        self._counts = counts
        self._topology = topology
        self._rows: dict[tuple[object, GroupMode], list[tuple[int, ...]]] = {}
        self._known: dict[Instruction, tuple[float, CollectiveUse]] = {}

    def find(self, instruction: Instruction) -> Instruction | None:
        """Returns the collective that an instruction is or starts; None for others."""
        if instruction.op in KINDS:
            return instruction
        if instruction.op is opcodes.ASYNC_START:
            return next((one for one in instruction.computations[0] if one.op in KINDS), None)
        return None

    def seconds(self, collective: Instruction) -> float:
        """Returns how long a collective takes if nothing else uses the links."""
        return self._of(collective)[0]

    def use(self, collective: Instruction) -> CollectiveUse:
        return self._of(collective)[1]

    def _of(self, collective: Instruction) -> tuple[float, CollectiveUse]:
        found = self._known.get(collective)
        if found is None:
            found = self._known[collective] = self._measure(collective)
        return found

    def _measure(self, collective: Instruction) -> tuple[float, CollectiveUse]:
        kind, size = KINDS[collective.op], _payload(collective)
        attributes = collective.attributes
        if collective.op is opcodes.RECV or isinstance(attributes, CollectivePermuteAttributes):
            pairs = list(self._device_pairs(collective))
            return permute_seconds(size, pairs, self._topology), CollectiveUse(f"{len(pairs)} pairs", size)
        rows = self._groups(collective, collective.attributes_as(GroupedAttributes))
        # Groups that are spread in the same way over the levels take equally long.
        spreads = {tuple(self._topology.fan_outs(row)): row for row in rows}
        seconds = max((group_seconds(kind, size, row, self._topology) for row in spreads.values()), default=0.0)
        sizes = Counter(map(len, rows))
        text = ", ".join(f"{count} x {members}" for members, count in sorted(sizes.items()))
        return seconds, CollectiveUse(text, size)

    def _groups(self, collective: Instruction, attributes: GroupedAttributes) -> list[tuple[int, ...]]:
        """Returns all groups of a collective, as devices."""
        mode = group_mode_of(attributes)
        key = (attributes.replica_groups, mode)
        found = self._rows.get(key)
        if found is None:
            try:
                found = self._rows[key] = list(self._all_groups(attributes, mode))
            except ShapeError as error:
                message = f"{describe_instruction(collective)}: {error.message}"
                raise InvalidArgumentError(error.code, message) from error
        return found

    def _all_groups(self, attributes: GroupedAttributes, mode: GroupMode) -> Iterator[tuple[int, ...]]:
        replicas, partitions = self._counts.replicas, self._counts.partitions
        seen: set[int] = set()
        for device in range(self._counts.devices):
            if device in seen:
                continue
            row = participants(attributes.replica_groups, mode, replicas, partitions, device)
            seen.update(row)
            if row:
                yield row

    def _device_pairs(self, collective: Instruction) -> Iterator[tuple[int, int]]:
        replicas, partitions = self._counts.replicas, self._counts.partitions
        pairs, mode = _pairs(collective)
        for source, target in pairs:
            if mode is GroupMode.CROSS_REPLICA:
                yield from ((source * partitions + p, target * partitions + p) for p in range(partitions))
            else:
                yield from ((r * partitions + source, r * partitions + target) for r in range(replicas))


def _payload(collective: Instruction) -> int:
    """Returns the bytes of the largest array of one device: all operands, or all results."""
    operands = collective.operands[:1] if collective.op is opcodes.RAGGED_ALL_TO_ALL else collective.operands
    read = sum(array_bytes(operand.shape) for operand in operands)
    if collective.op is opcodes.RECV:
        return array_bytes(collective.shape.tuple_shapes[0])
    kind = KINDS[collective.op]
    if kind is CollectiveKind.ALL_GATHER:
        shape = collective.shape
        if collective.op is opcodes.ALL_GATHER_START:
            shape = shape.tuple_shapes[1]
        return max(read, array_bytes(shape))
    return read
