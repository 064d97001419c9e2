"""Collective-permute with `slice_sizes`: slices of the sources' input buffers are written to the targets' outputs.

Responsible for the slice that each pair transfers, and for the position of slices. Does not depend on how values reach
other devices.
Source: HloCollectivePermuteInstruction of hlo_instructions.h, CheckInplaceCollectivePermute of hlo_verifier.cc. Both
specify only the shapes; the result is defined as that of a fused dynamic-slice, collective-permute and
dynamic-update-slice.

The operands are input, output, the slices' offsets in the input and those in the output; with several buffers all four
are tuples. An offset has one scalar per dimension; a tuple of several offsets describes as many slices. The first pair
of an id transfers the first slice, its second pair the second: of the pairs (0,1) (1,0) (0,1) the third transfers slice
1. If there is only one slice, every pair transfers it. The sender's operands give a slice's offset in the input, the
receiver's its offset in the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import ExecutionError, VerificationError
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import Array, Value
from xlapy.opcodes.collectives import CollectivePermuteAttributes
from xlapy.opcodes.requirements import elements_of

Offsets = Sequence[Sequence[Array]]
"""The offsets into one buffer: for each slice, one scalar per dimension."""


def check_slices(instruction: Instruction) -> None:
    """Raises `VerificationError` unless `slice_sizes` has one entry per slice of each buffer, and all slices fit."""
    source, target, read, written = instruction.operand_shapes
    buffers = list(zip(elements_of(source), elements_of(target), strict=True))
    offsets = [*_of_buffers(source, read), *_of_buffers(target, written)]
    counts = sorted({_slice_count(offset) for offset in offsets})
    sizes = instruction.attributes_as(CollectivePermuteAttributes).slice_sizes
    if len(counts) > 1 or len(sizes) != sum(counts) * len(buffers):
        raise VerificationError(
            codes.SLICE_COUNT,
            f"{describe_instruction(instruction)}: {len(sizes)} slice_sizes are not one for each slice; the offsets "
            f"into each of {len(buffers)} buffers describe {' or '.join(map(str, counts))}",
        )
    for number, size in enumerate(sizes):
        _check_slice(instruction, size, *buffers[number // counts[0]])
    for offset in offsets:
        for _, leaf in offset.leaves():
            if not leaf.is_scalar or not leaf.element_type.is_integral:
                raise VerificationError(
                    codes.INTEGER_OFFSETS,
                    f"{describe_instruction(instruction)}: an offset must "
                    f"be an integer, given {leaf.to_text(layout=False)}",
                )


def _check_slice(instruction: Instruction, sizes: Ints, source: Shape, target: Shape) -> None:
    fits = all(
        len(sizes) == buffer.rank and all(0 <= s <= w for s, w in zip(sizes, buffer.dimensions, strict=True))
        for buffer in (source, target)
    )
    if source.element_type is not target.element_type or not fits:
        raise VerificationError(
            codes.SLICE_SIZES,
            f"{describe_instruction(instruction)}: a slice of sizes "
            f"{list(sizes)} of {source.to_text(layout=False)} does not fit in "
            f"{target.to_text(layout=False)}",
        )


def _of_buffers(buffers: Shape, offsets: Shape) -> Sequence[Shape]:
    return offsets.tuple_shapes if buffers.is_tuple else (offsets,)


def _slice_count(offsets: Shape) -> int:
    return len(offsets.tuple_shapes) if any(part.is_tuple for part in offsets.tuple_shapes) else 1


def permute_slices(instruction: Instruction, operands: Sequence[Sequence[Value]], position: int) -> Value:
    """Returns the output of the device at `position` in the group, with the slices that others send to it.

    `operands` has the operands of every member, in the order of the group.
    """
    pairs = instruction.attributes_as(CollectivePermuteAttributes).source_target_pairs
    output = operands[position][1]
    results = [array.copy() for array in _arrays(output)]
    for (source, target), number in zip(pairs, _slice_numbers(pairs), strict=True):
        if target == position:
            _receive(instruction, operands[source], operands[target], number, results)
    return tuple(results) if isinstance(output, tuple) else results[0]


def _slice_numbers(pairs: Sequence[Ints]) -> list[int]:
    """Returns the slice number of each pair: the first that its source has not sent and its target has not received."""
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    numbers: list[int] = []
    for source, target in pairs:
        numbers.append(max(sent[source], received[target]))
        sent[source] = received[target] = numbers[-1] + 1
    return numbers


def _receive(
    instruction: Instruction, sender: Sequence[Value], receiver: Sequence[Value], number: int, results: list[Array]
) -> None:
    """Writes slice `number` of each of the sender's buffers to the results; a single slice serves all numbers."""
    source, _, read, _ = sender
    _, target, _, written = receiver
    buffers = zip(_arrays(source), _offsets(source, read), _offsets(target, written), results, strict=True)
    for buffer, (array, starts, targets, result) in enumerate(buffers):
        count = len(starts)
        chosen = min(number, count - 1)
        sizes = instruction.attributes_as(CollectivePermuteAttributes).slice_sizes[buffer * count + chosen]
        taken = array[_slice_at(instruction, "input", array, starts[chosen], sizes)]
        result[_slice_at(instruction, "output", result, targets[chosen], sizes)] = taken


def _arrays(value: Value) -> Sequence[Array]:
    return value if isinstance(value, tuple) else (value,)


def _offsets(buffers: Value, offsets: Value) -> Sequence[Offsets]:
    """Returns one entry per buffer, each with one entry per slice."""
    by_buffer = offsets if isinstance(buffers, tuple) else (offsets,)
    return [entry if entry and isinstance(entry[0], tuple) else (entry,) for entry in by_buffer]


def _slice_at(
    instruction: Instruction, what: str, array: Array, starts: Sequence[Array], sizes: Ints
) -> tuple[slice, ...]:
    begins = [int(start) for start in starts]
    bounds = zip(begins, sizes, array.shape, strict=True)
    if any(begin < 0 or begin + size > whole for begin, size, whole in bounds):
        raise ExecutionError(
            codes.SLICE_BOUNDS,
            f"{describe_instruction(instruction)}: a slice of sizes {list(sizes)} at {begins} is not within the {what} "
            f"of sizes {list(array.shape)}",
        )
    return tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))
