"""Export rules of collectives, with their replica groups and channels.

A pair of start and done instructions becomes one operation.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.replica_groups import GroupMode, group_mode
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllToAllAttributes,
    CollectiveAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    ReduceScatterAttributes,
    has_dynamic_root,
)
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer, integers, matrix
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.types import types_of
from xlapy.stablehlo.export.core.value_tree import ValueTree, unflatten

_DEVICE_TO_DEVICE = 1


def _group_attributes(instruction: Instruction) -> dict[str, Any]:
    """Returns the attributes for the replica groups, the channel and the use of global device ids."""
    rows = [list(row) for row in instruction.attributes_as(GroupedAttributes).replica_groups.groups]
    attributes: dict[str, Any] = {"replica_groups": matrix(rows, width=0), **_channel(instruction)}
    if getattr(instruction.attributes, "use_global_device_ids", False):
        attributes["use_global_device_ids"] = ir.Unit()
    return attributes


def _channel(instruction: Instruction) -> dict[str, Any]:
    channel_id = instruction.attributes_as(CollectiveAttributes).channel_id
    if channel_id is None:
        return {}
    fields = {"handle": channel_id, "type": _DEVICE_TO_DEVICE}
    return {"channel_handle": ir.StructAttribute("stablehlo.channel_handle", fields)}


def _result_shape(instruction: Instruction) -> Shape:
    """Returns the shape of the collective's result. The shape of some start instructions has the operands before it."""
    with_operands = {opcodes.ALL_GATHER_START, opcodes.COLLECTIVE_PERMUTE_START}
    return instruction.shape.tuple_shapes[1] if instruction.op in with_operands else instruction.shape


def _emit(builder: BlockBuilder, name: str, instruction: Instruction, attributes: dict[str, Any]) -> ValueTree:
    shape = _result_shape(instruction)
    regions = [builder.region(computation) for computation in instruction.computations]
    results = builder.emit(name, builder.operands(instruction), types_of(shape), attributes, regions)
    return unflatten(shape, results)


@RULES.rule(opcodes.ALL_GATHER, opcodes.ALL_GATHER_START)
def all_gather(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    attributes = {
        **_group_attributes(instruction),
        "all_gather_dim": integer(instruction.attributes_as(AllGatherAttributes).all_gather_dimension),
    }
    return _emit(builder, "stablehlo.all_gather", instruction, attributes)


@RULES.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
def all_reduce(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return _emit(builder, "stablehlo.all_reduce", instruction, _group_attributes(instruction))


@RULES.rule(opcodes.ALL_GATHER_DONE, opcodes.ALL_REDUCE_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def done(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.values[instruction.operands[0]]


@RULES.rule(opcodes.REDUCE_SCATTER)
def reduce_scatter(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    attributes = {
        **_group_attributes(instruction),
        "scatter_dimension": integer(instruction.attributes_as(ReduceScatterAttributes).scatter_dimension),
    }
    return _emit_per_operand(builder, "stablehlo.reduce_scatter", instruction, attributes)


def _emit_per_operand(
    builder: BlockBuilder, name: str, instruction: Instruction, attributes: dict[str, Any]
) -> ValueTree:
    """Emits one operation per operand, for collectives that take a single operand in StableHLO."""
    shape = _result_shape(instruction)
    results: list[ir.Value] = []
    for operand, type_ in zip(builder.operands(instruction), types_of(shape), strict=True):
        regions = [builder.region(computation) for computation in instruction.computations]
        results += builder.emit(name, [operand], [type_], attributes, regions)
    return unflatten(shape, results)


@RULES.rule(opcodes.COLLECTIVE_REDUCE)
def collective_reduce(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return _emit(
        builder, "stablehlo.collective_reduce", instruction, {**_group_attributes(instruction), **_root(instruction)}
    )


@RULES.rule(opcodes.COLLECTIVE_BROADCAST)
def collective_broadcast(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return _emit(
        builder, "stablehlo.collective_broadcast", instruction, {**_group_attributes(instruction), **_root(instruction)}
    )


def _root(instruction: Instruction) -> dict[str, Any]:
    return {"has_dynamic_root": ir.Unit()} if has_dynamic_root(instruction.attributes) else {}


@RULES.rule(opcodes.ALL_TO_ALL)
def all_to_all(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports an all-to-all along a dimension directly.

    The form of HLO that sends one operand to each replica becomes an all-to-all of the operands stacked in one array.
    """
    split = instruction.attributes_as(AllToAllAttributes).split_dimension
    rows = instruction.attributes_as(GroupedAttributes).replica_groups.groups or (
        tuple(range(_participant_count(builder, instruction))),
    )
    attributes = {
        **_group_attributes(instruction),
        "replica_groups": matrix(rows),
        "split_dimension": integer(split or 0),
        "concat_dimension": integer(split or 0),
        "split_count": integer(len(rows[0])),
    }
    if split is not None:
        return _emit(builder, "stablehlo.all_to_all", instruction, attributes)
    shape = instruction.operands[0].shape
    row = shape.without_layout().with_dimensions((1, *shape.dimensions))
    stacked_shape = row.with_dimensions((len(instruction.operands), *shape.dimensions))
    rows_to_send = [builder.emit_single("stablehlo.reshape", [value], row) for value in builder.operands(instruction)]
    stacked = builder.emit_single("stablehlo.concatenate", rows_to_send, stacked_shape, {"dimension": integer(0)})
    exchanged = builder.emit_single("stablehlo.all_to_all", [stacked], stacked_shape, attributes)
    results = [
        _emit_row(builder, exchanged, stacked_shape, row, shape, number) for number in range(len(instruction.operands))
    ]
    return unflatten(instruction.shape, results)


def _emit_row(
    builder: BlockBuilder, stacked: ir.Value, stacked_shape: Shape, row: Shape, shape: Shape, number: int
) -> ir.Value:
    attributes = {
        "start_indices": integers([number, *[0] * shape.rank]),
        "limit_indices": integers([number + 1, *shape.dimensions]),
        "strides": integers([1] * stacked_shape.rank),
    }
    return builder.emit_single(
        "stablehlo.reshape", [builder.emit_single("stablehlo.slice", [stacked], row, attributes)], shape
    )


def _participant_count(builder: BlockBuilder, instruction: Instruction) -> int:
    """Returns the number of participants of a collective without replica groups."""
    config = builder.context.module.config
    if group_mode(instruction.attributes_as(CollectiveAttributes).channel_id, None) is GroupMode.CROSS_PARTITION:
        return config.num_partitions
    return config.replica_count


@RULES.rule(opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START)
def collective_permute(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(CollectivePermuteAttributes)
    if given.slice_sizes:
        raise UnsupportedError(codes.EXPORTED_ATTRIBUTE, "StableHLO's collective_permute cannot send slices of arrays")
    attributes = {"source_target_pairs": matrix(given.source_target_pairs), **_channel(instruction)}
    return _emit_per_operand(builder, "stablehlo.collective_permute", instruction, attributes)


@RULES.rule(opcodes.REPLICA_ID, opcodes.PARTITION_ID)
def device_id(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for(f"stablehlo.{instruction.op.name.replace('-', '_')}", instruction)


RULES.refuse("it has no operation that exchanges slices of different sizes", opcodes.RAGGED_ALL_TO_ALL)
