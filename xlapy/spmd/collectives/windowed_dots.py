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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost import array_bytes
from xlapy.base.shape import Ints, Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.permutations import Permutation
from xlapy.opcodes.attributes.replica_groups import GroupMode, ReplicaGroups
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    ReduceScatterAttributes,
    group_mode_of,
)
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.passes.expand.blocks import counted_loop
from xlapy.passes.rewrite import Writer, remove_replaced
from xlapy.spmd.partial_sums import reducer_op
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.sharding_rules.rules import sharding_factors
from xlapy.spmd.tiling import tiling_of_numbers
from xlapy.spmd.time_model import BANDWIDTH, START_SECONDS, arithmetic_seconds

MIN_SUM_BITS: Final = 32
"""Products of pieces of a contracted dimension are added in the type of the result. In types of fewer bits, the sums
would be rounded more often than those of one dot."""


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

    cut: the dimension along which the pieces lie in each of the two operands, None for an operand that is multiplied as
    a whole. gathered: the number of the operand that is gathered; None if the result is scattered. result_dimension:
    the dimension of the result along which the pieces lie; None if it is contracted.
    """

    dot: Instruction
    collective: Instruction
    groups: ReplicaGroups
    cut: tuple[int | None, int | None]
    gathered: int | None
    result_dimension: int | None

    @property
    def pieces(self) -> int:
        return self.groups.group_size


def _gathered_operand(dot: Instruction) -> _Window | None:
    """Returns the window of a dot of which one operand is an all-gather."""
    for number, operand in enumerate(dot.operands[:2]):
        if operand.op is not opcodes.ALL_GATHER or len(operand.users) > 1 or dot.operands[0] is dot.operands[1]:
            continue
        dimension = operand.attributes_as(AllGatherAttributes).all_gather_dimension
        cut, result = next((cut, result) for cut, result in _dimensions(dot) if cut[number] == dimension)
        groups = _groups(operand)
        if groups is not None and (result is not None or dot.shape.element_type.bits >= MIN_SUM_BITS):
            return _Window(dot, operand, groups, cut, number, result)
    return None


def _scattered_result(scatter: Instruction) -> _Window | None:
    """Returns the window of a dot whose only user is a reduce-scatter that adds."""
    dot = scatter.operands[0]
    if dot.op is not opcodes.DOT or len(dot.users) > 1 or dot.has_control_edges:
        return None
    if reducer_op(scatter) is not opcodes.ADD:
        return None
    dimension, groups = scatter.attributes_as(ReduceScatterAttributes).scatter_dimension, _groups(scatter)
    cut = next(cut for cut, result in _dimensions(dot) if result == dimension)
    return None if groups is None else _Window(dot, scatter, groups, cut, None, dimension)


def _dimensions(dot: Instruction) -> Iterator[tuple[tuple[int | None, int | None], int | None]]:
    """Yields the dimensions of both operands and of the result that belong together; None for no dimension."""
    for factor in sharding_factors(dot):
        left, right = factor.operands[:2]
        yield (left, right), factor.results[0]


def _groups(collective: Instruction) -> ReplicaGroups | None:
    """Returns the groups of devices of a collective; None if it has several operands, or names others than devices."""
    attributes = collective.attributes_as(GroupedAttributes)
    if len(collective.operands) > 1 or collective.is_root or collective.has_control_edges:
        return None
    return attributes.replica_groups if group_mode_of(attributes) is GroupMode.FLATTENED_ID else None


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
        groups = window.groups.groups
        for group in groups:
            for position, device in enumerate(group):
                positions[device] = position
        self.position = Resharder(self.write_here, devices, channels).tile_index(tiling_of_numbers(positions))
        self.pairs = Permutation.make(
            [device for group in groups for device in group],
            [group[position - 1] for group in groups for position in range(len(group))],
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
        """Multiplies one piece after the other, and writes each product where it belongs, or adds it."""
        window, write = self.window, self.write_here
        assert window.gathered is not None
        start = write.splat(0, window.dot.shape)
        other = window.dot.operands[1 - window.gathered]

        def updated(into: Writer, result: Instruction, piece: Instruction, known: list[Instruction]) -> Instruction:
            operands = [piece, known[0]] if window.gathered == 0 else [known[0], piece]
            product = self._product(into, operands, known[1])
            if window.result_dimension is None:
                return into.add(opcodes.ADD, result, product)
            size = product.shape.dimensions[window.result_dimension]
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

        def body(into: Writer, number: Instruction, state: list[Instruction]) -> list[Instruction]:
            total, left, right, position = state
            added = self._product(into, [left, right], self._block(into, position, number, 2))
            return [into.add(opcodes.ADD, self._sent(into, total), added), left, right, position]

        first = self._block(write, self.position, write.scalar(0, self.position.shape.element_type), 1)
        operands = list(window.dot.operands[:2])
        state = [self._product(write, operands, first), *operands, self.position]
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

    def _product(self, into: Writer, operands: Sequence[Instruction], block: Instruction) -> Instruction:
        """Multiplies one piece: the gathered one, and the parts number `block` of operands that are cut."""
        window = self.window
        parts = [
            operand if number == window.gathered or dimension is None else self._part(into, operand, dimension, block)
            for number, (operand, dimension) in enumerate(zip(operands, window.cut, strict=True))
        ]
        product = edit.clone_instruction(window.dot, into.computation, parts)
        if window.result_dimension is not None:
            size = window.dot.shape.dimensions[window.result_dimension] // window.pieces
            edit.set_shape(product, _resized(window.dot.shape, window.result_dimension, size))
        return product

    def _part(self, into: Writer, array: Instruction, dimension: int, block: Instruction) -> Instruction:
        size = array.shape.dimensions[dimension] // self.window.pieces
        shape = _resized(array.shape, dimension, size)
        offsets = self._offsets(into, shape.rank, dimension, block, size)
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=shape.dimensions)
        return into.add(opcodes.DYNAMIC_SLICE, array, *offsets, attributes=attributes, shape=shape)


def _resized(shape: Shape, dimension: int, size: int) -> Shape:
    sizes: Ints = tuple([size if number == dimension else each for number, each in enumerate(shape.dimensions)])
    return shape.with_dimensions(sizes)
