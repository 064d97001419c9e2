"""Builder functions of collective operations, which exchange data among replicas and partitions, and of device ids.

Responsible for the builder functions of `opcodes/collectives.py`. Does not depend on the number of replicas or
partitions. Source: AllGather, AllReduce, CrossReplicaSum, AllToAll, RaggedAllToAll, CollectiveBroadcast,
CollectivePermute, ReduceScatter, ReplicaId, PartitionId of the specification; collective_reduce of StableHLO's.

Arguments that several functions share:
`operand`: an array. Where documented, also a tuple of arrays; the result is then the tuple of their results.
`replica_groups`: lists of ids. The devices of a list exchange data with each other, in the order of the list. Without
groups, all devices are in one group. An `IotaGroups` or a `MeshGroups` is accepted too.
`channel_id`: connects the instances of the collective in several programs. With a channel id, group ids are partition
ids, or device ids (replica * partitions + partition) if `use_global_device_ids` is set; without one, replica ids.
`layout`, `shape_with_layout`: the layout in which data is exchanged, for programs that are compiled separately.
`computation`: takes two scalars of the operand's type and returns one. It should be associative and commutative.
Every function raises `BuilderError` at the caller's line if the arguments do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

from xlapy.base.element_types import PRED
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.builder import elementwise, movement, tuples
from xlapy.builder.core.broadcasting import as_ints
from xlapy.builder.core.builder import XlaBuilder, append, builder_of
from xlapy.builder.core.channels import Channel, channel_number
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import XlaOp
from xlapy.builder.sources import parameter
from xlapy.opcodes import collectives as defs
from xlapy.opcodes.attributes.replica_groups import GroupList, IotaGroups, MeshGroups, ReplicaGroups
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllReduceAttributes,
    AllToAllAttributes,
    CollectiveBroadcastAttributes,
    CollectivePermuteAttributes,
    CollectiveReduceAttributes,
    RaggedAllToAllAttributes,
    ReduceScatterAttributes,
    all_gather_shape,
    reduce_scatter_shape,
)
from xlapy.opcodes.requirements import elements_of, require_arrays, require_dimension

Groups: TypeAlias = ReplicaGroups | Sequence[Sequence[int]]
Pairs: TypeAlias = Sequence[tuple[int, int]]


# -- what the functions share


def _groups(given: Groups) -> ReplicaGroups:
    if isinstance(given, GroupList | IotaGroups | MeshGroups):
        return given
    return GroupList(tuple([as_ints("replica_groups", group) for group in given]))


def _members(replica_groups: Groups, channel_id: Channel | None) -> dict[str, Any]:
    """Returns the attributes that select the participating devices."""
    return {"replica_groups": _groups(replica_groups), "channel_id": channel_number(channel_id)}


def _elements(name: str, operand: XlaOp) -> list[XlaOp]:
    """Returns the arrays of an operand: the operand itself, or the elements of a tuple."""
    if not operand.shape.is_tuple:
        return [operand]
    if not operand.shape.tuple_shapes:
        raise ShapeError(codes.COLLECTIVE_OPERANDS, f"{name} takes at least one array, given the empty tuple")
    return [tuples.get_tuple_element(operand, i) for i in range(len(operand.shape.tuple_shapes))]


def _like(operand: XlaOp, result: XlaOp) -> XlaOp:
    """Returns the result as a tuple if the operand is one. A collective of one array returns an array, not a tuple."""
    return _tupled(result) if operand.shape.is_tuple else result


def _tupled(result: XlaOp) -> XlaOp:
    return result if result.shape.is_tuple else tuples.tuple(result.builder, (result,))


def _with_layout(shape: Shape, layout: Layout | None) -> Shape:
    """Returns the shape with the given layout on all its arrays; without a layout, the shape itself."""
    if layout is None:
        return shape
    if shape.is_tuple:
        return Shape.tuple([_with_layout(part, layout) for part in shape.tuple_shapes])
    return shape.with_layout(layout)


def _require_positive(name: str, what: str, count: int) -> None:
    if count < 1:
        raise ShapeError(codes.POSITIVE_COUNT, f"{name}: {what} must be at least 1, given {count}")


def _require_one_type(name: str, arrays: Sequence[XlaOp]) -> None:
    require_arrays(name, [array.shape for array in arrays])
    for number, array in enumerate(arrays):
        if array.element_type is not arrays[0].element_type:
            raise ShapeError(
                shared.SAME_ELEMENT_TYPE,
                f"{name} reduces arrays of one element type, operand 0 is {arrays[0].shape.to_text(layout=False)}, "
                f"operand {number} is {array.shape.to_text(layout=False)}",
            )


# -- all-gather


def all_gather(
    operand: XlaOp,
    all_gather_dimension: int,
    shard_count: int,
    replica_groups: Groups = (),
    channel_id: Channel | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool | None = None,
) -> XlaOp:
    """Concatenates the operands of all members of a group along a dimension, in the order of the group.

    `shard_count` is the group size, or the group size times the number of partitions. Example: with `shard_count` 4
    along dimension 0, f32[2,3] gives f32[8,3]. A tuple is gathered array by array.
    """
    with builder_of("all-gather", (operand,)).building("all-gather"):
        members = (replica_groups, channel_id, use_global_device_ids)
        gathered = _gather(_elements("all-gather", operand), all_gather_dimension, shard_count, layout, *members)
        return _like(operand, gathered)


def all_gather_tuple(
    operands: Sequence[XlaOp],
    all_gather_dimension: int,
    shard_count: int,
    replica_groups: Groups = (),
    channel_id: Channel | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool | None = None,
) -> XlaOp:
    """Applies `all_gather` to each operand in one exchange. Returns the tuple of the results."""
    with builder_of("all-gather", operands).building("all-gather"):
        members = (replica_groups, channel_id, use_global_device_ids)
        return _tupled(_gather(operands, all_gather_dimension, shard_count, layout, *members))


def _gather(
    arrays: Sequence[XlaOp],
    dimension: int,
    shard_count: int,
    layout: Layout | None,
    replica_groups: Groups,
    channel_id: Channel | None,
    use_global_device_ids: bool | None,
) -> XlaOp:
    """Gathers the arrays: one operand gives an array, several give a tuple."""
    _require_positive("all-gather", "shard_count", shard_count)
    attributes = AllGatherAttributes.make(
        all_gather_dimension=dimension,
        constrain_layout=layout is not None,
        use_global_device_ids=bool(use_global_device_ids),
        **_members(replica_groups, channel_id),
    )
    shape = all_gather_shape([array.shape for array in arrays], dimension, shard_count)
    return append(defs.ALL_GATHER, arrays, attributes, shape=_with_layout(shape, layout))


# -- all-reduce, reduce-scatter, collective-reduce


def all_reduce(
    operand: XlaOp,
    computation: XlaComputation,
    replica_groups: Groups = (),
    channel_id: Channel | None = None,
    shape_with_layout: Shape | None = None,
    use_global_device_ids: bool | None = None,
) -> XlaOp:
    """Combines the operands of all members of a group element by element. Each member receives the result.

    The result has the operand's shape. A tuple must hold arrays of one element type and is reduced array by array.
    """
    with builder_of("all-reduce", (operand,)).building("all-reduce"):
        members = (replica_groups, channel_id, use_global_device_ids)
        reduced = _reduce(_elements("all-reduce", operand), computation, shape_with_layout, *members)
        return _like(operand, reduced)


def all_reduce_tuple(
    operands: Sequence[XlaOp],
    computation: XlaComputation,
    replica_groups: Groups = (),
    channel_id: Channel | None = None,
    shape_with_layout: Shape | None = None,
    use_global_device_ids: bool | None = None,
) -> XlaOp:
    """Applies `all_reduce` to each operand in one exchange. `shape_with_layout` is the shape of the result tuple."""
    with builder_of("all-reduce", operands).building("all-reduce"):
        members = (replica_groups, channel_id, use_global_device_ids)
        return _tupled(_reduce(operands, computation, shape_with_layout, *members))


def _reduce(
    arrays: Sequence[XlaOp],
    computation: XlaComputation,
    declared: Shape | None,
    replica_groups: Groups,
    channel_id: Channel | None,
    use_global_device_ids: bool | None,
) -> XlaOp:
    """Reduces the arrays: one operand gives an array, several give a tuple."""
    _require_one_type("all-reduce", arrays)
    attributes = AllReduceAttributes.make(
        constrain_layout=declared is not None,
        use_global_device_ids=bool(use_global_device_ids),
        **_members(replica_groups, channel_id),
    )
    if declared is not None and len(declared.tuple_shapes) == len(arrays) == 1:
        declared = declared.tuple_shapes[0]
    return append(defs.ALL_REDUCE, arrays, attributes, (computation,), shape=declared)


def cross_replica_sum(operand: XlaOp, replica_groups: Groups = ()) -> XlaOp:
    """`all_reduce` with addition, or with logical or for PRED. The operand may be a tuple."""
    builder = builder_of("all-reduce", (operand,))
    with builder.building("all-reduce"):
        arrays = elements_of(operand.shape)
        require_arrays("all-reduce", arrays)
        scalar = Shape.scalar(arrays[0].element_type if arrays else PRED)
        inner = builder.create_sub_builder("sum")
        x, y = parameter(inner, 0, scalar, "x"), parameter(inner, 1, scalar, "y")
        total = elementwise.or_(x, y) if scalar.element_type is PRED else elementwise.add(x, y)
        return all_reduce(operand, inner.build(total), replica_groups)


def reduce_scatter(
    operand: XlaOp,
    computation: XlaComputation,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: Groups = (),
    channel_id: Channel | None = None,
    layout: Layout | None = None,
    use_global_device_ids: bool | None = None,
) -> XlaOp:
    """Computes an `all_reduce` and gives each member one block of the result along `scatter_dimension`.

    The dimension is split into `shard_count` blocks, assigned to the members in the order of the group. Example: with
    `shard_count` 4 along dimension 0, f32[8,3] gives f32[2,3]. A tuple must hold arrays of one element type.
    """
    with builder_of("reduce-scatter", (operand,)).building("reduce-scatter"):
        attributes = ReduceScatterAttributes.make(
            scatter_dimension=scatter_dimension,
            constrain_layout=layout is not None,
            use_global_device_ids=bool(use_global_device_ids),
            **_members(replica_groups, channel_id),
        )
        _require_positive("reduce-scatter", "shard_count", shard_count)
        arrays = _elements("reduce-scatter", operand)
        _require_one_type("reduce-scatter", arrays)
        shape = reduce_scatter_shape([array.shape for array in arrays], scatter_dimension, shard_count)
        declared = _with_layout(shape, layout)
        return _like(operand, append(defs.REDUCE_SCATTER, arrays, attributes, (computation,), shape=declared))


def collective_reduce(
    operands: XlaOp | Sequence[XlaOp],
    computation: XlaComputation,
    replica_groups: Groups = (),
    channel_id: Channel | None = None,
    use_global_device_ids: bool | None = None,
    has_dynamic_root: bool = False,
) -> XlaOp:
    """Computes an `all_reduce` whose result only one member of each group receives: by default the first.

    With `has_dynamic_root`, the last operand, s32[n] for n arrays before it, holds for each array the member that
    receives the result. One array gives an array, several give a tuple.
    """
    arrays = [operands] if isinstance(operands, XlaOp) else list(operands)
    with builder_of("collective-reduce", arrays).building("collective-reduce"):
        attributes = CollectiveReduceAttributes.make(
            use_global_device_ids=bool(use_global_device_ids),
            has_dynamic_root=has_dynamic_root,
            **_members(replica_groups, channel_id),
        )
        return append(defs.COLLECTIVE_REDUCE, arrays, attributes, (computation,))


# -- all-to-all


def all_to_all(
    operand: XlaOp,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: Groups = (),
    layout: Layout | None = None,
    channel_id: Channel | None = None,
) -> XlaOp:
    """Splits an array into `split_count` blocks, sends block i to member i, and concatenates the received blocks in
    group order.

    Blocks are split along `split_dimension` and concatenated along `concat_dimension`. Example: f32[4,16] with 4
    blocks, split along 1 and concatenated along 0, gives f32[16,4]. `split_count` is the group size. With a `layout`,
    the blocks are exchanged as separate operands in that layout.
    """
    if layout is not None:
        return all_to_all_tuple(
            operand, split_dimension, concat_dimension, split_count, replica_groups, layout, channel_id
        )
    with builder_of("all-to-all", (operand,)).building("all-to-all"):
        groups = _groups(replica_groups)
        _check_exchange(operand.shape, split_dimension, concat_dimension, split_count, groups)
        members = groups if groups.group_size else GroupList((tuple(range(split_count)),))
        attributes = AllToAllAttributes.make(split_dimension=split_dimension, **_members(members, channel_id))
        exchanged = append(defs.ALL_TO_ALL, (operand,), attributes)
        if split_dimension == concat_dimension:
            return exchanged
        return _move_blocks(exchanged, split_dimension, concat_dimension, split_count)


def _check_exchange(operand: Shape, split: int, concat: int, count: int, groups: ReplicaGroups) -> None:
    require_arrays("all-to-all", (operand,))
    if operand.is_dynamic:
        raise ShapeError(
            codes.STATIC_DIMENSIONS, f"all-to-all takes static dimensions, given {operand.to_text(layout=False)}"
        )
    require_dimension("all-to-all", "split_dimension", split, operand)
    require_dimension("all-to-all", "concat_dimension", concat, operand)
    _require_positive("all-to-all", "split_count", count)
    if groups.group_size not in (0, count):
        raise ShapeError(
            codes.SPLIT_COUNT,
            f"all-to-all: split_count is {count}, replica_groups {groups.to_text()} have {groups.group_size} members",
        )
    if operand.dimensions[split] % count:
        raise ShapeError(
            collectives_codes.GROUP_SIZE_DIVIDES,
            f"all-to-all: dimension {split} of {operand.to_text(layout=False)} is no multiple of {count}",
        )


def _move_blocks(exchanged: XlaOp, split: int, concat: int, count: int) -> XlaOp:
    """Moves blocks from one dimension to another: f32[4,16] -> f32[4,4,4] -> transposed -> f32[16,4]."""
    sizes = list(exchanged.shape.dimensions)
    apart = movement.reshape(exchanged, [*sizes[:split], count, sizes[split] // count, *sizes[split + 1 :]])
    order = [d if d < split else d + 1 for d in range(len(sizes))]
    order.insert(concat, split)
    sizes[split] //= count
    sizes[concat] *= count
    return movement.reshape(movement.transpose(apart, order), sizes)


@overload
def all_to_all_tuple(
    operands: Sequence[XlaOp],
    replica_groups: Groups = (),
    layout: Layout | None = None,
    channel_id: Channel | None = None,
) -> XlaOp: ...
@overload
def all_to_all_tuple(
    operand: XlaOp,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: Groups = (),
    layout: Layout | None = None,
    channel_id: Channel | None = None,
) -> XlaOp: ...
def all_to_all_tuple(*arguments: Any, **named: Any) -> XlaOp:
    """Sends operand i to member i of the group. Returns the tuple of the values that this member receives, in group
    order.

    All operands have the same shape; their number is the group size. A single array is split into the operands, and the
    results are concatenated, as in `all_to_all`.
    """
    if "operand" in named or (arguments and isinstance(arguments[0], XlaOp)):
        return _exchange_blocks(*arguments, **named)
    return _exchange(*arguments, **named)


def _exchange(
    operands: Sequence[XlaOp],
    replica_groups: Groups = (),
    layout: Layout | None = None,
    channel_id: Channel | None = None,
) -> XlaOp:
    with builder_of("all-to-all", operands).building("all-to-all"):
        attributes = AllToAllAttributes.make(
            constrain_layout=layout is not None, **_members(replica_groups, channel_id)
        )
        shape = defs.ALL_TO_ALL.result_shape([operand.shape for operand in operands], attributes)
        return append(defs.ALL_TO_ALL, operands, attributes, shape=_with_layout(shape, layout))


def _exchange_blocks(
    operand: XlaOp,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: Groups = (),
    layout: Layout | None = None,
    channel_id: Channel | None = None,
) -> XlaOp:
    builder = builder_of("all-to-all", (operand,))
    with builder.building("all-to-all"):
        _check_exchange(operand.shape, split_dimension, concat_dimension, split_count, _groups(replica_groups))
        size = operand.shape.dimensions[split_dimension] // split_count
        starts = [i * size for i in range(split_count)]
        blocks = [movement.slice_in_dim(operand, start, start + size, 1, split_dimension) for start in starts]
        exchanged = _exchange(blocks, replica_groups, layout, channel_id)
        return movement.concat_in_dim(builder, _elements("all-to-all", exchanged), concat_dimension)


def ragged_all_to_all(
    input: XlaOp,
    input_offsets: XlaOp,
    send_sizes: XlaOp,
    output: XlaOp,
    output_offsets: XlaOp,
    recv_sizes: XlaOp,
    replica_groups: Groups = (),
    channel_id: Channel | None = None,
) -> XlaOp:
    """Sends slices of `input`, of different lengths along dimension 0, to the members; returns `output` updated with
    the received slices.

    Member i receives `send_sizes[i]` rows of `input`, starting at row `input_offsets[i]`, and writes them to its
    `output` at row `output_offsets[i]`. `recv_sizes[i]` is the number of rows that member i sends to this member. The
    four operands are integer arrays of shape [members], or [members, updates] for several slices per member. The
    instruction's operand order differs: input, output, then the other four.
    """
    operands = (input, output, input_offsets, send_sizes, output_offsets, recv_sizes)
    with builder_of("ragged-all-to-all", operands).building("ragged-all-to-all"):
        attributes = RaggedAllToAllAttributes.make(**_members(replica_groups, channel_id))
        return append(defs.RAGGED_ALL_TO_ALL, operands, attributes)


# -- collective-broadcast, collective-permute


def collective_broadcast(
    operand: XlaOp | Sequence[XlaOp],
    replica_groups: Groups,
    channel_id: Channel | None = None,
    has_dynamic_root: bool = False,
) -> XlaOp:
    """Sends the operand of the first member of each group to all its members. Devices outside all groups receive zeros.

    Several operands give a tuple. With `has_dynamic_root`, the last operand, s32[n] for n arrays before it, holds for
    each array the member that sends it.
    """
    operands = [operand] if isinstance(operand, XlaOp) else list(operand)
    with builder_of("collective-broadcast", operands).building("collective-broadcast"):
        attributes = CollectiveBroadcastAttributes.make(
            has_dynamic_root=has_dynamic_root, **_members(replica_groups, channel_id)
        )
        return append(defs.COLLECTIVE_BROADCAST, operands, attributes)


def collective_permute(operand: XlaOp, source_target_pairs: Pairs, channel_id: Channel | None = None) -> XlaOp:
    """Sends the operand from source to target for each pair (source, target). Devices that are not a target receive
    zeros.

    No id is the source, or the target, of two pairs.
    """
    return multi_collective_permute([operand], source_target_pairs, channel_id)


def multi_collective_permute(
    operands: Sequence[XlaOp], source_target_pairs: Pairs, channel_id: Channel | None = None
) -> XlaOp:
    """Applies `collective_permute` to each operand in one exchange. One operand gives an array, several give a
    tuple."""
    with builder_of("collective-permute", operands).building("collective-permute"):
        attributes = CollectivePermuteAttributes.make(
            channel_id=channel_number(channel_id),
            source_target_pairs=tuple([as_ints("source_target_pairs", pair) for pair in source_target_pairs]),
        )
        return append(defs.COLLECTIVE_PERMUTE, operands, attributes)


# -- device ids


def replica_id(builder: XlaBuilder) -> XlaOp:
    """The id of this replica, counted from 0, as u32[]."""
    return builder.append(defs.REPLICA_ID)


def partition_id(builder: XlaBuilder) -> XlaOp:
    """The id of this partition, counted from 0, as u32[]."""
    return builder.append(defs.PARTITION_ID)
