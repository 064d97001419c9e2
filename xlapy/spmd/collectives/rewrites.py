"""Rewrites single collectives into ones that send less.

- An all-reduce of which each device uses only its own part becomes a reduce-scatter, as XLA's ReduceScatterCreator
  does. The partitioner writes no such pair, but programs that are written by hand for each device do.
- A collective that moves data and whose result is converted to fewer bits moves the converted data.

Responsible for finding such pairs and for replacing them. Does not depend on what wrote them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.replica_groups import GroupMode, participants
from xlapy.opcodes.collectives import AllReduceAttributes, ReduceScatterAttributes, group_mode_of
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.passes.rewrite import Writer, remove_if_dead, remove_replaced
from xlapy.spmd.partial_sums import reducer_op

MAX_EVALUATED_DEVICES: Final = 1 << 14
"""The largest number of devices for which start indices are evaluated, each device by itself."""

_MOVEMENT: Final = frozenset({opcodes.ALL_GATHER, opcodes.ALL_TO_ALL, opcodes.COLLECTIVE_PERMUTE})


def rewrite_collectives(computation: Computation, devices: int) -> None:
    """Rewrites the collectives of a computation, a part of the program that each of some partitions runs."""
    for instruction in post_order(computation):
        if instruction.parent is None:
            continue
        if instruction.op is opcodes.DYNAMIC_SLICE and devices <= MAX_EVALUATED_DEVICES:
            _scatter_sum(instruction, devices)
        elif instruction.op is opcodes.CONVERT:
            _convert_first(instruction)


def _convert_first(convert: Instruction) -> None:
    """Converts the operand of a collective that only moves data, if the result has fewer bits."""
    (moved,) = convert.operands
    if moved.op not in _MOVEMENT or len(moved.operands) != 1 or moved.has_control_edges or len(moved.users) > 1:
        return
    if moved.is_root or convert.shape.element_type.bits >= moved.shape.element_type.bits:
        return
    write = Writer(convert)
    narrow = write.convert(moved.operands[0], convert.shape.element_type)
    result = write.add(moved.op, narrow, attributes=moved.attributes, shape=convert.shape)
    edit.replace_uses(convert, result)
    edit.remove(convert)
    remove_replaced(moved)


# -- all-reduce and dynamic-slice


def _scatter_sum(part: Instruction, devices: int) -> None:
    """Replaces an all-reduce and a slice of each device's own part by a reduce-scatter."""
    total = part.operands[0]
    if total.op is not opcodes.ALL_REDUCE or len(total.operands) != 1 or total.has_control_edges:
        return
    if len(total.users) > 1 or total.is_root or reducer_op(total) is None:
        return
    attributes = total.attributes_as(AllReduceAttributes)
    dimension = _split_dimension(part)
    if dimension is None or group_mode_of(attributes) is not GroupMode.FLATTENED_ID:
        return
    if not _is_own_part(part, dimension, devices):
        return
    write = Writer(part)
    scattered = ReduceScatterAttributes.make(
        channel_id=attributes.channel_id, replica_groups=attributes.replica_groups, scatter_dimension=dimension,
        use_global_device_ids=True,
    )  # fmt: skip
    result = write.add(
        opcodes.REDUCE_SCATTER, total.operands[0], attributes=scattered, computations=total.computations,
        shape=part.shape,
    )  # fmt: skip
    starts = part.operands[1:]
    edit.replace_uses(part, result)
    edit.remove(part)
    for start in dict.fromkeys(starts):
        remove_if_dead(start)
    remove_replaced(total)


def _split_dimension(part: Instruction) -> int | None:
    """Returns the only dimension of which a dynamic-slice takes a part."""
    pairs = zip(part.operands[0].shape.dimensions, part.shape.dimensions, strict=True)
    split = [dimension for dimension, (whole, taken) in enumerate(pairs) if whole != taken]
    return split[0] if len(split) == 1 and not part.operands[-1].shape.rank else None


def _is_own_part(part: Instruction, dimension: int, devices: int) -> bool:
    """Returns whether the k-th member of each group of the all-reduce takes the k-th part."""
    total, size = part.operands[0], part.shape.dimensions[dimension]
    attributes = total.attributes_as(AllReduceAttributes)
    starts = _on_each_device(part.operands[1 + dimension], devices)
    if starts is None:
        return False
    limit = total.shape.dimensions[dimension] - size
    for device in range(devices):
        group = participants(attributes.replica_groups, GroupMode.FLATTENED_ID, 1, devices, device)
        if device not in group or len(group) * size != total.shape.dimensions[dimension]:
            return False
        if min(max(int(starts[device]), 0), limit) != group.index(device) * size:
            return False
    return True


def _on_each_device(scalar: Instruction, devices: int) -> Any:
    """Returns the value of an integer scalar on each device, as an array; None if it depends on more than the device.

    Values are computed in 64 bits: a scalar that overflows its type is not one of a device's part.
    """
    op, operands = scalar.op, scalar.operands
    if op is opcodes.PARTITION_ID:
        return np.arange(devices)
    if op is opcodes.CONSTANT and scalar.shape.rank == 0 and scalar.shape.element_type.is_integral:
        return np.full(devices, int(scalar.literal.array))
    if op in (opcodes.CONVERT, opcodes.RESHAPE, opcodes.COPY) and scalar.shape.element_type.is_integral:
        if operands[0].op is opcodes.DYNAMIC_SLICE:
            return _looked_up(operands[0], devices)
        return _on_each_device(operands[0], devices)
    if op is opcodes.SELECT and operands[0].op is opcodes.COMPARE:
        return _selected(scalar, devices)
    if op not in _ARITHMETIC:
        return None
    left, right = (_on_each_device(operand, devices) for operand in operands)
    if left is None or right is None or (op in _DIVISIONS and ((right <= 0) | (left < 0)).any()):
        return None
    return _ARITHMETIC[op](left, right)


def _selected(select: Instruction, devices: int) -> Any:
    """Returns the values of a select by a comparison, such as one that makes indices from the end positive."""
    test, *values = select.operands
    compared = [_on_each_device(operand, devices) for operand in (*test.operands, *values)]
    if any(one is None for one in compared):
        return None
    left, right, on_true, on_false = compared
    return np.where(_COMPARISONS[test.attributes_as(CompareAttributes).direction](left, right), on_true, on_false)


def _looked_up(row: Instruction, devices: int) -> Any:
    """Returns the elements that devices look up in a constant table of one dimension; None for other slices."""
    table = row.operands[0]
    if table.op is not opcodes.CONSTANT or table.shape.rank != 1 or row.shape.dimensions != (1,):
        return None
    if not table.shape.element_type.is_integral:
        return None
    index = _on_each_device(row.operands[1], devices)
    return (
        None
        if index is None
        else table.literal.array.astype(np.int64)[np.clip(index, 0, table.shape.dimensions[0] - 1)]
    )


_COMPARISONS: Final = {
    ComparisonDirection.EQ: np.equal, ComparisonDirection.NE: np.not_equal, ComparisonDirection.LT: np.less,
    ComparisonDirection.LE: np.less_equal, ComparisonDirection.GT: np.greater, ComparisonDirection.GE: np.greater_equal,
}  # fmt: skip
_DIVISIONS: Final = frozenset({opcodes.DIVIDE, opcodes.REMAINDER})
_ARITHMETIC: Final = {
    opcodes.ADD: np.add, opcodes.SUBTRACT: np.subtract, opcodes.MULTIPLY: np.multiply,
    opcodes.DIVIDE: np.floor_divide, opcodes.REMAINDER: np.remainder,
}  # fmt: skip
