"""Definitions of collectives, which exchange data among replicas and partitions, and of replica-id and partition-id.

Responsible for all-gather, all-reduce, all-to-all, ragged-all-to-all, collective-broadcast, collective-permute,
collective-reduce, reduce-scatter, their -start and -done forms, replica-id, partition-id.
Does not depend on the IR or on values.
Source: AllGather, AllReduce, AllToAll, RaggedAllToAll, CollectiveBroadcast, CollectivePermute, ReduceScatter,
ReplicaId, PartitionId of the specification; collective_reduce of StableHLO's.

The numbers of replicas and partitions are properties of the module, so the rules verify groups without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from xlapy.base.element_types import S32, U32
from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Ints, Shape
from xlapy.base.shape_fields import UNBOUNDED
from xlapy.opcodes.attributes.codecs import (
    BOOL,
    INTEGER,
    INTEGER_LISTS,
    INTEGERS,
    ONE_INTEGER,
    WORD,
    Attributes,
    attribute,
    attributes,
)
from xlapy.opcodes.attributes.mesh import MAX_DEVICES
from xlapy.opcodes.attributes.permutations import Permutation
from xlapy.opcodes.attributes.replica_groups import (
    ALL_REPLICAS,
    REPLICA_GROUPS,
    GroupMode,
    IotaGroups,
    ReplicaGroups,
    group_mode,
)
from xlapy.opcodes.registry import (
    AsyncRole,
    CalledComputationSlot,
    Effect,
    OpDef,
    ProgramShapes,
    at_least,
    constraint,
    exactly,
)
from xlapy.opcodes.requirements import (
    compatible_ignoring_dynamic,
    elements_of,
    one_or_tuple,
    require_arrays,
    require_dimension,
    require_programs,
    require_shape,
    same_layout,
)

IntegerLists = tuple[Ints, ...]

_REDUCER = (CalledComputationSlot("to_apply"),)
_IGNORED_MODE = {"mode": WORD}


@attributes
class CollectiveAttributes(Attributes):
    """Attributes of a collective; `channel_id` decides whether replicas or partitions take part."""

    channel_id: int | None = attribute(INTEGER, default=None)


@attributes
class GroupedAttributes(CollectiveAttributes):
    """Attributes of a collective with groups: `channel_id` and `replica_groups` together name the participants."""

    replica_groups: ReplicaGroups = attribute(REPLICA_GROUPS, default=ALL_REPLICAS, always=True)


def group_mode_of(attributes: CollectiveAttributes) -> GroupMode:
    """What the ids in the groups or pairs of a collective number; `ShapeError` if the attributes contradict."""
    return group_mode(attributes.channel_id, getattr(attributes, "use_global_device_ids", None))


def has_dynamic_root(attributes: Attributes) -> bool:
    """Whether the last operand of a collective-reduce or collective-broadcast gives the roots."""
    return bool(getattr(attributes, "has_dynamic_root", False))


def _effect(attrs: Any) -> Effect:
    """A collective with a channel or a layout constraint has side effects, because other participants depend on it."""
    is_required = attrs.channel_id is not None or getattr(attrs, "constrain_layout", False)
    return Effect.SIDE_EFFECT if is_required else Effect.PURE


# -- replica groups, reducers


def _check_groups(name: str, groups: ReplicaGroups, mode: GroupMode, uniform: bool = True) -> None:
    """Requires that groups contain each id from 0 on exactly once, and have one size if `uniform`."""
    if isinstance(groups, IotaGroups) and groups.iota.size <= MAX_DEVICES:
        return  # an iota has each id once
    rows = groups.groups
    if not rows:
        if mode is GroupMode.FLATTENED_ID:
            raise ShapeError(
                codes.GROUPS_GIVEN, f"{name} with use_global_device_ids=true needs replica_groups, given none"
            )
        return
    if not all(rows):
        raise ShapeError(codes.EMPTY_GROUP, f"{name}: replica_groups {groups.to_text()} have an empty group")
    ids = sorted(identifier for row in rows for identifier in row)
    if ids != list(range(len(ids))):
        raise ShapeError(
            codes.GROUP_IDS,
            f"{name}: replica_groups {groups.to_text()} must hold each id from 0 to {len(ids) - 1} once",
        )
    if uniform and len({len(row) for row in rows}) > 1:
        raise ShapeError(codes.GROUP_SIZES, f"{name}: replica_groups {groups.to_text()} must all have the same size")


def _checked_group_mode(name: str, attrs: GroupedAttributes, uniform: bool = True) -> GroupMode:
    """Verifies the replica groups of a collective and returns its group mode."""
    try:
        mode = group_mode(attrs.channel_id, getattr(attrs, "use_global_device_ids", None))
    except ShapeError as error:
        raise ShapeError(error.code, f"{name}: {error.message}") from error
    _check_groups(name, attrs.replica_groups, mode, uniform)
    return mode


def _check_shards(name: str, shards: int, groups: ReplicaGroups, mode: GroupMode) -> None:
    """Requires that the number of shards, derived from shapes, equals the group size if groups are given."""
    size = groups.group_size
    if size <= 1 and mode is not GroupMode.CROSS_REPLICA_AND_PARTITION:
        return
    fits = shards == size if mode is not GroupMode.CROSS_REPLICA_AND_PARTITION else size == 0 or shards % size == 0
    if not fits:
        raise ShapeError(
            codes.SHARD_COUNT,
            f"{name}: the shapes imply {shards} shards, but replica_groups {groups.to_text()} have {size} members",
        )


def _check_reducer(name: str, operands: Sequence[Shape], programs: ProgramShapes) -> None:
    """Requires a reducer of two scalars that returns a scalar, or N accumulators and N values for N operands."""
    require_programs(name, programs, 1)
    program = programs[0]
    for shape in (*program.parameters, *(s for _, s in program.result.leaves())):
        if not shape.is_scalar:
            raise ShapeError(
                codes.COLLECTIVE_REDUCER, f"{name}: the reducer must take and return scalars, given {program.to_text()}"
            )
    results = len(list(program.result.leaves()))
    if len(program.parameters) != 2 * results or results not in (1, len(operands)):
        raise ShapeError(
            codes.COLLECTIVE_REDUCER,
            f"{name} of {len(operands)} operands needs a reducer of two scalars, given {program.to_text()}",
        )


# -- all-gather


@attributes
class AllGatherAttributes(GroupedAttributes):
    """`all_gather_dimension` is the dimension along which shards are concatenated, in the order of the group."""

    constrain_layout: bool = attribute(BOOL, default=False)
    all_gather_dimension: int = attribute(ONE_INTEGER, key="dimensions")
    use_global_device_ids: bool = attribute(BOOL, default=False)


def _infer_resized(name: str, operands: Sequence[Shape], dimension: int, size_of: Callable[[Shape], int]) -> Shape:
    """The operands with a new size of one dimension, unless it is unbounded: one shape, or a tuple of several."""
    require_arrays(name, operands)
    shapes: list[Shape] = []
    for operand in operands:
        require_dimension(name, "dimension", dimension, operand)
        sizes = list(operand.dimensions)
        if sizes[dimension] != UNBOUNDED:
            sizes[dimension] = size_of(operand)
        shapes.append(Shape.array(operand.element_type, sizes, operand.dynamic_dimensions, operand.layout))
    return one_or_tuple(shapes)


def all_gather_shape(operands: Sequence[Shape], dimension: int, shard_count: int) -> Shape:
    """The result of an all-gather over `shard_count` participants: one shape, or a tuple for several operands."""
    return _infer_resized(
        "all-gather", operands, dimension, lambda operand: operand.dimensions[dimension] * shard_count
    )


def _check_gathered(name: str, result: Shape, operands: Sequence[Shape], attrs: AllGatherAttributes) -> None:
    mode = _checked_group_mode(name, attrs)
    require_arrays(name, operands)
    dimension = attrs.all_gather_dimension
    first = _check_result_arrays(name, result, operands, dimension)
    small, large = operands[0].dimensions[dimension], first.dimensions[dimension]
    shards = -(-large // small) if small > 0 else max(attrs.replica_groups.group_size, 1)
    require_shape(name, result, all_gather_shape(operands, dimension, shards))
    if small > 0:
        _check_shards(name, shards, attrs.replica_groups, mode)


def _check_result_arrays(name: str, result: Shape, operands: Sequence[Shape], dimension: int) -> Shape:
    """Requires one result array per operand, all with the dimension; returns the first result array."""
    arrays = result.tuple_shapes if len(operands) > 1 else (result,)
    if len(arrays) != len(operands) or not all(a.is_array for a in arrays):
        raise ShapeError(
            codes.COLLECTIVE_RESULTS,
            f"{name} of {len(operands)} operands returns as many arrays, declared {result.to_text(layout=False)}",
        )
    for operand in (*operands, arrays[0]):
        require_dimension(name, "dimension", dimension, operand)
    return arrays[0]


def _check_all_gather(shape: Shape, operands: Sequence[Shape], attrs: AllGatherAttributes, _: ProgramShapes) -> None:
    _check_gathered("all-gather", shape, operands, attrs)


ALL_GATHER = OpDef(
    name="all-gather",
    family="collectives",
    summary=(
        "Concatenates the operands of all members of a group along one dimension, in group order; every "
        "member receives the result."
    ),
    result=(
        "The shape of the operand, in which the dimension `all_gather_dimension` is as many times as large as "
        "the group has members. N operands give a tuple of N."
    ),
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`use_global_device_ids` requires a `channel_id` and replica groups.",
            codes.GROUPS_GIVEN,
            codes.CHANNEL_GIVEN,
        ),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint("All replica groups have the same size.", codes.GROUP_SIZES),
        constraint("The dimension exists in every operand.", shared.DIMENSION_NUMBER),
        constraint(
            "There is one result per operand; its shape is that of the operand with the size of the dimension "
            "multiplied by the number of members.",
            shared.RESULT_SHAPE,
            codes.SHARD_COUNT,
            codes.COLLECTIVE_RESULTS,
        ),
    ),
    arity=at_least(1),
    attributes=AllGatherAttributes,
    check=_check_all_gather,
    effect_rule=_effect,
)


def _check_all_gather_start(
    shape: Shape, operands: Sequence[Shape], attrs: AllGatherAttributes, _: ProgramShapes
) -> None:
    """Requires the result (operands, gathered)."""
    if len(shape.tuple_shapes) != 2:
        raise ShapeError(
            codes.START_SHAPE,
            f"all-gather-start has shape (operands, gathered), declared {shape.to_text(layout=False)}",
        )
    require_shape("all-gather-start: the first element", shape.tuple_shapes[0], one_or_tuple(operands))
    _check_gathered("all-gather-start", shape.tuple_shapes[1], operands, attrs)


ALL_GATHER_START = OpDef(
    name="all-gather-start",
    family="collectives",
    summary="Starts an all-gather; the result is (operands, gathered).",
    result="A tuple: the shapes of the operands (a tuple if there are several), and the result of `all-gather`.",
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`use_global_device_ids` requires a `channel_id` and replica groups.",
            codes.GROUPS_GIVEN,
            codes.CHANNEL_GIVEN,
        ),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint("All replica groups have the same size.", codes.GROUP_SIZES),
        constraint("The dimension exists in every operand.", shared.DIMENSION_NUMBER),
        constraint("The shape is (operands, gathered).", shared.RESULT_SHAPE, codes.START_SHAPE),
        constraint(
            "There is one result per operand; its shape is that of the operand with the size of the dimension "
            "multiplied by the number of members.",
            shared.RESULT_SHAPE,
            codes.SHARD_COUNT,
            codes.COLLECTIVE_RESULTS,
        ),
    ),
    arity=at_least(1),
    attributes=AllGatherAttributes,
    check=_check_all_gather_start,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.START,
)


def _second_element(name: str, operand: Shape) -> Shape:
    if len(operand.tuple_shapes) < 2:
        raise ShapeError(
            codes.DONE_OPERAND, f"{name} takes (operands, results, ...), given {operand.to_text(layout=False)}"
        )
    return operand.tuple_shapes[1]


def _infer_all_gather_done(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    return _second_element("all-gather-done", operands[0])


ALL_GATHER_DONE = OpDef(
    name="all-gather-done",
    family="collectives",
    summary="Waits for an all-gather and returns its result.",
    result="The second element of the operand's tuple.",
    operands="operand",
    constraints=(constraint("The operand is a tuple of at least two elements.", codes.DONE_OPERAND),),
    arity=exactly(1),
    infer=_infer_all_gather_done,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.DONE,
)


# -- all-reduce, reduce-scatter, collective-reduce


@attributes
class AllReduceAttributes(GroupedAttributes):
    constrain_layout: bool = attribute(BOOL, default=False)
    use_global_device_ids: bool = attribute(BOOL, default=False)


def _infer_reduced(name: str, operands: Sequence[Shape], attrs: AllReduceAttributes, programs: ProgramShapes) -> Shape:
    require_arrays(name, operands)
    _checked_group_mode(name, attrs, uniform=False)
    _check_reducer(name, operands, programs)
    return one_or_tuple(operands)


def _infer_all_reduce(operands: Sequence[Shape], attrs: AllReduceAttributes, programs: ProgramShapes) -> Shape:
    return _infer_reduced("all-reduce", operands, attrs, programs)


ALL_REDUCE = OpDef(
    name="all-reduce",
    family="collectives",
    summary=("Combines the operands of all members of a group with a computation; every member receives the result."),
    result="The shape of the operand. N operands give a tuple of N.",
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`use_global_device_ids` requires a `channel_id` and replica groups.",
            codes.GROUPS_GIVEN,
            codes.CHANNEL_GIVEN,
        ),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint(
            "The computation takes two scalars and returns one; for N operands it may also take N accumulators "
            "and N values and return N scalars.",
            codes.COLLECTIVE_REDUCER,
        ),
    ),
    arity=at_least(1),
    attributes=AllReduceAttributes,
    computation_slots=_REDUCER,
    infer=_infer_all_reduce,
    effect_rule=_effect,
    ignored_attributes=_IGNORED_MODE,
)


def _infer_all_reduce_start(operands: Sequence[Shape], attrs: AllReduceAttributes, programs: ProgramShapes) -> Shape:
    return _infer_reduced("all-reduce-start", operands, attrs, programs)


ALL_REDUCE_START = OpDef(
    name="all-reduce-start",
    family="collectives",
    summary="Starts an all-reduce; the result has the shape of the reduced operands.",
    result="The shape of the operand. N operands give a tuple of N.",
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`use_global_device_ids` requires a `channel_id` and replica groups.",
            codes.GROUPS_GIVEN,
            codes.CHANNEL_GIVEN,
        ),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint(
            "The computation takes two scalars and returns one; for N operands it may also take N accumulators "
            "and N values and return N scalars.",
            codes.COLLECTIVE_REDUCER,
        ),
    ),
    arity=at_least(1),
    attributes=AllReduceAttributes,
    computation_slots=_REDUCER,
    infer=_infer_all_reduce_start,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.START,
    ignored_attributes=_IGNORED_MODE,
)


def _infer_all_reduce_done(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    return operands[0]


ALL_REDUCE_DONE = OpDef(
    name="all-reduce-done",
    family="collectives",
    summary="Waits for an all-reduce and returns its result.",
    result="The shape of the operand.",
    operands="operand",
    arity=exactly(1),
    infer=_infer_all_reduce_done,
    effect=Effect.SIDE_EFFECT,
    in_place_pairs=((0, ()),),
    async_role=AsyncRole.DONE,
)


@attributes
class ReduceScatterAttributes(AllReduceAttributes):
    """`scatter_dimension` is the dimension of the reduced array that is split into one block per participant."""

    scatter_dimension: int = attribute(ONE_INTEGER, key="dimensions")


def reduce_scatter_shape(operands: Sequence[Shape], dimension: int, shard_count: int) -> Shape:
    """The result of a reduce-scatter over `shard_count` participants: one shape, or a tuple for several operands."""

    def block(operand: Shape) -> int:
        size = operand.dimensions[dimension]
        if size % shard_count:
            raise ShapeError(
                codes.GROUP_SIZE_DIVIDES,
                f"reduce-scatter: dimension {dimension} of {operand.to_text(layout=False)} must be divisible by "
                f"the number of shards {shard_count}",
            )
        return size // shard_count

    return _infer_resized("reduce-scatter", operands, dimension, block)


def _check_reduce_scatter(
    shape: Shape, operands: Sequence[Shape], attrs: ReduceScatterAttributes, programs: ProgramShapes
) -> None:
    name = "reduce-scatter"
    mode = _checked_group_mode(name, attrs)
    require_arrays(name, operands)
    _check_reducer(name, operands, programs)
    dimension = attrs.scatter_dimension
    first = _check_result_arrays(name, shape, operands, dimension)
    large, small = operands[0].dimensions[dimension], first.dimensions[dimension]
    shards = -(-large // small) if small > 0 else max(attrs.replica_groups.group_size, 1)
    require_shape(name, shape, reduce_scatter_shape(operands, dimension, max(shards, 1)))
    if small > 0:
        _check_shards(name, shards, attrs.replica_groups, mode)


REDUCE_SCATTER = OpDef(
    name="reduce-scatter",
    family="collectives",
    summary=(
        "Combines the operands of a group with a computation and splits the result along one dimension; "
        "each member receives one block."
    ),
    result=(
        "The shape of the operand, in which the scattered dimension is divided by the number of members of the "
        "group. N operands give a tuple of N."
    ),
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`use_global_device_ids` requires a `channel_id` and replica groups.",
            codes.GROUPS_GIVEN,
            codes.CHANNEL_GIVEN,
        ),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint("All replica groups have the same size.", codes.GROUP_SIZES),
        constraint(
            "The computation takes two scalars and returns one; for N operands it may also take N accumulators "
            "and N values and return N scalars.",
            codes.COLLECTIVE_REDUCER,
        ),
        constraint("The dimension exists in every operand.", shared.DIMENSION_NUMBER),
        constraint(
            "There is one result per operand; its shape is that of the operand with the size of the dimension "
            "divided by the number of members, without remainder.",
            shared.RESULT_SHAPE,
            codes.SHARD_COUNT,
            codes.GROUP_SIZE_DIVIDES,
            codes.COLLECTIVE_RESULTS,
        ),
    ),
    arity=at_least(1),
    attributes=ReduceScatterAttributes,
    computation_slots=_REDUCER,
    check=_check_reduce_scatter,
    effect_rule=_effect,
    ignored_attributes=_IGNORED_MODE,
)


def _infer_rooted(name: str, operands: Sequence[Shape], has_dynamic_root: bool) -> Shape:
    """The shapes of the data operands. A dynamic root is a last operand with the group position of each one's root."""
    require_arrays(name, operands)
    if not has_dynamic_root:
        return one_or_tuple(operands)
    data, root = operands[:-1], operands[-1]
    if not data:
        raise ShapeError(
            codes.ROOT_OPERAND,
            f"{name} with has_dynamic_root=true takes data operands "
            f"before the root, given only {root.to_text(layout=False)}",
        )
    wanted = Shape.array(S32, (len(data),))
    if not compatible_ignoring_dynamic(root, wanted):
        raise ShapeError(
            codes.ROOT_OPERAND,
            f"{name}: the root of {len(data)} data operands must be "
            f"{wanted.to_text(layout=False)}, given {root.to_text(layout=False)}",
        )
    return one_or_tuple(data)


@attributes
class CollectiveReduceAttributes(AllReduceAttributes):
    """If `has_dynamic_root` is false, the first member of each group receives the result."""

    has_dynamic_root: bool = attribute(BOOL, default=False, always=True)


def _infer_collective_reduce(
    operands: Sequence[Shape], attrs: CollectiveReduceAttributes, programs: ProgramShapes
) -> Shape:
    _checked_group_mode("collective-reduce", attrs)
    shape = _infer_rooted("collective-reduce", operands, attrs.has_dynamic_root)
    _check_reducer("collective-reduce", operands[:-1] if attrs.has_dynamic_root else operands, programs)
    return shape


COLLECTIVE_REDUCE = OpDef(
    name="collective-reduce",
    family="collectives",
    summary=(
        "Combines the operands of a group with a computation; only the root receives the result. The root "
        "is the first member, or the one that the last operand names."
    ),
    result="The shape of the operand. N operands give a tuple of N; a dynamic root is not one of them.",
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`use_global_device_ids` requires a `channel_id` and replica groups.",
            codes.GROUPS_GIVEN,
            codes.CHANNEL_GIVEN,
        ),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint("All replica groups have the same size.", codes.GROUP_SIZES),
        constraint(
            "The computation takes two scalars and returns one; for N operands it may also take N accumulators "
            "and N values and return N scalars.",
            codes.COLLECTIVE_REDUCER,
        ),
        constraint(
            "With `has_dynamic_root`, the last operand is an s32 vector with one root for each of the other "
            "operands, of which there is at least one.",
            codes.ROOT_OPERAND,
        ),
    ),
    arity=at_least(1),
    attributes=CollectiveReduceAttributes,
    computation_slots=_REDUCER,
    infer=_infer_collective_reduce,
    effect=Effect.SIDE_EFFECT,
)


# -- all-to-all


@attributes
class AllToAllAttributes(GroupedAttributes):
    """With `split_dimension`, one array is split and concatenated along it; without, operand i goes to member i."""

    constrain_layout: bool = attribute(BOOL, default=False)
    split_dimension: int | None = attribute(ONE_INTEGER, default=None, key="dimensions")


def _infer_all_to_all(operands: Sequence[Shape], attrs: AllToAllAttributes, _: ProgramShapes) -> Shape:
    require_arrays("all-to-all", operands)
    _checked_group_mode("all-to-all", attrs)
    members = attrs.replica_groups.group_size  # 0 if the groups are implicit
    if attrs.split_dimension is not None:
        return _infer_split_all_to_all(operands, attrs.split_dimension, members)
    if members and len(operands) != members:
        raise ShapeError(
            codes.EXCHANGED_OPERANDS,
            f"all-to-all takes one operand per member: {len(operands)} operands, "
            f"replica_groups {attrs.replica_groups.to_text()} have {members} members",
        )
    for number, operand in enumerate(operands):
        if not operand.compatible(operands[0]):
            raise ShapeError(
                codes.EXCHANGED_SHAPES,
                f"all-to-all: operand 0 is {operands[0].to_text(layout=False)}, "
                f"operand {number} is {operand.to_text(layout=False)}",
            )
        if not same_layout(operand, operands[0]):
            raise ShapeError(
                codes.EXCHANGED_SHAPES,
                f"all-to-all: operand 0 has the layout of {operands[0]}, operand {number} that of {operand}",
            )
    return Shape.tuple(operands)


def _infer_split_all_to_all(operands: Sequence[Shape], dimension: int, members: int) -> Shape:
    if len(operands) != 1:
        raise ShapeError(
            codes.EXCHANGED_OPERANDS, f"all-to-all along a dimension takes one operand, given {len(operands)}"
        )
    (operand,) = operands
    require_dimension("all-to-all", "split dimension", dimension, operand)
    size = operand.dimensions[dimension]
    if members and size >= 0 and size % members:
        raise ShapeError(
            codes.GROUP_SIZE_DIVIDES,
            f"all-to-all: dimension {dimension} of {operand.to_text(layout=False)} "
            f"must be divisible by the {members} group members",
        )
    return operand


ALL_TO_ALL = OpDef(
    name="all-to-all",
    family="collectives",
    summary=(
        "Member i of a group receives block i of every member. The blocks are slices of one array along "
        "`dimensions`, concatenated there again, or separate operands."
    ),
    result=(
        "The shape of the operand, if it is split along a dimension. Without a dimension, the tuple of the "
        "operands' shapes."
    ),
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint("All replica groups have the same size.", codes.GROUP_SIZES),
        constraint(
            "With a dimension there is one operand, and its size there is a multiple of the number of members.",
            codes.GROUP_SIZE_DIVIDES,
            codes.EXCHANGED_OPERANDS,
        ),
        constraint(
            "Without a dimension there is one operand per member, all with the same shape and layout.",
            codes.EXCHANGED_OPERANDS,
            codes.EXCHANGED_SHAPES,
        ),
    ),
    arity=at_least(1),
    attributes=AllToAllAttributes,
    infer=_infer_all_to_all,
    effect_rule=_effect,
)


@attributes
class RaggedAllToAllAttributes(GroupedAttributes):
    """The attributes of a ragged-all-to-all, which has only groups."""


_RAGGED = ("input", "output", "input_offsets", "send_sizes", "output_offsets", "recv_sizes")


def _infer_ragged_all_to_all(operands: Sequence[Shape], attrs: RaggedAllToAllAttributes, _: ProgramShapes) -> Shape:
    require_arrays("ragged-all-to-all", operands)
    _checked_group_mode("ragged-all-to-all", attrs)
    offsets = operands[2]
    if offsets.rank not in (1, 2):
        raise ShapeError(
            codes.RAGGED_OFFSETS,
            f"ragged-all-to-all: input_offsets must have rank 1 or 2, given {offsets.to_text(layout=False)}",
        )
    for number in range(3, 6):
        if not compatible_ignoring_dynamic(operands[number], offsets):
            raise ShapeError(
                codes.RAGGED_OFFSETS,
                f"ragged-all-to-all: {_RAGGED[number]} must have the "
                f"shape of input_offsets {offsets.to_text(layout=False)}, "
                f"given {operands[number].to_text(layout=False)}",
            )
    return operands[1]


RAGGED_ALL_TO_ALL = OpDef(
    name="ragged-all-to-all",
    family="collectives",
    summary=(
        "Every member of a group sends member i the slice of send_sizes[i] rows of its input at "
        "input_offsets[i]; the slice is written into the `output` of member i at output_offsets[i]."
    ),
    result="The shape of `output`.",
    operands="input output input_offsets send_sizes output_offsets recv_sizes",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "Replica groups contain each id from 0 up exactly once, and no group is empty.",
            codes.EMPTY_GROUP,
            codes.GROUP_IDS,
        ),
        constraint("All replica groups have the same size.", codes.GROUP_SIZES),
        constraint(
            "The offsets into the input have rank 1 or 2, and the other offsets and sizes have the same shape.",
            codes.RAGGED_OFFSETS,
        ),
    ),
    arity=exactly(6),
    attributes=RaggedAllToAllAttributes,
    infer=_infer_ragged_all_to_all,
    in_place_pairs=((1, ()),),
    ignored_attributes={"dimensions": INTEGERS},
)


# -- collective-broadcast, collective-permute


@attributes
class CollectiveBroadcastAttributes(GroupedAttributes):
    """If `has_dynamic_root` is false, the first member of each group sends."""

    has_dynamic_root: bool = attribute(BOOL, default=False)


def _infer_collective_broadcast(
    operands: Sequence[Shape], attrs: CollectiveBroadcastAttributes, _: ProgramShapes
) -> Shape:
    return _infer_rooted("collective-broadcast", operands, attrs.has_dynamic_root)


COLLECTIVE_BROADCAST = OpDef(
    name="collective-broadcast",
    family="collectives",
    summary=(
        "Sends the operand of one member of a group, the root, to all members. The root is the first "
        "member, or the one that the last operand names. Devices outside all groups receive zeros."
    ),
    result="The shape of the operand. N operands give a tuple of N; a dynamic root is not one of them.",
    operands="operands*",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "With `has_dynamic_root`, the last operand is an s32 vector with one root for each of the other "
            "operands, of which there is at least one.",
            codes.ROOT_OPERAND,
        ),
    ),
    arity=at_least(1),
    attributes=CollectiveBroadcastAttributes,
    infer=_infer_collective_broadcast,
    effect=Effect.SIDE_EFFECT,
)


@attributes
class CollectivePermuteAttributes(CollectiveAttributes):
    """Pairs (source, target). With `slice_sizes`, slices of the input buffer are sent into the output buffer."""

    source_target_pairs: IntegerLists = attribute(INTEGER_LISTS)
    slice_sizes: IntegerLists = attribute(INTEGER_LISTS, default=())


def _check_pairs(name: str, pairs: IntegerLists, most: int) -> None:
    """Requires that each id is source and target at most `most` times: once, or once per slice."""
    if isinstance(pairs, Permutation):
        return
    for pair in pairs:
        if len(pair) != 2 or min(pair) < 0:
            raise ShapeError(
                codes.PERMUTATION_PAIRS,
                f"{name}: source_target_pairs must be pairs of ids from 0 on, found {list(pair)}",
            )
    for what, ids in (("source", [p[0] for p in pairs]), ("target", [p[1] for p in pairs])):
        for identifier, times in Counter(ids).items():
            if times > most:
                raise ShapeError(
                    codes.PERMUTATION_ONCE,
                    f"{name}: {what} {identifier} appears {times} times in "
                    f"source_target_pairs={INTEGER_LISTS.write(pairs)}, at most {most} allowed",
                )


def _infer_permuted(name: str, operands: Sequence[Shape], attrs: CollectivePermuteAttributes) -> tuple[Shape, Shape]:
    """Returns the operands as the start form returns them, and the result."""
    if not attrs.slice_sizes:
        require_arrays(name, operands)
        _check_pairs(name, attrs.source_target_pairs, 1)
        return one_or_tuple(operands), one_or_tuple(operands)
    if len(operands) != 4:
        raise ShapeError(
            codes.PERMUTATION_BUFFERS,
            f"{name} with slice_sizes takes input, output and their offsets: 4 operands, given {len(operands)}",
        )
    slices = _check_slices(name, operands)
    _check_pairs(name, attrs.source_target_pairs, slices)
    return operands[0], operands[1]


def _check_slices(name: str, operands: Sequence[Shape]) -> int:
    """Requires offsets with one scalar per dimension for each slice of each buffer; returns the number of slices."""
    source, target = map(elements_of, operands[:2])
    if operands[0].is_tuple is not operands[1].is_tuple or len(source) != len(target):
        raise ShapeError(
            codes.PERMUTATION_BUFFERS,
            f"{name}: input {operands[0].to_text(layout=False)} and output "
            f"{operands[1].to_text(layout=False)} must have the same number of buffers",
        )
    for buffers, offsets in ((operands[0], operands[2]), (operands[1], operands[3])):
        parts = elements_of(buffers)
        places = offsets.tuple_shapes if buffers.is_tuple else (offsets,)
        if len(parts) != len(places):
            raise ShapeError(
                codes.PERMUTATION_OFFSETS,
                f"{name}: offsets {offsets.to_text(layout=False)} must hold "
                f"one entry for each buffer of {buffers.to_text(layout=False)}",
            )
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
            codes.PERMUTATION_OFFSETS,
            f"{name}: offsets into {buffer.to_text(layout=False)} must be a tuple "
            f"of {buffer.rank} scalars, given {offsets.to_text(layout=False)}",
        )


def _infer_collective_permute(operands: Sequence[Shape], attrs: CollectivePermuteAttributes, _: ProgramShapes) -> Shape:
    return _infer_permuted("collective-permute", operands, attrs)[1]


COLLECTIVE_PERMUTE = OpDef(
    name="collective-permute",
    family="collectives",
    summary="Sends the operand from each source to its target; a device that is not a target receives zeros.",
    result=(
        "The shape of the operand. N operands give a tuple of N. With `slice_sizes`, the shape of the output operand."
    ),
    operands="operands*",
    constraints=(
        constraint("Without `slice_sizes`, operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`source_target_pairs` are pairs of ids of at least 0; an id is a source at most once and a target "
            "at most once (with slices, once per slice).",
            codes.PERMUTATION_PAIRS,
            codes.PERMUTATION_ONCE,
        ),
        constraint(
            "With `slice_sizes`, there are four operands: the input, the output, and their offsets with one "
            "scalar per dimension of each buffer.",
            codes.PERMUTATION_BUFFERS,
            codes.PERMUTATION_OFFSETS,
        ),
    ),
    arity=at_least(1),
    attributes=CollectivePermuteAttributes,
    infer=_infer_collective_permute,
    effect_rule=_effect,
)


def _check_collective_permute_start(
    shape: Shape, operands: Sequence[Shape], attrs: CollectivePermuteAttributes, _: ProgramShapes
) -> None:
    """Requires the result (operands, results, contexts...)."""
    expected = _infer_permuted("collective-permute-start", operands, attrs)
    if len(shape.tuple_shapes) < 2:
        raise ShapeError(
            codes.START_SHAPE,
            f"collective-permute-start has shape (operands, results, ...), declared {shape.to_text(layout=False)}",
        )
    require_shape("collective-permute-start", shape, Shape.tuple((*expected, *shape.tuple_shapes[2:])))


COLLECTIVE_PERMUTE_START = OpDef(
    name="collective-permute-start",
    family="collectives",
    summary="Starts a collective-permute; the result is (operands, results, contexts...).",
    result="A tuple: the shapes of the operands, the result of `collective-permute`, and contexts in `u32[]`, if any.",
    operands="operands*",
    constraints=(
        constraint("Without `slice_sizes`, operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`source_target_pairs` are pairs of ids of at least 0; an id is a source at most once and a target "
            "at most once (with slices, once per slice).",
            codes.PERMUTATION_PAIRS,
            codes.PERMUTATION_ONCE,
        ),
        constraint(
            "With `slice_sizes`, there are four operands: the input, the output, and their offsets with one "
            "scalar per dimension of each buffer.",
            codes.PERMUTATION_BUFFERS,
            codes.PERMUTATION_OFFSETS,
        ),
        constraint("The shape is (operands, results, contexts...).", shared.RESULT_SHAPE, codes.START_SHAPE),
    ),
    arity=at_least(1),
    attributes=CollectivePermuteAttributes,
    check=_check_collective_permute_start,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.START,
)


def _infer_collective_permute_done(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    return _second_element("collective-permute-done", operands[0])


COLLECTIVE_PERMUTE_DONE = OpDef(
    name="collective-permute-done",
    family="collectives",
    summary="Waits for a collective-permute and returns its result.",
    result="The second element of the operand's tuple.",
    operands="operand",
    constraints=(constraint("The operand is a tuple of at least two elements.", codes.DONE_OPERAND),),
    arity=exactly(1),
    infer=_infer_collective_permute_done,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.DONE,
)


# -- replica-id, partition-id


def _infer_identifier(_: Sequence[Shape], __: Any, ___: ProgramShapes) -> Shape:
    return Shape.scalar(U32)


REPLICA_ID = OpDef(
    name="replica-id",
    family="collectives",
    summary="The id of the current replica, as u32.",
    result="`u32[]`.",
    arity=exactly(0),
    infer=_infer_identifier,
)
PARTITION_ID = OpDef(
    name="partition-id",
    family="collectives",
    summary="The id of the current partition, as u32.",
    result="`u32[]`.",
    arity=exactly(0),
    infer=_infer_identifier,
)
