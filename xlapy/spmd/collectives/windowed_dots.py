"""Windowed dots: computes a dot and moves its operand or its result at the same time, piece by piece.

An all-gather before a dot becomes a loop in which each device multiplies the piece that it holds, and sends it on to
the next device. A reduce-scatter after a dot becomes a loop in which each device adds its product to the sum of one
piece, and sends the sum on. XLA calls this a windowed einsum, others a collective matmul. It pays where transfers run
beside computation, and only for large arrays, because n devices synchronize n - 1 times instead of once.

Responsible for which dots, and for the loops. Does not depend on what wrote the collectives.

Worked example: devices 0, 1, 2 hold the rows a, b, c of the left operand. Device 1 computes the rows of the result in
the order b, c, a: in each step all devices multiply, and then send their piece to the device before them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.cost import array_bytes
from xlapy.base.shape import Ints, Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.replica_groups import GroupMode, Groups
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    ReduceScatterAttributes,
    group_mode_of,
)
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.passes.expand.blocks import counted_loop
from xlapy.passes.rewrite import Writer, remove_replaced
from xlapy.spmd.partial_sums import reducer_op
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.tiling import tiling_of_numbers
from xlapy.spmd.time_model import BANDWIDTH, START_SECONDS, arithmetic_seconds


def window_dots(computation: Computation, devices: int, channels: Iterator[int], min_bytes: int) -> None:
    """Rewrites dots with a collective that moves at least `min_bytes`, where the loop is estimated to be faster.

    channels: yields channel numbers that no collective of the module has yet.
    """
    for instruction in post_order(computation):
        if instruction.parent is None or instruction.has_control_edges:
            continue
        if instruction.op is opcodes.DOT:
            window = _gathered_operand(instruction)
        elif instruction.op is opcodes.REDUCE_SCATTER:
            window = _scattered_result(instruction)
        else:
            continue
        if window is not None and _is_faster(window, min_bytes):
            _WindowWriter(window, devices, channels).write()


@dataclass(frozen=True)
class _Window:
    """A dot whose operand is gathered, or whose result is scattered, in pieces.

    split: the number of the operand that is cut in pieces. operand_dimension, result_dimension: the dimension of it,
    and of the result, along which the pieces lie.
    """

    dot: Instruction
    collective: Instruction
    groups: Groups
    split: int
    operand_dimension: int
    result_dimension: int

    @property
    def pieces(self) -> int:
        return len(self.groups[0])


def _gathered_operand(dot: Instruction) -> _Window | None:
    """Returns the window of a dot of which one operand is an all-gather along a dimension that is not contracted."""
    for split, operand in enumerate(dot.operands[:2]):
        if operand.op is not opcodes.ALL_GATHER or len(operand.users) > 1 or dot.operands[0] is dot.operands[1]:
            continue
        dimension = operand.attributes_as(AllGatherAttributes).all_gather_dimension
        result = {pair: result for result, pair in _free_dimensions(dot).items()}.get((split, dimension))
        groups = _groups(operand)
        if result is not None and groups is not None:
            return _Window(dot, operand, groups, split, dimension, result)
    return None


def _scattered_result(scatter: Instruction) -> _Window | None:
    """Returns the window of a dot whose only user is a reduce-scatter that adds."""
    dot = scatter.operands[0]
    if dot.op is not opcodes.DOT or len(dot.users) > 1 or dot.has_control_edges:
        return None
    if reducer_op(scatter) is not opcodes.ADD:
        return None
    dimension = scatter.attributes_as(ReduceScatterAttributes).scatter_dimension
    pair, groups = _free_dimensions(dot).get(dimension), _groups(scatter)
    return None if pair is None or groups is None else _Window(dot, scatter, groups, *pair, dimension)


def _groups(collective: Instruction) -> Groups | None:
    """Returns the groups of devices of a collective; None if it has several operands, or names others than devices."""
    attributes = collective.attributes_as(GroupedAttributes)
    if len(collective.operands) > 1 or collective.is_root or collective.has_control_edges:
        return None
    return attributes.replica_groups.groups if group_mode_of(attributes) is GroupMode.FLATTENED_ID else None


def _free_dimensions(dot: Instruction) -> dict[int, tuple[int, int]]:
    """Returns the dimensions of the result that one operand alone has: the number of the operand and its dimension."""
    attributes = dot.attributes_as(DotAttributes)
    bound = [
        (*attributes.lhs_batch_dims, *attributes.lhs_contracting_dims),
        (*attributes.rhs_batch_dims, *attributes.rhs_contracting_dims),
    ]
    free = [
        (number, dimension)
        for number, operand in enumerate(dot.operands[:2])
        for dimension in range(operand.shape.rank)
        if dimension not in bound[number]
    ]
    return dict(enumerate(free, len(attributes.lhs_batch_dims)))


def _is_faster(window: _Window, min_bytes: int) -> bool:
    """Returns whether the loop takes less time than the collective and the dot one after the other."""
    pieces = window.pieces
    moved = max(array_bytes(window.collective.shape), array_bytes(window.collective.operands[0].shape))
    if moved < min_bytes or pieces < 2:
        return False
    computed = arithmetic_seconds(window.dot)
    transfer = START_SECONDS + moved / pieces / BANDWIDTH
    in_turn = START_SECONDS + moved * (pieces - 1) / pieces / BANDWIDTH + computed
    return max(transfer, computed / pieces) * (pieces - 1) + computed / pieces < in_turn


class _WindowWriter:
    """Writes the loop of one windowed dot."""

    def __init__(self, window: _Window, devices: int, channels: Iterator[int]) -> None:
        self.window = window
        self.channels = channels
        self.write_here = Writer(window.collective if window.collective.op is opcodes.REDUCE_SCATTER else window.dot)
        positions = [0] * devices
        for group in window.groups:
            for position, device in enumerate(group):
                positions[device] = position
        self.position = Resharder(self.write_here, devices, channels).tile_index(tiling_of_numbers(positions))
        self.pairs = tuple(
            [(device, group[position - 1]) for group in window.groups for position, device in enumerate(group)]
        )

    def write(self) -> None:
        """Replaces the collective and the dot."""
        window = self.window
        if window.collective.op is opcodes.ALL_GATHER:
            replaced, result = window.dot, self._gathered()
        else:
            replaced, result = window.collective, self._scattered()
        edit.replace_uses(replaced, result)
        other = window.collective if replaced is window.dot else window.dot
        edit.remove(replaced)
        remove_replaced(other)

    def _gathered(self) -> Instruction:
        """Multiplies one piece after the other, and writes each product where it belongs."""
        window, write = self.window, self.write_here
        size = window.collective.operands[0].shape.dimensions[window.operand_dimension]
        start = write.splat(0, window.dot.shape)
        other = window.dot.operands[1 - window.split]

        def updated(into: Writer, result: Instruction, piece: Instruction, known: list[Instruction]) -> Instruction:
            product = self._product(into, piece, known[0])
            offsets = self._offsets(into, result.shape.rank, window.result_dimension, known[1], size)
            return into.add(opcodes.DYNAMIC_UPDATE_SLICE, result, product, *offsets)

        def body(into: Writer, number: Instruction, state: list[Instruction]) -> list[Instruction]:
            piece, result, factor, position = state
            block = self._block(into, position, number, 0)
            return [self._sent(into, piece), updated(into, result, piece, [factor, block]), factor, position]

        state = [window.collective.operands[0], start, other, self.position]
        piece, result, *_ = counted_loop(write, window.pieces - 1, state, body, "windowed_dot")
        last = self._block(write, self.position, write.scalar(window.pieces - 1, self.position.shape.element_type), 0)
        return updated(write, result, piece, [other, last])

    def _scattered(self) -> Instruction:
        """Adds one product after the other to the sum that passes by, until it arrives where it belongs."""
        window, write = self.window, self.write_here
        size = window.collective.shape.dimensions[window.result_dimension]
        whole, other = (window.dot.operands[number] for number in (window.split, 1 - window.split))

        def product(into: Writer, whole: Instruction, factor: Instruction, block: Instruction) -> Instruction:
            shape = _resized(whole.shape, window.operand_dimension, size)
            offsets = self._offsets(into, shape.rank, window.operand_dimension, block, size)
            attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=shape.dimensions)
            piece = into.add(opcodes.DYNAMIC_SLICE, whole, *offsets, attributes=attributes, shape=shape)
            return self._product(into, piece, factor)

        def body(into: Writer, number: Instruction, state: list[Instruction]) -> list[Instruction]:
            total, whole, factor, position = state
            added = product(into, whole, factor, self._block(into, position, number, 2))
            return [into.add(opcodes.ADD, self._sent(into, total), added), whole, factor, position]

        first = self._block(write, self.position, write.scalar(0, self.position.shape.element_type), 1)
        state = [product(write, whole, other, first), whole, other, self.position]
        return counted_loop(write, window.pieces - 1, state, body, "windowed_dot")[0]

    # -- parts of both loops

    def _block(self, into: Writer, position: Instruction, number: Instruction, ahead: int) -> Instruction:
        """Returns the number of the piece that a device has in an iteration: `position + number + ahead`, in a ring."""
        scalar = position.shape
        count = into.convert(number, scalar.element_type)
        terms = [position, count, *([into.splat(ahead, scalar)] if ahead else [])]
        total = functools.reduce(functools.partial(into.add, opcodes.ADD), terms)
        return into.add(opcodes.REMAINDER, total, into.splat(self.window.pieces, scalar))

    def _offsets(self, into: Writer, rank: int, dimension: int, block: Instruction, size: int) -> list[Instruction]:
        zero = into.splat(0, block.shape)
        offset = into.add(opcodes.MULTIPLY, block, into.splat(size, block.shape))
        return [offset if number == dimension else zero for number in range(rank)]

    def _sent(self, into: Writer, piece: Instruction) -> Instruction:
        """Sends a piece to the device before; returns the piece that comes from the device after."""
        attributes = CollectivePermuteAttributes.make(channel_id=next(self.channels), source_target_pairs=self.pairs)
        return into.add(opcodes.COLLECTIVE_PERMUTE, piece, attributes=attributes)

    def _product(self, into: Writer, piece: Instruction, factor: Instruction) -> Instruction:
        """Multiplies a piece of the split operand with the other operand."""
        window = self.window
        size = piece.shape.dimensions[window.operand_dimension]
        operands = [piece, factor] if window.split == 0 else [factor, piece]
        product = edit.clone_instruction(window.dot, into.computation, operands)
        edit.set_shape(product, _resized(window.dot.shape, window.result_dimension, size))
        return product


def _resized(shape: Shape, dimension: int, size: int) -> Shape:
    sizes: Ints = tuple([size if number == dimension else each for number, each in enumerate(shape.dimensions)])
    return shape.with_dimensions(sizes)
