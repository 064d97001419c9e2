"""Assigns the collectives of a program to rendezvous records in the memory that its devices share.

Responsible for which instructions share a rendezvous, where its record and staging memory lie, and which collectives
fall back to the host. Does not depend on what members send and receive (`collective_thunks`) or on how devices wait.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import ADDRESS_BYTES, rendezvous_header_bytes, round_to_cache_lines
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.lower import LOWERINGS
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, participants
from xlapy.opcodes.collectives import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    group_mode_of,
    has_dynamic_root,
)
from xlapy.opcodes.registry import AsyncRole

MAX_STAGED_BYTES = 1 << 20
"""The largest size of the operands of all members that are copied to staging memory. Members publish the addresses of
larger operands instead."""

MAX_STAGED_BYTES_OVER_PROCESSES = 1 << 16
"""The same for programs that span processes. An all-reduce of staged operands sends each of them whole to all other
processes; one of published operands sends two blocks of each to another process, in two exchanges."""

MAX_SHARED_BYTES = 1 << 27
"""The largest size of all rendezvous of a program. Collectives beyond it fall back to the host."""

MAX_MEMBERS = 512
"""The largest group. Collectives of larger groups fall back to the host: three collectives, with tables of offsets for
all members, take 5 s to compile for 512 devices, and 21 s for 1000."""

_GROUPED = frozenset({
    opcodes.ALL_GATHER, opcodes.ALL_GATHER_START, opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START, opcodes.ALL_TO_ALL,
    opcodes.COLLECTIVE_BROADCAST, opcodes.COLLECTIVE_REDUCE, opcodes.REDUCE_SCATTER,
})  # fmt: skip
_PERMUTES = frozenset({opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START})


@dataclass(slots=True)
class RendezvousRecord:
    """The rendezvous record, in each group of devices, of instructions whose operands have the same sizes."""

    groups: dict[int, tuple[int, ...]]
    """The members of each device's group; empty for a device that is in no group."""
    sizes: tuple[int, ...]
    """The size in bytes of each operand."""
    direct: bool = False
    """Whether members publish only the addresses of their operands and results."""
    may_stay_pending: bool = True
    """Whether a device may do other things between the start and the done of an asynchronous collective. Instructions
    that share a record take part in turns, so that none may be left pending while another one runs."""
    offsets: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    """The offset in shared memory of the record of each group; a device in no group has a record of its own."""

    @property
    def member_count(self) -> int:
        return max(map(len, self.groups.values()))

    @property
    def staging_size(self) -> int:
        """The size in bytes of the operands of all members, or of their addresses."""
        if self.direct:
            return round_to_cache_lines(self.member_count * 2 * len(self.sizes) * ADDRESS_BYTES)
        return self.operand_offset(len(self.sizes))

    def operand_offset(self, operand: int) -> int:
        """Where all members' arrays of an operand start in staging memory."""
        return sum(round_to_cache_lines(self.member_count * size) for size in self.sizes[:operand])


class RendezvousAssignment:
    """The rendezvous of a program, with their offsets in shared memory."""

    def __init__(self, module: Module, program: NativeProgram) -> None:
        self._program = program
        self._devices = program.replica_count * program.partition_count
        self._assigned: dict[Instruction, RendezvousRecord] = {}
        by_channel: dict[Hashable, list[Instruction]] = {}
        for computation in computation_post_order(module):
            for instruction in computation:
                if instruction.op.family == "collectives" and isinstance(instruction.attributes, CollectiveAttributes):
                    channel = instruction.attributes.channel_id
                    by_channel.setdefault(instruction if channel is None else channel, []).append(instruction)
        for instructions in by_channel.values():
            self._assign(instructions)

    def find(self, instruction: Instruction) -> RendezvousRecord | None:
        """Returns the rendezvous of an instruction; None if the instruction falls back to the host."""
        return self._assigned.get(instruction)

    def _assign(self, instructions: Sequence[Instruction]) -> None:
        """Assigns one rendezvous to all instructions of a channel, if they are compatible.

        Asynchronous collectives of one computation that have the same channel, as inlining leaves them, get one each:
        every device executes all of them.
        """
        are_asynchronous = any(
            one.op.async_role is AsyncRole.START or _caller(one) is not one.parent for one in instructions
        )
        if len(instructions) > 1 and are_asynchronous and len(set(map(_caller, instructions))) == 1:
            for instruction in instructions:
                self._assign([instruction])
            return
        candidates = [self._candidate(instruction) for instruction in instructions]
        signatures = {(i.op.name, *(shape.to_text(layout=False) for shape in i.operand_shapes)) for i in instructions}
        first = candidates[0]
        if first is None or len(signatures) > 1 or any(c is None or c.groups != first.groups for c in candidates):
            return
        size = round_to_cache_lines(rendezvous_header_bytes(first.member_count) + 2 * first.staging_size)
        groups = dict.fromkeys(group or (device,) for device, group in first.groups.items())
        if self._program.shared_size + len(groups) * size > MAX_SHARED_BYTES:
            return
        first.may_stay_pending = len(instructions) == 1
        first.offsets |= {group: self._program.allocate_shared(size) for group in groups}
        self._assigned |= dict.fromkeys(instructions, first)

    def _candidate(self, instruction: Instruction) -> RendezvousRecord | None:
        """Returns a rendezvous for an instruction; None if its form is not supported or its groups are invalid."""
        if not _has_native_form(instruction):
            return None
        groups = (
            ALL_REPLICAS if instruction.op in _PERMUTES else instruction.attributes_as(GroupedAttributes).replica_groups
        )
        counts = self._program.replica_count, self._program.partition_count
        try:
            mode = group_mode_of(instruction.attributes_as(CollectiveAttributes))
            members = {device: participants(groups, mode, *counts, device) for device in range(self._devices)}
        except ShapeError:
            return None
        lengths = {len(group) for group in members.values() if group}
        sizes = tuple(byte_size(shape) for shape in instruction.operand_shapes)
        if len(lengths) != 1 or max(lengths) > MAX_MEMBERS:
            return None
        count = max(lengths)
        limit = MAX_STAGED_BYTES_OVER_PROCESSES if self._program.spans_processes else MAX_STAGED_BYTES
        direct = count * sum(sizes) > limit or instruction.op is opcodes.COLLECTIVE_REDUCE
        if (
            instruction.op in _PERMUTES
            and max(map(max, instruction.attributes_as(CollectivePermuteAttributes).source_target_pairs), default=0)
            >= count
        ):
            return None
        if direct and not all(members.values()) and instruction.op is not opcodes.COLLECTIVE_BROADCAST:
            return None
        return RendezvousRecord(members, sizes, direct)


def _caller(instruction: Instruction) -> Computation | None:
    """Returns the computation that executes a collective: that of the async-start that calls it, or its own."""
    assert instruction.parent is not None
    starts = [caller for caller in instruction.parent.callers if caller.op is opcodes.ASYNC_START]
    return starts[0].parent if starts else instruction.parent


def _has_native_form(instruction: Instruction) -> bool:
    if instruction.op in _PERMUTES:
        return not instruction.attributes_as(CollectivePermuteAttributes).slice_sizes
    if instruction.op not in _GROUPED or has_dynamic_root(instruction.attributes):
        return False
    return not instruction.computations or _has_elementwise_reducer(instruction)


def reason_against_rendezvous(instruction: Instruction) -> str:
    """Why an instruction without a rendezvous falls back to the host."""
    if has_dynamic_root(instruction.attributes):
        return "its root is computed"
    if not _has_native_form(instruction):
        return "it moves slices" if instruction.op in _PERMUTES else "its reducer is not elementwise"
    return f"its groups are uneven or have more than {MAX_MEMBERS} members, or its channel has other uses"


def _has_elementwise_reducer(instruction: Instruction) -> bool:
    """Whether the reducer consists of elementwise scalar operations and does not convert complex operands to real."""
    reducer = instruction.to_apply
    leaves = _reducer_leaves(instruction)
    if any(i.op not in LOWERINGS or not i.op.elementwise for i in reducer if i not in leaves):
        return False
    types = [parameter.shape.element_type for parameter in reducer.parameters]
    operands = [shape.element_type for shape in instruction.operand_shapes]
    if len(types) > 2:
        dimensions = {shape.dimensions for shape in instruction.operand_shapes}
        return len(dimensions) == 1 and len(types) == 2 * len(operands)
    return all(types[0].is_complex or not t.is_complex for t in operands)


def _reducer_leaves(instruction: Instruction) -> set[Instruction]:
    """Returns the other instructions that a reducer may contain: parameters, scalar constants and the root tuple."""
    reducer = instruction.to_apply
    constants = {i for i in reducer if i.op is opcodes.CONSTANT and i.shape.is_array and not i.shape.rank}
    root = reducer.root_instruction
    return {*reducer.parameters, *constants, *([root] if root.op is opcodes.TUPLE else [])}


def byte_size(shape: Shape) -> int:
    """Returns the size in bytes of an array."""
    return shape.size * shape.element_type.byte_size
