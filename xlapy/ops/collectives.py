"""Definitions of the operations that exchange data among replicas and partitions, and of those that name them.

Owns: all-gather, all-reduce, all-to-all, ragged-all-to-all, collective-broadcast, collective-permute,
collective-reduce, reduce-scatter, their -start and -done forms, replica-id, partition-id.
Source: AllGather, AllReduce, AllToAll, RaggedAllToAll, CollectiveBroadcast, CollectivePermute, ReduceScatter,
ReplicaId, PartitionId of the specification; collective_reduce of StableHLO's.

How many replicas and partitions take part is the module's to say: rules here judge groups by themselves only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.base.element_types import S32, U32
from xlapy.base.errors import ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.ops.attributes import (
    BOOL,
    INTEGER,
    INTEGER_LISTS,
    INTEGERS,
    ONE_INTEGER,
    WORD,
    Attributes,
    NoAttributes,
    attribute,
    attributes,
)
from xlapy.ops.registry import AsyncRole, Effect, OpDef, Role, at_least, exactly
from xlapy.ops.replica_groups import ALL_REPLICAS, REPLICA_GROUPS, GroupMode, ReplicaGroups, group_mode
from xlapy.ops.requirements import (
    agrees,
    one_or_tuple,
    require_arrays,
    require_dimension,
    require_programs,
    require_shape,
)

Programs = Sequence[ProgramShape]
IntegerLists = tuple[tuple[int, ...], ...]

_REDUCER = (Role("to_apply"),)
_OBSOLETE_MODE = {"mode": WORD}


def _effect(attributes: Any) -> Effect:
    """With a channel, or with layouts that other programs rely on, every participant must take part: keep the op."""
    bound = attributes.channel_id is not None or getattr(attributes, "constrain_layout", False)
    return Effect.SIDE_EFFECT if bound else Effect.PURE


# ---- replica groups, reducers


def _check_groups(name: str, groups: ReplicaGroups, mode: GroupMode, uniform: bool = True) -> None:
    """Groups hold each id from 0 on exactly once; all have one size, unless the op allows otherwise."""
    rows = groups.groups
    if not rows:
        if mode is GroupMode.FLATTENED_ID:
            raise ShapeError(f"{name} with use_global_device_ids=true needs replica_groups, given none")
        return
    if not all(rows):
        raise ShapeError(f"{name}: replica_groups {groups.to_text()} have an empty group")
    ids = sorted(identifier for row in rows for identifier in row)
    if ids != list(range(len(ids))):
        raise ShapeError(f"{name}: replica_groups {groups.to_text()} must hold each id from 0 to {len(ids) - 1} once")
    if uniform and len({len(row) for row in rows}) > 1:
        raise ShapeError(f"{name}: replica_groups {groups.to_text()} must all have one size")


def _mode(name: str, attributes: Any, uniform: bool = True) -> GroupMode:
    """The group mode of a collective, once its replica groups are found legal."""
    try:
        mode = group_mode(attributes.channel_id, getattr(attributes, "use_global_device_ids", None))
    except ShapeError as error:
        raise ShapeError(f"{name}: {error}") from error
    _check_groups(name, attributes.replica_groups, mode, uniform)
    return mode


def _check_shards(name: str, shards: int, groups: ReplicaGroups, mode: GroupMode) -> None:
    """The number of shards that shapes tell must fit the size of the groups, where the latter is known here."""
    size = groups.group_size
    if size <= 1 and mode is not GroupMode.CROSS_REPLICA_AND_PARTITION:
        return
    fits = shards == size if mode is not GroupMode.CROSS_REPLICA_AND_PARTITION else size == 0 or shards % size == 0
    if not fits:
        raise ShapeError(f"{name}: shapes tell {shards} shards, replica_groups {groups.to_text()} have {size} members")


def _check_reducer(name: str, operands: Sequence[Shape], programs: Programs) -> None:
    """The reducer takes two scalars and returns one of their shape (or a tuple of them for several operands)."""
    require_programs(name, programs, 1)
    program = programs[0]
    for shape in (*program.parameters, *(s for _, s in program.result.leaves())):
        if not shape.is_scalar:
            raise ShapeError(f"{name}: the reducer must take and return scalars, it is {program.to_text()}")
    results = len(list(program.result.leaves()))
    if len(program.parameters) != 2 * results or results not in (1, len(operands)):
        raise ShapeError(
            f"{name} of {len(operands)} operands needs a reducer of two scalars, given {program.to_text()}"
        )


# ---- all-gather


@attributes
class AllGatherAttributes(Attributes):
    """`all_gather_dimension`: the dimension along which the shards are joined, in the order of the group."""

    channel_id: int | None = attribute(INTEGER, default=None)
    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)
    constrain_layout: bool = attribute(BOOL, default=False)
    all_gather_dimension: int = attribute(ONE_INTEGER, key="dimensions")
    use_global_device_ids: bool = attribute(BOOL, default=False)


def all_gather_shape(operands: Sequence[Shape], dimension: int, shard_count: int) -> Shape:
    """The result of an all-gather over `shard_count` participants: a shape for one operand, else a tuple."""
    require_arrays("all-gather", operands)
    shapes: list[Shape] = []
    for operand in operands:
        require_dimension("all-gather", "dimension", dimension, operand)
        sizes = list(operand.dimensions)
        sizes[dimension] = sizes[dimension] * shard_count if sizes[dimension] >= 0 else sizes[dimension]
        shapes.append(Shape.array(operand.element_type, sizes, operand.dynamic_dimensions, operand.layout))
    return one_or_tuple(shapes)


def _gathered(name: str, result: Shape, operands: Sequence[Shape], attributes: AllGatherAttributes) -> None:
    mode = _mode(name, attributes)
    require_arrays(name, operands)
    dimension = attributes.all_gather_dimension
    first = _first(name, result, operands, dimension)
    small, large = operands[0].dimensions[dimension], first.dimensions[dimension]
    shards = -(-large // small) if small > 0 else max(attributes.replica_groups.group_size, 1)
    require_shape(name, result, all_gather_shape(operands, dimension, shards))
    if small > 0:
        _check_shards(name, shards, attributes.replica_groups, mode)


def _first(name: str, result: Shape, operands: Sequence[Shape], dimension: int) -> Shape:
    """The first array of a result that has one an operand, found to have the dimension, as all operands are."""
    arrays = result.tuple_shapes if len(operands) > 1 else (result,)
    if len(arrays) != len(operands) or not all(a.is_array for a in arrays):
        raise ShapeError(f"{name} of {len(operands)} operands makes as many arrays, declared {result.brief}")
    for operand in (*operands, arrays[0]):
        require_dimension(name, "dimension", dimension, operand)
    return arrays[0]


def _all_gather(shape: Shape, operands: Sequence[Shape], attributes: AllGatherAttributes, programs: Programs) -> None:
    _gathered("all-gather", shape, operands, attributes)


ALL_GATHER = OpDef(
    name="all-gather", family="collectives", arity=at_least(1), attributes=AllGatherAttributes, check=_all_gather,
    effect_rule=_effect,
)  # fmt: skip


def _all_gather_start(
    shape: Shape, operands: Sequence[Shape], attributes: AllGatherAttributes, programs: Programs
) -> None:
    """The result is (operands, gathered)."""
    if len(shape.tuple_shapes) != 2:
        raise ShapeError(f"all-gather-start has shape (operands, gathered), declared {shape.brief}")
    require_shape("all-gather-start: the first element", shape.tuple_shapes[0], one_or_tuple(operands))
    _gathered("all-gather-start", shape.tuple_shapes[1], operands, attributes)


ALL_GATHER_START = OpDef(
    name="all-gather-start", family="collectives", arity=at_least(1), attributes=AllGatherAttributes,
    check=_all_gather_start, effect=Effect.SIDE_EFFECT, async_role=AsyncRole.START,
)  # fmt: skip


def _second_element(name: str, operand: Shape) -> Shape:
    if len(operand.tuple_shapes) < 2:
        raise ShapeError(f"{name} takes (operands, results, ...), given {operand.brief}")
    return operand.tuple_shapes[1]


def _all_gather_done(operands: Sequence[Shape], attributes: NoAttributes, programs: Programs) -> Shape:
    return _second_element("all-gather-done", operands[0])


ALL_GATHER_DONE = OpDef(
    name="all-gather-done", family="collectives", arity=exactly(1), infer=_all_gather_done, effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.DONE,
)  # fmt: skip

# ---- all-reduce, reduce-scatter, collective-reduce


@attributes
class AllReduceAttributes(Attributes):
    channel_id: int | None = attribute(INTEGER, default=None)
    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)
    constrain_layout: bool = attribute(BOOL, default=False)
    use_global_device_ids: bool = attribute(BOOL, default=False)


def _reduced(name: str, operands: Sequence[Shape], attributes: AllReduceAttributes, programs: Programs) -> Shape:
    require_arrays(name, operands)
    _mode(name, attributes, uniform=False)
    _check_reducer(name, operands, programs)
    return one_or_tuple(operands)


def _all_reduce(operands: Sequence[Shape], attributes: AllReduceAttributes, programs: Programs) -> Shape:
    return _reduced("all-reduce", operands, attributes, programs)


ALL_REDUCE = OpDef(
    name="all-reduce", family="collectives", arity=at_least(1), attributes=AllReduceAttributes, roles=_REDUCER,
    infer=_all_reduce, effect_rule=_effect, obsolete=_OBSOLETE_MODE,
)  # fmt: skip


def _all_reduce_start(operands: Sequence[Shape], attributes: AllReduceAttributes, programs: Programs) -> Shape:
    return _reduced("all-reduce-start", operands, attributes, programs)


ALL_REDUCE_START = OpDef(
    name="all-reduce-start", family="collectives", arity=at_least(1), attributes=AllReduceAttributes, roles=_REDUCER,
    infer=_all_reduce_start, effect=Effect.SIDE_EFFECT, async_role=AsyncRole.START, obsolete=_OBSOLETE_MODE,
)  # fmt: skip


def _all_reduce_done(operands: Sequence[Shape], attributes: NoAttributes, programs: Programs) -> Shape:
    return operands[0]


ALL_REDUCE_DONE = OpDef(
    name="all-reduce-done", family="collectives", arity=exactly(1), infer=_all_reduce_done, effect=Effect.SIDE_EFFECT,
    aliases=((0, ()),), async_role=AsyncRole.DONE,
)  # fmt: skip


@attributes
class ReduceScatterAttributes(Attributes):
    """`scatter_dimension`: the dimension of the reduced array that is cut into one block a participant."""

    channel_id: int | None = attribute(INTEGER, default=None)
    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)
    constrain_layout: bool = attribute(BOOL, default=False)
    use_global_device_ids: bool = attribute(BOOL, default=False)
    scatter_dimension: int = attribute(ONE_INTEGER, key="dimensions")


def reduce_scatter_shape(operands: Sequence[Shape], dimension: int, shard_count: int) -> Shape:
    """The result of a reduce-scatter over `shard_count` participants: a shape for one operand, else a tuple."""
    require_arrays("reduce-scatter", operands)
    shapes: list[Shape] = []
    for operand in operands:
        require_dimension("reduce-scatter", "dimension", dimension, operand)
        sizes = list(operand.dimensions)
        if sizes[dimension] >= 0 and sizes[dimension] % shard_count:
            raise ShapeError(
                f"reduce-scatter: dimension {dimension} of {operand.brief} must be divisible by "
                f"the number of shards {shard_count}"
            )
        sizes[dimension] = sizes[dimension] // shard_count if sizes[dimension] >= 0 else sizes[dimension]
        shapes.append(Shape.array(operand.element_type, sizes, operand.dynamic_dimensions, operand.layout))
    return one_or_tuple(shapes)


def _reduce_scatter(
    shape: Shape, operands: Sequence[Shape], attributes: ReduceScatterAttributes, programs: Programs
) -> None:
    name = "reduce-scatter"
    mode = _mode(name, attributes)
    require_arrays(name, operands)
    _check_reducer(name, operands, programs)
    dimension = attributes.scatter_dimension
    first = _first(name, shape, operands, dimension)
    large, small = operands[0].dimensions[dimension], first.dimensions[dimension]
    shards = -(-large // small) if small > 0 else max(attributes.replica_groups.group_size, 1)
    require_shape(name, shape, reduce_scatter_shape(operands, dimension, max(shards, 1)))
    if small > 0:
        _check_shards(name, shards, attributes.replica_groups, mode)


REDUCE_SCATTER = OpDef(
    name="reduce-scatter", family="collectives", arity=at_least(1), attributes=ReduceScatterAttributes, roles=_REDUCER,
    check=_reduce_scatter, effect_rule=_effect, obsolete=_OBSOLETE_MODE,
)  # fmt: skip


def _rooted(name: str, operands: Sequence[Shape], has_dynamic_root: bool) -> Shape:
    """The data operands' shapes; a dynamic root is a last operand that gives each of them a place in the group."""
    require_arrays(name, operands)
    if not has_dynamic_root:
        return one_or_tuple(operands)
    data, root = operands[:-1], operands[-1]
    if not data:
        raise ShapeError(
            f"{name} with has_dynamic_root=true takes data operands before the root, given {root.brief} alone"
        )
    wanted = Shape.array(S32, (len(data),))
    if not agrees(root, wanted):
        raise ShapeError(f"{name}: the root of {len(data)} data operands must be {wanted.brief}, it is {root.brief}")
    return one_or_tuple(data)


@attributes
class CollectiveReduceAttributes(Attributes):
    """Without `has_dynamic_root` the first member of each group receives the result."""

    channel_id: int | None = attribute(INTEGER, default=None)
    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)
    constrain_layout: bool = attribute(BOOL, default=False)
    use_global_device_ids: bool = attribute(BOOL, default=False)
    has_dynamic_root: bool = attribute(BOOL, default=False, always=True)


def _collective_reduce(operands: Sequence[Shape], attributes: CollectiveReduceAttributes, programs: Programs) -> Shape:
    _mode("collective-reduce", attributes)
    shape = _rooted("collective-reduce", operands, attributes.has_dynamic_root)
    _check_reducer("collective-reduce", operands[:-1] if attributes.has_dynamic_root else operands, programs)
    return shape


COLLECTIVE_REDUCE = OpDef(
    name="collective-reduce", family="collectives", arity=at_least(1), attributes=CollectiveReduceAttributes,
    roles=_REDUCER, infer=_collective_reduce, effect=Effect.SIDE_EFFECT,
)  # fmt: skip

# ---- all-to-all


@attributes
class AllToAllAttributes(Attributes):
    """With `split_dimension` one array is cut along it and joined again; without, operand i goes to member i."""

    channel_id: int | None = attribute(INTEGER, default=None)
    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)
    constrain_layout: bool = attribute(BOOL, default=False)
    split_dimension: int | None = attribute(ONE_INTEGER, default=None, key="dimensions")


def _all_to_all(operands: Sequence[Shape], attributes: AllToAllAttributes, programs: Programs) -> Shape:
    require_arrays("all-to-all", operands)
    _mode("all-to-all", attributes)
    members = attributes.replica_groups.group_size  # 0: as many as the module has
    if attributes.split_dimension is not None:
        return _split_all_to_all(operands, attributes.split_dimension, members)
    if members and len(operands) != members:
        raise ShapeError(
            f"all-to-all takes an operand a member: {len(operands)} operands, "
            f"replica_groups {attributes.replica_groups.to_text()} have {members} members"
        )
    for number, operand in enumerate(operands):
        if not operand.compatible(operands[0]):
            raise ShapeError(f"all-to-all: operand 0 is {operands[0].brief}, operand {number} is {operand.brief}")
    return Shape.tuple(operands)


def _split_all_to_all(operands: Sequence[Shape], dimension: int, members: int) -> Shape:
    if len(operands) != 1:
        raise ShapeError(f"all-to-all along a dimension takes one operand, given {len(operands)}")
    (operand,) = operands
    require_dimension("all-to-all", "split dimension", dimension, operand)
    size = operand.dimensions[dimension]
    if members and size >= 0 and size % members:
        raise ShapeError(
            f"all-to-all: dimension {dimension} of {operand.brief} must be divisible by the {members} group members"
        )
    return operand


ALL_TO_ALL = OpDef(
    name="all-to-all", family="collectives", arity=at_least(1), attributes=AllToAllAttributes, infer=_all_to_all,
    effect_rule=_effect,
)  # fmt: skip


@attributes
class RaggedAllToAllAttributes(Attributes):
    channel_id: int | None = attribute(INTEGER, default=None)
    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)


_RAGGED = ("input", "output", "input_offsets", "send_sizes", "output_offsets", "recv_sizes")


def _ragged_all_to_all(operands: Sequence[Shape], attributes: RaggedAllToAllAttributes, programs: Programs) -> Shape:
    require_arrays("ragged-all-to-all", operands)
    _mode("ragged-all-to-all", attributes)
    offsets = operands[2]
    if offsets.rank not in (1, 2):
        raise ShapeError(f"ragged-all-to-all: input_offsets must have rank 1 or 2, it is {offsets.brief}")
    for number in range(3, 6):
        if not agrees(operands[number], offsets):
            raise ShapeError(
                f"ragged-all-to-all: {_RAGGED[number]} must have the shape of input_offsets {offsets.brief}, "
                f"it is {operands[number].brief}"
            )
    return operands[1]


RAGGED_ALL_TO_ALL = OpDef(
    name="ragged-all-to-all", family="collectives", arity=exactly(6), attributes=RaggedAllToAllAttributes,
    infer=_ragged_all_to_all, aliases=((1, ()),), obsolete={"dimensions": INTEGERS},
)  # fmt: skip

# ---- collective-broadcast, collective-permute


@attributes
class CollectiveBroadcastAttributes(Attributes):
    """Without `has_dynamic_root` the first member of each group sends."""

    channel_id: int | None = attribute(INTEGER, default=None)
    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)
    has_dynamic_root: bool = attribute(BOOL, default=False)


def _collective_broadcast(
    operands: Sequence[Shape], attributes: CollectiveBroadcastAttributes, programs: Programs
) -> Shape:
    return _rooted("collective-broadcast", operands, attributes.has_dynamic_root)


COLLECTIVE_BROADCAST = OpDef(
    name="collective-broadcast", family="collectives", arity=at_least(1), attributes=CollectiveBroadcastAttributes,
    infer=_collective_broadcast, effect=Effect.SIDE_EFFECT,
)  # fmt: skip


@attributes
class CollectivePermuteAttributes(Attributes):
    """Pairs (source, target); with `slice_sizes` slices of a buffer go into another: input, output, their offsets."""

    channel_id: int | None = attribute(INTEGER, default=None)
    source_target_pairs: IntegerLists = attribute(INTEGER_LISTS)
    slice_sizes: IntegerLists = attribute(INTEGER_LISTS, default=())


def _check_pairs(name: str, pairs: IntegerLists, most: int) -> None:
    """Every id sends and receives at most `most` times: once, or once a slice."""
    for pair in pairs:
        if len(pair) != 2 or min(pair) < 0:
            raise ShapeError(f"{name}: source_target_pairs must be pairs of ids from 0 on, found {list(pair)}")
    for what, ids in (("source", [p[0] for p in pairs]), ("target", [p[1] for p in pairs])):
        for identifier in set(ids):
            if ids.count(identifier) > most:
                raise ShapeError(
                    f"{name}: {what} {identifier} appears {ids.count(identifier)} times in "
                    f"source_target_pairs={INTEGER_LISTS.write(pairs)}, at most {most} allowed"
                )


def _permuted(name: str, operands: Sequence[Shape], attributes: CollectivePermuteAttributes) -> tuple[Shape, Shape]:
    """(operands as the start form returns them, result)."""
    if not attributes.slice_sizes:
        require_arrays(name, operands)
        _check_pairs(name, attributes.source_target_pairs, 1)
        return one_or_tuple(operands), one_or_tuple(operands)
    if len(operands) != 4:
        raise ShapeError(
            f"{name} with slice_sizes takes input, output and their offsets: 4 operands, given {len(operands)}"
        )
    slices = _check_slices(name, operands)
    _check_pairs(name, attributes.source_target_pairs, slices)
    return operands[0], operands[1]


def _check_slices(name: str, operands: Sequence[Shape]) -> int:
    """Offsets are a tuple of one scalar a dimension, or of such tuples, for each buffer; returns how many slices."""
    source, target = (s.tuple_shapes if s.is_tuple else (s,) for s in operands[:2])
    if operands[0].is_tuple is not operands[1].is_tuple or len(source) != len(target):
        raise ShapeError(f"{name}: input {operands[0].brief} and output {operands[1].brief} must hold as many buffers")
    for buffers, offsets in ((operands[0], operands[2]), (operands[1], operands[3])):
        parts = buffers.tuple_shapes if buffers.is_tuple else (buffers,)
        places = offsets.tuple_shapes if buffers.is_tuple else (offsets,)
        if len(parts) != len(places):
            raise ShapeError(f"{name}: offsets {offsets.brief} must hold one entry for each buffer of {buffers.brief}")
        for buffer, place in zip(parts, places, strict=True):
            _check_offsets(name, buffer, place)
    first = operands[2].tuple_shapes
    return len(first[0].tuple_shapes if operands[0].is_tuple and first else first)


def _check_offsets(name: str, buffer: Shape, offsets: Shape) -> None:
    parts = offsets.tuple_shapes
    nested = bool(parts) and all(part.is_tuple for part in parts)
    rows = [part.tuple_shapes for part in parts] if nested else [parts]
    if not offsets.is_tuple or any(len(row) != buffer.rank or not all(s.is_array for s in row) for row in rows):
        raise ShapeError(
            f"{name}: offsets into {buffer.brief} must be a tuple of {buffer.rank} scalars, they are {offsets.brief}"
        )


def _collective_permute(
    operands: Sequence[Shape], attributes: CollectivePermuteAttributes, programs: Programs
) -> Shape:
    return _permuted("collective-permute", operands, attributes)[1]


COLLECTIVE_PERMUTE = OpDef(
    name="collective-permute", family="collectives", arity=at_least(1), attributes=CollectivePermuteAttributes,
    infer=_collective_permute, effect_rule=_effect,
)  # fmt: skip


def _collective_permute_start(
    shape: Shape, operands: Sequence[Shape], attributes: CollectivePermuteAttributes, programs: Programs
) -> None:
    """The result is (operands, results, contexts...)."""
    expected = _permuted("collective-permute-start", operands, attributes)
    if len(shape.tuple_shapes) < 2:
        raise ShapeError(f"collective-permute-start has shape (operands, results, ...), declared {shape.brief}")
    require_shape("collective-permute-start", shape, Shape.tuple((*expected, *shape.tuple_shapes[2:])))


COLLECTIVE_PERMUTE_START = OpDef(
    name="collective-permute-start", family="collectives", arity=at_least(1), attributes=CollectivePermuteAttributes,
    check=_collective_permute_start, effect=Effect.SIDE_EFFECT, async_role=AsyncRole.START,
)  # fmt: skip


def _collective_permute_done(operands: Sequence[Shape], attributes: NoAttributes, programs: Programs) -> Shape:
    return _second_element("collective-permute-done", operands[0])


COLLECTIVE_PERMUTE_DONE = OpDef(
    name="collective-permute-done", family="collectives", arity=exactly(1), infer=_collective_permute_done,
    effect=Effect.SIDE_EFFECT, async_role=AsyncRole.DONE,
)  # fmt: skip

# ---- who am I


def _identifier(operands: Sequence[Shape], attributes: NoAttributes, programs: Programs) -> Shape:
    return Shape.scalar(U32)


REPLICA_ID = OpDef(name="replica-id", family="collectives", arity=exactly(0), infer=_identifier)
PARTITION_ID = OpDef(name="partition-id", family="collectives", arity=exactly(0), infer=_identifier)
