"""Lowers collectives to rendezvous thunks: each device contributes its operands and computes its own result.

Staging memory holds, for each operand, the arrays of all members one after the other, in the order of the group.
Results are computed by copies and by kernels whose sources start at the offset that concerns the device. Reductions go
from the first member to the last, so they have the same bits as the interpreter's. Large operands are read in rank
(`direct_collectives`); unusual forms fall back to the host.

Responsible for what each device sends and receives. Does not depend on where devices meet
(`rendezvous_assignment`) or on how they wait.
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
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.communication import direct_collectives
from xlapy.cpu.program.communication.direct_collectives import PeerView, allocate_received, constant_index, own_rank
from xlapy.cpu.program.communication.read_rules import forwarded_reads, split_read, whole_reads
from xlapy.cpu.program.communication.rendezvous_assignment import (
    RendezvousAssignment,
    RendezvousRecord,
    byte_size,
    reason_against_rendezvous,
)
from xlapy.cpu.program.shared_records import round_to_cache_lines
from xlapy.cpu.program.thunks import CollectiveThunk, CopyThunk, KernelThunk, RemoteRead, RendezvousParticipant
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, Kernel, Value
from xlapy.lower import Lowering, components, storage_type, store_element
from xlapy.lower.core import Element, Index, flatten_elements, linear
from xlapy.lower.element_types import load_element, register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements, unflatten_elements
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllToAllAttributes,
    CollectivePermuteAttributes,
    ReduceScatterAttributes,
)

# -- rendezvous


_ZEROS = -1
"""The receive offset of an array of zeros."""


@dataclass(frozen=True, slots=True)
class _Receive:
    """An array that each device reads: from `offset(rank)` bytes after the start of an operand's arrays, or zeros."""

    operand: int
    offset: Callable[[int], int | None]
    """Returns None for zeros."""
    shape: Shape


def _append_rendezvous(
    context: LoweringContext, instruction: Instruction, receives: Sequence[_Receive], reads: Sequence[RemoteRead]
) -> list[BufferSlice]:
    """Appends a rendezvous to which members contribute their operands; returns the slices of what a device receives.

    reads: which bytes of the members' operands a device reads.
    """
    rendezvous = context.builder.module_state(RendezvousAssignment).find(instruction)
    assert rendezvous is not None
    received = allocate_received(context, instruction, [receive.shape for receive in receives])
    participants = [_participant(instruction, rendezvous, device, receives) for device in sorted(rendezvous.groups)]
    operands = [context.slice_of(operand) for operand in instruction.operands]
    number, size = len(context.builder.program.host_calling_thunks), rendezvous.staging_size
    thunk = CollectiveThunk(number, instruction, operands, received, instruction.name, participants, size)
    if context.builder.program.spans_processes:
        thunk.remote_reads, thunk.exchanged = list(reads), tuple(range(len(reads)))
    context.append_callback(thunk)
    return received


def _participant(
    instruction: Instruction, rendezvous: RendezvousRecord, device: int, receives: Sequence[_Receive]
) -> RendezvousParticipant:
    group = rendezvous.groups[device]
    if not group and instruction.op is not opcodes.COLLECTIVE_BROADCAST:
        return RendezvousParticipant(-1, (), 0)
    if not group:  # the device meets only itself, and receives zeros
        send_offsets = tuple(rendezvous.operand_offset(n) for n in range(len(rendezvous.sizes)))
        offset, zeros = rendezvous.offsets[device,], tuple(_ZEROS for _ in receives)
        return RendezvousParticipant(offset, (device,), 0, send_offsets, zeros)
    rank = group.index(device)
    send_offsets = tuple(rendezvous.operand_offset(n) + rank * size for n, size in enumerate(rendezvous.sizes))
    sources = [(receive.operand, receive.offset(rank)) for receive in receives]
    receive_offsets = tuple(
        _ZEROS if offset is None else rendezvous.operand_offset(operand) + offset for operand, offset in sources
    )
    return RendezvousParticipant(rendezvous.offsets[group], group, rank, send_offsets, receive_offsets)


def _all_arrays(instruction: Instruction, operand: int, count: int, stride: int = 0) -> _Receive:
    """Receives all members' arrays of an operand as one dimension, from element `rank * stride` on.

    The last rank has the fewest elements behind its offset: each receives as many.
    """
    shape = instruction.operand_shapes[operand]
    size = max(0, count * shape.size - (count - 1) * stride)
    offset = _strided_offset(stride * shape.element_type.byte_size)
    return _Receive(operand, offset, Shape.array(shape.element_type, [size]))


def _member_count(context: LoweringContext, instruction: Instruction) -> int:
    """Returns the number of members that meet; 0 if the instruction falls back to the host."""
    rendezvous = context.builder.module_state(RendezvousAssignment).find(instruction)
    return 0 if rendezvous is None else rendezvous.member_count


def _is_direct(context: LoweringContext, instruction: Instruction) -> bool:
    """Whether members read each other's operands in rank."""
    rendezvous = context.builder.module_state(RendezvousAssignment).find(instruction)
    return rendezvous is not None and rendezvous.direct


# -- all-reduce, reduce-scatter


@THUNK_RULES.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
def _lower_all_reduce(context: LoweringContext, instruction: Instruction) -> None:
    _lower_reduction(context, instruction, [0] * len(instruction.operands), whole_reads(instruction.operand_shapes))


@THUNK_RULES.rule(opcodes.REDUCE_SCATTER)
def _lower_reduce_scatter(context: LoweringContext, instruction: Instruction) -> None:
    leaves = [leaf for _, leaf in array_leaves(instruction.shape)]
    dimension = instruction.attributes_as(ReduceScatterAttributes).scatter_dimension
    sizes = [leaf.dimensions[dimension] for leaf in leaves]
    strides = [
        size * _dimension_stride(operand, dimension)
        for size, operand in zip(sizes, instruction.operand_shapes, strict=True)
    ]
    reads = [
        split_read(number, shape, dimension, size)
        for number, (shape, size) in enumerate(zip(instruction.operand_shapes, sizes, strict=True))
    ]
    _lower_reduction(context, instruction, strides, reads)


def _dimension_stride(shape: Shape, dimension: int) -> int:
    return math.prod(shape.dimensions[dimension + 1 :])


def _lower_reduction(
    context: LoweringContext, instruction: Instruction, strides: Sequence[int], reads: Sequence[RemoteRead]
) -> None:
    """Reduces the operands one by one, or together if the reducer takes all of them.

    strides: for each operand, the elements between the blocks of consecutive devices; 0 for all-reduce. reads: which
    bytes of the members' operands a device reads.
    """
    count = _member_count(context, instruction)
    if not count:
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    if _is_direct(context, instruction):
        if any(strides):
            direct_collectives.append_reduce_scatter(context, instruction, count, strides, reads)
        else:
            direct_collectives.append_all_reduce(context, instruction, count)
        return
    receives = [_all_arrays(instruction, n, count, stride) for n, stride in enumerate(strides)]
    sources = _append_rendezvous(context, instruction, receives, reads)
    results = context.allocate(instruction)
    for chosen in direct_collectives.operands_reduced_together(instruction):
        if results[chosen[0]].shape.size:
            inputs, outputs = [sources[n] for n in chosen], [results[n] for n in chosen]
            read, written = [slice_.shape for slice_ in inputs], [slice_.shape for slice_ in outputs]
            kernel = _reduction_kernel(instruction, chosen, read, written, count)
            context.thunks.append(KernelThunk(kernel, [*inputs, *outputs], instruction.name))


def _strided_offset(stride: int, start: int = 0) -> Callable[[int], int]:
    return lambda rank: start + rank * stride


def _reduction_kernel(
    instruction: Instruction, chosen: Sequence[int], received: Sequence[Shape], shapes: Sequence[Shape], count: int
) -> Kernel:
    """Returns the kernel that reduces from the first member to the last. Buffers: the members' arrays, of the shapes
    `received`, and the results."""
    builder = kernel_builder(instruction.name, host_target())
    operands = [instruction.operand_shapes[n] for n in chosen]
    sources = [_source(builder, shape, n) for n, shape in enumerate(received)]
    outputs = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
    reducer = instruction.to_apply
    types = [parameter.shape.element_type for parameter in reducer.parameters[: len(chosen)]]
    axes = _axes(builder, [*operands, *(p.shape for p in reducer.parameters)], shapes[0])
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
            return flatten_elements(
                combine_elements(lowering, reducer, unflatten_elements(total, first), member(number + 1))
            )

        totals = unflatten_elements(builder.reduce(count - 1, flatten_elements(first), add), first)
        for buffer, total, shape, t in zip(outputs, totals, shapes, types, strict=True):
            result = convert_element(builder, total, t, shape.element_type)
            store_element(builder, buffer, linear(index, shape.dimensions), result, shape.element_type)
    return builder.kernel


def _source(builder: Builder, received: Shape, number: int) -> Buffer:
    t = received.element_type
    return builder.buffer(f"in{number}", storage_type(t), received.size * components(t))


def _axes(builder: Builder, read: Sequence[Shape], result: Shape) -> LoopNest:
    """Returns the loop nest over all elements as one dimension, with as many lanes as the widest type allows."""
    if result.size == 1:
        return LoopNest(False, 1)
    lanes = min(builder.lanes(register_type(shape.element_type)) for shape in (*read, result))
    return LoopNest(True, min(lanes, 1 << (result.size.bit_length() - 1)))


@THUNK_RULES.rule(opcodes.COLLECTIVE_REDUCE)
def _lower_collective_reduce(context: LoweringContext, instruction: Instruction) -> None:
    count = _member_count(context, instruction)
    if not count:
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    direct_collectives.append_reduce_to_root(context, instruction, count)


# -- all-gather, all-to-all


@THUNK_RULES.rule(opcodes.ALL_GATHER)
def _lower_all_gather(context: LoweringContext, instruction: Instruction) -> None:
    if not _member_count(context, instruction):
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    _append_gather(context, instruction, context.allocate(instruction))


@THUNK_RULES.rule(opcodes.ALL_GATHER_START)
def _lower_all_gather_start(context: LoweringContext, instruction: Instruction) -> None:
    if not _member_count(context, instruction):
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    results = context.allocate(instruction)
    half = len(results) // 2
    _append_gather(context, instruction, results[half:])
    _copy_operands(context, instruction, results[:half])


def _copy_operands(context: LoweringContext, instruction: Instruction, results: Sequence[BufferSlice]) -> None:
    """Copies the operands to the results of a -start that repeat them."""
    for operand, result in zip(instruction.operands, results, strict=True):
        context.thunks.append(CopyThunk(context.slice_of(operand), result))


def _append_gather(context: LoweringContext, instruction: Instruction, results: Sequence[BufferSlice]) -> None:
    count = _member_count(context, instruction)
    if _is_direct(context, instruction):
        direct_collectives.append_concatenation(
            context, instruction, results, instruction.attributes_as(AllGatherAttributes).all_gather_dimension, count
        )
        return
    receives = [_all_arrays(instruction, n, count) for n in range(len(results))]
    reads = whole_reads(instruction.operand_shapes)
    for number, source in enumerate(_append_rendezvous(context, instruction, receives, reads)):
        shape = instruction.operand_shapes[number]
        _concatenate_blocks(
            context,
            instruction,
            source,
            results[number],
            shape,
            shape.dimensions,
            instruction.attributes_as(AllGatherAttributes).all_gather_dimension,
        )


def _concatenate_blocks(
    context: LoweringContext,
    instruction: Instruction,
    source: BufferSlice,
    result: BufferSlice,
    shape: Shape,
    block: Sequence[int],
    dimension: int,
) -> None:
    """Concatenates one block of each member along a dimension.

    The blocks have the sizes `block`, in arrays of `shape`.
    """
    if not result.shape.size:
        return
    if tuple(block) == shape.dimensions and math.prod(block[:dimension]) == 1:
        context.thunks.append(
            CopyThunk(BufferSlice(result.shape, StorageClass.SHARED, source.number, name=source.name), result)
        )
        return
    builder = kernel_builder(instruction.name, host_target())
    t, size = shape.element_type, block[dimension]
    source_buffer, target = _source(builder, source.shape, 0), result_buffer(builder, result.shape, "out0")
    axes = _axes(builder, [shape], result.shape)
    with element_loops(builder, axes, result.shape) as index:
        member = builder.quotient(index[dimension], size)
        inner: Index = (*index[:dimension], builder.remainder(index[dimension], size), *index[dimension + 1 :])
        element = load_element(builder, source_buffer, member * shape.size + linear(inner, shape.dimensions), t)
        store_element(builder, target, linear(index, result.shape.dimensions), element, t)
    context.thunks.append(KernelThunk(builder.kernel, [source, result], instruction.name))


@THUNK_RULES.rule(opcodes.ALL_TO_ALL)
def _lower_all_to_all(context: LoweringContext, instruction: Instruction) -> None:
    """Receives from each member the block or the operand with the number of this device's rank."""
    count = _member_count(context, instruction)
    shape, dimension = instruction.operand_shapes[0], instruction.attributes_as(AllToAllAttributes).split_dimension
    has_equal_shapes = len({operand.to_text(layout=False) for operand in instruction.operand_shapes}) == 1
    if not count or (dimension is None and not (has_equal_shapes and len(instruction.operands) == count)):
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    if _is_direct(context, instruction):
        results = context.allocate(instruction)
        if dimension is not None:
            direct_collectives.append_concatenation(context, instruction, results, dimension, count, block_count=count)
            return
        for_member = [PeerView(shape, constant_index(member), own_rank) for member in range(count)]
        reads = [RemoteRead(0, byte_size(shape), follows_rank=True)]
        direct_collectives.append_forwarding(context, instruction, results, for_member, reads)
        return
    size = byte_size(shape)
    if dimension is None:
        each = round_to_cache_lines(count * size)
        receives = [_Receive(0, _strided_offset(each, member * size), shape) for member in range(count)]
        reads = [RemoteRead(0, size, follows_rank=True)]
        shared = _append_rendezvous(context, instruction, receives, reads)
        context.thunks.extend(CopyThunk(s, r) for s, r in zip(shared, context.allocate(instruction), strict=True))
        return
    block = list(shape.dimensions)
    block[dimension] //= count
    stride = block[dimension] * _dimension_stride(shape, dimension)
    receive, read = _all_arrays(instruction, 0, count, stride), split_read(0, shape, dimension, block[dimension])
    (source,) = _append_rendezvous(context, instruction, [receive], [read])
    (result,) = context.allocate(instruction)
    _concatenate_blocks(context, instruction, source, result, shape, block, dimension)


# -- collective-permute, collective-broadcast


@THUNK_RULES.rule(opcodes.COLLECTIVE_PERMUTE)
def _lower_collective_permute(context: LoweringContext, instruction: Instruction) -> None:
    if not _member_count(context, instruction):
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    _append_permute(context, instruction, context.allocate(instruction))


@THUNK_RULES.rule(opcodes.COLLECTIVE_PERMUTE_START)
def _lower_collective_permute_start(context: LoweringContext, instruction: Instruction) -> None:
    """(operands, results, contexts...)"""
    count = len(instruction.operands)
    if not _member_count(context, instruction) or len(list(array_leaves(instruction.shape))) != 2 * count:
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    results = context.allocate(instruction)
    _append_permute(context, instruction, results[count:])
    _copy_operands(context, instruction, results[:count])


def _append_permute(context: LoweringContext, instruction: Instruction, results: Sequence[BufferSlice]) -> None:
    sources = {
        target: source for source, target in instruction.attributes_as(CollectivePermuteAttributes).source_target_pairs
    }
    _forward_arrays(context, instruction, sources.get, results)


@THUNK_RULES.rule(opcodes.COLLECTIVE_BROADCAST)
def _lower_collective_broadcast(context: LoweringContext, instruction: Instruction) -> None:
    if not _member_count(context, instruction):
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    _forward_arrays(context, instruction, lambda _: 0, context.allocate(instruction))


def _forward_arrays(
    context: LoweringContext,
    instruction: Instruction,
    source: Callable[[int], int | None],
    results: Sequence[BufferSlice],
) -> None:
    """Copies the arrays of the member `source(rank)` to the results; zeros if that is None."""
    reads = forwarded_reads(instruction.operand_shapes, source, _member_count(context, instruction))
    if _is_direct(context, instruction):
        from_source = [PeerView(shape, source, constant_index(n)) for n, shape in enumerate(instruction.operand_shapes)]
        direct_collectives.append_forwarding(context, instruction, results, from_source, reads)
        return

    def offset(size: int) -> Callable[[int], int | None]:
        def at(rank: int) -> int | None:
            member = source(rank)
            return None if member is None else member * size

        return at

    shapes = instruction.operand_shapes
    receives = [_Receive(n, offset(byte_size(shape)), shape) for n, shape in enumerate(shapes)]
    received = _append_rendezvous(context, instruction, receives, reads)
    context.thunks.extend(CopyThunk(s, r) for s, r in zip(received, results, strict=True))


# -- the done instructions


@THUNK_RULES.rule(opcodes.ALL_REDUCE_DONE)
def _lower_all_reduce_done(context: LoweringContext, instruction: Instruction) -> None:
    _copy_to_results(context, instruction, context.slices_of(instruction.operands[0]))


@THUNK_RULES.rule(opcodes.ALL_GATHER_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def _lower_done(context: LoweringContext, instruction: Instruction) -> None:
    """Copies the result, which follows the operands in the tuple of the -start instruction."""
    (operand,) = instruction.operands
    paths = (path for path, _ in array_leaves(operand.shape))
    chosen = [n for n, path in enumerate(paths) if path[0] == 1]
    slices = context.slices_of(operand)
    _copy_to_results(context, instruction, [slices[n] for n in chosen])


def _copy_to_results(context: LoweringContext, instruction: Instruction, sources: Sequence[BufferSlice]) -> None:
    context.thunks.extend(CopyThunk(s, r) for s, r in zip(sources, context.allocate(instruction), strict=True))
