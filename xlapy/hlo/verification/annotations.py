"""Verification of annotations: execution threads, shardings, original values, composite calls, replica groups.

Responsible for rules about annotations, and for collectives that contradict the replica and partition counts of the
module. The shape rules of single ops are in `xlapy.opcodes`. Does not depend on text.
Source: InstructionVerifier, VerifyOriginalValue, VerifyLayoutConstrainedAllReduce, CheckReplicaGroups of XLA.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.error_codes.structure import annotations as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ModuleConfig
from xlapy.hlo.verification.failure import fail
from xlapy.opcodes.attributes.replica_groups import GroupMode
from xlapy.opcodes.collectives import (
    ALL_REDUCE,
    ALL_REDUCE_START,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_PERMUTE,
    COLLECTIVE_PERMUTE_START,
    AllReduceAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    group_mode_of,
)
from xlapy.opcodes.control import ASYNC_START, CALL, CONDITIONAL, WHILE, CallAttributes
from xlapy.opcodes.reduction import SELECT_AND_SCATTER

_OPS_WITH_OWN_THREAD = frozenset([ASYNC_START, SELECT_AND_SCATTER])
"""Ops whose called computations may run on another thread than the caller."""


def verify_annotations(module: Module) -> None:
    """Raises `VerificationError` at the first annotation that does not fit its instruction."""
    constrained: Instruction | None = None
    for computation in module.computations:
        for instruction in computation:
            if instruction.computations:
                _verify_threads(instruction)
                _verify_equal_shardings(instruction)
            if instruction.sharding is not None:
                _verify_sharding(instruction)
            if instruction.original_value:
                _verify_original_value(instruction)
            if instruction.op is CALL and instruction.attributes_as(CallAttributes).is_composite:
                _verify_composite(instruction)
            if isinstance(instruction.attributes, GroupedAttributes) and instruction.op is not COLLECTIVE_BROADCAST:
                _verify_group_members(instruction, module.config)
            if instruction.op in (COLLECTIVE_PERMUTE, COLLECTIVE_PERMUTE_START):
                _verify_source_target_pairs(instruction, module.config)
            if instruction.op in (ALL_REDUCE, ALL_REDUCE_START):
                constrained = constrained or instruction
                _verify_same_layout_constraint(instruction, constrained)


def _verify_threads(instruction: Instruction) -> None:
    if instruction.op in _OPS_WITH_OWN_THREAD or instruction.parent is None:
        return
    thread = instruction.parent.execution_thread
    for called in instruction.computations:
        if called.execution_thread != thread:
            fail(
                instruction,
                codes.EXECUTION_THREAD,
                f"runs on thread {thread}, the computation {called.name} on {called.execution_thread}",
            )


# -- shardings


def _verify_sharding(instruction: Instruction) -> None:
    assert instruction.sharding is not None
    try:
        instruction.sharding.check(instruction.shape)
    except ShapeError as error:
        fail(instruction, error.code, error.message)


def _verify_equal_shardings(instruction: Instruction) -> None:
    """Verifies that a loop and its parameters, and a conditional and its branches, have the same sharding if any."""
    first: Instruction | None = None
    for other in _instructions_sharded_alike(instruction):
        if other.sharding is None:
            continue
        first = first or other
        if other.sharding != first.sharding:
            fail(
                instruction,
                codes.EQUAL_SHARDINGS,
                f"{first.name} has sharding {first.sharding}, {other.name} has {other.sharding}",
            )


def _instructions_sharded_alike(instruction: Instruction) -> Sequence[Instruction]:
    if instruction.op is WHILE:
        condition, body = instruction.computations
        return instruction, body.root_instruction, *body.parameters[:1], *condition.parameters[:1]
    if instruction.op is CONDITIONAL:
        return instruction, *(branch.root_instruction for branch in instruction.computations)
    return ()


# -- original values


def _verify_original_value(instruction: Instruction) -> None:
    """Verifies that an original value has one array, possibly empty, per leaf of the shape."""
    structure = _tuple_structure_of_original_value(instruction.original_value)
    expected = _tuple_structure_of_shape(instruction.shape)
    if structure is not None and structure != expected:
        fail(
            instruction,
            codes.ORIGINAL_VALUE,
            f"origin {{{instruction.original_value}}} does not have the tuple structure of the shape "
            f"{instruction.shape.to_text(layout=False)}",
        )


def _tuple_structure_of_original_value(original: str) -> str | None:
    """The tuple structure of an original value: `({"a"}, {})` -> `({}{})`; None for a synthetic call."""
    if original.startswith("["):
        return None
    parts: list[str] = []
    depth = 0
    quoted = False
    for character in original:
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in "()" and not depth:
            parts.append(character)
        elif character in "{}":
            depth += 1 if character == "{" else -1
            parts.append("" if depth else "" if character == "{" else "{}")
    return "".join(parts)


def _tuple_structure_of_shape(shape: Shape) -> str:
    if shape.is_tuple:
        return f"({''.join(map(_tuple_structure_of_shape, shape.tuple_shapes))})"
    return "{}"


# -- composite calls


def _verify_composite(call: Instruction) -> None:
    attributes = call.frontend_attributes or {}
    if not attributes.get("composite.name"):
        fail(call, codes.COMPOSITE_CALL, "a composite call needs a frontend attribute composite.name that is not empty")
    if attributes.get("composite.attributes") == "":
        fail(
            call,
            codes.COMPOSITE_CALL,
            "the frontend attribute composite.attributes of a composite call is a dictionary such as {}, not empty",
        )
    version = attributes.get("composite.version")
    if version is not None and not (version.strip().isdecimal() and len(version.strip()) < 19):
        fail(
            call,
            codes.COMPOSITE_CALL,
            f"the frontend attribute composite.version is {version!r}, it must be an integer of at least 0",
        )


# -- collectives and the devices of the module


def _verify_group_members(instruction: Instruction, config: ModuleConfig) -> None:
    """Verifies that groups contain all replicas, partitions or devices, if the module declares more than one."""
    attributes = instruction.attributes_as(GroupedAttributes)
    groups = attributes.replica_groups
    members = groups.group_count * groups.group_size
    if not members or len({len(group) for group in groups.groups}) > 1:
        members = sum(map(len, groups.groups))
    if not members:
        return
    mode = group_mode_of(attributes)
    count, what = {
        GroupMode.CROSS_PARTITION: (config.num_partitions, "partitions"),
        GroupMode.FLATTENED_ID: (config.replica_count * config.num_partitions, "devices"),
    }.get(mode, (config.replica_count, "replicas"))
    if count not in (1, members):
        fail(
            instruction,
            codes.GROUP_MEMBERS,
            f"replica_groups {groups.to_text()} have {members} members, the module has {count} {what}",
        )


def _verify_source_target_pairs(instruction: Instruction, config: ModuleConfig) -> None:
    """Verifies that pairs name existing replicas, or partitions if there is a channel id."""
    attributes = instruction.attributes_as(CollectivePermuteAttributes)
    by_partition = attributes.channel_id is not None
    limit = config.num_partitions if by_partition else config.replica_count
    what = "partitions" if by_partition else "replicas"
    for pair in attributes.source_target_pairs:
        for end, number in zip(("source", "target"), pair, strict=True):
            if limit != 1 and number >= limit:
                fail(
                    instruction,
                    codes.PAIR_MEMBERS,
                    f"{end} {number} of source_target_pairs must be below {limit}, the number of {what}",
                )


def _verify_same_layout_constraint(instruction: Instruction, first: Instruction) -> None:
    constrained = instruction.attributes_as(AllReduceAttributes).constrain_layout
    if constrained != first.attributes_as(AllReduceAttributes).constrain_layout:
        text = str(constrained).lower()
        fail(
            instruction,
            codes.LAYOUT_CONSTRAINTS,
            f"has constrain_layout={text}, {first.name} the opposite: a module has one or the other",
        )
