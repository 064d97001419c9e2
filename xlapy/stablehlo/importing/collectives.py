"""Import rules: what devices do together.

Owns: collectives, their replica groups and channels. Must not know: who meets whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.mesh import AxisRef, Mesh
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, GroupList, MeshGroups, ReplicaGroups
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllReduceAttributes,
    AllToAllAttributes,
    CollectiveBroadcastAttributes,
    CollectivePermuteAttributes,
    CollectiveReduceAttributes,
    ReduceScatterAttributes,
)
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import as_integers, flag, integer, matrix, pairs, shown
from xlapy.stablehlo.importing.core.bodies import scalar_body
from xlapy.stablehlo.importing.core.rules import SOME, rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.reduction import combined


def _channel(operation: ir.Operation) -> int | None:
    """The number of the channel; None if there is none (zero stands for none)."""
    given = operation.attributes.get("channel_handle") or operation.attributes.get("channel_id")
    if given is None:
        return None
    if isinstance(given, ir.IntegerAttribute):
        return given.value or None
    if not isinstance(given, ir.StructAttribute):
        raise ShapeError(f"attribute channel_handle must be a structure, it is {shown(given)}")
    return int(given.fields.get("handle", 0)) or None


def _groups(scope: Scope, operation: ir.Operation) -> ReplicaGroups:
    """Groups as rows of a table, in which -1 fills up shorter ones, or as axes of a mesh."""
    given = operation.attributes.get("replica_groups")
    if isinstance(given, ir.StructAttribute):
        return _mesh_groups(scope, given)
    table = matrix(operation, "replica_groups")
    if table is None or table.size == 0:
        return ALL_REPLICAS
    groups = tuple([tuple([int(member) for member in row if member != -1]) for row in np.asarray(table)])
    members = sorted(member for group in groups for member in group)
    if members != list(range(len(members))):
        raise ShapeError(
            f"replica_groups hold each number from 0 on once, they are {[list(group) for group in groups]}"
        )
    return GroupList(groups)


def _mesh_groups(scope: Scope, given: ir.StructAttribute) -> MeshGroups:
    mesh = _mesh(scope, given.fields.get("mesh"))
    axes = [_axis(axis, mesh) for axis in given.fields.get("axes", ())]
    return MeshGroups.make(mesh, axes)


def _mesh(scope: Scope, given: Any) -> Mesh:
    if isinstance(given, ir.SymbolReference):
        return scope.program.annotations.meshes.mesh(given.root)
    if not isinstance(given, ir.StructAttribute):
        raise ShapeError(f"a mesh of replica groups must be a structure or a symbol, it is {shown(given)}")
    axes = [axis.fields for axis in given.fields.get("axes", ())]
    devices = given.fields.get("device_ids")
    return Mesh.make(
        [axis["name"] for axis in axes],
        [axis["size"] for axis in axes],
        None if devices is None else as_integers(devices, "device_ids"),
    )


def _axis(given: Any, mesh: Mesh) -> AxisRef:
    if not isinstance(given, ir.StructAttribute) or given.fields.get("name") not in mesh.axis_names:
        raise ShapeError(f"{shown(given)} is no axis of {mesh.to_text()}")
    number = mesh.axis_names.index(given.fields["name"])
    part = given.fields.get("sub_axis_info")
    if part is None:
        return AxisRef(number)
    return AxisRef(number, int(part.fields["pre_size"]), int(part.fields["size"]))


@rule("stablehlo.all_gather", operands=SOME, results=SOME)
def all_gather(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    attributes = AllGatherAttributes.make(
        all_gather_dimension=integer(operation, "all_gather_dim"),
        replica_groups=_groups(scope, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        constrain_layout=False,
    )
    shapes = [scope.declared(result) for result in operation.results]
    result = scope.emit(opcodes.ALL_GATHER, scope.operands(operation), attributes, shape=_packed(shapes))
    return scope.elements(result, len(shapes))


def _packed(shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)


@rule("stablehlo.all_reduce", operands=SOME, results=SOME, regions=1, stored=True)
def all_reduce(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    operands, body = combined(scope, operation.regions[0], scope.operands(operation))
    attributes = AllReduceAttributes.make(
        replica_groups=_groups(scope, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        constrain_layout=False,
    )
    result = scope.emit(opcodes.ALL_REDUCE, operands, attributes, (body,))
    return scope.elements(result, len(operands))


@rule("stablehlo.cross-replica-sum", operands=1)
def cross_replica_sum(scope: Scope, operation: ir.Operation) -> Instruction:
    """A sum over replicas; of pred, the logical or."""
    (operand,) = scope.operands(operation)
    kind = operand.shape.element_type
    attributes = AllReduceAttributes.make(replica_groups=_groups(scope, operation))
    body = scalar_body(scope, opcodes.OR if kind is PRED else opcodes.ADD, kind)
    return scope.emit(opcodes.ALL_REDUCE, (operand,), attributes, (body,))


@rule("stablehlo.reduce_scatter", operands=1, regions=1, stored=True)
def reduce_scatter(scope: Scope, operation: ir.Operation) -> Instruction:
    operands, body = combined(scope, operation.regions[0], scope.operands(operation))
    attributes = ReduceScatterAttributes.make(
        scatter_dimension=integer(operation, "scatter_dimension"),
        replica_groups=_groups(scope, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        constrain_layout=False,
    )
    shape = scope.declared(operation.results[0])
    return scope.emit(opcodes.REDUCE_SCATTER, operands, attributes, (body,), shape=shape)


@rule("stablehlo.collective_reduce", operands=SOME, results=SOME, regions=1, stored=True)
def collective_reduce(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    dynamic = flag(operation, "has_dynamic_root")
    arrays, body = combined(scope, operation.regions[0], operands[:-1] if dynamic else operands)
    attributes = CollectiveReduceAttributes.make(
        replica_groups=_groups(scope, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        has_dynamic_root=dynamic,
        constrain_layout=False,
    )
    given = [*arrays, operands[-1]] if dynamic else arrays
    return scope.elements(scope.emit(opcodes.COLLECTIVE_REDUCE, given, attributes, (body,)), len(operation.results))


@rule("stablehlo.collective_broadcast", operands=SOME, results=SOME)
def collective_broadcast(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    attributes = CollectiveBroadcastAttributes.make(
        replica_groups=_groups(scope, operation),
        channel_id=_channel(operation),
        has_dynamic_root=flag(operation, "has_dynamic_root"),
    )
    result = scope.emit(opcodes.COLLECTIVE_BROADCAST, scope.operands(operation), attributes)
    return scope.elements(result, len(operation.results))


@rule("stablehlo.collective_permute")
def collective_permute(scope: Scope, operation: ir.Operation) -> Instruction:
    attributes = CollectivePermuteAttributes.make(
        source_target_pairs=pairs(matrix(operation, "source_target_pairs"), "source_target_pairs"),
        channel_id=_channel(operation),
        slice_sizes=(),
    )
    return scope.emit(opcodes.COLLECTIVE_PERMUTE, scope.operands(operation), attributes)


@rule("stablehlo.all_to_all", operands=SOME, results=SOME)
def all_to_all(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    """Blocks are cut along one dimension and joined along another; HLO's form cuts and joins along the same."""
    split, concat = integer(operation, "split_dimension"), integer(operation, "concat_dimension")
    count = integer(operation, "split_count")
    groups = _groups(scope, operation)
    if not groups.group_size:
        groups = GroupList((tuple(range(count)),))
    attributes = AllToAllAttributes.make(
        replica_groups=groups, channel_id=_channel(operation), split_dimension=split, constrain_layout=False
    )
    results: list[Instruction] = []
    for operand in scope.operands(operation):
        if not 0 <= split < operand.shape.rank or not 0 <= concat < operand.shape.rank:
            raise ShapeError(f"{operand.shape.to_text(layout=False)} has no dimensions {split} and {concat}")
        exchanged = scope.emit(opcodes.ALL_TO_ALL, (operand,), attributes)
        results.append(_joined(scope, exchanged, split, concat, count))
    return results


def _joined(scope: Scope, exchanged: Instruction, split: int, concat: int, count: int) -> Instruction:
    """Blocks that stand side by side along `split`, joined along `concat`.

    Example: f32[4,16] of 4 blocks, from 1 to 0: f32[4,4,4] (block number second), f32[4,4,4] (first), f32[16,4].
    """
    if split == concat:
        return exchanged
    sizes = list(exchanged.shape.dimensions)
    if count < 1 or sizes[split] % count:
        raise ShapeError(f"dimension {split} of {exchanged.shape.to_text(layout=False)} cannot be cut in {count}")
    apart = scope.reshape(exchanged, [*sizes[:split], count, sizes[split] // count, *sizes[split + 1 :]])
    order = [place for place in range(len(sizes) + 1) if place != split]
    order.insert(concat, split)
    moved = scope.transpose(apart, order)
    sizes[split] //= count
    sizes[concat] *= count
    return scope.reshape(moved, sizes)


@rule("stablehlo.replica_id", operands=0)
def replica_id(scope: Scope, _: ir.Operation) -> Instruction:
    return scope.emit(opcodes.REPLICA_ID)


@rule("stablehlo.partition_id", operands=0)
def partition_id(scope: Scope, _: ir.Operation) -> Instruction:
    return scope.emit(opcodes.PARTITION_ID)
