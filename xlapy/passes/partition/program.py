"""A program with shardings as what each device runs of it, collectives among it.

Owns: `partition`, where the parts of each value lie. Must not know: where shardings come from. What may be cut is
`factors.py`, how parts get where they are needed `moving.py`.

An operation is cut along the dimensions that its sharding names or its operands are cut along, if all its factors
allow it; operands are moved to fit. Anything else is computed from whole operands, by every device. Regions by hand
(between the custom calls SPMDFullToShardShape and SPMDShardToFullShape) are left as they are. What has a sharding on
one device runs there only, as calls of the host must.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from xlapy import ops
from xlapy.base.errors import UnsupportedError
from xlapy.base.literal import Literal
from xlapy.base.records import dataclass
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Alias, Module, ModuleConfig
from xlapy.hlo.named_sharding import NamedForm
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.hlo.traverse import post_order
from xlapy.ops.elementwise import ComparisonDirection
from xlapy.ops.sources import ParameterAttributes
from xlapy.passes.expand.blocks import compare, reducer
from xlapy.passes.inline_calls import InlineCalls
from xlapy.passes.partition.factors import Factor, attributes_of_part, factors_of
from xlapy.passes.partition.moving import Local, Mover
from xlapy.passes.partition.splits import (
    Placement,
    Split,
    along_axes,
    are_independent,
    fits,
    other_axes,
    part_of,
    placement_of,
    sharding_of,
    whole,
)
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.rewrite import Writer, remove_uncalled
from xlapy.passes.signature import leaves_of

_CONSTRAINT, _TO_PART, _TO_WHOLE = "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"
_BY_HAND = frozenset({ops.PARTITION_ID})
_REFUSED = frozenset({ops.INFEED, ops.OUTFEED, ops.SEND, ops.RECV})

Lies = list[Placement | None]
"""Where the arrays of a value lie, one a leaf of its shape."""


@dataclass(frozen=True)
class Partitioned:
    """How the arrays that come in and go out are split, one a leaf."""

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


def partition(module: Module, devices: int, apart: frozenset[str] = frozenset()) -> Partitioned:
    """Makes of a module for all devices what each of them runs.

    apart: targets of custom calls without results that each device is to make with its parts of the operands.
    `UnsupportedError` for infeeds, outfeeds and transfers.
    """
    InlineCalls(composites=True).run(module)
    before, old = list(module.computations), module.entry_computation
    program = _Program(module, devices, apart)
    given = [_wished(parameter, devices) for parameter in old.parameters]
    wanted = _wished(old.root_instruction, devices)
    module.entry = program.computation(old, given, wanted)
    remove_uncalled([computation for computation in before if not computation.callers])
    module.config = _config(module.config, module.entry)
    RemoveDeadCode().run(module)
    told = [sharding_of(lie or (), devices) for lies in given for lie in lies]
    return Partitioned(tuple(told), tuple([sharding_of(lie or (), devices) for lie in wanted]))


def _config(config: ModuleConfig, entry: Computation) -> ModuleConfig:
    """Without layouts of whole arrays, pairs of buffers that are not of one size any more, and donors that no result
    is as large as."""
    kept = [alias for alias in config.input_output_alias if _is_of_one_size(alias, entry)]
    sizes = {leaf.byte_size for _, leaf in entry.root_instruction.shape.leaves()}
    shapes = [parameter.shape for parameter in entry.parameters]
    donors = [
        d for d in config.buffer_donors if shapes[d.parameter_number].subshape(d.parameter_index).byte_size in sizes
    ]
    return dataclasses.replace(
        config, entry_computation_layout=None, input_output_alias=tuple(kept), buffer_donors=tuple(donors)
    )


def _is_of_one_size(alias: Alias, entry: Computation) -> bool:
    given = entry.parameters[alias.parameter_number].shape.subshape(alias.parameter_index)
    return given.compatible(entry.root_instruction.shape.subshape(alias.output_index))


def _wished(instruction: Instruction, devices: int) -> Lies:
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


class _Program:
    """What the computations of a module share."""

    def __init__(self, module: Module, devices: int, apart: frozenset[str]) -> None:
        self.module = module
        self.devices = devices
        self.apart = apart
        self.channels = itertools.count(1)
        for instruction in module.instructions():  # those of one number would meet in turn, on the host
            if (
                instruction.op.family == "collectives"
                and getattr(instruction.attributes, "channel_id", None) is not None
            ):
                instruction.attributes = instruction.attributes.replace(channel_id=next(self.channels))

    def computation(self, old: Computation, given: Sequence[Lies], wanted: Lies) -> Computation:
        """A computation on the parts of its arguments, the results of which lie as is wanted."""
        new = edit.add_computation(self.module, old.name)
        body = _Body(self, Writer(old.root_instruction, new))
        for parameter, lies in zip(old.parameters, given, strict=True):
            body.bind(parameter, lies)
        for instruction in post_order(old):
            if instruction.op is not ops.PARAMETER:
                body.add(instruction)
        root = old.root_instruction
        body.write.source = root
        edit.set_root(new, body.tied(root.shape, body.placed(body.values[root], wanted)))
        return new


def _tied(write: Writer, leaves: Iterator[Instruction], shape: Shape) -> Instruction:
    if not shape.is_tuple:
        return next(leaves)
    return write.add(ops.TUPLE, *[_tied(write, leaves, element) for element in shape.tuple_shapes])


def _parts(shape: Shape, lies: Sequence[Placement | None]) -> Shape:
    """The shape of what a device has of a value."""
    rest = iter([lie or () for lie in lies])

    def part(one: Shape) -> Shape:
        return Shape.tuple(map(part, one.tuple_shapes)) if one.is_tuple else part_of(one, next(rest))

    return part(shape)


def _placement(shape: Shape, cuts: Sequence[tuple[int | None, Split]]) -> Placement:
    """Of an array cut along some dimensions."""
    placement = list(whole(shape))
    for dimension, split in cuts:
        if dimension is not None:
            placement[dimension] = split
    return tuple(placement)


def _forget_shardings(computation: Computation) -> None:
    for instruction in computation:
        instruction.sharding = None
        for called in instruction.computations:
            _forget_shardings(called)


def _is_by_hand(instruction: Instruction) -> bool:
    """Whether what it computes depends on the device: not if it has regions by hand of its own."""
    if instruction.op in _BY_HAND or instruction.op.family == "collectives":
        return True
    inside = [inner for called in instruction.computations for inner in called]
    return any(map(_is_by_hand, inside)) and not any(map(_has_region, inside))


def _check_part(instruction: Instruction, given: Instruction, expected: Shape) -> None:
    if not given.shape.compatible(expected):
        raise UnsupportedError(
            f"{instruction.name} ({instruction.custom_call_target}): a device has {given.shape.brief}, "
            f"the region by hand has {expected.brief}"
        )


def _has_region(instruction: Instruction) -> bool:
    if instruction.op is ops.CUSTOM_CALL:
        return instruction.custom_call_target == _TO_PART
    return any(_has_region(inner) for called in instruction.computations for inner in called)


class _Body:
    """One computation under construction: the leaves of each value of the old one."""

    def __init__(self, program: _Program, write: Writer) -> None:
        self.program = program
        self.write = write
        self.mover = Mover(write, program.devices, program.channels)
        self.values: dict[Instruction, list[Local]] = {}

    # -- values

    def bind(self, parameter: Instruction, lies: Lies) -> None:
        shape = _parts(parameter.shape, lies)
        attributes = ParameterAttributes.make(number=parameter.attributes.number)
        made = edit.create(
            self.write.computation, ops.PARAMETER, attributes=attributes, shape=shape, name=parameter.name
        )
        self._leaves(parameter, made, lies)

    def _leaves(self, instruction: Instruction, made: Instruction, lies: Lies) -> None:
        leaves = leaves_of(self.write, made)
        self.values[instruction] = [Local(leaf, lie) for leaf, lie in zip(leaves, lies, strict=True)]

    def placed(self, leaves: Sequence[Local], lies: Lies) -> list[Instruction]:
        """Leaves at other placements; those by hand are left as they are."""
        pairs = zip(leaves, lies, strict=True)
        return [leaf.instruction if lie is None else self.mover.moved(leaf, lie).instruction for leaf, lie in pairs]

    def tied(self, shape: Shape, leaves: Sequence[Instruction]) -> Instruction:
        """The value with these leaves, nested as the shape is."""
        return _tied(self.write, iter(leaves), shape)

    def _operands(self, instruction: Instruction) -> list[Instruction]:
        """As they are."""
        return [self.tied(o.shape, [leaf.instruction for leaf in self.values[o]]) for o in instruction.operands]

    def _whole_operands(self, instruction: Instruction) -> list[Instruction]:
        return [
            self.tied(o.shape, self.placed(self.values[o], [whole(leaf) for _, leaf in o.shape.leaves()]))
            for o in instruction.operands
        ]

    # -- instructions

    def add(self, instruction: Instruction) -> None:
        """Writes what a device does for an instruction."""
        self.write.source = instruction
        operands = [leaf for operand in instruction.operands for leaf in self.values[operand]]
        if instruction.op in _REFUSED:
            raise UnsupportedError(f"{instruction.name} ({instruction.op.name}) of a program for several devices")
        if instruction.op is ops.TUPLE:
            self.values[instruction] = operands
        elif instruction.op is ops.GET_TUPLE_ELEMENT:
            self._element(instruction)
        elif instruction.op is ops.CUSTOM_CALL and instruction.custom_call_target in (
            _CONSTRAINT, _TO_PART, _TO_WHOLE,
        ):  # fmt: skip
            self._marked(instruction)
        elif any(leaf.placement is None for leaf in operands) or _is_by_hand(instruction):
            self._by_hand(instruction)
        elif instruction.op is ops.WHILE:
            self._while(instruction)
        elif instruction.op in (ops.CONDITIONAL, ops.CALL):
            self._branches(instruction)
        elif instruction.op is ops.CUSTOM_CALL and instruction.custom_call_target in self.program.apart:
            self._apart(instruction)
        elif instruction.op is ops.OPT_BARRIER:
            lies = [leaf.placement for leaf in operands]
            self._leaves(instruction, self.write.add(ops.OPT_BARRIER, *self._operands(instruction)), lies)
        elif (device := _only_device(instruction)) is not None:
            self._on_device(instruction, device)
        else:
            self._cut(instruction)

    def _element(self, instruction: Instruction) -> None:
        (operand,) = instruction.operands
        counts = [len(list(shape.leaves())) for shape in operand.shape.tuple_shapes]
        start, index = sum(counts[: instruction.attributes.index]), instruction.attributes.index
        self.values[instruction] = self.values[operand][start : start + counts[index]]

    def _marked(self, instruction: Instruction) -> None:
        """A constraint, or the way into and out of a region by hand."""
        (operand,) = self.values[instruction.operands[0]]
        if instruction.custom_call_target == _TO_PART:
            found = self._to_part(instruction, operand)
        elif instruction.custom_call_target == _TO_WHOLE:
            found = self._to_whole(instruction, operand)
        else:
            (wish,) = _wished(instruction, self.program.devices)
            found = operand if operand.placement is None or wish is None else self.mover.moved(operand, wish)
        self.values[instruction] = [found]

    def _to_part(self, instruction: Instruction, operand: Local) -> Local:
        """Cut along the axes by hand; along others each device computes the same."""
        given = instruction.operands[0]
        wish = self._by_axes(given.sharding, instruction.sharding, given.shape)
        if operand.placement is None:  # a region inside a region
            cut = self.mover.cut(Local(operand.instruction, whole(given.shape)), wish)
        else:
            cut = self.mover.moved(operand, wish)
        _check_part(instruction, cut.instruction, instruction.shape)
        return Local(cut.instruction, None, operand.depth + 1)

    def _to_whole(self, instruction: Instruction, operand: Local) -> Local:
        given = instruction.operands[0]
        wish = self._by_axes(instruction.sharding, given.sharding, instruction.shape)
        if operand.placement is not None:  # the same on every device
            operand = self.mover.moved(operand, whole(given.shape))
        _check_part(instruction, operand.instruction, part_of(instruction.shape, wish))
        part = Local(operand.instruction, wish)
        if operand.depth <= 1:
            return part
        apart = other_axes(given.sharding, self.program.devices)
        gathered = self.mover.gathered(part, whole(instruction.shape), apart)
        return Local(gathered.instruction, None, operand.depth - 1)

    def _by_axes(self, sharding: Sharding | None, marked: Sharding | None, shape: Shape) -> Placement:
        return placement_of(sharding and along_axes(sharding, marked), shape, self.program.devices)

    def _by_hand(self, instruction: Instruction) -> None:
        operands = []
        for operand in instruction.operands:
            leaves = self.values[operand]
            lies: Lies = [leaf.placement and (None,) * len(leaf.placement) for leaf in leaves]
            operands.append(self.tied(operand.shape, self.placed(leaves, lies)))
        made = edit.clone_instruction(instruction, self.write.computation, operands)
        made.sharding = None
        for called in instruction.computations:
            _forget_shardings(called)
        depth = max([leaf.depth for operand in instruction.operands for leaf in self.values[operand]], default=0)
        self.values[instruction] = [Local(leaf, None, max(depth, 1)) for leaf in leaves_of(self.write, made)]

    def _while(self, instruction: Instruction) -> None:
        """The state lies as the sharding of the loop says, before, within and after."""
        lies = _wished(instruction, self.program.devices)
        condition, body = instruction.computations
        (state,) = instruction.operands
        called = [
            self.program.computation(condition, [lies], [()]),
            self.program.computation(body, [lies], lies),
        ]
        start = self.tied(state.shape, self.placed(self.values[state], lies))
        made = self.write.add(ops.WHILE, start, attributes=instruction.attributes, computations=called)
        self._leaves(instruction, made, lies)

    def _branches(self, instruction: Instruction) -> None:
        """Arguments lie as they do, results as the sharding says."""
        lies = _wished(instruction, self.program.devices)
        arguments = instruction.operands if instruction.op is ops.CALL else instruction.operands[1:]
        given = [[leaf.placement for leaf in self.values[argument]] for argument in arguments]
        per_branch = [given] if instruction.op is ops.CALL else [[one] for one in given]
        called = [
            self.program.computation(computation, one, lies)
            for computation, one in zip(instruction.computations, per_branch, strict=True)
        ]
        operands = self._operands(instruction)
        made = self.write.add(instruction.op, *operands, attributes=instruction.attributes, computations=called)
        self._leaves(instruction, made, lies)

    # -- operations

    def _cut(self, instruction: Instruction) -> None:
        """An operation on parts of its operands, as far as its factors allow."""
        chosen = self._chosen(instruction, factors_of(instruction))
        results = [leaf for _, leaf in instruction.shape.leaves()]
        lies = [_placement(leaf, [(f.results[i], s) for f, s in chosen.items()]) for i, leaf in enumerate(results)]
        if not chosen:
            operands = self._whole_operands(instruction)
            made = edit.clone_instruction(instruction, self.write.computation, operands)
            made.sharding = None
        else:
            made = self._part(instruction, chosen, lies)
        self._leaves(instruction, made, [*lies])

    def _part(self, instruction: Instruction, chosen: dict[Factor, Split], lies: Sequence[Placement]) -> Instruction:
        operands = []
        for number, operand in enumerate(instruction.operands):
            target = _placement(operand.shape, [(f.operands[number], s) for f, s in chosen.items()])
            operands += self.placed(self.values[operand], [target])
        shape = _parts(instruction.shape, lies)
        made = edit.clone_instruction(instruction, self.write.computation, operands)
        made.attributes = attributes_of_part(instruction, [operand.shape for operand in operands], shape)
        made.sharding = None
        edit.set_shape(made, shape)
        for factor, split in chosen.items():
            if factor.is_summed:
                others = [other for each, other in chosen.items() if each is not factor]
                made = self.mover.combined(made, self._reducer(instruction), split, others)
        return made

    def _reducer(self, instruction: Instruction) -> Computation:
        if instruction.op is ops.REDUCE:
            return instruction.computations[0]
        return reducer(self.write, ops.ADD, instruction.shape.element_type)

    def _chosen(self, instruction: Instruction, factors: Sequence[Factor]) -> dict[Factor, Split]:
        """The factors that are cut, and how: first as the sharding says, then as the operands lie."""
        chosen: dict[Factor, Split] = {}
        if not factors:
            return chosen
        wishes = _wished(instruction, self.program.devices)
        operands = [self.values[operand][0] for operand in instruction.operands]
        for factor in factors:
            wish = [lie[d] for lie, d in zip(wishes, factor.results, strict=True) if lie and d is not None]
            self._choose(instruction, factor, wish, chosen)
        for factor in factors:
            if factor not in chosen:
                pairs = zip(operands, factor.operands, strict=True)
                here = [leaf.placement[d] for leaf, d in pairs if leaf.placement and d is not None]
                if not factor.is_summed or len(set(here)) == 1:
                    self._choose(instruction, factor, here, chosen)
        return chosen

    def _choose(
        self, instruction: Instruction, factor: Factor, splits: Sequence[Split | None], chosen: dict[Factor, Split]
    ) -> None:
        """Cuts a factor by the first of the splits that may be."""
        shapes = [operand.shape for operand in instruction.operands]
        results = [leaf for _, leaf in instruction.shape.leaves()]
        pairs = [*zip(shapes, factor.operands, strict=True), *zip(results, factor.results, strict=True)]
        sizes = [shape.dimensions[d] for shape, d in pairs if d is not None]
        for split in splits:
            if split and all(fits(size, split) for size in sizes) and are_independent([*chosen.values(), split]):
                chosen[factor] = split
                return

    # -- what each device does with what it has, and what one does

    def _apart(self, instruction: Instruction) -> None:
        made = edit.clone_instruction(instruction, self.write.computation, self._operands(instruction))
        made.attributes = made.attributes.replace(operand_layout_constraints=None)
        made.sharding = None
        self.values[instruction] = []

    def _on_device(self, instruction: Instruction, device: int) -> None:
        """Runs there only; the others get what it gave."""
        operands = self._whole_operands(instruction)
        given = self.write.add(ops.TUPLE, *operands)
        number = self.mover.number()
        here = self.write.literal(Literal.array_of(np.asarray(device, np.uint32)))
        is_here = compare(self.write, number, here, ComparisonDirection.EQ)
        called = [self._alone(instruction, given.shape), self._idle(instruction, given.shape)]
        made = self.write.add(ops.CONDITIONAL, is_here, given, given, computations=called)
        sent = self.mover.sent_by(device, leaves_of(self.write, made))
        lies = [whole(leaf) for _, leaf in instruction.shape.leaves()]
        self.values[instruction] = [Local(leaf, lie) for leaf, lie in zip(sent, lies, strict=True)]

    def _alone(self, instruction: Instruction, given: Shape) -> Computation:
        """The instruction, with a tuple of its operands for a parameter."""
        computation = edit.add_computation(self.program.module, "alone")
        write = Writer(instruction, computation)
        attributes = ParameterAttributes.make(number=0)
        parameter = write.add(ops.PARAMETER, attributes=attributes, shape=given)
        operands = [write.element(parameter, number) for number in range(len(instruction.operands))]
        made = edit.clone_instruction(instruction, computation, operands)
        made.sharding = None
        edit.set_root(computation, made)
        return computation

    def _idle(self, instruction: Instruction, given: Shape) -> Computation:
        """Zeros like what the instruction gives."""
        computation = edit.add_computation(self.program.module, "idle")
        write = Writer(instruction, computation)
        write.add(ops.PARAMETER, attributes=ParameterAttributes.make(number=0), shape=given)
        leaves = [
            write.add(ops.AFTER_ALL) if leaf.is_token else write.filled(0, leaf)
            for _, leaf in instruction.shape.leaves()
        ]
        edit.set_root(computation, _tied(write, iter(leaves), instruction.shape))
        return computation
