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
from xlapy.cpu.doors import Doors, byte_size
from xlapy.cpu.program import Scope
from xlapy.cpu.schedule import Axes, kernel_builder, loops, output
from xlapy.cpu.steps import CopyStep, KernelStep, MeetRow, MeetStep, Slot, SlotKind
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.lower import Lowering, components, storage_type, store_element
from xlapy.lower.core import linear
from xlapy.lower.element_types import load_element, register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements, flat, unflat

_ADDRESS = 8
_WHOLE_LINES = 64

Number = Callable[[int], int]
"""A number of a device, by its place among the members."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a device sees of a member's array, from an offset in bytes on. array: of what is shown, by number."""

    shape: Shape
    member: Number
    array: Number
    offset: Number = lambda _: 0


def always(number: int) -> Number:
    return lambda _: number


def own(place: int) -> int:
    """The member that a device is itself."""
    return place


def show(scope: Scope, instruction: Instruction, shown: Sequence[Slot], seen: Sequence[Seen] = ()) -> list[Slot]:
    """Appends a meeting in which all members show some arrays; the slots of what each sees."""
    program, door = scope.maker.program, scope.maker.kept(Doors).of(instruction)
    assert door is not None
    shared = [Slot(s.shape, SlotKind.SHARED, program.shared + n, name=instruction.name) for n, s in enumerate(seen)]
    program.shared += len(shared)
    rows: list[MeetRow] = []
    for device in sorted(door.groups):
        group = door.groups[device]
        place, width = group.index(device), len(shown)
        brings = tuple(_ADDRESS * (place * width + n) for n in range(width))
        takes = tuple(_ADDRESS * (s.member(place) * width + s.array(place)) for s in seen)
        rows.append(MeetRow(door.places[group], group, place, brings, takes, tuple(s.offset(place) for s in seen)))
    number = len(program.callbacks)
    step = MeetStep(number, instruction, list(shown), shared, rows, door.stage_size, instruction.name, direct=True)
    program.callbacks.append(step)
    scope.steps.append(step)
    return shared


def operands_of(scope: Scope, instruction: Instruction) -> list[Slot]:
    return [scope.slot(operand) for operand in instruction.operands]


# -- sums


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
    slots = show(scope, instruction, shown, seen)
    copies: list[CopyStep] = []
    for n, block in enumerate(blocks):
        taken, slots = slots[: 3 * count + 1], slots[3 * count + 1 :]
        if block.shape.size:
            kernel, work = _summing_kernel(instruction, operands[n].shape, block.shape, block.shape, count)
            scope.steps.append(KernelStep(kernel, taken[: count + 1], work, instruction.name))
            copies += map(CopyStep, taken[count + 1 : 2 * count + 1], taken[2 * count + 1 :])
    show(scope, instruction, shown)
    scope.steps += copies
    show(scope, instruction, shown)


class _Block:
    """The equal blocks of an array, one a member, in whole lines of memory where there are several."""

    def __init__(self, shape: Shape, count: int) -> None:
        width = shape.element_type.byte_size
        line = max(1, _WHOLE_LINES // width)
        each = -(-shape.size // count)
        size = min(shape.size, -(-each // line) * line)
        self.shape = Shape.array(shape.element_type, [size])
        self._step, self._last = size * width, (shape.size - size) * width

    def start(self, place: int) -> int:
        """Where the block of a member begins, in bytes."""
        return min(place * self._step, self._last)


def scatter_sums(scope: Scope, instruction: Instruction, count: int, steps: Sequence[int]) -> None:
    """reduce-scatter. steps: elements from a member's block to the next, of each operand."""
    operands, results = operands_of(scope, instruction), scope.fresh(instruction)
    seen = [
        Seen(operand.shape, always(m), always(n), _multiples(step * operand.shape.element_type.byte_size))
        for n, (operand, step) in enumerate(zip(operands, steps, strict=True))
        for m in range(count)
    ]
    slots = show(scope, instruction, operands, seen)
    for n, (operand, result) in enumerate(zip(operands, results, strict=True)):
        if result.shape.size:
            kernel, work = _summing_kernel(instruction, operand.shape, operand.shape, result.shape, count)
            sources = slots[n * count : (n + 1) * count]
            scope.steps.append(KernelStep(kernel, [*sources, result], work, instruction.name))
    show(scope, instruction, operands)


def _multiples(step: int) -> Number:
    return lambda place: place * step


def _summing_kernel(
    instruction: Instruction, operand: Shape, read: Shape, result: Shape, count: int
) -> tuple[Kernel, int]:
    """From the first member to the last. Buffers: what is seen of each, the result, whose indices are those read."""
    builder = kernel_builder(instruction.name)
    t = operand.element_type
    sources = [builder.buffer(f"in{m}", storage_type(t), read.size * components(t)) for m in range(count)]
    made = output(builder, result, "out0")
    reducer = instruction.to_apply
    wanted = reducer.parameters[0].shape.element_type
    types = [register_type(kind) for kind in (t, *(p.shape.element_type for p in reducer.parameters))]
    lanes = min(map(builder.lanes, types))
    with loops(builder, _axes(result, lanes, count), result) as index:
        lowering, place = Lowering(builder, {}), linear(index, read.dimensions)
        members = [convert_element(builder, load_element(builder, s, place, t), t, wanted) for s in sources]
        total = [members[0]]
        for member in members[1:]:
            total = unflat(flat(combine_elements(lowering, reducer, total, [member])), total)
        store_element(builder, made, linear(index, result.dimensions), convert_element(builder, total[0], wanted, t), t)
    return builder.kernel, count * (1 << 13)


def _axes(shape: Shape, lanes: int, work: int) -> Axes:
    if shape.size == 1:
        return Axes(False, 1, work)
    return Axes(True, min(lanes, 1 << (shape.size.bit_length() - 1)), work)


# -- movements


def join(
    scope: Scope, instruction: Instruction, results: Sequence[Slot], dimension: int, count: int, parts: int = 1
) -> None:
    """Of each operand a block of every member, one behind the other along a dimension.

    parts: into how many blocks operands are cut there; each member takes the one with its place.
    """
    operands = operands_of(scope, instruction)
    blocks = [_cut(operand.shape, dimension, parts) for operand in operands]
    seen = [
        Seen(operand.shape, always(m), always(n), _multiples(step if parts > 1 else 0))
        for n, (operand, (_, step)) in enumerate(zip(operands, blocks, strict=True))
        for m in range(count)
    ]
    slots = show(scope, instruction, operands, seen)
    for n, (operand, result, (block, _)) in enumerate(zip(operands, results, blocks, strict=True)):
        for m in range(count if block.size else 0):
            kernel, work = _pasting_kernel(instruction, operand.shape, block, result.shape, dimension, m)
            scope.steps.append(KernelStep(kernel, [slots[n * count + m], result], work, instruction.name))
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
    builder = kernel_builder(instruction.name)
    t = operand.element_type
    source = builder.buffer("in0", storage_type(t), operand.size * components(t))
    made = output(builder, result, "out0")
    axes = _axes(block, builder.lanes(register_type(t)), 1 << 13)
    with loops(builder, axes, block) as index:
        element = load_element(builder, source, linear(index, operand.dimensions), t)
        along = index[dimension] + member * block.dimensions[dimension]
        there = (*index[:dimension], along, *index[dimension + 1 :])
        store_element(builder, made, linear(there, result.dimensions), element, t)
    return builder.kernel, axes.work


def hand_over(scope: Scope, instruction: Instruction, results: Sequence[Slot], seen: Sequence[Seen]) -> None:
    """Each result is an array of a member as it is."""
    operands = operands_of(scope, instruction)
    scope.steps += map(CopyStep, show(scope, instruction, operands, seen), results)
    show(scope, instruction, operands)
