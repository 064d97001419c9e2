"""Expansion of ragged-all-to-all into exchanges of blocks of rows.

Source: RaggedAllToAll of the specification.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import S64
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.builtin_targets.ragged import RAGGED_SLICES_TARGET, ragged_slices_config
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension
from xlapy.opcodes.collectives import AllToAllAttributes, RaggedAllToAllAttributes
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import PadAttributes
from xlapy.passes.expand.blocks import compare, concatenate, iota, new_computation, reduce_dimensions, slice_dimension
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer

_INPUTS_CHANNEL = 1 << 40
"""What is added to a channel's number for the exchange of rows, which needs a channel of its own. Instructions of one
channel in several branches still meet."""


SMALL_EXCHANGE_BYTES = 1 << 16
"""The size of the inputs of all members up to which they are exchanged whole, by one collective. A loop of exchanges
starts several of them, each of which takes as long as to send some 50 kB."""


@EXPANSIONS.rule(opcodes.RAGGED_ALL_TO_ALL)
def ragged_all_to_all(write: Writer, instruction: Instruction) -> Instruction:
    """Exchanges the offsets and sizes, and then the rows of the slices, in blocks of a fixed number of rows. Each row
    of the output is that of the last slice that contains it.

    Slices are numbered by sender: slice `e` has `sizes[e]` rows, from row `starts[e]` of its sender's input, and begins
    at row `targets[e]` of the output. A block is what each slice would have if all had the same size; a loop exchanges
    blocks until the longest slice of all members is sent. So members send about as many rows as they have, if slices
    are about equal, and not their inputs to all others. If slices do not exist, or are not those that the device
    expects, a custom call raises the interpreter's error.
    """
    operands = instruction.operands
    for shape in (operand.shape for operand in operands):
        if shape.is_dynamic:
            raise UnsupportedError(
                codes.EXPANSION, f"ragged-all-to-all of dynamic dimensions, given {shape.to_text(layout=False)}"
            )
    given, output, offsets = operands[:3]
    if not offsets.shape.element_type.is_integral:
        raise UnsupportedError(codes.EXPANSION, f"ragged-all-to-all with offsets of {offsets.shape.element_type}")
    if not offsets.shape.size:
        return output
    members, *several = offsets.shape.dimensions
    firsts, sizes, targets, longest = _received_slices(write, instruction, members, several[0] if several else 1)
    sizes = _checked_sizes(write, instruction, firsts, sizes, targets)
    if not (given.shape.size and output.shape.size):
        return output
    height, count = given.shape.dimensions[0], offsets.shape.size
    is_small = given.shape.byte_size * members <= SMALL_EXCHANGE_BYTES
    block = height if is_small else -(-height // count)
    owner, within = _last_slices(write, sizes, targets, output.shape.dimensions[0])
    starts = write.reshape(write.convert(operands[2], S64), Shape.array(S64, (count,)))
    padded = _pad_rows(write, given, block)
    exchange = _BlockExchange(instruction, members, block)
    zero = write.scalar(0, S64)
    if is_small:
        return exchange.received_rows(write, [zero, owner, within, starts, padded, output])
    longest_slice = reduce_dimensions(write, opcodes.MAXIMUM, longest, [0])
    state = write.add(opcodes.TUPLE, zero, owner, within, starts, padded, output, longest_slice)

    def continues(into: Writer, parameters: list[Instruction]) -> Instruction:
        done, limit = (into.get_tuple_element(parameters[0], number) for number in (0, 6))
        return compare(into, done, limit, ComparisonDirection.LT)

    def iteration(into: Writer, parameters: list[Instruction]) -> Instruction:
        *elements, limit = [into.get_tuple_element(parameters[0], number) for number in range(7)]
        found = exchange.received_rows(into, elements)
        following = into.add(opcodes.ADD, elements[0], into.scalar(block, S64))
        return into.add(opcodes.TUPLE, following, *elements[1:5], found, limit)

    computations = [
        new_computation(write, "ragged_condition", [state.shape], continues),
        new_computation(write, "ragged_body", [state.shape], iteration),
    ]
    return write.get_tuple_element(write.add(opcodes.WHILE, state, computations=computations), 5)


def _pad_rows(write: Writer, value: Instruction, count: int) -> Instruction:
    """Appends rows of zeros."""
    config = [PaddingDimension(0, 0 if dimension else count) for dimension in range(value.shape.rank)]
    attributes = PadAttributes.make(padding=PaddingConfig(tuple(config)))
    return write.add(opcodes.PAD, value, write.scalar(0, value.shape.element_type), attributes=attributes)


def _last_slices(write: Writer, sizes: Instruction, targets: Instruction, rows: int) -> tuple[Instruction, Instruction]:
    """Returns, as s64[rows], the last slice that contains each row of the output, -1 for none, and the row's number in
    that slice."""
    table = Shape.array(S64, (rows, sizes.shape.size))
    begin, size = (write.broadcast(each, table, (1,)) for each in (targets, sizes))
    within = write.add(opcodes.SUBTRACT, iota(write, table, 0), begin)
    none = write.splat(-1, table)
    numbers = write.add(opcodes.SELECT, _is_below(write, within, size), iota(write, table, 1), none)
    last = reduce_dimensions(write, opcodes.MAXIMUM, numbers, [1], -1)
    is_last = compare(write, numbers, write.broadcast(last, table, (0,)), ComparisonDirection.EQ)
    own = write.add(opcodes.SELECT, is_last, within, none)
    return last, reduce_dimensions(write, opcodes.MAXIMUM, own, [1], -1)


@dataclass(frozen=True)
class _BlockExchange:
    """Exchanges one block of each slice. block: the rows of a block."""

    instruction: Instruction
    members: int
    block: int

    def received_rows(self, write: Writer, state: Sequence[Instruction]) -> Instruction:
        """Returns the output with the rows that are received in blocks from row `done` of each slice on.

        state: `done`; the slice of each row of the output and its number there; the first row of each slice that the
        device sends; its input, with as many rows at the end as a block has; the output.
        """
        done, owner, within, starts, padded, output = state
        blocks = self._received(write, padded, write.add(opcodes.ADD, starts, write.broadcast(done, starts.shape)))
        offset = write.add(opcodes.SUBTRACT, within, write.broadcast(done, within.shape))
        rows = write.splat(self.block, offset.shape)
        is_received = write.add(
            opcodes.AND, _is_below(write, offset, rows),
            compare(write, owner, write.splat(0, owner.shape), ComparisonDirection.GE),
        )  # fmt: skip
        place = write.add(opcodes.ADD, write.add(opcodes.MULTIPLY, owner, rows), offset)
        rank = output.shape.rank
        gather = GatherAttributes.make(
            offset_dims=tuple(range(1, rank)), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1,
            slice_sizes=(1, *output.shape.dimensions[1:]),
        )  # fmt: skip
        moved = write.add(opcodes.GATHER, blocks, place, attributes=gather, shape=output.shape)
        spread = write.broadcast(is_received, output.shape.with_element_type(is_received.shape.element_type), (0,))
        return write.add(opcodes.SELECT, spread, moved, output)

    def _received(self, write: Writer, padded: Instruction, begins: Instruction) -> Instruction:
        """Sends the rows from `begins[e]` on to the member of slice e; returns the received blocks, joined."""
        rest, count = padded.shape.dimensions[1:], begins.shape.size
        gather = GatherAttributes.make(
            offset_dims=tuple(range(1, padded.shape.rank + 1)), collapsed_slice_dims=(), start_index_map=(0,),
            index_vector_dim=1, slice_sizes=(self.block, *rest),
        )  # fmt: skip
        sent = write.add(opcodes.GATHER, padded, begins, attributes=gather)
        attributes = self.instruction.attributes_as(RaggedAllToAllAttributes)
        channel = attributes.channel_id
        exchange = AllToAllAttributes.make(
            channel_id=None if channel is None else channel + _INPUTS_CHANNEL,
            replica_groups=attributes.replica_groups, split_dimension=0,
        )  # fmt: skip
        received = write.add(opcodes.ALL_TO_ALL, sent, attributes=exchange)
        return write.reshape(received, padded.shape.with_dimensions([count * self.block, *rest]))


def _is_below(write: Writer, value: Instruction, limit: Instruction) -> Instruction:
    """Whether 0 <= value < limit."""
    zero = write.splat(0, value.shape)
    is_positive = compare(write, value, zero, ComparisonDirection.GE)
    return write.add(opcodes.AND, is_positive, compare(write, value, limit, ComparisonDirection.LT))


def _received_slices(write: Writer, instruction: Instruction, members: int, several: int) -> list[Instruction]:
    """Returns, as s64[slices], the first row in its sender's input, the size, the first row in the output, and the size
    of the longest slice that its sender sends to any member."""
    separate = Shape.array(S64, (members, 1, several))
    parts = [write.reshape(write.convert(each, S64), separate) for each in instruction.operands[2:5]]
    parts.append(write.broadcast(reduce_dimensions(write, opcodes.MAXIMUM, parts[1], [0, 1, 2]), separate))
    attributes = instruction.attributes_as(RaggedAllToAllAttributes)
    exchange = AllToAllAttributes.make(
        channel_id=attributes.channel_id, replica_groups=attributes.replica_groups, split_dimension=0
    )
    received = write.add(opcodes.ALL_TO_ALL, concatenate(write, parts, 1), attributes=exchange)
    flat = Shape.array(S64, (members * several,))
    return [write.reshape(slice_dimension(write, received, 1, n, n + 1), flat) for n in range(4)]


def _checked_sizes(
    write: Writer, instruction: Instruction, firsts: Instruction, sizes: Instruction, targets: Instruction
) -> Instruction:
    """Returns the sizes of the received slices, if all of their rows exist and the device expects as many."""
    offsets = instruction.operands[5].shape
    expected = write.reshape(write.convert(instruction.operands[5], S64), sizes.shape)
    tests = [compare(write, sizes, expected, ComparisonDirection.EQ)]
    for start, operand in ((firsts, instruction.operands[0]), (targets, instruction.operands[1])):
        rows = write.splat(operand.shape.dimensions[0], sizes.shape)
        zero = write.splat(0, sizes.shape)
        tests += [
            compare(write, zero, start, ComparisonDirection.LE),
            compare(write, start, rows, ComparisonDirection.LE),
            compare(write, zero, sizes, ComparisonDirection.LE),
            compare(write, sizes, write.add(opcodes.SUBTRACT, rows, start), ComparisonDirection.LE),
        ]
    both = functools.reduce(lambda one, other: write.add(opcodes.AND, one, other), tests)
    is_right = reduce_dimensions(write, opcodes.AND, both, [0], True)
    parts = [firsts, sizes, targets, expected]
    state = Shape.tuple([part.shape for part in parts])
    config = ragged_slices_config(instruction)

    def keep(into: Writer, given: list[Instruction]) -> Instruction:
        return into.get_tuple_element(given[0], 1)

    def refuse(into: Writer, given: list[Instruction]) -> Instruction:
        shape = Shape.array(S64, offsets.dimensions)
        operands = [into.reshape(into.get_tuple_element(given[0], number), shape) for number in range(len(parts))]
        attributes = CustomCallAttributes.make(
            custom_call_target=RAGGED_SLICES_TARGET, custom_call_has_side_effect=True
        )
        call = into.add(opcodes.CUSTOM_CALL, *operands, attributes=attributes, shape=shape)
        call.backend_config = config
        return into.reshape(call, sizes.shape)

    branches = [new_computation(write, "keep", [state], keep), new_computation(write, "refuse", [state], refuse)]
    given = write.add(opcodes.TUPLE, *parts)
    return write.add(opcodes.CONDITIONAL, is_right, given, given, computations=branches, shape=sizes.shape)
