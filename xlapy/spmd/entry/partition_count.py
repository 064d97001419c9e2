"""Whether a module still has to be partitioned, and for how many partitions.

Responsible for what the shardings of a whole module say. Does not depend on how it is partitioned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from xlapy import opcodes
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.named_sharding import NamedForm
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.replica_groups import GroupMode
from xlapy.opcodes.collectives import CollectiveAttributes, group_mode_of
from xlapy.spmd.manual_regions import FULL_TO_SHARD, SHARD_TO_FULL

_CONVERSIONS = frozenset({FULL_TO_SHARD, SHARD_TO_FULL})
"""Targets of custom calls that only programs have which are not partitioned yet."""


def needs_partitioning(module: Module) -> bool:
    """Returns whether a module is written for all partitions together.

    Such a module has manual regions, or shardings that split values and no collectives among partitions. A scheduled
    module is partitioned: XLA keeps the shardings of its parameters.
    """
    if module.config.is_scheduled:
        return False
    is_split = has_collectives = False
    for instruction in module.instructions():
        if instruction.op is opcodes.CUSTOM_CALL and instruction.custom_call_target in _CONVERSIONS:
            return True
        has_collectives |= _is_among_partitions(instruction)
        is_split |= instruction.sharding is not None and not instruction.sharding.is_whole
    return is_split and not has_collectives


def _is_among_partitions(instruction: Instruction) -> bool:
    attributes = instruction.attributes
    if not isinstance(attributes, CollectiveAttributes):
        return False
    try:
        return group_mode_of(attributes) is not GroupMode.CROSS_REPLICA
    except ShapeError:
        return True  # attributes that contradict each other, which the verifier reports


def partition_count_of(module: Module, num_partitions: int | None = None) -> int:
    """Returns for how many partitions a module is to be partitioned: the given number, or that of the module's header,
    or, if neither says more than one, the number of devices of its shardings."""
    if num_partitions is not None or module.config.num_partitions > 1:
        return num_partitions or module.config.num_partitions
    return max([1, *[device_count_of(sharding) for _, sharding in _array_shardings(module)]])


def check_partition_count(module: Module, partitions: int) -> None:
    """`InvalidArgumentError` unless each sharding that splits values names every partition once, and no sharding names
    another device."""
    for instruction, sharding in _array_shardings(module):
        problem = _problem(sharding, partitions)
        if problem:
            raise InvalidArgumentError(
                codes.PARTITION_COUNT,
                f"{describe_instruction(instruction)} has sharding={sharding.to_text(metadata=False)}, {problem}: "
                f"{module.name} is to be partitioned for num_partitions={partitions}",
            )


def _problem(sharding: Sharding, partitions: int) -> str:
    """Returns how a sharding contradicts the number of partitions; "" if it does not."""
    device = _single_device_of(sharding)
    if device is not None:
        return "" if 0 <= device < partitions else f"which names device {device}"
    count, tiles = device_count_of(sharding), sharding.tiles
    if count not in (0, partitions):
        return f"which names {count} devices"
    largest = max(tiles.devices) if tiles is not None and isinstance(tiles.devices, tuple) else 0
    return f"which names device {largest}" if largest >= partitions else ""


def _array_shardings(module: Module) -> Iterator[tuple[Instruction, Sharding]]:
    """The shardings of arrays, with the instructions that have them."""
    for instruction in module.instructions():
        sharding = instruction.sharding
        if sharding is not None:
            for one in sharding.elements if sharding.kind is ShardingKind.TUPLE else (sharding,):
                yield instruction, one


def device_count_of(sharding: Sharding) -> int:
    """Returns the number of devices over which an array is distributed; 0 if its sharding does not say it."""
    if _single_device_of(sharding) is not None:
        return 0
    if sharding.named is not None:
        return math.prod(sharding.named.mesh.axis_sizes) if sharding.named.mesh.axis_names else 0
    return 0 if sharding.tiles is None else sharding.tiles.size


def _single_device_of(sharding: Sharding) -> int | None:
    """Returns the device of a sharding that names one only."""
    if sharding.named is not None:
        is_single = sharding.named.form is NamedForm.DEVICE
        return sharding.named.mesh.device_ids()[0] if is_single else None
    return sharding.device if sharding.kind is ShardingKind.MAXIMAL else None
