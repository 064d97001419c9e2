"""Collectives as meetings: every device brings copies of its operands to shared memory, and computes its own result.

What lies there is, for each operand, the arrays of all members one behind the other, in the order of the group. All
results follow by copies and by kernels whose sources begin at the place that concerns the device; sums go from the
first member to the last, so they have the same bits as the interpreter's. Large operands, and forms that are seldom
met, are left to the host.

Owns: which instructions meet at one door, where doors lie, what each device reads. Must not know: how devices wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from xlapy import ops
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.cpu.flow import array_leaves
from xlapy.cpu.program import STEPS, Scope
from xlapy.cpu.schedule import Axes, kernel_builder, loops, output
from xlapy.cpu.steps import (
    WAIT_RECORD,
    CopyStep,
    KernelStep,
    MeetRow,
    MeetStep,
    NativeProgram,
    Slot,
    SlotKind,
    door_header,
)
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.loops import Affine, Buffer, Builder, Kernel, Value
from xlapy.lower import LOWERINGS, Lowering, components, storage_type, store_element
from xlapy.lower.core import Element, Index, linear
from xlapy.lower.element_types import load_element, register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements, flat, unflat
from xlapy.ops.replica_groups import ALL_REPLICAS, group_mode, participants

MOST_BYTES = 1 << 20
"""Of the operands of all members: copies of larger ones cost more than the host's part."""

MOST_SHARED = 1 << 27
"""Bytes of all doors of a program."""

MOST_MEMBERS = 128

_GROUPED = frozenset({
    ops.ALL_GATHER, ops.ALL_GATHER_START, ops.ALL_REDUCE, ops.ALL_REDUCE_START, ops.ALL_TO_ALL,
    ops.COLLECTIVE_BROADCAST, ops.REDUCE_SCATTER,
})  # fmt: skip
_PERMUTES = frozenset({ops.COLLECTIVE_PERMUTE, ops.COLLECTIVE_PERMUTE_START})


@dataclass(slots=True)
class _Door:
    """Where the devices of each group meet for some instructions; all of these bring operands of the same sizes."""

    groups: dict[int, tuple[int, ...]]
    """The members, by device; none for who is in no group."""
    sizes: tuple[int, ...]
    """Bytes of each operand."""
    places: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    """Where the door of each group lies in shared memory."""

    @property
    def count(self) -> int:
        return max(map(len, self.groups.values()))

    @property
    def stage_size(self) -> int:
        """The operands of all members, and zeros behind them for who receives nothing."""
        return sum(_rounded(self.count * size) for size in self.sizes) + _rounded(sum(self.sizes))

    def region(self, operand: int) -> int:
        """Where the arrays of an operand begin; behind the last operand, where the zeros do."""
        return sum(_rounded(self.count * size) for size in self.sizes[:operand])


class Doors:
    """The doors of a program, laid out in the memory that its devices share."""

    def __init__(self, module: Module, program: NativeProgram) -> None:
        self._program = program
        self._devices = program.replica_count * program.partition_count
        self._found: dict[Instruction, _Door] = {}
        self._top = _rounded(WAIT_RECORD * (1 + self._devices))
        program.shared_size = self._top
        together: dict[Hashable, list[Instruction]] = {}
        for computation in computation_post_order(module):
            for instruction in computation:
                if instruction.op.family == "collectives" and hasattr(instruction.attributes, "channel_id"):
                    channel = instruction.channel_id
                    together.setdefault(instruction if channel is None else channel, []).append(instruction)
        for instructions in together.values():
            self._place(instructions)

    def of(self, instruction: Instruction) -> _Door | None:
        """None for an instruction that the host carries out."""
        return self._found.get(instruction)

    def _place(self, instructions: Sequence[Instruction]) -> None:
        """One door for all, if all can meet there."""
        doors = [self._door(instruction) for instruction in instructions]
        kinds = {(i.op.name, *(shape.brief for shape in i.operand_shapes)) for i in instructions}
        first = doors[0]
        if first is None or len(kinds) > 1 or any(d is None or d.groups != first.groups for d in doors):
            return
        size = door_header(first.count) + 2 * first.stage_size
        for group in dict.fromkeys(first.groups.values()):
            first.places[group] = self._top
            self._top += _rounded(size)
        lonely = sum(not group for group in first.groups.values())
        self._top += lonely * _rounded(size)
        if self._top <= MOST_SHARED:
            self._program.shared_size = self._top
            self._found |= dict.fromkeys(instructions, first)

    def _door(self, instruction: Instruction) -> _Door | None:
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
        sizes = tuple(_bytes(shape) for shape in instruction.operand_shapes)
        if len(lengths) != 1 or max(lengths) > MOST_MEMBERS or max(lengths) * sum(sizes) > MOST_BYTES:
            return None
        if instruction.op in _PERMUTES and max(map(max, instruction.source_target_pairs), default=0) >= max(lengths):
            return None
        return _Door(rows, sizes)


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
    constants = {i for i in reducer if i.op is ops.CONSTANT and i.shape.is_array and not i.shape.rank}
    root = reducer.root_instruction
    return {*reducer.parameters, *constants, *([root] if root.op is ops.TUPLE else [])}


def _bytes(shape: Shape) -> int:
    return shape.size * shape.element_type.byte_size


def _rounded(size: int) -> int:
    return -(-size // 64) * 64


# -- meeting


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a device reads: of an operand, from `offset(place, device's pairs)` bytes on; None stands for zeros."""

    operand: int
    offset: Callable[[int], int | None]
    shape: Shape


def meet(scope: Scope, instruction: Instruction, taken: Sequence[_Taken]) -> list[Slot]:
    """Appends the meeting; the slots of what is taken."""
    program, door = scope.maker.program, scope.maker.kept(Doors).of(instruction)
    assert door is not None
    shared = [Slot(t.shape, SlotKind.SHARED, program.shared + n, name=instruction.name) for n, t in enumerate(taken)]
    program.shared += len(shared)
    rows = [_row(instruction, door, device, taken) for device in sorted(door.groups)]
    operands = [scope.slot(operand) for operand in instruction.operands]
    number = len(program.callbacks)
    step = MeetStep(number, instruction, operands, shared, rows, door.stage_size, instruction.name)
    program.callbacks.append(step)
    scope.steps.append(step)
    return shared


def _row(instruction: Instruction, door: _Door, device: int, taken: Sequence[_Taken]) -> MeetRow:
    group = door.groups[device]
    zeros = door.region(len(door.sizes))
    if not group and instruction.op is not ops.COLLECTIVE_BROADCAST:
        return MeetRow(-1, (), 0)
    if not group:  # a meeting of its own
        lonely = [d for d in sorted(door.groups) if not door.groups[d]].index(device)
        place = max(door.places.values()) + (1 + lonely) * _rounded(door_header(door.count) + 2 * door.stage_size)
        brings = tuple(door.region(n) for n in range(len(door.sizes)))
        return MeetRow(place, (device,), 0, brings, tuple(zeros for _ in taken))
    place = group.index(device)
    brings = tuple(door.region(n) + place * size for n, size in enumerate(door.sizes))
    offsets = [(t.operand, t.offset(place)) for t in taken]
    takes = tuple(zeros if offset is None else door.region(n) + offset for n, offset in offsets)
    return MeetRow(door.places[group], group, place, brings, takes)


def _whole(instruction: Instruction, operand: int, count: int, offset: Callable[[int], int] = lambda _: 0) -> _Taken:
    """All members' arrays of an operand, as one dimension; or what follows an offset in them."""
    shape = instruction.operand_shapes[operand]
    return _Taken(operand, offset, Shape.array(shape.element_type, [count * shape.size]))


def _count(scope: Scope, instruction: Instruction) -> int:
    """How many members meet; 0 if the host carries the instruction out."""
    door = scope.maker.kept(Doors).of(instruction)
    return 0 if door is None else door.count


# -- all-reduce, reduce-scatter


@STEPS.rule(ops.ALL_REDUCE, ops.ALL_REDUCE_START)
def _all_reduce(scope: Scope, instruction: Instruction) -> None:
    _reduce(scope, instruction, [0] * len(instruction.operands))


@STEPS.rule(ops.REDUCE_SCATTER)
def _reduce_scatter(scope: Scope, instruction: Instruction) -> None:
    leaves = [leaf for _, leaf in array_leaves(instruction.shape)]
    steps = [
        leaf.dimensions[instruction.scatter_dimension] * _stride(operand, instruction.scatter_dimension)
        for leaf, operand in zip(leaves, instruction.operand_shapes, strict=True)
    ]
    _reduce(scope, instruction, steps)


def _stride(shape: Shape, dimension: int) -> int:
    return math.prod(shape.dimensions[dimension + 1 :])


def _reduce(scope: Scope, instruction: Instruction, steps: Sequence[int]) -> None:
    """Operands one by one or, if the reducer takes all, at once. steps: elements from a device's block to the next."""
    count = _count(scope, instruction)
    if not count:
        scope.callback(instruction)
        return
    taken = [
        _whole(instruction, n, count, _multiples(step * shape.element_type.byte_size))
        for n, (step, shape) in enumerate(zip(steps, instruction.operand_shapes, strict=True))
    ]
    sources = meet(scope, instruction, taken)
    results = scope.fresh(instruction)
    each = len(instruction.to_apply.parameters) == 2
    numbers = [[n] for n in range(len(results))] if each else [list(range(len(results)))]
    for chosen in numbers:
        if results[chosen[0]].shape.size:
            kernel, work = _reducing_kernel(instruction, chosen, [results[n].shape for n in chosen], count)
            slots = [*(sources[n] for n in chosen), *(results[n] for n in chosen)]
            scope.steps.append(KernelStep(kernel, slots, work, instruction.name))


def _multiples(step: int) -> Callable[[int], int]:
    return lambda place: place * step


def _reducing_kernel(
    instruction: Instruction, chosen: Sequence[int], shapes: Sequence[Shape], count: int
) -> tuple[Kernel, int]:
    """From the first member to the last. Buffers: what is shared, results."""
    builder = kernel_builder(instruction.name)
    operands = [instruction.operand_shapes[n] for n in chosen]
    sources = [_source(builder, shape, n, count) for n, shape in enumerate(operands)]
    outputs = [output(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
    reducer = instruction.to_apply
    types = [parameter.shape.element_type for parameter in reducer.parameters[: len(chosen)]]
    axes = _axes(builder, [*operands, *(p.shape for p in reducer.parameters)], shapes[0], count)
    with loops(builder, axes, shapes[0]) as index:
        lowering = Lowering(builder, {})

        def member(number: Affine) -> list[Element]:
            return [
                convert_element(
                    builder,
                    load_element(builder, buffer, number * shape.size + linear(index, shape.dimensions), t),
                    t,
                    wanted,
                )
                for buffer, shape, wanted in zip(sources, operands, types, strict=True)
                for t in [shape.element_type]
            ]

        first = member(Affine())

        def add(number: Affine, total: Sequence[Value]) -> list[Value]:
            return flat(combine_elements(lowering, reducer, unflat(total, first), member(number + 1)))

        totals = unflat(builder.reduce(count - 1, flat(first), add), first)
        for buffer, total, shape, t in zip(outputs, totals, shapes, types, strict=True):
            result = convert_element(builder, total, t, shape.element_type)
            store_element(builder, buffer, linear(index, shape.dimensions), result, shape.element_type)
    return builder.kernel, axes.work


def _source(builder: Builder, shape: Shape, number: int, count: int) -> Buffer:
    t = shape.element_type
    return builder.buffer(f"in{number}", storage_type(t), count * shape.size * components(t))


def _axes(builder: Builder, read: Sequence[Shape], result: Shape, work: int) -> Axes:
    """All elements as one dimension, in lanes of the widest type."""
    if result.size == 1:
        return Axes(False, 1, work)
    lanes = min(builder.lanes(register_type(shape.element_type)) for shape in (*read, result))
    return Axes(True, min(lanes, 1 << (result.size.bit_length() - 1)), work * min(result.size, 1 << 13))


# -- all-gather, all-to-all


@STEPS.rule(ops.ALL_GATHER)
def _all_gather(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    _gather(scope, instruction, scope.fresh(instruction))


@STEPS.rule(ops.ALL_GATHER_START)
def _all_gather_start(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    results = scope.fresh(instruction)
    half = len(results) // 2
    _gather(scope, instruction, results[half:])
    _keep_operands(scope, instruction, results[:half])


def _keep_operands(scope: Scope, instruction: Instruction, results: Sequence[Slot]) -> None:
    """What a -start hands on of its operands."""
    for operand, result in zip(instruction.operands, results, strict=True):
        scope.steps.append(CopyStep(scope.slot(operand), result))


def _gather(scope: Scope, instruction: Instruction, results: Sequence[Slot]) -> None:
    count = _count(scope, instruction)
    taken = [_whole(instruction, n, count) for n in range(len(results))]
    for number, source in enumerate(meet(scope, instruction, taken)):
        shape = instruction.operand_shapes[number]
        _join(scope, instruction, source, results[number], shape, shape.dimensions, instruction.all_gather_dimension)


def _join(
    scope: Scope,
    instruction: Instruction,
    source: Slot,
    result: Slot,
    shape: Shape,
    block: Sequence[int],
    dimension: int,
) -> None:
    """One block of each member, of the sizes `block` in arrays of a shape, one behind the other along a dimension."""
    if not result.shape.size:
        return
    if tuple(block) == shape.dimensions and math.prod(block[:dimension]) == 1:
        scope.steps.append(CopyStep(Slot(result.shape, SlotKind.SHARED, source.number, name=source.name), result))
        return
    builder = kernel_builder(instruction.name)
    t, size = shape.element_type, block[dimension]
    count = result.shape.dimensions[dimension] // size
    given, made = _source(builder, shape, 0, count), output(builder, result.shape, "out0")
    axes = _axes(builder, [shape], result.shape, 1)
    with loops(builder, axes, result.shape) as index:
        member = builder.quotient(index[dimension], size)
        inner: Index = (*index[:dimension], builder.remainder(index[dimension], size), *index[dimension + 1 :])
        element = load_element(builder, given, member * shape.size + linear(inner, shape.dimensions), t)
        store_element(builder, made, linear(index, result.shape.dimensions), element, t)
    scope.steps.append(KernelStep(builder.kernel, [source, result], axes.work, instruction.name))


@STEPS.rule(ops.ALL_TO_ALL)
def _all_to_all(scope: Scope, instruction: Instruction) -> None:
    """Of each member the block or operand with this device's place."""
    count = _count(scope, instruction)
    shape, dimension = instruction.operand_shapes[0], instruction.split_dimension
    alike = len({operand.brief for operand in instruction.operand_shapes}) == 1
    if not count or (dimension is None and not (alike and len(instruction.operands) == count)):
        scope.callback(instruction)
        return
    size = _bytes(shape)
    if dimension is None:
        each = _rounded(count * size)
        taken = [_Taken(0, _multiples_from(each, member * size), shape) for member in range(count)]
        shared = meet(scope, instruction, taken)
        scope.steps.extend(CopyStep(s, r) for s, r in zip(shared, scope.fresh(instruction), strict=True))
        return
    block = list(shape.dimensions)
    block[dimension] //= count
    step = block[dimension] * _stride(shape, dimension) * shape.element_type.byte_size
    (source,) = meet(scope, instruction, [_whole(instruction, 0, count, _multiples(step))])
    (result,) = scope.fresh(instruction)
    _join(scope, instruction, source, result, shape, block, dimension)


def _multiples_from(step: int, start: int) -> Callable[[int], int]:
    return lambda place: start + place * step


# -- collective-permute, collective-broadcast


@STEPS.rule(ops.COLLECTIVE_PERMUTE)
def _collective_permute(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    _permute(scope, instruction, scope.fresh(instruction))


@STEPS.rule(ops.COLLECTIVE_PERMUTE_START)
def _collective_permute_start(scope: Scope, instruction: Instruction) -> None:
    """(operands, results, contexts...)"""
    count = len(instruction.operands)
    if not _count(scope, instruction) or len(list(array_leaves(instruction.shape))) != 2 * count:
        scope.callback(instruction)
        return
    results = scope.fresh(instruction)
    _permute(scope, instruction, results[count:])
    _keep_operands(scope, instruction, results[:count])


def _permute(scope: Scope, instruction: Instruction, results: Sequence[Slot]) -> None:
    sources = {target: source for source, target in instruction.source_target_pairs}
    _hand_on(scope, instruction, sources.get, results)


@STEPS.rule(ops.COLLECTIVE_BROADCAST)
def _collective_broadcast(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    _hand_on(scope, instruction, lambda _: 0, scope.fresh(instruction))


def _hand_on(
    scope: Scope, instruction: Instruction, source: Callable[[int], int | None], results: Sequence[Slot]
) -> None:
    """The arrays of the member whom `source` gives for a place; zeros for None."""

    def offset(size: int) -> Callable[[int], int | None]:
        def at(place: int) -> int | None:
            member = source(place)
            return None if member is None else member * size

        return at

    shapes = instruction.operand_shapes
    taken = [_Taken(n, offset(_bytes(shape)), shape) for n, shape in enumerate(shapes)]
    scope.steps.extend(CopyStep(s, r) for s, r in zip(meet(scope, instruction, taken), results, strict=True))


# -- the second halves


@STEPS.rule(ops.ALL_REDUCE_DONE)
def _all_reduce_done(scope: Scope, instruction: Instruction) -> None:
    _give(scope, instruction, scope.slots_of(instruction.operands[0]))


@STEPS.rule(ops.ALL_GATHER_DONE, ops.COLLECTIVE_PERMUTE_DONE)
def _done(scope: Scope, instruction: Instruction) -> None:
    """The result, which stands behind the operands."""
    (operand,) = instruction.operands
    paths = (path for path, _ in array_leaves(operand.shape))
    chosen = [n for n, path in enumerate(paths) if path[0] == 1]
    slots = scope.slots_of(operand)
    _give(scope, instruction, [slots[n] for n in chosen])


def _give(scope: Scope, instruction: Instruction, sources: Sequence[Slot]) -> None:
    scope.steps.extend(CopyStep(s, r) for s, r in zip(sources, scope.fresh(instruction), strict=True))
