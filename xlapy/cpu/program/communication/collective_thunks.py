"""Lowers collectives to rendezvous thunks: each device contributes its operands and computes its own result.

Staging memory holds, for each operand, the arrays of all members one after the other, in the order of the group.
Results are computed by copies and by kernels whose sources start at the offset that concerns the device. Reductions go
from the first member to the last, so they have the same bits as the interpreter's. Large operands are read in place
(`direct_collectives`); unusual forms fall back to the host.

Responsible for what each device sends and receives. Does not depend on where devices meet
(`rendezvous_assignment`) or on how they wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves
from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import LoopNest, element_loops
from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.communication import direct_collectives
from xlapy.cpu.program.communication.collective_parts import (
    Collective,
    Parts,
    RendezvousExchange,
    begin_rendezvous,
    finish_pending,
    lower_at_once,
    lower_start,
)
from xlapy.cpu.program.communication.direct_collectives import PeerView, constant_index, own_rank
from xlapy.cpu.program.communication.read_rules import forwarded_reads, split_read, whole_reads
from xlapy.cpu.program.communication.rendezvous_assignment import (
    RendezvousAssignment,
    RendezvousRecord,
    byte_size,
    reason_against_rendezvous,
)
from xlapy.cpu.program.shared_records import round_to_cache_lines
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk, RemoteRead, RendezvousParticipant
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
from xlapy.opcodes.registry import AsyncRole, OpDef

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


def _staged(
    collective: Collective, receives: Sequence[_Receive], reads: Sequence[RemoteRead]
) -> Generator[None, None, list[BufferSlice]]:
    """Begins a collective by a rendezvous to which members contribute copies of their operands; returns the slices of
    what a device receives.

    reads: which bytes of the members' operands a device reads.
    """
    rendezvous = collective.rendezvous
    received = collective.allocate_received([receive.shape for receive in receives])
    participants = [
        _participant(collective.operation, rendezvous, device, receives) for device in sorted(rendezvous.groups)
    ]
    exchange = RendezvousExchange(participants, collective.operands, received, reads, range(len(reads)))
    return (yield from begin_rendezvous(collective, exchange))


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


# -- all-reduce, reduce-scatter


def _all_reduce(collective: Collective) -> Parts:
    if collective.rendezvous.direct:
        return direct_collectives.all_reduce(collective)
    return _staged_reduction(collective, [0] * len(collective.operands), whole_reads(collective.shapes))


def _reduce_scatter(collective: Collective) -> Parts:
    operation = collective.operation
    leaves = [leaf for _, leaf in array_leaves(operation.shape)]
    dimension = operation.attributes_as(ReduceScatterAttributes).scatter_dimension
    sizes = [leaf.dimensions[dimension] for leaf in leaves]
    strides = [
        size * _dimension_stride(operand, dimension) for size, operand in zip(sizes, collective.shapes, strict=True)
    ]
    reads = [
        split_read(number, shape, dimension, size)
        for number, (shape, size) in enumerate(zip(collective.shapes, sizes, strict=True))
    ]
    if collective.rendezvous.direct:
        return direct_collectives.reduce_scatter(collective, strides, reads)
    return _staged_reduction(collective, strides, reads)


def _dimension_stride(shape: Shape, dimension: int) -> int:
    return math.prod(shape.dimensions[dimension + 1 :])


def _staged_reduction(collective: Collective, strides: Sequence[int], reads: Sequence[RemoteRead]) -> Parts:
    """Reduces the operands one by one, or together if the reducer takes all of them.

    strides: for each operand, the elements between the blocks of consecutive devices; 0 for all-reduce. reads: which
    bytes of the members' operands a device reads.
    """
    count, results = collective.member_count, collective.results
    receives = [_all_arrays(collective.operation, n, count, stride) for n, stride in enumerate(strides)]
    sources = yield from _staged(collective, receives, reads)
    for chosen in direct_collectives.operands_reduced_together(collective.operation):
        if results[chosen[0]].shape.size:
            inputs, outputs = [sources[n] for n in chosen], [results[n] for n in chosen]
            read, written = [slice_.shape for slice_ in inputs], [slice_.shape for slice_ in outputs]
            kernel = _reduction_kernel(collective.operation, chosen, read, written, count)
            collective.append(KernelThunk(kernel, [*inputs, *outputs], collective.name))


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


# -- all-gather, all-to-all


def _all_gather(collective: Collective) -> Parts:
    dimension = collective.operation.attributes_as(AllGatherAttributes).all_gather_dimension
    if collective.rendezvous.direct:
        yield from direct_collectives.concatenation(collective, dimension)
        return
    shapes, count = collective.shapes, collective.member_count
    receives = [_all_arrays(collective.operation, n, count) for n in range(len(shapes))]
    sources = yield from _staged(collective, receives, whole_reads(shapes))
    for source, result, shape in zip(sources, collective.results, shapes, strict=True):
        _concatenate_blocks(collective, source, result, shape, shape.dimensions, dimension)


def _concatenate_blocks(
    collective: Collective,
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
        collective.append(
            CopyThunk(BufferSlice(result.shape, StorageClass.SHARED, source.number, name=source.name), result)
        )
        return
    builder = kernel_builder(collective.operation.name, host_target())
    t, size = shape.element_type, block[dimension]
    source_buffer, target = _source(builder, source.shape, 0), result_buffer(builder, result.shape, "out0")
    axes = _axes(builder, [shape], result.shape)
    with element_loops(builder, axes, result.shape) as index:
        member = builder.quotient(index[dimension], size)
        inner: Index = (*index[:dimension], builder.remainder(index[dimension], size), *index[dimension + 1 :])
        element = load_element(builder, source_buffer, member * shape.size + linear(inner, shape.dimensions), t)
        store_element(builder, target, linear(index, result.shape.dimensions), element, t)
    collective.append(KernelThunk(builder.kernel, [source, result], collective.name))


def _all_to_all(collective: Collective) -> Parts:
    """Receives from each member the block or the operand with the number of this device's rank."""
    operation, count, results = collective.operation, collective.member_count, collective.results
    shape, dimension = collective.shapes[0], operation.attributes_as(AllToAllAttributes).split_dimension
    if dimension is None:
        yield from _exchange_operands(collective, shape)
        return
    if collective.rendezvous.direct:
        yield from direct_collectives.concatenation(collective, dimension, block_count=count)
        return
    block = list(shape.dimensions)
    block[dimension] //= count
    stride = block[dimension] * _dimension_stride(shape, dimension)
    receive, read = _all_arrays(operation, 0, count, stride), split_read(0, shape, dimension, block[dimension])
    (source,) = yield from _staged(collective, [receive], [read])
    _concatenate_blocks(collective, source, results[0], shape, block, dimension)


def _exchange_operands(collective: Collective, shape: Shape) -> Parts:
    """Receives from each member the operand with the number of this device's rank."""
    count, reads = collective.member_count, [RemoteRead(0, byte_size(shape), follows_rank=True)]
    if collective.rendezvous.direct:
        for_member = [PeerView(shape, constant_index(member), own_rank) for member in range(count)]
        yield from direct_collectives.forwarding(collective, for_member, reads)
        return
    size = byte_size(shape)
    each = round_to_cache_lines(count * size)
    receives = [_Receive(0, _strided_offset(each, member * size), shape) for member in range(count)]
    received = yield from _staged(collective, receives, reads)
    _copy_each(collective.context, received, collective.results)


def _is_supported_all_to_all(operation: Instruction, count: int) -> bool:
    """Whether members exchange blocks of one operand, or one of several equal operands each."""
    if operation.attributes_as(AllToAllAttributes).split_dimension is not None:
        return True
    has_equal_shapes = len({operand.to_text(layout=False) for operand in operation.operand_shapes}) == 1
    return has_equal_shapes and len(operation.operands) == count


# -- collective-permute, collective-broadcast


def _collective_permute(collective: Collective) -> Parts:
    pairs = collective.operation.attributes_as(CollectivePermuteAttributes).source_target_pairs
    return _forward_arrays(collective, {target: source for source, target in pairs}.get)


def _collective_broadcast(collective: Collective) -> Parts:
    return _forward_arrays(collective, lambda _: 0)


def _forward_arrays(collective: Collective, source: Callable[[int], int | None]) -> Parts:
    """Copies the arrays of the member `source(rank)` to the results; zeros if that is None."""
    shapes = collective.shapes
    reads = forwarded_reads(shapes, source, collective.member_count)
    if collective.rendezvous.direct:
        from_source = [PeerView(shape, source, constant_index(n)) for n, shape in enumerate(shapes)]
        yield from direct_collectives.forwarding(collective, from_source, reads)
        return

    def offset(size: int) -> Callable[[int], int | None]:
        def at(rank: int) -> int | None:
            member = source(rank)
            return None if member is None else member * size

        return at

    receives = [_Receive(n, offset(byte_size(shape)), shape) for n, shape in enumerate(shapes)]
    received = yield from _staged(collective, receives, reads)
    _copy_each(collective.context, received, collective.results)


def _copy_each(context: LoweringContext, sources: Sequence[BufferSlice], results: Sequence[BufferSlice]) -> None:
    context.thunks.extend(CopyThunk(s, r) for s, r in zip(sources, results, strict=True))


# -- the rules

LOWERINGS: Mapping[OpDef, Callable[[Collective], Parts]] = {
    opcodes.ALL_GATHER: _all_gather,
    opcodes.ALL_GATHER_START: _all_gather,
    opcodes.ALL_REDUCE: _all_reduce,
    opcodes.ALL_REDUCE_START: _all_reduce,
    opcodes.ALL_TO_ALL: _all_to_all,
    opcodes.COLLECTIVE_BROADCAST: _collective_broadcast,
    opcodes.COLLECTIVE_PERMUTE: _collective_permute,
    opcodes.COLLECTIVE_PERMUTE_START: _collective_permute,
    opcodes.COLLECTIVE_REDUCE: direct_collectives.reduce_to_root,
    opcodes.REDUCE_SCATTER: _reduce_scatter,
}
"""The lowering of each collective. Those of starts are those of the same collective."""


def rendezvous_of(context: LoweringContext, operation: Instruction) -> RendezvousRecord | None:
    """Returns the rendezvous in which a collective runs natively; None if it falls back to the host."""
    rendezvous = context.builder.module_state(RendezvousAssignment).find(operation)
    if rendezvous is None:
        return None
    if operation.op is opcodes.ALL_TO_ALL and not _is_supported_all_to_all(operation, rendezvous.member_count):
        return None
    return rendezvous


@THUNK_RULES.rule(
    opcodes.ALL_GATHER,
    opcodes.ALL_REDUCE,
    opcodes.ALL_TO_ALL,
    opcodes.COLLECTIVE_BROADCAST,
    opcodes.COLLECTIVE_PERMUTE,
    opcodes.COLLECTIVE_REDUCE,
    opcodes.REDUCE_SCATTER,
)
def _lower_collective(context: LoweringContext, instruction: Instruction) -> None:
    rendezvous = rendezvous_of(context, instruction)
    if rendezvous is None:
        context.add_host_callback(instruction, reason_against_rendezvous(instruction))
        return
    operands = [context.slice_of(operand) for operand in instruction.operands]
    results = context.allocate(instruction)
    collective = Collective(context, instruction, instruction, rendezvous, operands, results)
    lower_at_once(collective, LOWERINGS[instruction.op])


@THUNK_RULES.rule(opcodes.ALL_GATHER_START, opcodes.ALL_REDUCE_START, opcodes.COLLECTIVE_PERMUTE_START)
def _lower_start(context: LoweringContext, start: Instruction) -> None:
    """Begins a collective, which the done finishes.

    If instructions of several computations share its channel, devices may meet in different ones of them, and some of
    them more often than others: then the collective runs as a whole at the start, into results that the done copies. So
    it does if the value of every instruction is checked.
    """
    rendezvous = rendezvous_of(context, start)
    done = next(user for user in start.users if user.op.async_role is AsyncRole.DONE)
    leaves = [leaf.without_layout() for _, leaf in array_leaves(done.shape)]
    repeated = 0 if start.op is opcodes.ALL_REDUCE_START else len(start.operands)
    if rendezvous is None or len(list(array_leaves(start.shape))) != repeated + len(leaves):
        context.add_host_callback(start, reason_against_rendezvous(start))
        return
    operands = [context.slice_of(operand) for operand in start.operands]
    own = context.allocate(start)
    if rendezvous.may_stay_pending and not context.builder.keeps_operands:
        results = [BufferSlice(leaf, name=done.name) for leaf in leaves]
        collective = Collective(context, start, start, rendezvous, operands, results, is_asynchronous=True)
        lower_start(collective, LOWERINGS[start.op])
        return
    lower_at_once(Collective(context, start, start, rendezvous, operands, own[repeated:]), LOWERINGS[start.op])
    _copy_each(context, operands[:repeated], own[:repeated])


@THUNK_RULES.rule(opcodes.ALL_GATHER_DONE, opcodes.ALL_REDUCE_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def _lower_done(context: LoweringContext, done: Instruction) -> None:
    """Finishes a collective, or copies its results, which follow the operands in the tuple of the start."""
    (start,) = done.operands
    if finish_pending(context, start, done):
        return
    leaves = zip(array_leaves(start.shape), context.slices_of(start), strict=True)
    has_operands = start.op is not opcodes.ALL_REDUCE_START
    sources = [slice_ for (path, _), slice_ in leaves if not has_operands or path[0] == 1]
    _copy_each(context, sources, context.allocate(done))
