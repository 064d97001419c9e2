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
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.communication.collective_parts import (
    Collective,
    Parts,
    RendezvousExchange,
    append_rendezvous,
    begin_rendezvous,
)
from xlapy.cpu.program.communication.read_rules import root_reads, split_read, whole_reads
from xlapy.cpu.program.communication.rendezvous_assignment import RendezvousRecord, byte_size
from xlapy.cpu.program.shared_records import ADDRESS_BYTES
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk, RemoteRead, RendezvousParticipant
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


def publish_addresses(
    collective: Collective,
    published: Sequence[BufferSlice],
    views: Sequence[PeerView] = (),
    reads: Sequence[RemoteRead] = (),
    exchanged: Sequence[int] | None = None,
) -> RendezvousExchange:
    """Returns a rendezvous in which all members publish arrays, and receive the peer views.

    reads: which bytes of the published arrays the views read, now or after a later rendezvous. exchanged: the numbers
    of the reads of arrays that are complete now; None: all.
    """
    rendezvous = collective.rendezvous
    received = collective.allocate_received([view.shape for view in views])
    participants = [_participant(rendezvous, device, len(published), views) for device in sorted(rendezvous.groups)]
    numbers = range(len(reads)) if exchanged is None else exchanged
    return RendezvousExchange(participants, list(published), received, reads, numbers)


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


# -- reductions


def operands_reduced_together(instruction: Instruction) -> list[list[int]]:
    """Returns the groups of operands that the reducer takes at once: each operand by itself, or all of them."""
    numbers = range(len(instruction.operands))
    return [[n] for n in numbers] if len(instruction.to_apply.parameters) == 2 else [list(numbers)]


def all_reduce(collective: Collective) -> Parts:
    """Lowers an all-reduce: every member reduces one block, and copies those of the others.

    In an asynchronous one, only the operands are exchanged before the done. Two members exchange whole operands, which
    takes no more bytes than blocks of operands and of results do.
    """
    operands, results, count = collective.operands, collective.results, collective.member_count
    if collective.is_asynchronous and count <= 2:
        yield from reduce_scatter(collective, [0] * len(operands), whole_reads(collective.shapes))
        return
    published = [*operands, *results]
    blocks = [_BlockPartition(shape, count) for shape in collective.shapes]
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
    exchange = publish_addresses(collective, published, views, reads, range(count_of_blocks))
    slices = yield from begin_rendezvous(collective, exchange)
    width = 3 * count + 1
    received = [slices[n * width : (n + 1) * width] for n in range(len(blocks))]
    for together in operands_reduced_together(collective.operation):
        shapes = [blocks[n].shape for n in together]
        sources = [slice_ for n in together for slice_ in received[n][:count]]
        _append_reduction(collective, sources, shapes, [received[n][count] for n in together])
    complete = range(count_of_blocks, 2 * count_of_blocks)
    append_rendezvous(collective, publish_addresses(collective, published, (), reads, complete))
    for block_slices, block in zip(received, blocks, strict=True):
        if block.shape.size:
            for source, target in zip(
                block_slices[count + 1 : 2 * count + 1], block_slices[2 * count + 1 :], strict=True
            ):
                collective.append(CopyThunk(source, target))
    append_rendezvous(collective, publish_addresses(collective, published))


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


def reduce_to_root(collective: Collective) -> Parts:
    """Lowers a collective-reduce: the first member keeps the result, all others receive zeros."""
    operands, shapes, count = collective.operands, collective.shapes, collective.member_count
    views = [PeerView(s, constant_index(m), constant_index(n)) for n, s in enumerate(shapes) for m in range(count)]
    exchange = publish_addresses(collective, operands, views, root_reads(shapes))
    slices = yield from begin_rendezvous(collective, exchange)
    totals = [BufferSlice(shape.without_layout(), name=collective.name) for shape in shapes]
    for together in operands_reduced_together(collective.operation):
        sources = [slice_ for n in together for slice_ in slices[n * count : (n + 1) * count]]
        results = [totals[n] for n in together]
        _append_reduction(collective, sources, [shapes[n] for n in together], results)
    at_root = [PeerView(shape, _root_only, constant_index(len(operands) + n)) for n, shape in enumerate(shapes)]
    received = append_rendezvous(collective, publish_addresses(collective, [*operands, *totals], at_root))
    for source, result in zip(received, collective.results, strict=True):
        collective.append(CopyThunk(source, result))


def _root_only(rank: int) -> int | None:
    return 0 if rank == 0 else None


def reduce_scatter(collective: Collective, strides: Sequence[int], reads: Sequence[RemoteRead]) -> Parts:
    """Lowers a reduce-scatter. strides: for each operand, the elements between the blocks of consecutive members.
    reads: which bytes of the members' operands a device reads."""
    operands, results, count = collective.operands, collective.results, collective.member_count
    views = [
        PeerView(
            shape,
            constant_index(m),
            constant_index(n),
            _strided_offset(stride * shape.element_type.byte_size),
        )
        for n, (shape, stride) in enumerate(zip(collective.shapes, strides, strict=True))
        for m in range(count)
    ]
    slices = yield from begin_rendezvous(collective, publish_addresses(collective, operands, views, reads))
    for together in operands_reduced_together(collective.operation):
        shapes = [collective.shapes[n] for n in together]
        sources = [slice_ for n in together for slice_ in slices[n * count : (n + 1) * count]]
        _append_reduction(collective, sources, shapes, [results[n] for n in together])
    append_rendezvous(collective, publish_addresses(collective, operands))


def _strided_offset(stride: int) -> NumberOfRank:
    return lambda rank: rank * stride


def _append_reduction(
    collective: Collective,
    sources: Sequence[BufferSlice],
    read: Sequence[Shape],
    results: Sequence[BufferSlice],
) -> None:
    """Appends a kernel that reduces arrays from the first member to the last.

    sources: the arrays of all members, grouped by operand. read: the shapes in which the results' elements are indexed.
    """
    if results[0].shape.size:
        shapes = [slice_.shape for slice_ in results]
        kernel = _reduction_kernel(collective.operation, read, shapes, collective.member_count)
        collective.append(KernelThunk(kernel, [*sources, *results], collective.name))


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


def concatenation(collective: Collective, dimension: int, block_count: int = 1) -> Parts:
    """Concatenates a block of each member's operand along a dimension.

    block_count: the number of blocks that operands consist of along the dimension; a device receives from each member
    the block with the number of its rank.
    """
    operands, shapes, count = collective.operands, collective.shapes, collective.member_count
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
    slices = yield from begin_rendezvous(collective, publish_addresses(collective, operands, views, reads))
    for n, (shape, result, (block, _)) in enumerate(zip(shapes, collective.results, blocks, strict=True)):
        for m in range(count if block.size else 0):
            kernel = _block_copy_kernel(collective.operation, shape, block, result.shape, dimension, m)
            collective.append(KernelThunk(kernel, [slices[n * count + m], result], collective.name))
    append_rendezvous(collective, publish_addresses(collective, operands))


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


def forwarding(collective: Collective, views: Sequence[PeerView], reads: Sequence[RemoteRead]) -> Parts:
    """Copies a whole array of some member to each result. reads: as those of the views."""
    exchange = publish_addresses(collective, collective.operands, views, reads)
    received = yield from begin_rendezvous(collective, exchange)
    for source, result in zip(received, collective.results, strict=True):
        collective.append(CopyThunk(source, result))
    append_rendezvous(collective, publish_addresses(collective, collective.operands))
