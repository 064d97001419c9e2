"""Collectives as meetings: every device brings copies of its operands to shared memory, and computes its own result.

What lies there is, for each operand, the arrays of all members one behind the other, in the order of the group. All
results follow by copies and by kernels whose sources begin at the place that concerns the device; sums go from the
first member to the last, so they have the same bits as the interpreter's. Large operands are read where they lie
(`direct_collectives`); forms that are seldom met are left to the host.

Owns: what each device brings and reads. Must not know: where devices meet (`doors`), how they wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves
from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import LoopNest, element_loops
from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.cpu.program import direct_collectives
from xlapy.cpu.program.builder import THUNK_RULES, Scope
from xlapy.cpu.program.direct_collectives import Seen, always, own
from xlapy.cpu.program.rendezvous import Door, Doors, byte_size
from xlapy.cpu.program.thunks import (
    BufferSlice,
    CollectiveThunk,
    CopyThunk,
    KernelThunk,
    RendezvousParticipant,
    StorageClass,
    rounded,
)
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, Kernel, Value
from xlapy.lower import Lowering, components, storage_type, store_element
from xlapy.lower.core import Element, Index, linear
from xlapy.lower.element_types import load_element, register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements, flat, unflat

# -- meeting


_ZEROS = -1


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a device reads: of an operand, from `offset(place, device's pairs)` bytes on; None stands for zeros."""

    operand: int
    offset: Callable[[int], int | None]
    shape: Shape


def meet(scope: Scope, instruction: Instruction, taken: Sequence[_Taken]) -> list[BufferSlice]:
    """Appends the meeting; the slices of what is taken."""
    program, door = scope.maker.program, scope.maker.kept(Doors).of(instruction)
    assert door is not None
    shared = [
        BufferSlice(t.shape, StorageClass.SHARED, program.shared + n, name=instruction.name)
        for n, t in enumerate(taken)
    ]
    program.shared += len(shared)
    rows = [_row(instruction, door, device, taken) for device in sorted(door.groups)]
    operands = [scope.slice_of(operand) for operand in instruction.operands]
    number = len(program.callbacks)
    thunk = CollectiveThunk(number, instruction, operands, shared, rows, door.stage_size, instruction.name)
    program.callbacks.append(thunk)
    scope.thunks.append(thunk)
    return shared


def _row(instruction: Instruction, door: Door, device: int, taken: Sequence[_Taken]) -> RendezvousParticipant:
    group = door.groups[device]
    if not group and instruction.op is not opcodes.COLLECTIVE_BROADCAST:
        return RendezvousParticipant(-1, (), 0)
    if not group:  # a meeting of its own
        brings = tuple(door.region(n) for n in range(len(door.sizes)))
        return RendezvousParticipant(door.places[device,], (device,), 0, brings, tuple(_ZEROS for _ in taken))
    place = group.index(device)
    brings = tuple(door.region(n) + place * size for n, size in enumerate(door.sizes))
    offsets = [(t.operand, t.offset(place)) for t in taken]
    takes = tuple(_ZEROS if offset is None else door.region(n) + offset for n, offset in offsets)
    return RendezvousParticipant(door.places[group], group, place, brings, takes)


def _whole(instruction: Instruction, operand: int, count: int, offset: Callable[[int], int] = lambda _: 0) -> _Taken:
    """All members' arrays of an operand, as one dimension; or what follows an offset in them."""
    shape = instruction.operand_shapes[operand]
    return _Taken(operand, offset, Shape.array(shape.element_type, [count * shape.size]))


def _count(scope: Scope, instruction: Instruction) -> int:
    """How many members meet; 0 if the host carries the instruction out."""
    door = scope.maker.kept(Doors).of(instruction)
    return 0 if door is None else door.count


def _is_direct(scope: Scope, instruction: Instruction) -> bool:
    """Whether members are shown each other's operands."""
    door = scope.maker.kept(Doors).of(instruction)
    return door is not None and door.direct


# -- all-reduce, reduce-scatter


@THUNK_RULES.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
def _all_reduce(scope: Scope, instruction: Instruction) -> None:
    _reduce(scope, instruction, [0] * len(instruction.operands))


@THUNK_RULES.rule(opcodes.REDUCE_SCATTER)
def _reduce_scatter(scope: Scope, instruction: Instruction) -> None:
    leaves = [leaf for _, leaf in array_leaves(instruction.shape)]
    strides = [
        leaf.dimensions[instruction.scatter_dimension] * _stride(operand, instruction.scatter_dimension)
        for leaf, operand in zip(leaves, instruction.operand_shapes, strict=True)
    ]
    _reduce(scope, instruction, strides)


def _stride(shape: Shape, dimension: int) -> int:
    return math.prod(shape.dimensions[dimension + 1 :])


def _reduce(scope: Scope, instruction: Instruction, strides: Sequence[int]) -> None:
    """Operands one by one or, if the reducer takes all, at once. strides: elements from a device's block to the next."""
    count = _count(scope, instruction)
    if not count:
        scope.callback(instruction)
        return
    if _is_direct(scope, instruction):
        if any(strides):
            direct_collectives.scatter_sums(scope, instruction, count, strides)
        else:
            direct_collectives.reduce_in_blocks(scope, instruction, count)
        return
    taken = [
        _whole(instruction, n, count, _multiples(stride * shape.element_type.byte_size))
        for n, (stride, shape) in enumerate(zip(strides, instruction.operand_shapes, strict=True))
    ]
    sources = meet(scope, instruction, taken)
    results = scope.fresh(instruction)
    for chosen in direct_collectives.reduced_together(instruction):
        if results[chosen[0]].shape.size:
            kernel, work = _reducing_kernel(instruction, chosen, [results[n].shape for n in chosen], count)
            slices = [*(sources[n] for n in chosen), *(results[n] for n in chosen)]
            scope.thunks.append(KernelThunk(kernel, slices, work, instruction.name))


def _multiples(stride: int) -> Callable[[int], int]:
    return lambda place: place * stride


def _reducing_kernel(
    instruction: Instruction, chosen: Sequence[int], shapes: Sequence[Shape], count: int
) -> tuple[Kernel, int]:
    """From the first member to the last. Buffers: what is shared, results."""
    builder = kernel_builder(instruction.name, host_target())
    operands = [instruction.operand_shapes[n] for n in chosen]
    sources = [_source(builder, shape, n, count) for n, shape in enumerate(operands)]
    outputs = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
    reducer = instruction.to_apply
    types = [parameter.shape.element_type for parameter in reducer.parameters[: len(chosen)]]
    axes = _axes(builder, [*operands, *(p.shape for p in reducer.parameters)], shapes[0], count)
    with element_loops(builder, axes, shapes[0]) as index:
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


def _axes(builder: Builder, read: Sequence[Shape], result: Shape, work: int) -> LoopNest:
    """All elements as one dimension, in lanes of the widest type."""
    if result.size == 1:
        return LoopNest(False, 1, work)
    lanes = min(builder.lanes(register_type(shape.element_type)) for shape in (*read, result))
    return LoopNest(True, min(lanes, 1 << (result.size.bit_length() - 1)), work * min(result.size, 1 << 13))


@THUNK_RULES.rule(opcodes.COLLECTIVE_REDUCE)
def _collective_reduce(scope: Scope, instruction: Instruction) -> None:
    count = _count(scope, instruction)
    if not count:
        scope.callback(instruction)
        return
    direct_collectives.reduce_at_root(scope, instruction, count)


# -- all-gather, all-to-all


@THUNK_RULES.rule(opcodes.ALL_GATHER)
def _all_gather(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    _gather(scope, instruction, scope.fresh(instruction))


@THUNK_RULES.rule(opcodes.ALL_GATHER_START)
def _all_gather_start(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    results = scope.fresh(instruction)
    half = len(results) // 2
    _gather(scope, instruction, results[half:])
    _keep_operands(scope, instruction, results[:half])


def _keep_operands(scope: Scope, instruction: Instruction, results: Sequence[BufferSlice]) -> None:
    """What a -start hands on of its operands."""
    for operand, result in zip(instruction.operands, results, strict=True):
        scope.thunks.append(CopyThunk(scope.slice_of(operand), result))


def _gather(scope: Scope, instruction: Instruction, results: Sequence[BufferSlice]) -> None:
    count = _count(scope, instruction)
    if _is_direct(scope, instruction):
        direct_collectives.join(scope, instruction, results, instruction.all_gather_dimension, count)
        return
    taken = [_whole(instruction, n, count) for n in range(len(results))]
    for number, source in enumerate(meet(scope, instruction, taken)):
        shape = instruction.operand_shapes[number]
        _join(scope, instruction, source, results[number], shape, shape.dimensions, instruction.all_gather_dimension)


def _join(
    scope: Scope,
    instruction: Instruction,
    source: BufferSlice,
    result: BufferSlice,
    shape: Shape,
    block: Sequence[int],
    dimension: int,
) -> None:
    """One block of each member, of the sizes `block` in arrays of a shape, one behind the other along a dimension."""
    if not result.shape.size:
        return
    if tuple(block) == shape.dimensions and math.prod(block[:dimension]) == 1:
        scope.thunks.append(
            CopyThunk(BufferSlice(result.shape, StorageClass.SHARED, source.number, name=source.name), result)
        )
        return
    builder = kernel_builder(instruction.name, host_target())
    t, size = shape.element_type, block[dimension]
    count = result.shape.dimensions[dimension] // size
    given, made = _source(builder, shape, 0, count), result_buffer(builder, result.shape, "out0")
    axes = _axes(builder, [shape], result.shape, 1)
    with element_loops(builder, axes, result.shape) as index:
        member = builder.quotient(index[dimension], size)
        inner: Index = (*index[:dimension], builder.remainder(index[dimension], size), *index[dimension + 1 :])
        element = load_element(builder, given, member * shape.size + linear(inner, shape.dimensions), t)
        store_element(builder, made, linear(index, result.shape.dimensions), element, t)
    scope.thunks.append(KernelThunk(builder.kernel, [source, result], axes.work, instruction.name))


@THUNK_RULES.rule(opcodes.ALL_TO_ALL)
def _all_to_all(scope: Scope, instruction: Instruction) -> None:
    """Of each member the block or operand with this device's place."""
    count = _count(scope, instruction)
    shape, dimension = instruction.operand_shapes[0], instruction.split_dimension
    alike = len({operand.to_text(layout=False) for operand in instruction.operand_shapes}) == 1
    if not count or (dimension is None and not (alike and len(instruction.operands) == count)):
        scope.callback(instruction)
        return
    if _is_direct(scope, instruction):
        results = scope.fresh(instruction)
        if dimension is not None:
            direct_collectives.join(scope, instruction, results, dimension, count, parts=count)
            return
        for_member = [Seen(shape, always(member), own) for member in range(count)]
        direct_collectives.hand_over(scope, instruction, results, for_member)
        return
    size = byte_size(shape)
    if dimension is None:
        each = rounded(count * size)
        taken = [_Taken(0, _multiples_from(each, member * size), shape) for member in range(count)]
        shared = meet(scope, instruction, taken)
        scope.thunks.extend(CopyThunk(s, r) for s, r in zip(shared, scope.fresh(instruction), strict=True))
        return
    block = list(shape.dimensions)
    block[dimension] //= count
    stride = block[dimension] * _stride(shape, dimension) * shape.element_type.byte_size
    (source,) = meet(scope, instruction, [_whole(instruction, 0, count, _multiples(stride))])
    (result,) = scope.fresh(instruction)
    _join(scope, instruction, source, result, shape, block, dimension)


def _multiples_from(stride: int, start: int) -> Callable[[int], int]:
    return lambda place: start + place * stride


# -- collective-permute, collective-broadcast


@THUNK_RULES.rule(opcodes.COLLECTIVE_PERMUTE)
def _collective_permute(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    _permute(scope, instruction, scope.fresh(instruction))


@THUNK_RULES.rule(opcodes.COLLECTIVE_PERMUTE_START)
def _collective_permute_start(scope: Scope, instruction: Instruction) -> None:
    """(operands, results, contexts...)"""
    count = len(instruction.operands)
    if not _count(scope, instruction) or len(list(array_leaves(instruction.shape))) != 2 * count:
        scope.callback(instruction)
        return
    results = scope.fresh(instruction)
    _permute(scope, instruction, results[count:])
    _keep_operands(scope, instruction, results[:count])


def _permute(scope: Scope, instruction: Instruction, results: Sequence[BufferSlice]) -> None:
    sources = {target: source for source, target in instruction.source_target_pairs}
    _hand_on(scope, instruction, sources.get, results)


@THUNK_RULES.rule(opcodes.COLLECTIVE_BROADCAST)
def _collective_broadcast(scope: Scope, instruction: Instruction) -> None:
    if not _count(scope, instruction):
        scope.callback(instruction)
        return
    _hand_on(scope, instruction, lambda _: 0, scope.fresh(instruction))


def _hand_on(
    scope: Scope, instruction: Instruction, source: Callable[[int], int | None], results: Sequence[BufferSlice]
) -> None:
    """The arrays of the member whom `source` gives for a place; zeros for None."""
    if _is_direct(scope, instruction):
        from_source = [Seen(shape, source, always(n)) for n, shape in enumerate(instruction.operand_shapes)]
        direct_collectives.hand_over(scope, instruction, results, from_source)
        return

    def offset(size: int) -> Callable[[int], int | None]:
        def at(place: int) -> int | None:
            member = source(place)
            return None if member is None else member * size

        return at

    shapes = instruction.operand_shapes
    taken = [_Taken(n, offset(byte_size(shape)), shape) for n, shape in enumerate(shapes)]
    scope.thunks.extend(CopyThunk(s, r) for s, r in zip(meet(scope, instruction, taken), results, strict=True))


# -- the second halves


@THUNK_RULES.rule(opcodes.ALL_REDUCE_DONE)
def _all_reduce_done(scope: Scope, instruction: Instruction) -> None:
    _give(scope, instruction, scope.slices_of(instruction.operands[0]))


@THUNK_RULES.rule(opcodes.ALL_GATHER_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def _done(scope: Scope, instruction: Instruction) -> None:
    """The result, which stands behind the operands."""
    (operand,) = instruction.operands
    paths = (path for path, _ in array_leaves(operand.shape))
    chosen = [n for n, path in enumerate(paths) if path[0] == 1]
    slices = scope.slices_of(operand)
    _give(scope, instruction, [slices[n] for n in chosen])


def _give(scope: Scope, instruction: Instruction, sources: Sequence[BufferSlice]) -> None:
    scope.thunks.extend(CopyThunk(s, r) for s, r in zip(sources, scope.fresh(instruction), strict=True))
