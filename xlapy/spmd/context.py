"""The state that the partitioners of all computations of one module share.

Responsible for the options of a partitioning, the interface of custom partitioners, and channel numbers. Does not
depend on how instructions are split.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding


@dataclass(frozen=True)
class CustomPartition:
    """How a custom call is partitioned.

    program: what each device runs; its parameters are the local arrays of the operands, and its result the local array
    of the result, or a tuple of them. operands, results: the shardings of the whole arrays.
    """

    program: Module
    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


CustomPartitioner: TypeAlias = Callable[
    [Instruction, Sequence[Sharding], Sequence[Sharding] | None], CustomPartition | None
]
"""Partitions a custom call, given the shardings of its operands and those that the program requests for its results,
None if it requests none. Returns None for a custom call that it does not partition."""


InspectSharding = Callable[[Instruction, Sharding], None]
"""Called with a custom call InspectSharding and the sharding that its operand has in the partitioned program."""


class PartitioningContext:
    """The options of a partitioning, and the channel numbers that no collective of the module has yet.

    devices: the number of devices. per_device_targets: targets of custom calls that each device runs on its own local
    operands. custom_partitioner: partitions custom calls of other targets.
    """

    def __init__(
        self,
        module: Module,
        devices: int,
        per_device_targets: frozenset[str],
        inspect: InspectSharding | None,
        custom_partitioner: CustomPartitioner | None = None,
    ) -> None:
        self.module = module
        self.devices = devices
        self.per_device_targets = per_device_targets
        self.inspect = inspect
        self.custom_partitioner = custom_partitioner
        self.channels = itertools.count(1)
        self._renumber_channels()

    def _renumber_channels(self) -> None:
        """Gives each collective its own channel: those that share one synchronize one after another, on the host."""
        for instruction in self.module.instructions():
            is_collective = instruction.op.family == "collectives"
            if is_collective and getattr(instruction.attributes, "channel_id", None) is not None:
                instruction.attributes = instruction.attributes.replace(channel_id=next(self.channels))
