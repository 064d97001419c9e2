"""Chooses the sharding strategy of an operation: which of its factors are split, and over which devices.

The first two candidates follow what the sharding of the result requests, and how the operands are distributed already,
partial sums included. If they differ, all combinations of the tilings of operands and results are candidates, and the
one that takes the least time is chosen (`time_model.py`): to reshard the operands, to compute, and to reshard the
results as requested.

Responsible for that choice. Does not depend on how instructions are written.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.cost import array_bytes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.array_sharding import (
    ArraySharding,
    Tiling,
    are_independent,
    combined_tiling,
    divides_evenly,
    local_shape,
    replicated,
    tile_count,
)
from xlapy.spmd.halo.concatenations import concatenation_of
from xlapy.spmd.halo.windows import elements_exchanged
from xlapy.spmd.partial_sums import partial_sum_operands, produces_partial_sums
from xlapy.spmd.resharding import PartitionedArray
from xlapy.spmd.sharding_rules.factors import Factor
from xlapy.spmd.time_model import all_reduce_seconds, exchange_seconds, operation_seconds, resharding_seconds

FactorTilings = dict[Factor, Tiling]

MAX_CANDIDATES = 256
"""The largest number of combinations of tilings that are compared. Operations with more factors and different tilings
than that are rare; the combinations beyond are those with fewer and smaller tilings."""


@dataclass(frozen=True)
class Strategy:
    """How an operation is split.

    factor_tilings: the tiling of each factor that is split. operands, results: the shardings of the operands that the
    local operation takes, and of its results. all_reduced: the reduction factors whose partial results are
    combined immediately by an all-reduce with the operation's reducer.
    """

    factor_tilings: FactorTilings
    operands: tuple[ArraySharding, ...]
    results: tuple[ArraySharding, ...]
    all_reduced: tuple[Factor, ...]

    @property
    def is_split(self) -> bool:
        """Whether devices compute different parts of the operation."""
        return bool(self.factor_tilings) or any(sharding.partial_sums for sharding in self.operands)


def choose_strategy(
    instruction: Instruction,
    factors: Sequence[Factor],
    requested: Sequence[ArraySharding | None],
    operands: Sequence[PartitionedArray],
    kept_partial_sums: Tiling | None,
) -> Strategy:
    """Returns the strategy of an operation whose operands and results are arrays.

    requested: the sharding of each result that the program requests, None without one. kept_partial_sums: the partial
    sums of operands that the result is to keep, if the operation is linear.
    """
    return _StrategyChooser(instruction, factors, requested, operands, kept_partial_sums).chosen()


class _StrategyChooser:
    """Chooses the strategy of one operation; holds the data that all candidates depend on."""

    def __init__(
        self,
        instruction: Instruction,
        factors: Sequence[Factor],
        requested: Sequence[ArraySharding | None],
        operands: Sequence[PartitionedArray],
        kept_partial_sums: Tiling | None,
    ) -> None:
        self.instruction = instruction
        self.factors = factors
        self.requested = requested
        self.operands = operands
        self.operand_shapes = [operand.shape for operand in instruction.operands]
        self.result_shapes = [leaf for _, leaf in instruction.shape.leaves()]
        self.manual_axes = tuple(dict.fromkeys(axis for operand in operands for axis in operand.manual_axes))
        self.unreduced_operands = self._unreduced_operands(kept_partial_sums)
        self.kept_partial_sums = kept_partial_sums if self.unreduced_operands else None

    def _unreduced_operands(self, kept_partial_sums: Tiling | None) -> tuple[int, ...]:
        """Returns the operands whose partial sums become partial sums of the result; none if they have to be added."""
        if kept_partial_sums is None:
            return ()
        unreduced = {n for n, operand in enumerate(self.operands) if operand.sharding.partial_sums == kept_partial_sums}
        for jointly in partial_sum_operands(self.instruction):
            if unreduced and unreduced == set(jointly):
                return jointly
        return ()

    def chosen(self) -> Strategy:
        """Returns the candidate that takes the least time; of equals, the first."""
        by_request, by_operands = self.strategy(requested_first=True), self.strategy(requested_first=False)
        if by_operands.factor_tilings == by_request.factor_tilings:
            return by_request
        candidates = [by_request, by_operands, *map(self._strategy_of, self._combinations())]
        return min(candidates, key=self.seconds)

    def _combinations(self) -> Iterator[FactorTilings]:
        """Yields combinations of tilings of factors, at most `MAX_CANDIDATES`; larger tilings first."""
        options = [(factor, self._options(factor)) for factor in self.factors]
        split = [(factor, tilings) for factor, tilings in options if tilings]

        def extended(chosen: FactorTilings, number: int) -> Iterator[FactorTilings]:
            if number == len(split):
                yield chosen
                return
            factor, tilings = split[number]
            others = [*chosen.values(), self.kept_partial_sums, *self.manual_axes]
            is_free = not any(_share_dimension(factor, other) for other in chosen)
            for tiling in tilings if is_free else ():
                if are_independent([tiling, *others]):
                    yield from extended({**chosen, factor: tiling}, number + 1)
            yield from extended(chosen, number + 1)

        return itertools.islice(extended({}, 0), MAX_CANDIDATES)

    def _options(self, factor: Factor) -> list[Tiling]:
        """Returns the different tilings of a factor that its operands and results suggest."""
        suggested = [*self._requested_tilings(factor), *self._operand_tilings(factor)]
        sizes = self._sizes(factor)
        return [tiling for tiling in dict.fromkeys(suggested) if tiling and _can_split(factor, sizes, tiling)]

    def strategy(self, requested_first: bool) -> Strategy:
        """Returns the candidate that follows the requested shardings first, or the operands' shardings first."""
        chosen: FactorTilings = {}
        for factor in self.factors if requested_first else ():
            self._choose(factor, self._requested_tilings(factor), chosen)
        order = self.factors if requested_first else sorted(self.factors, key=lambda factor: not factor.is_reduction)
        for factor in order:
            tilings = self._operand_tilings(factor)
            agree = len(set(tilings) if requested_first else set(tilings) - {None}) == 1
            if factor not in chosen and (agree or not factor.is_reduction):
                self._choose(factor, tilings, chosen)
        for factor in self.factors:
            if factor not in chosen:
                self._choose(factor, self._requested_tilings(factor), chosen)
        return self._strategy_of(chosen)

    def _requested_tilings(self, factor: Factor) -> list[Tiling | None]:
        pairs = zip(self.requested, factor.results, strict=True)
        return [sharding.tilings[d] for sharding, d in pairs if sharding and d is not None]

    def _operand_tilings(self, factor: Factor) -> list[Tiling | None]:
        pairs = zip(self.operands, factor.operands, strict=True)
        return [operand.sharding.tilings[d] for operand, d in pairs if d is not None]

    def _choose(self, factor: Factor, candidates: Sequence[Tiling | None], chosen: FactorTilings) -> None:
        """Splits a factor by the first candidate that its dimensions can have and that is independent of the rest."""
        sizes = self._sizes(factor)
        others = [*chosen.values(), self.kept_partial_sums, *self.manual_axes]
        if any(_share_dimension(factor, other) for other in chosen):
            return
        for tiling in candidates:
            if tiling and _can_split(factor, sizes, tiling) and are_independent([tiling, *others]):
                chosen[factor] = tiling
                return

    def _sizes(self, factor: Factor) -> list[int]:
        """Returns the sizes of the dimensions of a factor."""
        pairs = [
            *zip(self.operand_shapes, factor.operands, strict=True),
            *zip(self.result_shapes, factor.results, strict=True),
        ]
        return [shape.dimensions[d] for shape, d in pairs if d is not None]

    def _strategy_of(self, chosen: FactorTilings) -> Strategy:
        reductions = [factor for factor in chosen if factor.is_reduction]
        leaves_partial_sums = produces_partial_sums(self.instruction)
        unreduced = [chosen[factor] for factor in reductions if leaves_partial_sums]
        partial_sums = combined_tiling([self.kept_partial_sums, *unreduced])
        operands = [
            _sharding_with(
                shape,
                [
                    (f.operands[number], tiling)
                    for f, tiling in chosen.items()
                    if not self._stays_whole(f, number, tiling)
                ],
            )
            for number, shape in enumerate(self.operand_shapes)
        ]
        for number in self.unreduced_operands:
            operands[number] = operands[number].with_partial_sums(self.kept_partial_sums)
        if self.instruction.op is opcodes.SCATTER and leaves_partial_sums:
            operands[0] = operands[0].with_partial_sums(partial_sums)
        results = [
            _sharding_with(leaf, [(f.results[number], tiling) for f, tiling in chosen.items()])
            for number, leaf in enumerate(self.result_shapes)
        ]
        return Strategy(
            chosen,
            tuple(operands),
            tuple([result.with_partial_sums(partial_sums) for result in results]),
            () if leaves_partial_sums else tuple(reductions),
        )

    def _stays_whole(self, factor: Factor, number: int, tiling: Tiling) -> bool:
        """Returns whether each device takes what a tile needs from an operand of which it holds all tiles already."""
        dimension, sharding = factor.operands[number], self.operands[number].sharding
        if number not in factor.exchanged or dimension is None or sharding.tilings[dimension] is not None:
            return False
        return are_independent([tiling, *sharding.all_tilings])

    def seconds(self, strategy: Strategy) -> float:
        """Returns the time to reshard the operands, to compute, and to reshard the results as requested."""
        parts = math.prod(map(tile_count, strategy.factor_tilings.values()))
        total = operation_seconds(self.instruction, strategy.operands, strategy.results, parts)
        for shape, operand, target in zip(self.operand_shapes, self.operands, strategy.operands, strict=True):
            total += resharding_seconds(shape, operand.sharding, target, operand.manual_axes)
        for leaf, result, requested in zip(self.result_shapes, strategy.results, self.requested, strict=True):
            target = requested or result.with_partial_sums(None)
            total += resharding_seconds(leaf, result, target, self.manual_axes)
            for factor in strategy.all_reduced:
                members = tile_count(strategy.factor_tilings[factor])
                total += all_reduce_seconds(array_bytes(local_shape(leaf, result)), members)
        return total + sum(self._exchange_seconds(factor, strategy) for factor in strategy.factor_tilings)

    def _exchange_seconds(self, factor: Factor, strategy: Strategy) -> float:
        """Returns the time in which a device receives what its tile of a factor needs from other tiles."""
        if not factor.exchanged:
            return 0.0
        tiles = tile_count(strategy.factor_tilings[factor])
        pairs = list(zip(factor.operands, strategy.operands, strict=True))
        are_whole = [dimension is None or sharding.tilings[dimension] is None for dimension, sharding in pairs]
        elements = elements_exchanged(self.instruction, factor.operands, factor.results, are_whole, tiles)
        dimension, local = factor.operands[0], local_shape(self.operand_shapes[0], strategy.operands[0])
        assert dimension is not None
        arrays = 1 if concatenation_of(self.instruction) else len(factor.exchanged)
        return exchange_seconds(arrays * array_bytes(local) / max(1, local.dimensions[dimension]) * elements)


def _can_split(factor: Factor, sizes: Sequence[int], tiling: Tiling) -> bool:
    """Returns whether the dimensions of a factor can have a tiling. sizes: their sizes, which may differ."""
    if factor.groups and not divides_evenly(factor.groups, tiling):
        return False
    if all(divides_evenly(size, tiling) for size in sizes):
        return True
    if factor.exchanged and factor.is_reduction:
        return factor.is_uneven and min(sizes) >= tile_count(tiling)
    return factor.is_uneven and min(sizes) > (0 if factor.exchanged else 1)


def _share_dimension(factor: Factor, other: Factor) -> bool:
    """Returns whether two factors split the same dimension of an operand or of a result."""
    pairs = zip((*factor.operands, *factor.results), (*other.operands, *other.results), strict=True)
    return any(one is not None and one == another for one, another in pairs)


def _sharding_with(shape: Shape, tilings: Sequence[tuple[int | None, Tiling]]) -> ArraySharding:
    """Returns the sharding of an array with these tilings, pairs of a dimension (or None) and its tiling."""
    found = replicated(shape)
    for dimension, tiling in tilings:
        if dimension is not None:
            found = found.with_tiling(dimension, tiling)
    return found
