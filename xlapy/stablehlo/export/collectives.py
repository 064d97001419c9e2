"""Export rules: what devices do together.

Owns: collectives, their replica groups and channels; pairs of start and done, which are one operation. Must not know:
who meets whom.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.replica_groups import GroupMode, group_mode
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer, integers, table
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope, structured
from xlapy.stablehlo.export.core.types import types_of

_DEVICE_TO_DEVICE = 1


def _grouped(instruction: Instruction) -> dict[str, Any]:
    """Groups as rows, none for all replicas; the channel, and whether ids are those of devices."""
    rows = [list(row) for row in instruction.replica_groups.groups]
    found: dict[str, Any] = {"replica_groups": table(rows, width=0), **_channel(instruction)}
    if getattr(instruction.attributes, "use_global_device_ids", False):
        found["use_global_device_ids"] = ir.Unit()
    return found


def _channel(instruction: Instruction) -> dict[str, Any]:
    if instruction.channel_id is None:
        return {}
    fields = {"handle": instruction.channel_id, "type": _DEVICE_TO_DEVICE}
    return {"channel_handle": ir.StructAttribute("stablehlo.channel_handle", fields)}


def _results(instruction: Instruction) -> Shape:
    """What it gives when it is done: the shape of a start has the operands before that."""
    done = {opcodes.ALL_GATHER_START, opcodes.COLLECTIVE_PERMUTE_START}
    return instruction.shape.tuple_shapes[1] if instruction.op in done else instruction.shape


def _emit(scope: Scope, name: str, instruction: Instruction, attributes: dict[str, Any]) -> Structure:
    shape = _results(instruction)
    regions = [scope.region(computation) for computation in instruction.computations]
    results = scope.emit(name, scope.operands(instruction), types_of(shape), attributes, regions)
    return structured(shape, results)


@RULES.rule(opcodes.ALL_GATHER, opcodes.ALL_GATHER_START)
def all_gather(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {**_grouped(instruction), "all_gather_dim": integer(instruction.all_gather_dimension)}
    return _emit(scope, "stablehlo.all_gather", instruction, attributes)


@RULES.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
def all_reduce(scope: Scope, instruction: Instruction) -> Structure:
    return _emit(scope, "stablehlo.all_reduce", instruction, _grouped(instruction))


@RULES.rule(opcodes.ALL_GATHER_DONE, opcodes.ALL_REDUCE_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def done(scope: Scope, instruction: Instruction) -> Structure:
    return scope.values[instruction.operands[0]]


@RULES.rule(opcodes.REDUCE_SCATTER)
def reduce_scatter(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {**_grouped(instruction), "scatter_dimension": integer(instruction.scatter_dimension)}
    return _one_by_one(scope, "stablehlo.reduce_scatter", instruction, attributes)


def _one_by_one(scope: Scope, name: str, instruction: Instruction, attributes: dict[str, Any]) -> Structure:
    """An operation for each operand, of those that take one in StableHLO."""
    shape = _results(instruction)
    results: list[ir.Value] = []
    for operand, type_ in zip(scope.operands(instruction), types_of(shape), strict=True):
        regions = [scope.region(computation) for computation in instruction.computations]
        results += scope.emit(name, [operand], [type_], attributes, regions)
    return structured(shape, results)


@RULES.rule(opcodes.COLLECTIVE_REDUCE)
def collective_reduce(scope: Scope, instruction: Instruction) -> Structure:
    return _emit(scope, "stablehlo.collective_reduce", instruction, {**_grouped(instruction), **_root(instruction)})


@RULES.rule(opcodes.COLLECTIVE_BROADCAST)
def collective_broadcast(scope: Scope, instruction: Instruction) -> Structure:
    return _emit(scope, "stablehlo.collective_broadcast", instruction, {**_grouped(instruction), **_root(instruction)})


def _root(instruction: Instruction) -> dict[str, Any]:
    return {"has_dynamic_root": ir.Unit()} if instruction.has_dynamic_root else {}


@RULES.rule(opcodes.ALL_TO_ALL)
def all_to_all(scope: Scope, instruction: Instruction) -> Structure:
    """Cuts an array; the form of HLO that sends an operand to each replica sends them stacked in one array."""
    split = instruction.split_dimension
    rows = instruction.replica_groups.groups or (tuple(range(_everybody(scope, instruction))),)
    attributes = {
        **_grouped(instruction),
        "replica_groups": table(rows),
        "split_dimension": integer(split or 0),
        "concat_dimension": integer(split or 0),
        "split_count": integer(len(rows[0])),
    }
    if split is not None:
        return _emit(scope, "stablehlo.all_to_all", instruction, attributes)
    part = instruction.operands[0].shape
    one = part.without_layout().with_dimensions((1, *part.dimensions))
    whole = one.with_dimensions((len(instruction.operands), *part.dimensions))
    rows_of = [scope.one("stablehlo.reshape", [operand], one) for operand in scope.operands(instruction)]
    stacked = scope.one("stablehlo.concatenate", rows_of, whole, {"dimension": integer(0)})
    sent = scope.one("stablehlo.all_to_all", [stacked], whole, attributes)
    received = [_row(scope, sent, whole, one, part, number) for number in range(len(instruction.operands))]
    return structured(instruction.shape, received)


def _row(scope: Scope, stacked: ir.Value, whole: Shape, one: Shape, part: Shape, number: int) -> ir.Value:
    attributes = {
        "start_indices": integers([number, *[0] * part.rank]),
        "limit_indices": integers([number + 1, *part.dimensions]),
        "strides": integers([1] * whole.rank),
    }
    return scope.one("stablehlo.reshape", [scope.one("stablehlo.slice", [stacked], one, attributes)], part)


def _everybody(scope: Scope, instruction: Instruction) -> int:
    """How many take part where no groups are given."""
    config = scope.program.module.config
    if group_mode(instruction.channel_id, None) is GroupMode.CROSS_PARTITION:
        return config.num_partitions
    return config.replica_count


@RULES.rule(opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START)
def collective_permute(scope: Scope, instruction: Instruction) -> Structure:
    if instruction.slice_sizes:
        raise UnsupportedError("StableHLO's collective_permute sends whole arrays")
    attributes = {"source_target_pairs": table(instruction.source_target_pairs), **_channel(instruction)}
    return _one_by_one(scope, "stablehlo.collective_permute", instruction, attributes)


@RULES.rule(opcodes.REPLICA_ID, opcodes.PARTITION_ID)
def device_id(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all(f"stablehlo.{instruction.op.name.replace('-', '_')}", instruction)


RULES.refuse("it has no operation that exchanges pieces of different sizes", opcodes.RAGGED_ALL_TO_ALL)
