"""The instructions of one computation as what each device does for them.

Owns: `Body`: values, tuples, loops and branches, regions by hand, single operations. Must not know: how operations may
be cut (`factors.py`), which of the ways is taken (`choosing.py`), how parts get where they are needed (`moving.py`).

An operation is cut along the dimensions that its sharding names or its operands are cut along, if all its factors
allow it; operands are moved to fit. Anything else is computed from whole operands, by every device. Inside regions by
hand (between the custom calls SPMDFullToShardShape and SPMDShardToFullShape) arrays are those of the place of a device
along the axes by hand, and are cut along other axes. What has a sharding on one device runs there only, as calls of the
host must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.named_sharding import NamedForm
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.expand.blocks import reducer
from xlapy.passes.rewrite import Writer
from xlapy.passes.signature import leaves_of
from xlapy.spmd.alone import run_alone
from xlapy.spmd.choosing import Plan, planned
from xlapy.spmd.factors import attributes_of_part, factors_of
from xlapy.spmd.moving import Local, Mover
from xlapy.spmd.parts import PICKED, Part, counted_from
from xlapy.spmd.regions import TO_PART, TO_WHOLE, Axes, axes_ahead, axes_of, both_sides, joined, without
from xlapy.spmd.splits import (
    Placement,
    Split,
    are_independent,
    groups_along,
    part_of,
    placement_of,
    refines,
    sharding_of,
    whole,
)
from xlapy.spmd.sums import CHEAP

if TYPE_CHECKING:
    from xlapy.spmd.program import Program

_CONSTRAINT, _INSPECT = "Sharding", "InspectSharding"
_REFUSED = frozenset({opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV})

Lies: TypeAlias = list[Placement]
"""Where the arrays of a value lie, one a leaf of its shape."""


def wished(instruction: Instruction, devices: int) -> Lies:
    """The placements that the sharding of an instruction names."""
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    sharding = instruction.sharding
    shardings = sharding.elements if sharding is not None and sharding.elements else (sharding,) * len(leaves)
    if len(shardings) != len(leaves):
        shardings = (None,) * len(leaves)
    return [placement_of(one, leaf, devices) for one, leaf in zip(shardings, leaves, strict=True)]


def _only_device(instruction: Instruction) -> int | None:
    """The device that alone is to run an instruction."""
    sharding = instruction.sharding
    if sharding is not None and sharding.elements:
        sharding = sharding.elements[0]
    if sharding is not None and sharding.named is not None and sharding.named.form is NamedForm.DEVICE:
        return sharding.named.mesh.device_ids()[0]
    return sharding.device if sharding is not None and sharding.kind is ShardingKind.MAXIMAL else None


def _parts(shape: Shape, lies: Sequence[Placement]) -> Shape:
    """The shape of what a device has of a value."""
    rest = iter(lies)

    def part(one: Shape) -> Shape:
        return Shape.tuple(map(part, one.tuple_shapes)) if one.is_tuple else part_of(one, next(rest))

    return part(shape)


def _tied(write: Writer, leaves: Iterator[Instruction], shape: Shape) -> Instruction:
    if not shape.is_tuple:
        return next(leaves)
    return write.add(opcodes.TUPLE, *[_tied(write, leaves, element) for element in shape.tuple_shapes])


class Body:
    """One computation under construction: the leaves of each value of the old one. apart: the place of devices along
    the axes by hand, if the computation is called from such a region."""

    def __init__(self, program: Program, write: Writer, old: Computation, apart: Axes) -> None:
        self.program = program
        self.devices = program.devices
        self.write = write
        self.apart = apart
        self.ahead = axes_ahead(old, program.devices)
        self.mover = Mover(write, program.devices, program.channels)
        self.values: dict[Instruction, list[Local]] = {}

    # -- values

    def bind(self, parameter: Instruction, lies: Lies) -> None:
        shape = _parts(parameter.shape, lies)
        attributes = ParameterAttributes.make(number=parameter.attributes.number)
        made = edit.create(
            self.write.computation, opcodes.PARAMETER, attributes=attributes, shape=shape, name=parameter.name
        )
        self._leaves(parameter, made, lies, self.apart)

    def _leaves(self, instruction: Instruction, made: Instruction, lies: Sequence[Placement], apart: Axes = ()) -> None:
        leaves = leaves_of(self.write, made)
        self.values[instruction] = [Local(leaf, lie, apart) for leaf, lie in zip(leaves, lies, strict=True)]

    def placed(self, leaves: Sequence[Local], lies: Sequence[Placement]) -> list[Instruction]:
        """Leaves at other placements."""
        return [self.mover.moved(leaf, lie).instruction for leaf, lie in zip(leaves, lies, strict=True)]

    def tied(self, shape: Shape, leaves: Sequence[Instruction]) -> Instruction:
        """The value with these leaves, nested as the shape is."""
        return _tied(self.write, iter(leaves), shape)

    def _operands(self, instruction: Instruction, lie: Callable[[Local], Placement]) -> list[Instruction]:
        """The operands, each of their arrays placed so."""
        return [
            self.tied(o.shape, [self.mover.moved(leaf, lie(leaf)).instruction for leaf in self.values[o]])
            for o in instruction.operands
        ]

    def _whole_operands(self, instruction: Instruction) -> list[Instruction]:
        return self._operands(instruction, lambda leaf: whole(leaf.instruction.shape))

    def _apart(self, instruction: Instruction) -> Axes:
        """The axes by hand that an instruction is among: those of its operands; of what by itself differs from device
        to device those of the region that uses it."""
        found = joined([leaf.apart for operand in instruction.operands for leaf in self.values[operand]])
        return found or self.apart or (self.ahead[instruction] if instruction.op.family == "collectives" else ())

    # -- instructions

    def add(self, instruction: Instruction) -> None:
        """Writes what a device does for an instruction."""
        self.write.source = instruction
        if instruction.op in _REFUSED:
            raise UnsupportedError(f"{instruction.name} ({instruction.op.name}) of a program for several devices")
        target = instruction.custom_call_target if instruction.op is opcodes.CUSTOM_CALL else ""
        if instruction.op is opcodes.TUPLE:
            self.values[instruction] = [leaf for operand in instruction.operands for leaf in self.values[operand]]
        elif instruction.op is opcodes.GET_TUPLE_ELEMENT:
            self._element(instruction)
        elif target in (_CONSTRAINT, TO_PART, TO_WHOLE):
            self._marked(instruction)
        elif target == _INSPECT and self.program.inspect is not None:
            self._inspected(instruction, self.program.inspect)
        elif instruction.op is opcodes.WHILE:
            self._while(instruction)
        elif instruction.op in (opcodes.CONDITIONAL, opcodes.CALL):
            self._branches(instruction)
        elif target in self.program.each:
            self._on_each_device(instruction)
        elif instruction.op is opcodes.OPT_BARRIER:
            self._barrier(instruction)
        elif not self._apart(instruction) and (device := _only_device(instruction)) is not None:
            self._on_device(instruction, device)
        else:
            self._operation(instruction)

    def _element(self, instruction: Instruction) -> None:
        (operand,) = instruction.operands
        counts = [len(list(shape.leaves())) for shape in operand.shape.tuple_shapes]
        start, index = sum(counts[: instruction.attributes.index]), instruction.attributes.index
        self.values[instruction] = self.values[operand][start : start + counts[index]]

    def _barrier(self, instruction: Instruction) -> None:
        leaves = [leaf for operand in instruction.operands for leaf in self.values[operand]]
        made = self.write.add(opcodes.OPT_BARRIER, *self._operands(instruction, lambda leaf: leaf.placement))
        self._leaves(instruction, made, [leaf.placement for leaf in leaves], self._apart(instruction))

    # -- constraints, regions by hand

    def _marked(self, instruction: Instruction) -> None:
        """A constraint, or the way into and out of a region by hand."""
        (operand,) = self.values[instruction.operands[0]]
        if instruction.custom_call_target == TO_PART:
            found = self._to_part(instruction, operand)
        elif instruction.custom_call_target == TO_WHOLE:
            found = self._to_whole(instruction, operand)
        else:
            found = self._constrained(instruction, operand)
        self.values[instruction] = [found]

    def _constrained(self, instruction: Instruction, operand: Local) -> Local:
        """What is to be added up may wait for a single user, which may lead it further."""
        if instruction.sharding is None:
            return operand
        (wish,) = wished(instruction, self.devices)
        if wish.addends is None and len(instruction.users) == 1:
            waits = wish.with_addends(operand.placement.addends)
            wish = waits if are_independent([*waits.cuts, *operand.apart]) else wish
        return self.mover.moved(operand, wish)

    def _to_part(self, instruction: Instruction, operand: Local) -> Local:
        outside, inside = both_sides(instruction, self.devices)
        by_hand = axes_of(instruction, self.devices)
        cut = self.mover.moved(operand, outside)
        return Local(cut.instruction, inside, joined([operand.apart, by_hand]))

    def _to_whole(self, instruction: Instruction, operand: Local) -> Local:
        outside, inside = both_sides(instruction, self.devices)
        by_hand = axes_of(instruction, self.devices)
        part = self.mover.moved(operand, inside)
        return Local(part.instruction, outside, without(operand.apart, by_hand))

    def _inspected(self, instruction: Instruction, inspect: Callable[[Instruction, Sharding], None]) -> None:
        """Tells how a value is cut; sums that are not added up yet are told as what they will be."""
        (operand,) = self.values[instruction.operands[0]]
        tiles = sharding_of(operand.placement.with_addends(None), self.devices)
        inspect(instruction, Sharding(ShardingKind.MANUAL) if operand.apart else tiles)
        self.values[instruction] = [operand]

    # -- loops and branches

    def _while(self, instruction: Instruction) -> None:
        """The state lies as the sharding of the loop says, before, within and after."""
        lies = wished(instruction, self.devices)
        condition, body = instruction.computations
        (state,) = instruction.operands
        apart = self._apart(instruction)
        called = [
            self.program.computation(condition, [lies], [whole(condition.root_instruction.shape)], apart),
            self.program.computation(body, [lies], lies, apart),
        ]
        start = self.tied(state.shape, self.placed(self.values[state], lies))
        made = self.write.add(opcodes.WHILE, start, attributes=instruction.attributes, computations=called)
        self._leaves(instruction, made, lies, apart)

    def _branches(self, instruction: Instruction) -> None:
        """Arguments lie as they do, results as the sharding says."""
        lies = wished(instruction, self.devices)
        arguments = instruction.operands if instruction.op is opcodes.CALL else instruction.operands[1:]
        given = [[leaf.placement for leaf in self.values[argument]] for argument in arguments]
        per_branch = [given] if instruction.op is opcodes.CALL else [[one] for one in given]
        apart = self._apart(instruction)
        called = [
            self.program.computation(computation, one, lies, apart)
            for computation, one in zip(instruction.computations, per_branch, strict=True)
        ]
        operands = [self.tied(o.shape, [leaf.instruction for leaf in self.values[o]]) for o in instruction.operands]
        made = self.write.add(instruction.op, *operands, attributes=instruction.attributes, computations=called)
        self._leaves(instruction, made, lies, apart)

    # -- operations

    def _operation(self, instruction: Instruction) -> None:
        """An operation on parts of its operands, as far as its factors allow."""
        plan = self._plan(instruction)
        apart = self._apart(instruction)
        if plan is None or not plan.is_cut:
            made = edit.clone_instruction(instruction, self.write.computation, self._whole_operands(instruction))
            made.sharding = None
            self._leaves(instruction, made, [whole(leaf) for _, leaf in instruction.shape.leaves()], apart)
            return
        self._leaves(instruction, self._part(instruction, plan, apart), plan.results, apart)
        (first, *_) = wishes = wished(instruction, self.devices)
        if first.addends is None and len(instruction.users) != 1 and not instruction.is_root:
            leaves = zip(self.values[instruction], wishes, strict=True)
            self.values[instruction] = [self._added_up(leaf, wish) for leaf, wish in leaves]

    def _plan(self, instruction: Instruction) -> Plan | None:
        """None for what has more than arrays for operands and results."""
        shapes = [operand.shape for operand in instruction.operands] + [leaf for _, leaf in instruction.shape.leaves()]
        if not all(shape.is_array for shape in shapes):
            return None
        operands = [self.values[operand][0] for operand in instruction.operands]
        wishes = wished(instruction, self.devices)
        kept = wishes[0].addends if wishes else None
        told = wishes if instruction.sharding is not None else [None] * len(wishes)
        return planned(instruction, factors_of(instruction), told, operands, kept or self._left(instruction))

    def _left(self, instruction: Instruction) -> Split | None:
        """The addends that an operation may leave to be added up: those that nothing else takes."""
        if instruction.op not in CHEAP:
            return None
        found = {leaf.placement.addends for operand in instruction.operands for leaf in self.values[operand]}
        only = all(len(operand.users) == 1 for operand in instruction.operands)
        return found.pop() if only and len(found) == 1 else None

    def _part(self, instruction: Instruction, plan: Plan, apart: Axes) -> Instruction:
        operands = [
            self.mover.moved(self.values[operand][0], lie).instruction
            for operand, lie in zip(instruction.operands, plan.operands, strict=True)
        ]
        shape = _parts(instruction.shape, plan.results)
        if instruction.op is opcodes.IOTA:
            return counted_from(self.mover, instruction, shape, plan.results[0])
        attributes = attributes_of_part(instruction, [operand.shape for operand in operands], shape)
        part = Part(self.mover, instruction, operands, attributes, shape, plan.operands[:1])
        made = PICKED[instruction.op](part) if instruction.op in PICKED else part.made()
        for factor in plan.combined:
            others = [split for each, split in plan.chosen.items() if each is not factor]
            groups = groups_along(plan.chosen[factor], [*others, *apart])
            combine = instruction.computations[0] if instruction.computations else None
            made = self.mover.combined(made, combine or reducer(self.write, opcodes.ADD, shape.element_type), groups)
        return made

    def _added_up(self, leaf: Local, wish: Placement) -> Local:
        """A sum that is taken several times, added up once: to where it is wished, as far as that is a cut."""
        if leaf.placement.addends is None:
            return leaf
        target = leaf.placement.with_addends(None)
        for dimension, split in enumerate(wish.splits):
            cut = target.with_split(dimension, split)
            if refines(split, target.splits[dimension]) and are_independent([*cut.cuts, *leaf.apart]):
                target = cut
        return self.mover.moved(leaf, target)

    # -- what each device does with what it has, and what one does

    def _on_each_device(self, instruction: Instruction) -> None:
        operands = self._operands(instruction, lambda leaf: leaf.placement.with_addends(None))
        made = edit.clone_instruction(instruction, self.write.computation, operands)
        made.attributes = made.attributes.replace(operand_layout_constraints=None)
        made.sharding = None
        self.values[instruction] = []

    def _on_device(self, instruction: Instruction, device: int) -> None:
        """Runs there only; the others get what it gave."""
        made = run_alone(self.mover, instruction, self._whole_operands(instruction), device)
        lies = [whole(leaf) for _, leaf in instruction.shape.leaves()]
        self.values[instruction] = [Local(leaf, lie) for leaf, lie in zip(made, lies, strict=True)]
