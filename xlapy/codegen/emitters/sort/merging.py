"""Merges sorted runs of a slice, pair by pair, in parts that are tasks.

A part is a range of the merged elements of a pair. How many of them come from the first run is found by binary search
("merge path"), so parts are equal whatever the elements are. A task merges several parts at once: each is a chain of
loads and comparisons that wait for each other. Does not depend on how runs were sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlapy import opcodes
from xlapy.codegen.emitters.sort.slices import SliceSorter, SortKernels, Spare, spare_bytes
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, Buffer, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.sort_keys import SortKey
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonType

CHAINS = 4
"""The parts that a task merges at once."""

MIN_PART = 1024
"""The smallest number of elements of a part: a binary search takes as long as merging some tens of elements."""


def merge_count(length: int, block: int) -> int:
    """The number of times that pairs of runs are merged until all blocks of a slice are one."""
    return (-(-length // block) - 1).bit_length()


def merged_blocks(
    instruction: Instruction, target: Target, first: Kernel, block: int, key: SortKey | None = None
) -> SortKernels:
    """Returns the kernels that sort the arrays, given the first one, which sorts each block of them.

    first: has the arrays, and the spare buffers unless a block is a whole slice; it leaves the elements in the spare
    buffers if the number of merges is odd (`merge_count`). block: the length of blocks in elements. key: what the
    comparator compares, if it compares keys. The elements are in the arrays at the end.
    """
    count, length = len(instruction.operands), instruction.operands[0].shape.dimensions[instruction.dimension]
    arrays, spares = tuple(range(count)), tuple(range(count, 2 * count))
    has_spares = len(first.buffers) > count
    steps = [(first, (*arrays, *spares) if has_spares else arrays)]
    for number in reversed(range(merge_count(length, block))):
        merging = RunMerger(instruction, target, key, changes=False)
        merging.merge_blocks(block)
        source, merged = (arrays, spares) if number % 2 else (spares, arrays)
        steps.append((merging.builder.kernel, (*source, *merged)))
        block *= 2
    return SortKernels(tuple(steps), spare_bytes(instruction) if has_spares else ())


class Runs(NamedTuple):
    """Two neighboring runs: [low, middle) and [middle, high). size: the largest number of elements of both."""

    low: Affine
    middle: Value
    high: Value
    size: int


class RunMerger(SliceSorter):
    """A kernel of a sort that merges runs."""

    def __init__(
        self,
        instruction: Instruction,
        target: Target,
        key: SortKey | None = None,
        *,
        changes: bool = True,
        spare: Spare = Spare.ARRAYS,
    ) -> None:
        super().__init__(instruction, target, changes=changes, spare=spare)
        self.key = key
        self.processors = target.processors

    def runs(self, limits: tuple[Affine, Value], pair: Affine, run: int) -> Runs:
        """A pair of neighboring runs. limits: the first element of the first run of all, and the end of the last."""
        builder, (begin, end) = self.builder, limits
        low = begin + pair * (2 * run)
        middle = builder.binary("smin", builder.value_of(low + run), end)
        high = builder.binary("smin", builder.value_of(low + 2 * run), end)
        return Runs(low, middle, high, 2 * run)

    def merge_pair(self, start: Affine, source: Sequence[Buffer], target: Sequence[Buffer], runs: Runs) -> None:
        """Merges two neighboring runs."""
        low = self.builder.value_of(runs.low)
        count = self.builder.sub(runs.high, low)
        count.range = (1, runs.size)
        self._merge(start, source, target, runs, [(runs.low, low, runs.middle)], count)

    def merge_blocks(self, run: int) -> None:
        """Merges neighboring runs of `run` elements from the arrays to the spare buffers; the last may be shorter."""
        builder = self.builder
        pairs = -(-self.length // (2 * run))
        if not self._is_ordered:
            with self.blocks(pairs) as (_, start, number):
                limits = Affine(), builder.constant(I64, self.length)
                self.merge_pair(start, self.arrays, self.spare, self.runs(limits, number, run))
            return
        tasks = max(1, min(-(-self.processors // pairs), 2 * run // (CHAINS * MIN_PART)))
        part = -(-2 * run // (tasks * CHAINS))
        with self.blocks(pairs * tasks) as (_, start, number):
            pair, task = builder.quotient(number, tasks), builder.remainder(number, tasks)
            limits = Affine(), builder.constant(I64, self.length)
            runs = self.runs(limits, pair, run)
            low = builder.value_of(runs.low)
            size, whole = builder.sub(runs.high, low), builder.constant(I64, part)
            # all parts are equally long: the last ones begin earlier, and what they share is merged twice
            count = builder.binary("smin", size, whole)
            count.range = (1, part)
            last = builder.sub(size, count)
            chains: list[tuple[Affine, Value, Value]] = []
            for chain in range(CHAINS):
                first = builder.value_of(task * (CHAINS * part) + chain * part)
                skipped = builder.binary("smin", first, last)
                left = self._merge_path(start, runs, skipped)
                right = builder.add(runs.middle, builder.sub(skipped, left))
                chains.append((runs.low + Affine.of(skipped), builder.add(low, left), right))
            self._merge(start, self.arrays, self.spare, runs, chains, count)

    @property
    def _is_ordered(self) -> bool:
        """Whether the comparator orders all elements.

        If it compares floats, NaN may be neither before nor after others: then a binary search may not find where a
        merge would be, and parts would repeat or omit elements.
        """
        if self.key is not None:
            return True
        return not any(
            instruction.computations
            or (
                instruction.op is opcodes.COMPARE
                and instruction.operands[0].shape.element_type.is_floating
                and instruction.attributes_as(CompareAttributes).type is not ComparisonType.TOTALORDER
            )
            for instruction in self.instruction.to_apply
        )

    def _merge_path(self, start: Affine, runs: Runs, skipped: Value) -> Value:
        """The number of elements of the first run among the first `skipped` ones of both runs, merged."""
        builder = self.builder
        one, zero = builder.constant(I64, 1), builder.zero(I64)
        low = builder.value_of(runs.low)
        least = builder.binary("smax", builder.sub(skipped, builder.sub(runs.high, runs.middle)), zero)
        most = builder.binary("smin", skipped, builder.sub(runs.middle, low))

        def narrow(limits: Sequence[Value]) -> list[Value]:
            middle = builder.binary("lshr", builder.add(limits[0], limits[1]), one)
            left = runs.low + Affine.of(middle)
            right = Affine.of(runs.middle) + Affine.of(skipped) - 1 - Affine.of(middle)
            elements = [self.load(self.arrays, start, position) for position in (right, left)]
            is_before = self._is_before(*elements)
            return [
                builder.select(is_before, limits[0], builder.add(middle, one)),
                builder.select(is_before, middle, limits[1]),
            ]

        found, _ = builder.while_loop(
            [least, most], lambda limits: builder.compare("slt", limits[0], limits[1]), narrow
        )
        return found

    def _merge(
        self,
        start: Affine,
        source: Sequence[Buffer],
        target: Sequence[Buffer],
        runs: Runs,
        chains: Sequence[tuple[Affine, Value, Value]],
        count: Value,
    ) -> None:
        """Merges `count` elements for each chain: where the first is stored, and the next one of both runs.

        Of an exhausted run, the last element is loaded but not taken.
        """
        builder = self.builder
        one = builder.constant(I64, 1)
        last_left, last_right = builder.sub(runs.middle, one), builder.sub(runs.high, one)

        def step(place: Affine, left: Value, right: Value) -> list[Value]:
            left_elements = self.load(source, start, Affine.of(builder.binary("smin", left, last_left)))
            right_elements = self.load(source, start, Affine.of(builder.binary("smin", right, last_right)))
            is_before = self._is_before(right_elements, left_elements)
            left_done = builder.compare("sge", left, runs.middle)
            take_right = builder.binary(
                "and", builder.compare("slt", right, runs.high), builder.binary("or", left_done, is_before)
            )
            moved = builder.convert("zext", take_right, I64)
            # the position is chosen without a branch, which the processor could not predict
            differing = builder.binary("and", builder.binary("xor", left, right), builder.unary("neg", moved))
            chosen = Affine.of(builder.binary("xor", left, differing))
            self.store(target, start, place, self.load(source, start, chosen))
            return [builder.add(left, builder.sub(one, moved)), builder.add(right, moved)]

        def steps(position: Affine, cursors: Sequence[Value]) -> list[Value]:
            found: list[Value] = []
            for number, (first, _, _) in enumerate(chains):
                found += step(first + position, *cursors[2 * number : 2 * number + 2])
            return found

        builder.reduce(count, [cursor for _, *cursors in chains for cursor in cursors], steps)

    def _is_before(self, first: Sequence[Element], second: Sequence[Element]) -> Value:
        """Whether the first element must precede the second one."""
        if self.key is not None:
            parameters = self.instruction.to_apply.parameters
            keys = [self.key.of(self.builder, parameters, elements) for elements in (first, second)]
            return self.builder.compare("ult", *keys)
        pairs = [element for pair in zip(first, second, strict=True) for element in pair]
        result: Value = self.lowering.apply(self.instruction.to_apply, pairs)
        return result
