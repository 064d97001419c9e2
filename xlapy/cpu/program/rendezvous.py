"""Doors: where the devices of a program meet for its collectives, in the memory that they share.

Owns: which instructions meet at one door, where doors lie, which forms are left to the host. Must not know: what is
brought to a door and taken from it (`collectives`), how devices wait.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.cpu.program.thunks import NativeProgram, rendezvous_header_bytes, rounded
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.lower import LOWERINGS
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, group_mode, participants

MOST_BYTES = 1 << 20
"""Of the operands of all members that are copied to a door: of larger ones the members are shown the addresses."""

MOST_SHARED = 1 << 27
"""Bytes of all doors of a program."""

MOST_MEMBERS = 128

_ADDRESS = 8
"""Bytes of an address."""

_GROUPED = frozenset({
    opcodes.ALL_GATHER, opcodes.ALL_GATHER_START, opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START, opcodes.ALL_TO_ALL,
    opcodes.COLLECTIVE_BROADCAST, opcodes.COLLECTIVE_REDUCE, opcodes.REDUCE_SCATTER,
})  # fmt: skip
_PERMUTES = frozenset({opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START})


@dataclass(slots=True)
class Door:
    """Where the devices of each group meet for some instructions; all of these bring operands of the same sizes."""

    groups: dict[int, tuple[int, ...]]
    """The members, by device; none for who is in no group."""
    sizes: tuple[int, ...]
    """Bytes of each operand."""
    direct: bool = False
    """Whether members bring the addresses of their operands and results only."""
    places: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    """Where the door of each group lies in shared memory, and one of its own for who is in none."""

    @property
    def count(self) -> int:
        return max(map(len, self.groups.values()))

    @property
    def stage_size(self) -> int:
        """The operands of all members, or their addresses."""
        if self.direct:
            return rounded(self.count * 2 * len(self.sizes) * _ADDRESS)
        return sum(rounded(self.count * size) for size in self.sizes)

    def region(self, operand: int) -> int:
        """Where the arrays of an operand begin."""
        return sum(rounded(self.count * size) for size in self.sizes[:operand])


class Doors:
    """The doors of a program, laid out in the memory that its devices share."""

    def __init__(self, module: Module, program: NativeProgram) -> None:
        self._program = program
        self._devices = program.replica_count * program.partition_count
        self._found: dict[Instruction, Door] = {}
        together: dict[Hashable, list[Instruction]] = {}
        for computation in computation_post_order(module):
            for instruction in computation:
                if instruction.op.family == "collectives" and hasattr(instruction.attributes, "channel_id"):
                    channel = instruction.channel_id
                    together.setdefault(instruction if channel is None else channel, []).append(instruction)
        for instructions in together.values():
            self._place(instructions)

    def of(self, instruction: Instruction) -> Door | None:
        """None for an instruction that the host carries out."""
        return self._found.get(instruction)

    def _place(self, instructions: Sequence[Instruction]) -> None:
        """One door for all, if all can meet there."""
        doors = [self._door(instruction) for instruction in instructions]
        kinds = {(i.op.name, *(shape.to_text(layout=False) for shape in i.operand_shapes)) for i in instructions}
        first = doors[0]
        if first is None or len(kinds) > 1 or any(d is None or d.groups != first.groups for d in doors):
            return
        size = rounded(rendezvous_header_bytes(first.count) + 2 * first.stage_size)
        groups = dict.fromkeys(group or (device,) for device, group in first.groups.items())
        if self._program.shared_size + len(groups) * size > MOST_SHARED:
            return
        first.places |= {group: self._program.share(size) for group in groups}
        self._found |= dict.fromkeys(instructions, first)

    def _door(self, instruction: Instruction) -> Door | None:
        """The groups of an instruction that is of a form for meetings; None for any other, and for wrong groups."""
        if not _can_meet(instruction):
            return None
        groups = ALL_REPLICAS if instruction.op in _PERMUTES else instruction.replica_groups
        attributes = instruction.attributes
        counts = self._program.replica_count, self._program.partition_count
        try:
            mode = group_mode(attributes.channel_id, getattr(attributes, "use_global_device_ids", None))
            rows = {device: participants(groups, mode, *counts, device) for device in range(self._devices)}
        except ShapeError:
            return None
        lengths = {len(row) for row in rows.values() if row}
        sizes = tuple(byte_size(shape) for shape in instruction.operand_shapes)
        if len(lengths) != 1 or max(lengths) > MOST_MEMBERS:
            return None
        count = max(lengths)
        direct = count * sum(sizes) > MOST_BYTES or instruction.op is opcodes.COLLECTIVE_REDUCE
        if instruction.op in _PERMUTES and max(map(max, instruction.source_target_pairs), default=0) >= count:
            return None
        if direct and not all(rows.values()) and instruction.op is not opcodes.COLLECTIVE_BROADCAST:
            return None
        return Door(rows, sizes, direct)


def _can_meet(instruction: Instruction) -> bool:
    if instruction.op in _PERMUTES:
        return not instruction.slice_sizes
    if instruction.op not in _GROUPED or getattr(instruction.attributes, "has_dynamic_root", False):
        return False
    return not instruction.computations or _reduces(instruction)


def _reduces(instruction: Instruction) -> bool:
    """Whether the reducer is scalars through and through, and takes real parts of nothing."""
    reducer = instruction.to_apply
    if any(i.op not in LOWERINGS or not i.op.elementwise for i in reducer if i not in _ends(instruction)):
        return False
    types = [parameter.shape.element_type for parameter in reducer.parameters]
    operands = [shape.element_type for shape in instruction.operand_shapes]
    if len(types) > 2:
        given = {shape.dimensions for shape in instruction.operand_shapes}
        return len(given) == 1 and len(types) == 2 * len(operands)
    return all(types[0].is_complex or not t.is_complex for t in operands)


def _ends(instruction: Instruction) -> set[Instruction]:
    """What an elementwise reducer has besides: parameters, constants, the tuple of its results."""
    reducer = instruction.to_apply
    constants = {i for i in reducer if i.op is opcodes.CONSTANT and i.shape.is_array and not i.shape.rank}
    root = reducer.root_instruction
    return {*reducer.parameters, *constants, *([root] if root.op is opcodes.TUPLE else [])}


def byte_size(shape: Shape) -> int:
    return shape.size * shape.element_type.byte_size
