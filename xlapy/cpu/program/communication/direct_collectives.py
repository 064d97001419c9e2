"""Collectives of large operands: members publish the addresses of their operands and read each other's in place.

Nothing is copied to staging memory. A device continues once all members have read what they need, which a further
rendezvous ensures; until then its operands, and the results that others read, stay unchanged. A large all-reduce works
in blocks: each member reduces one block of all operands, from the first member to the last, and copies the other
members' blocks. The last block starts early enough to be as long as the others; elements that two members compute are
equal.

Responsible for which device reads what from which member. Does not depend on where devices meet
(`rendezvous_assignment`) or on how they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import LoopNest, element_loops
from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.builder import LoweringContext
from xlapy.cpu.program.communication.read_rules import root_reads, split_read, whole_reads
from xlapy.cpu.program.communication.rendezvous_assignment import RendezvousAssignment, RendezvousRecord, byte_size
from xlapy.cpu.program.shared_records import ADDRESS_BYTES
from xlapy.cpu.program.thunks import CollectiveThunk, CopyThunk, KernelThunk, RemoteRead, RendezvousParticipant
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.lower import Lowering, components, storage_type, store_element
from xlapy.lower.core import Element, flatten_elements, linear
from xlapy.lower.element_types import load_element, register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements, unflatten_elements

_CACHE_LINE_ELEMENTS = 64
"""Blocks of an all-reduce have a multiple of this many elements, so that members write to different cache lines."""

NumberOfRank = Callable[[int], int]
"""A number that depends on the rank of a device."""


@dataclass(frozen=True, slots=True)
class PeerView:
    """An array of another member, as a device sees it from an offset in bytes on.

    member: the rank of the member, for the rank of the device that reads; None for zeros, which only copies may read.
    array: the index of the published array.
    """

    shape: Shape
    member: Callable[[int], int | None]
    array: NumberOfRank
    offset: NumberOfRank = lambda _: 0


def constant_index(number: int) -> NumberOfRank:
    return lambda _: number


def own_rank(rank: int) -> int:
    """The member that is the device itself."""
    return rank


def allocate_received(context: LoweringContext, instruction: Instruction, shapes: Sequence[Shape]) -> list[BufferSlice]:
    """Returns new slices for arrays that a device receives in a rendezvous."""
    program = context.builder.program
    first = program.received_count
    program.received_count += len(shapes)
    return [
        BufferSlice(shape.without_layout(), StorageClass.SHARED, first + n, name=instruction.name)
        for n, shape in enumerate(shapes)
    ]


def publish_addresses(
    context: LoweringContext,
    instruction: Instruction,
    published: Sequence[BufferSlice],
    views: Sequence[PeerView] = (),
    reads: Sequence[RemoteRead] = (),
    exchanged: Sequence[int] | None = None,
) -> list[BufferSlice]:
    """Appends a rendezvous in which all members publish arrays; returns the slices of the peer views.

    reads: which bytes of the published arrays the views read, now or after a later rendezvous. exchanged: the numbers
    of the reads of arrays that are complete now; None: all.
    """
    rendezvous = context.builder.module_state(RendezvousAssignment).find(instruction)
    assert rendezvous is not None
    received = allocate_received(context, instruction, [view.shape for view in views])
    participants = [_participant(rendezvous, device, len(published), views) for device in sorted(rendezvous.groups)]
    thunk = CollectiveThunk(
        len(context.builder.program.host_calling_thunks),
        instruction,
        list(published),
        received,
        instruction.name,
        participants,
        rendezvous.staging_size,
        direct=True,
    )
    if context.builder.program.spans_processes:
        thunk.remote_reads = list(reads)
        thunk.exchanged = tuple(range(len(reads)) if exchanged is None else exchanged)
    context.append_callback(thunk)
    return received


def _participant(
    rendezvous: RendezvousRecord, device: int, published: int, views: Sequence[PeerView]
) -> RendezvousParticipant:
    """published: the number of arrays of each member. A device in no group meets only itself, and receives zeros."""
    group = rendezvous.groups[device] or (device,)
    rank = group.index(device)
    send_offsets = tuple(ADDRESS_BYTES * (rank * published + n) for n in range(published))
    in_group = bool(rendezvous.groups[device])
    receive_offsets = tuple(_address_offset(view, rank, published) if in_group else -1 for view in views)
    peer_offsets = tuple(view.offset(rank) for view in views)
    return RendezvousParticipant(rendezvous.offsets[group], group, rank, send_offsets, receive_offsets, peer_offsets)


def _address_offset(view: PeerView, rank: int, published: int) -> int:
    """Returns where the address of a viewed array lies in staging memory; -1 for zeros."""
    member = view.member(rank)
    return -1 if member is None else ADDRESS_BYTES * (member * published + view.array(rank))


def _operand_slices(context: LoweringContext, instruction: Instruction) -> list[BufferSlice]:
    """Returns the memory of the operands. Their shapes are the instruction's `operand_shapes`, not those of slices."""
    return [context.slice_of(operand) for operand in instruction.operands]


# -- reductions


def operands_reduced_together(instruction: Instruction) -> list[list[int]]:
    """Returns the groups of operands that the reducer takes at once: each operand by itself, or all of them."""
    numbers = range(len(instruction.operands))
    return [[n] for n in numbers] if len(instruction.to_apply.parameters) == 2 else [list(numbers)]


def append_all_reduce(context: LoweringContext, instruction: Instruction, count: int) -> None:
    """Lowers an all-reduce of `count` members: every member reduces one block, and copies those of the others."""
    operands, results = _operand_slices(context, instruction), context.allocate(instruction)
    published = [*operands, *results]
    blocks = [_BlockPartition(shape, count) for shape in instruction.operand_shapes]
    views: list[PeerView] = []
    for n, block in enumerate(blocks):
        result = n + len(operands)
        views += [PeerView(block.shape, constant_index(m), constant_index(n), block.start) for m in range(count)]
        views.append(PeerView(block.shape, own_rank, constant_index(result), block.start))
        for member in (constant_index, lambda _: own_rank):
            views += [
                PeerView(block.shape, member(m), constant_index(result), constant_index(block.start(m)))
                for m in range(count)
            ]
    count_of_blocks = len(blocks)
    reads = [block.read(n) for n, block in enumerate(blocks)]
    reads += [block.read(n + count_of_blocks, of_member=True) for n, block in enumerate(blocks)]
    slices = publish_addresses(context, instruction, published, views, reads, range(count_of_blocks))
    width = 3 * count + 1
    received = [slices[n * width : (n + 1) * width] for n in range(len(blocks))]
    for together in operands_reduced_together(instruction):
        shapes = [blocks[n].shape for n in together]
        sources = [slice_ for n in together for slice_ in received[n][:count]]
        _append_reduction(context, instruction, sources, shapes, [received[n][count] for n in together], count)
    publish_addresses(context, instruction, published, (), reads, range(count_of_blocks, 2 * count_of_blocks))
    for block_slices, block in zip(received, blocks, strict=True):
        if block.shape.size:
            context.thunks += map(CopyThunk, block_slices[count + 1 : 2 * count + 1], block_slices[2 * count + 1 :])
    publish_addresses(context, instruction, published)


class _BlockPartition:
    """The blocks of equal size of an array, one per member, aligned to cache lines if there are several."""

    def __init__(self, shape: Shape, count: int) -> None:
        width = shape.element_type.byte_size
        elements = -(-shape.size // count)
        size = min(shape.size, -(-elements // _CACHE_LINE_ELEMENTS) * _CACHE_LINE_ELEMENTS)
        self.shape = Shape.array(shape.element_type, [size])
        self._stride, self._last = size * width, (shape.size - size) * width

    def start(self, rank: int) -> int:
        """Returns where the block of a member starts, in bytes."""
        return min(rank * self._stride, self._last)

    def read(self, array: int, *, of_member: bool = False) -> RemoteRead:
        """Returns the rule by which a device reads the block of its own rank, or the block of each member."""
        size, stride = byte_size(self.shape), self._stride
        if of_member:
            return RemoteRead(array, size, per_member=stride, last=self._last)
        return RemoteRead(array, size, per_reader=stride, last=self._last)


def append_reduce_to_root(context: LoweringContext, instruction: Instruction, count: int) -> None:
    """Lowers a collective-reduce: the first member keeps the result, all others receive zeros."""
    operands, shapes = _operand_slices(context, instruction), instruction.operand_shapes
    views = [PeerView(s, constant_index(m), constant_index(n)) for n, s in enumerate(shapes) for m in range(count)]
    slices = publish_addresses(context, instruction, operands, views, root_reads(shapes))
    totals = [BufferSlice(shape.without_layout(), name=instruction.name) for shape in shapes]
    for together in operands_reduced_together(instruction):
        sources = [slice_ for n in together for slice_ in slices[n * count : (n + 1) * count]]
        results = [totals[n] for n in together]
        _append_reduction(context, instruction, sources, [shapes[n] for n in together], results, count)
    at_root = [PeerView(shape, _root_only, constant_index(len(operands) + n)) for n, shape in enumerate(shapes)]
    received = publish_addresses(context, instruction, [*operands, *totals], at_root)
    context.thunks += map(CopyThunk, received, context.allocate(instruction))


def _root_only(rank: int) -> int | None:
    return 0 if rank == 0 else None


def append_reduce_scatter(
    context: LoweringContext, instruction: Instruction, count: int, strides: Sequence[int], reads: Sequence[RemoteRead]
) -> None:
    """Lowers a reduce-scatter. strides: for each operand, the elements between the blocks of consecutive members.
    reads: which bytes of the members' operands a device reads."""
    operands, results = _operand_slices(context, instruction), context.allocate(instruction)
    views = [
        PeerView(
            shape,
            constant_index(m),
            constant_index(n),
            _strided_offset(stride * shape.element_type.byte_size),
        )
        for n, (shape, stride) in enumerate(zip(instruction.operand_shapes, strides, strict=True))
        for m in range(count)
    ]
    slices = publish_addresses(context, instruction, operands, views, reads)
    for together in operands_reduced_together(instruction):
        shapes = [instruction.operand_shapes[n] for n in together]
        sources = [slice_ for n in together for slice_ in slices[n * count : (n + 1) * count]]
        _append_reduction(context, instruction, sources, shapes, [results[n] for n in together], count)
    publish_addresses(context, instruction, operands)


def _strided_offset(stride: int) -> NumberOfRank:
    return lambda rank: rank * stride


def _append_reduction(
    context: LoweringContext,
    instruction: Instruction,
    sources: Sequence[BufferSlice],
    read: Sequence[Shape],
    results: Sequence[BufferSlice],
    count: int,
) -> None:
    """Appends a kernel that reduces arrays from the first member to the last.

    sources: the arrays of all members, grouped by operand. read: the shapes in which the results' elements are indexed.
    """
    if results[0].shape.size:
        kernel = _reduction_kernel(instruction, read, [slice_.shape for slice_ in results], count)
        context.thunks.append(KernelThunk(kernel, [*sources, *results], instruction.name))


def _reduction_kernel(instruction: Instruction, read: Sequence[Shape], results: Sequence[Shape], count: int) -> Kernel:
    builder = kernel_builder(instruction.name, host_target())
    types = [shape.element_type for shape in read]
    sources = [
        [builder.buffer(f"in{n * count + m}", storage_type(t), shape.size * components(t)) for m in range(count)]
        for n, (shape, t) in enumerate(zip(read, types, strict=True))
    ]
    targets = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(results)]
    reducer = instruction.to_apply
    register_types = [parameter.shape.element_type for parameter in reducer.parameters]
    lanes = min(builder.lanes(register_type(t)) for t in (*types, *register_types))
    with element_loops(builder, _loop_nest(results[0], lanes), results[0]) as index:
        lowering = Lowering(builder, {})

        def member(number: int) -> list[Element]:
            return [
                convert_element(
                    builder, load_element(builder, buffers[number], linear(index, shape.dimensions), t), t, w
                )
                for buffers, shape, t, w in zip(sources, read, types, register_types, strict=False)
            ]

        totals = member(0)
        for number in range(1, count):
            totals = unflatten_elements(
                flatten_elements(combine_elements(lowering, reducer, totals, member(number))), totals
            )
        for buffer, total, shape, w, t in zip(targets, totals, results, register_types, types, strict=False):
            store_element(builder, buffer, linear(index, shape.dimensions), convert_element(builder, total, w, t), t)
    return builder.kernel


def _loop_nest(shape: Shape, lanes: int) -> LoopNest:
    if shape.size == 1:
        return LoopNest(False, 1)
    return LoopNest(True, min(lanes, 1 << (shape.size.bit_length() - 1)))


# -- data movement


def append_concatenation(
    context: LoweringContext,
    instruction: Instruction,
    results: Sequence[BufferSlice],
    dimension: int,
    count: int,
    block_count: int = 1,
) -> None:
    """Concatenates a block of each member's operand along a dimension.

    block_count: the number of blocks that operands consist of along the dimension; a device receives from each member
    the block with the number of its rank.
    """
    operands, shapes = _operand_slices(context, instruction), instruction.operand_shapes
    blocks = [_block_of(shape, dimension, block_count) for shape in shapes]
    views = [
        PeerView(shape, constant_index(m), constant_index(n), _strided_offset(stride if block_count > 1 else 0))
        for n, (shape, (_, stride)) in enumerate(zip(shapes, blocks, strict=True))
        for m in range(count)
    ]
    reads = (
        [split_read(n, shape, dimension, shape.dimensions[dimension] // block_count) for n, shape in enumerate(shapes)]
        if block_count > 1
        else whole_reads(shapes)
    )
    slices = publish_addresses(context, instruction, operands, views, reads)
    for n, (shape, result, (block, _)) in enumerate(zip(shapes, results, blocks, strict=True)):
        for m in range(count if block.size else 0):
            kernel = _block_copy_kernel(instruction, shape, block, result.shape, dimension, m)
            context.thunks.append(KernelThunk(kernel, [slices[n * count + m], result], instruction.name))
    publish_addresses(context, instruction, operands)


def _block_of(shape: Shape, dimension: int, block_count: int) -> tuple[Shape, int]:
    """Returns the shape of a block of an array that is split along a dimension, and the bytes between blocks."""
    sizes = list(shape.dimensions)
    sizes[dimension] //= block_count
    block = Shape.array(shape.element_type, sizes)
    inner = Shape.array(shape.element_type, sizes[dimension:])
    return block, byte_size(inner)


def _block_copy_kernel(
    instruction: Instruction, operand: Shape, block: Shape, result: Shape, dimension: int, member: int
) -> Kernel:
    """Returns the kernel that copies the block of a member to its position in the result."""
    builder = kernel_builder(instruction.name, host_target())
    t = operand.element_type
    source = builder.buffer("in0", storage_type(t), operand.size * components(t))
    target = result_buffer(builder, result, "out0")
    axes = _loop_nest(block, builder.lanes(register_type(t)))
    with element_loops(builder, axes, block) as index:
        element = load_element(builder, source, linear(index, operand.dimensions), t)
        position = index[dimension] + member * block.dimensions[dimension]
        target_index = (*index[:dimension], position, *index[dimension + 1 :])
        store_element(builder, target, linear(target_index, result.dimensions), element, t)
    return builder.kernel


def append_forwarding(
    context: LoweringContext,
    instruction: Instruction,
    results: Sequence[BufferSlice],
    views: Sequence[PeerView],
    reads: Sequence[RemoteRead],
) -> None:
    """Copies a whole array of some member to each result. reads: as those of the views."""
    operands = _operand_slices(context, instruction)
    context.thunks += map(CopyThunk, publish_addresses(context, instruction, operands, views, reads), results)
    publish_addresses(context, instruction, operands)
