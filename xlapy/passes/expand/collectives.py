"""Expansion of ragged-all-to-all into collectives of whole arrays.

Source: RaggedAllToAll of the specification.
"""

from __future__ import annotations

import functools

from xlapy import opcodes
from xlapy.base.element_types import S64
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.builtin_targets.ragged import RAGGED_SLICES_TARGET, ragged_slices_config
from xlapy.opcodes.collectives import AllToAllAttributes, RaggedAllToAllAttributes
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.passes.expand.blocks import compare, concatenate, iota, new_computation, reduce_dimensions, slice_dimension
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer

_INPUTS_CHANNEL = 1 << 40
"""What is added to a channel's number for the exchange of inputs, which needs a channel of its own. Instructions of one
channel in several branches still meet."""


@EXPANSIONS.rule(opcodes.RAGGED_ALL_TO_ALL)
def ragged_all_to_all(write: Writer, instruction: Instruction) -> Instruction:
    """Exchanges the offsets and sizes, and whole inputs; then each row of the output is that of the last slice that
    contains it.

    Slices are numbered by sender: slice `e` has `sizes[e]` rows, from row `starts[e]` of the concatenated inputs, and
    begins at row `targets[e]` of the output. If slices do not exist, or are not those that the device expects, a custom
    call raises the interpreter's error.
    """
    operands = instruction.operands
    for shape in (operand.shape for operand in operands):
        if shape.is_dynamic:
            raise UnsupportedError(
                codes.EXPANSION, f"ragged-all-to-all of dynamic dimensions, given {shape.to_text(layout=False)}"
            )
    given, output, offsets = operands[:3]
    members, *several = offsets.shape.dimensions
    if not offsets.shape.element_type.is_integral:
        raise UnsupportedError(codes.EXPANSION, f"ragged-all-to-all with offsets of {offsets.shape.element_type}")
    if not offsets.shape.size:
        return output
    count = offsets.shape.size
    firsts, sizes, targets = _received_slices(write, instruction, members, several[0] if several else 1)
    sizes = _checked_sizes(write, instruction, firsts, sizes, targets)
    if not (given.shape.size and output.shape.size):
        return output
    rows, height = output.shape.dimensions[0], given.shape.dimensions[0]
    inputs = _received_inputs(write, instruction, members)
    # The number of a row among the concatenated inputs, plus that of the slice times the number of these rows.
    table = Shape.array(S64, (rows, count))
    row = iota(write, table, 0)
    slice_number = iota(write, table, 1)
    sender = write.add(opcodes.DIVIDE, slice_number, write.splat(count // members, table))
    begin, size, first = (write.broadcast(each, table, (1,)) for each in (targets, sizes, firsts))
    within = write.add(opcodes.SUBTRACT, row, begin)
    source = write.add(opcodes.ADD, first, within)
    is_written = _is_below(write, within, size)
    whole = write.splat(members * height, table)
    base = write.add(opcodes.MULTIPLY, slice_number, whole)
    number = write.add(opcodes.ADD, write.add(opcodes.MULTIPLY, sender, write.splat(height, table)), source)
    keys = write.add(opcodes.SELECT, is_written, write.add(opcodes.ADD, base, number), write.splat(-1, table))
    last = reduce_dimensions(write, opcodes.MAXIMUM, keys, [1], -1)
    nothing = write.splat(0, last.shape)
    is_received = compare(write, last, nothing, ComparisonDirection.GE)
    chosen = write.add(
        opcodes.REMAINDER, write.add(opcodes.MAXIMUM, last, nothing), write.splat(members * height, last.shape)
    )
    rank = given.shape.rank
    gather = GatherAttributes.make(
        offset_dims=tuple(range(1, rank)),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *given.shape.dimensions[1:]),
    )
    moved = write.add(opcodes.GATHER, inputs, chosen, attributes=gather, shape=output.shape)
    spread = write.broadcast(is_received, output.shape.with_element_type(is_received.shape.element_type), (0,))
    return write.add(opcodes.SELECT, spread, moved, output)


def _is_below(write: Writer, value: Instruction, limit: Instruction) -> Instruction:
    """Whether 0 <= value < limit."""
    zero = write.splat(0, value.shape)
    is_positive = compare(write, value, zero, ComparisonDirection.GE)
    return write.add(opcodes.AND, is_positive, compare(write, value, limit, ComparisonDirection.LT))


def _received_slices(write: Writer, instruction: Instruction, members: int, several: int) -> list[Instruction]:
    """Returns, as s64[slices], the first row in its sender's input, the size, and the first row in the output."""
    separate = Shape.array(S64, (members, 1, several))
    parts = [write.reshape(write.convert(each, S64), separate) for each in instruction.operands[2:5]]
    attributes = instruction.attributes_as(RaggedAllToAllAttributes)
    exchange = AllToAllAttributes.make(
        channel_id=attributes.channel_id, replica_groups=attributes.replica_groups, split_dimension=0
    )
    received = write.add(opcodes.ALL_TO_ALL, concatenate(write, parts, 1), attributes=exchange)
    flat = Shape.array(S64, (members * several,))
    return [write.reshape(slice_dimension(write, received, 1, n, n + 1), flat) for n in range(3)]


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


def _received_inputs(write: Writer, instruction: Instruction, members: int) -> Instruction:
    """Returns the concatenated inputs of all members."""
    attributes = instruction.attributes_as(RaggedAllToAllAttributes)
    channel = attributes.channel_id
    exchange = AllToAllAttributes.make(
        channel_id=None if channel is None else channel + _INPUTS_CHANNEL, replica_groups=attributes.replica_groups
    )
    given = instruction.operands[0]
    received = write.add(opcodes.ALL_TO_ALL, *[given] * members, attributes=exchange)
    if not received.shape.is_tuple:
        return received
    return concatenate(write, [write.get_tuple_element(received, n) for n in range(members)], 0)
