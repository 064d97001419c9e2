"""Import rules of collective operations, with their replica groups and channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.mesh import MAX_DEVICES, AxisRef, Mesh
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, GroupList, MeshGroups, ReplicaGroups
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllReduceAttributes,
    AllToAllAttributes,
    CollectiveBroadcastAttributes,
    CollectivePermuteAttributes,
    CollectiveReduceAttributes,
    RaggedAllToAllAttributes,
    ReduceScatterAttributes,
)
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import Fields, as_integers, describe, flag, integer, matrix, pairs
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, rule
from xlapy.stablehlo.importing.core.scalar_computations import scalar_binary_computation
from xlapy.stablehlo.importing.custom import array_operands, target
from xlapy.stablehlo.importing.reduction import import_reducer


def _channel(operation: ir.Operation) -> int | None:
    """Returns the channel id, or None if the operation has no channel or the id is zero."""
    given = operation.attributes.get("channel_handle") or operation.attributes.get("channel_id")
    if given is None:
        return None
    if isinstance(given, ir.IntegerAttribute):
        return given.value or None
    if not isinstance(given, ir.StructAttribute):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute channel_handle must be a struct, but is {describe(given)}")
    return Fields("channel_handle", given.fields).integer("handle") or None


def _replica_groups(builder: ComputationBuilder, operation: ir.Operation, partial: bool = False) -> ReplicaGroups:
    """Reads the replica groups: the rows of a matrix, padded with -1 to the same length, or axes of a mesh.

    partial: devices may be in no group.
    """
    given = operation.attributes.get("replica_groups")
    if isinstance(given, ir.StructAttribute):
        return _mesh_groups(builder, given)
    table = matrix(operation, "replica_groups")
    if table is None or table.size == 0:
        return ALL_REPLICAS
    groups = tuple([tuple([int(member) for member in row if member != -1]) for row in np.asarray(table)])
    members = sorted(member for group in groups for member in group)
    if members != (sorted({*members}) if partial else list(range(len(members)))):
        rule_of_members = "no number twice" if partial else "each number from 0 on once"
        raise ShapeError(
            collectives_codes.GROUP_IDS,
            f"replica_groups must hold {rule_of_members}, but are {[list(group) for group in groups]}",
        )
    return GroupList(groups)


def _mesh_groups(builder: ComputationBuilder, given: ir.StructAttribute) -> MeshGroups:
    mesh = _mesh(builder, given.fields.get("mesh"))
    axes = [_axis(axis, mesh) for axis in _structs(given, "axes")]
    return MeshGroups.make(mesh, axes)


def _mesh(builder: ComputationBuilder, given: Any) -> Mesh:
    if isinstance(given, ir.SymbolReference):
        return builder.context.annotations.meshes.mesh(given.root)
    if not isinstance(given, ir.StructAttribute):
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"a mesh of replica groups must be a struct or a symbol, but is {describe(given)}"
        )
    axes = _structs(given, "axes")
    devices = given.fields.get("device_ids")
    return Mesh.make(
        [_name(axis) for axis in axes],
        [Fields(axis.name, axis.fields).integer("size") for axis in axes],
        None if devices is None else as_integers(devices, "device_ids"),
    )


def _structs(given: ir.StructAttribute, field: str) -> list[ir.StructAttribute]:
    """Returns the structs in a field with a list of structs."""
    found = given.fields.get(field, ())
    if not isinstance(found, tuple):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"{field} of {given.name} must be a list, but is {describe(found)}")
    structs = [each for each in found if isinstance(each, ir.StructAttribute)]
    if len(structs) != len(found):
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"{field} of {given.name} must be a list of structs, but is {describe(found)}"
        )
    return structs


def _name(axis: ir.StructAttribute) -> str:
    name = axis.fields.get("name")
    if not isinstance(name, str):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"the name of a mesh axis must be a string, but is {describe(name)}")
    return name


def _axis(given: ir.StructAttribute, mesh: Mesh) -> AxisRef:
    name = _name(given)
    if name not in mesh.axis_names:
        raise ShapeError(attributes_codes.MESH_AXIS_NAME, f"{name!r} is not an axis of {mesh.to_text()}")
    number = mesh.axis_names.index(name)
    sub_axis = given.fields.get("sub_axis_info")
    if sub_axis is None:
        return AxisRef(number)
    if not isinstance(sub_axis, ir.StructAttribute):
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"sub_axis_info of {name!r} must be a struct, but is {describe(sub_axis)}"
        )
    part = Fields("sub_axis_info", sub_axis.fields)
    return AxisRef(number, part.integer("pre_size"), part.integer("size"))


@rule("stablehlo.all_gather", operands=ONE_OR_MORE, results=ONE_OR_MORE)
def all_gather(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    attributes = AllGatherAttributes.make(
        all_gather_dimension=integer(operation, "all_gather_dim"),
        replica_groups=_replica_groups(builder, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        constrain_layout=False,
    )
    shapes = [builder.declared_shape(result) for result in operation.results]
    result = builder.emit(opcodes.ALL_GATHER, builder.operands(operation), attributes, shape=_pack_shapes(shapes))
    return builder.unpack(result, len(shapes))


def _pack_shapes(shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)


@rule("stablehlo.all_reduce", operands=ONE_OR_MORE, results=ONE_OR_MORE, regions=1, on_storage_type=True)
def all_reduce(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    operands, body = import_reducer(builder, operation.regions[0], builder.operands(operation))
    attributes = AllReduceAttributes.make(
        replica_groups=_replica_groups(builder, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        constrain_layout=False,
    )
    result = builder.emit(opcodes.ALL_REDUCE, operands, attributes, (body,))
    return builder.unpack(result, len(operands))


@rule("stablehlo.cross-replica-sum", operands=1)
def cross_replica_sum(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Sums over replicas; for pred, the sum is the logical or."""
    (operand,) = builder.operands(operation)
    element = operand.shape.element_type
    attributes = AllReduceAttributes.make(replica_groups=_replica_groups(builder, operation))
    body = scalar_binary_computation(builder, opcodes.OR if element is PRED else opcodes.ADD, element)
    return builder.emit(opcodes.ALL_REDUCE, (operand,), attributes, (body,))


@rule("stablehlo.reduce_scatter", operands=1, regions=1, on_storage_type=True)
def reduce_scatter(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operands, body = import_reducer(builder, operation.regions[0], builder.operands(operation))
    attributes = ReduceScatterAttributes.make(
        scatter_dimension=integer(operation, "scatter_dimension"),
        replica_groups=_replica_groups(builder, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        constrain_layout=False,
    )
    shape = builder.declared_shape(operation.results[0])
    return builder.emit(opcodes.REDUCE_SCATTER, operands, attributes, (body,), shape=shape)


@rule("stablehlo.collective_reduce", operands=ONE_OR_MORE, results=ONE_OR_MORE, regions=1, on_storage_type=True)
def collective_reduce(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    operands = builder.operands(operation)
    dynamic = flag(operation, "has_dynamic_root")
    arrays, body = import_reducer(builder, operation.regions[0], operands[:-1] if dynamic else operands)
    attributes = CollectiveReduceAttributes.make(
        replica_groups=_replica_groups(builder, operation),
        channel_id=_channel(operation),
        use_global_device_ids=flag(operation, "use_global_device_ids"),
        has_dynamic_root=dynamic,
        constrain_layout=False,
    )
    given = [*arrays, operands[-1]] if dynamic else arrays
    return builder.unpack(builder.emit(opcodes.COLLECTIVE_REDUCE, given, attributes, (body,)), len(operation.results))


@rule("stablehlo.collective_broadcast", operands=ONE_OR_MORE, results=ONE_OR_MORE)
def collective_broadcast(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    attributes = CollectiveBroadcastAttributes.make(
        replica_groups=_replica_groups(builder, operation, partial=True),
        channel_id=_channel(operation),
        has_dynamic_root=flag(operation, "has_dynamic_root"),
    )
    result = builder.emit(opcodes.COLLECTIVE_BROADCAST, builder.operands(operation), attributes)
    return builder.unpack(result, len(operation.results))


@rule("stablehlo.collective_permute")
def collective_permute(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    attributes = CollectivePermuteAttributes.make(
        source_target_pairs=pairs(matrix(operation, "source_target_pairs"), "source_target_pairs"),
        channel_id=_channel(operation),
        slice_sizes=(),
    )
    return builder.emit(opcodes.COLLECTIVE_PERMUTE, builder.operands(operation), attributes)


@rule("stablehlo.all_to_all", operands=ONE_OR_MORE, results=ONE_OR_MORE)
def all_to_all(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    """Splits operands along one dimension and concatenates along another.

    HLO's all-to-all splits and concatenates along the same dimension, so that a transpose may have to follow.
    """
    split, concat = integer(operation, "split_dimension"), integer(operation, "concat_dimension")
    count = integer(operation, "split_count")
    groups = _replica_groups(builder, operation)
    if not 1 <= count <= MAX_DEVICES:
        raise ShapeError(operation_codes.SPLIT_COUNT, f"split_count must be from 1 to {MAX_DEVICES}, but is {count}")
    if not groups.group_size:
        groups = GroupList((tuple(range(count)),))
    attributes = AllToAllAttributes.make(
        replica_groups=groups, channel_id=_channel(operation), split_dimension=split, constrain_layout=False
    )
    results: list[Instruction] = []
    for operand in builder.operands(operation):
        if not 0 <= split < operand.shape.rank or not 0 <= concat < operand.shape.rank:
            raise ShapeError(
                shared.DIMENSION_NUMBER, f"{operand.shape.to_text(layout=False)} has no dimensions {split} and {concat}"
            )
        exchanged = builder.emit(opcodes.ALL_TO_ALL, (operand,), attributes)
        results.append(_move_blocks(builder, exchanged, split, concat, count))
    return results


def _move_blocks(
    builder: ComputationBuilder, exchanged: Instruction, split: int, concat: int, count: int
) -> Instruction:
    """Moves blocks that are concatenated along dimension `split` to dimension `concat`.

    Example: 4 blocks in f32[4,16] from dimension 1 to dimension 0. A reshape to f32[4,4,4] makes the block number
    dimension 1, a transpose makes it dimension 0, and a reshape gives f32[16,4].
    """
    if split == concat:
        return exchanged
    sizes = list(exchanged.shape.dimensions)
    if count < 1 or sizes[split] % count:
        raise ShapeError(
            operation_codes.SPLIT_COUNT,
            f"dimension {split} of {exchanged.shape.to_text(layout=False)} cannot be split into {count} blocks",
        )
    blocks = builder.reshape(exchanged, [*sizes[:split], count, sizes[split] // count, *sizes[split + 1 :]])
    permutation = [dimension for dimension in range(len(sizes) + 1) if dimension != split]
    permutation.insert(concat, split)
    transposed = builder.transpose(blocks, permutation)
    sizes[split] //= count
    sizes[concat] *= count
    return builder.reshape(transposed, sizes)


@rule("stablehlo.replica_id", operands=0)
def replica_id(builder: ComputationBuilder, _: ir.Operation) -> Instruction:
    return builder.emit(opcodes.REPLICA_ID)


@rule("stablehlo.partition_id", operands=0)
def partition_id(builder: ComputationBuilder, _: ir.Operation) -> Instruction:
    return builder.emit(opcodes.PARTITION_ID)


@target("ragged_all_to_all")
def ragged_all_to_all(builder: ComputationBuilder, operation: ir.Operation, _: Mapping[str, Any]) -> Instruction:
    """JAX writes this collective, which StableHLO lacks, as a custom call with its groups in the backend config."""
    config = operation.attributes.get("backend_config")
    if not isinstance(config, dict):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"its backend_config must be a dictionary, but is {describe(config)}")
    described = ir.Operation("ragged_all_to_all", operation.operands, operation.results, dict(config))
    attributes = RaggedAllToAllAttributes.make(
        replica_groups=_replica_groups(builder, described), channel_id=_channel(described)
    )
    operands = array_operands(builder, operation, operands=6, results=1)
    return builder.emit(opcodes.RAGGED_ALL_TO_ALL, operands, attributes)
