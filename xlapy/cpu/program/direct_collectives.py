"""Collectives of large operands: members are shown where the others' operands lie, and read them there.

Nothing is copied to shared memory. A device goes on when all have read what they need, which they say by meeting once
more; its operands, and results that others read, stay as they are until then. Large sums are made in blocks: each
member adds up one block of all operands, from the first member to the last, and all copy each other's blocks. The
last block begins early enough to be as long as the others; what two members compute is the same.

Owns: what is read from whom. Must not know: where devices meet (`doors`), how they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import LoopNest, element_loops
from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.cpu.program.builder import Scope
from xlapy.cpu.program.rendezvous import Door, Doors, byte_size
from xlapy.cpu.program.thunks import (
    BufferSlice,
    CollectiveThunk,
    CopyThunk,
    KernelThunk,
    RendezvousParticipant,
    StorageClass,
)
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.lower import Lowering, components, storage_type, store_element
from xlapy.lower.core import Element, linear
from xlapy.lower.element_types import load_element, register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements, flat, unflat

_ADDRESS = 8
_WHOLE_LINES = 64

Number = Callable[[int], int]
"""A number of a device, by its place among the members."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a device sees of a member's array, from an offset in bytes on; zeros, for copies, if it sees no member.

    array: of what is shown, by number.
    """

    shape: Shape
    member: Callable[[int], int | None]
    array: Number
    offset: Number = lambda _: 0


def always(number: int) -> Number:
    return lambda _: number


def own(place: int) -> int:
    """The member that a device is itself."""
    return place


def show(
    scope: Scope, instruction: Instruction, shown: Sequence[BufferSlice], seen: Sequence[Seen] = ()
) -> list[BufferSlice]:
    """Appends a meeting in which all members show some arrays; the slices of what each sees."""
    program, door = scope.maker.program, scope.maker.kept(Doors).of(instruction)
    assert door is not None
    shared = [
        BufferSlice(s.shape, StorageClass.SHARED, program.shared + n, name=instruction.name) for n, s in enumerate(seen)
    ]
    program.shared += len(shared)
    rows = [_row(door, device, len(shown), seen) for device in sorted(door.groups)]
    number = len(program.callbacks)
    thunk = CollectiveThunk(
        number, instruction, list(shown), shared, rows, door.stage_size, instruction.name, direct=True
    )
    program.callbacks.append(thunk)
    scope.thunks.append(thunk)
    return shared


def _row(door: Door, device: int, width: int, seen: Sequence[Seen]) -> RendezvousParticipant:
    """width: how many arrays each member shows. Who is in no group meets itself alone, and takes zeros."""
    group = door.groups[device] or (device,)
    place = group.index(device)
    brings = tuple(_ADDRESS * (place * width + n) for n in range(width))
    takes = tuple(_place_of(s, place, width) if door.groups[device] else -1 for s in seen)
    return RendezvousParticipant(door.places[group], group, place, brings, takes, tuple(s.offset(place) for s in seen))


def _place_of(seen: Seen, place: int, width: int) -> int:
    """Where the address of what is seen lies; -1 for zeros."""
    member = seen.member(place)
    return -1 if member is None else _ADDRESS * (member * width + seen.array(place))


def operands_of(scope: Scope, instruction: Instruction) -> list[BufferSlice]:
    return [scope.slice_of(operand) for operand in instruction.operands]


# -- sums


def reduced_together(instruction: Instruction) -> list[list[int]]:
    """The numbers of the operands that a reducer takes at once: each by itself, or all."""
    numbers = range(len(instruction.operands))
    return [[n] for n in numbers] if len(instruction.to_apply.parameters) == 2 else [list(numbers)]


def reduce_in_blocks(scope: Scope, instruction: Instruction, count: int) -> None:
    """all-reduce: every member sums one block, all copy the others'."""
    operands, results = operands_of(scope, instruction), scope.fresh(instruction)
    shown = [*operands, *results]
    blocks = [_Block(result.shape, count) for result in results]
    seen: list[Seen] = []
    for n, block in enumerate(blocks):
        made = n + len(operands)
        seen += [Seen(block.shape, always(m), always(n), block.start) for m in range(count)]
        seen.append(Seen(block.shape, own, always(made), block.start))
        seen += [Seen(block.shape, always(m), always(made), always(block.start(m))) for m in range(count)]
        seen += [Seen(block.shape, own, always(made), always(block.start(m))) for m in range(count)]
    slices = show(scope, instruction, shown, seen)
    taken = [slices[n * (3 * count + 1) : (n + 1) * (3 * count + 1)] for n in range(len(blocks))]
    for chosen in reduced_together(instruction):
        shapes = [blocks[n].shape for n in chosen]
        sources = [slice_ for n in chosen for slice_ in taken[n][:count]]
        _sum(scope, instruction, sources, shapes, [taken[n][count] for n in chosen], count)
    show(scope, instruction, shown)
    for own_slots, block in zip(taken, blocks, strict=True):
        if block.shape.size:
            scope.thunks += map(CopyThunk, own_slots[count + 1 : 2 * count + 1], own_slots[2 * count + 1 :])
    show(scope, instruction, shown)


class _Block:
    """The equal blocks of an array, one a member, in whole lines of memory where there are several."""

    def __init__(self, shape: Shape, count: int) -> None:
        width = shape.element_type.byte_size
        each = -(-shape.size // count)
        size = min(shape.size, -(-each // _WHOLE_LINES) * _WHOLE_LINES)
        self.shape = Shape.array(shape.element_type, [size])
        self._stride, self._last = size * width, (shape.size - size) * width

    def start(self, place: int) -> int:
        """Where the block of a member begins, in bytes."""
        return min(place * self._stride, self._last)


def reduce_at_root(scope: Scope, instruction: Instruction, count: int) -> None:
    """collective-reduce: the first member keeps the sums, all others get zeros."""
    operands = operands_of(scope, instruction)
    shapes = [operand.shape for operand in operands]
    slices = show(
        scope,
        instruction,
        operands,
        [Seen(s, always(m), always(n)) for n, s in enumerate(shapes) for m in range(count)],
    )
    sums = [BufferSlice(shape, name=instruction.name) for shape in shapes]
    for chosen in reduced_together(instruction):
        sources = [slice_ for n in chosen for slice_ in slices[n * count : (n + 1) * count]]
        _sum(scope, instruction, sources, [shapes[n] for n in chosen], [sums[n] for n in chosen], count)
    kept = [Seen(shape, _if_first, always(len(operands) + n)) for n, shape in enumerate(shapes)]
    scope.thunks += map(CopyThunk, show(scope, instruction, [*operands, *sums], kept), scope.fresh(instruction))


def _if_first(place: int) -> int | None:
    return 0 if place == 0 else None


def scatter_sums(scope: Scope, instruction: Instruction, count: int, strides: Sequence[int]) -> None:
    """reduce-scatter. strides: elements from a member's block to the next, of each operand."""
    operands, results = operands_of(scope, instruction), scope.fresh(instruction)
    seen = [
        Seen(operand.shape, always(m), always(n), _multiples(stride * operand.shape.element_type.byte_size))
        for n, (operand, stride) in enumerate(zip(operands, strides, strict=True))
        for m in range(count)
    ]
    slices = show(scope, instruction, operands, seen)
    for chosen in reduced_together(instruction):
        shapes = [operands[n].shape for n in chosen]
        sources = [slice_ for n in chosen for slice_ in slices[n * count : (n + 1) * count]]
        _sum(scope, instruction, sources, shapes, [results[n] for n in chosen], count)
    show(scope, instruction, operands)


def _multiples(stride: int) -> Number:
    return lambda place: place * stride


def _sum(
    scope: Scope,
    instruction: Instruction,
    sources: Sequence[BufferSlice],
    read: Sequence[Shape],
    results: Sequence[BufferSlice],
    count: int,
) -> None:
    """Appends what reduces arrays, from the first member to the last.

    sources: what is seen of each member, array by array. read: the shapes in which the results' elements are found.
    """
    if results[0].shape.size:
        kernel = _summing_kernel(instruction, read, [slice_.shape for slice_ in results], count)
        scope.thunks.append(KernelThunk(kernel, [*sources, *results], count * (1 << 13), instruction.name))


def _summing_kernel(instruction: Instruction, read: Sequence[Shape], results: Sequence[Shape], count: int) -> Kernel:
    builder = kernel_builder(instruction.name, host_target())
    types = [shape.element_type for shape in read]
    sources = [
        [builder.buffer(f"in{n * count + m}", storage_type(t), shape.size * components(t)) for m in range(count)]
        for n, (shape, t) in enumerate(zip(read, types, strict=True))
    ]
    made = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(results)]
    reducer = instruction.to_apply
    wanted = [parameter.shape.element_type for parameter in reducer.parameters]
    lanes = min(builder.lanes(register_type(t)) for t in (*types, *wanted))
    with element_loops(builder, _axes(results[0], lanes, count), results[0]) as index:
        lowering = Lowering(builder, {})

        def member(number: int) -> list[Element]:
            return [
                convert_element(builder, load_element(builder, seen[number], linear(index, shape.dimensions), t), t, w)
                for seen, shape, t, w in zip(sources, read, types, wanted, strict=False)
            ]

        totals = member(0)
        for number in range(1, count):
            totals = unflat(flat(combine_elements(lowering, reducer, totals, member(number))), totals)
        for buffer, total, shape, w, t in zip(made, totals, results, wanted, types, strict=False):
            store_element(builder, buffer, linear(index, shape.dimensions), convert_element(builder, total, w, t), t)
    return builder.kernel


def _axes(shape: Shape, lanes: int, work: int) -> LoopNest:
    if shape.size == 1:
        return LoopNest(False, 1, work)
    return LoopNest(True, min(lanes, 1 << (shape.size.bit_length() - 1)), work)


# -- movements


def join(
    scope: Scope, instruction: Instruction, results: Sequence[BufferSlice], dimension: int, count: int, parts: int = 1
) -> None:
    """Of each operand a block of every member, one behind the other along a dimension.

    parts: into how many blocks operands are cut there; each member takes the one with its place.
    """
    operands = operands_of(scope, instruction)
    blocks = [_cut(operand.shape, dimension, parts) for operand in operands]
    seen = [
        Seen(operand.shape, always(m), always(n), _multiples(stride if parts > 1 else 0))
        for n, (operand, (_, stride)) in enumerate(zip(operands, blocks, strict=True))
        for m in range(count)
    ]
    slices = show(scope, instruction, operands, seen)
    for n, (operand, result, (block, _)) in enumerate(zip(operands, results, blocks, strict=True)):
        for m in range(count if block.size else 0):
            kernel, work = _pasting_kernel(instruction, operand.shape, block, result.shape, dimension, m)
            scope.thunks.append(KernelThunk(kernel, [slices[n * count + m], result], work, instruction.name))
    show(scope, instruction, operands)


def _cut(shape: Shape, dimension: int, parts: int) -> tuple[Shape, int]:
    """A block of a shape that is cut along a dimension, and the bytes from one to the next."""
    sizes = list(shape.dimensions)
    sizes[dimension] //= parts
    block = Shape.array(shape.element_type, sizes)
    inner = Shape.array(shape.element_type, sizes[dimension:])
    return block, byte_size(inner)


def _pasting_kernel(
    instruction: Instruction, operand: Shape, block: Shape, result: Shape, dimension: int, member: int
) -> tuple[Kernel, int]:
    """Copies a member's block to its place in the result."""
    builder = kernel_builder(instruction.name, host_target())
    t = operand.element_type
    source = builder.buffer("in0", storage_type(t), operand.size * components(t))
    made = result_buffer(builder, result, "out0")
    axes = _axes(block, builder.lanes(register_type(t)), 1 << 13)
    with element_loops(builder, axes, block) as index:
        element = load_element(builder, source, linear(index, operand.dimensions), t)
        along = index[dimension] + member * block.dimensions[dimension]
        there = (*index[:dimension], along, *index[dimension + 1 :])
        store_element(builder, made, linear(there, result.dimensions), element, t)
    return builder.kernel, axes.work


def hand_over(scope: Scope, instruction: Instruction, results: Sequence[BufferSlice], seen: Sequence[Seen]) -> None:
    """Each result is an array of a member as it is."""
    operands = operands_of(scope, instruction)
    scope.thunks += map(CopyThunk, show(scope, instruction, operands, seen), results)
    show(scope, instruction, operands)
