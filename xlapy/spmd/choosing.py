"""How an operation is cut: which of its factors, and along which devices.

Owns: that choice. Must not know: how instructions are written.

Either what the sharding of the result names comes first, or how the operands lie, sums among it; whichever sends less,
if as many devices share the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.factors import Factor
from xlapy.spmd.moving import Local
from xlapy.spmd.routes import bytes_sent
from xlapy.spmd.splits import Placement, Split, are_independent, fits, labels, tiles_of, whole
from xlapy.spmd.sums import addends_of, is_sum

Chosen = dict[Factor, Split]


@dataclass(frozen=True)
class Plan:
    """How an operation is cut.

    chosen: the split of each factor. operands, results: where they lie. combined: the factors whose results are not
    addends, but are combined otherwise.
    """

    chosen: Chosen
    operands: tuple[Placement, ...]
    results: tuple[Placement, ...]
    combined: tuple[Factor, ...]

    @property
    def is_cut(self) -> bool:
        return bool(self.chosen) or any(placement.addends for placement in self.operands)


def planned(
    instruction: Instruction, factors: Sequence[Factor], wishes: Sequence[Placement | None], operands: Sequence[Local],
    kept: Split | None,
) -> Plan:  # fmt: skip
    """The plan of an operation with arrays for operands.

    wishes: what the sharding of the result names, None without one. kept: addends that are to stay so, if the
    operation lets them.
    """
    choice = _Choice(instruction, factors, wishes, operands, kept)
    as_wished, as_given = choice.plan(wishes_first=True), choice.plan(wishes_first=False)
    if as_given.chosen == as_wished.chosen or _share(as_given) < _share(as_wished):
        return as_wished
    return as_given if choice.cost(as_given) < choice.cost(as_wished) else as_wished


def _share(plan: Plan) -> int:
    """Into how many parts the work is divided."""
    return math.prod(map(tiles_of, plan.chosen.values()))


class _Choice:
    """What the plans of an operation have to go by."""

    def __init__(
        self, instruction: Instruction, factors: Sequence[Factor], wishes: Sequence[Placement | None],
        operands: Sequence[Local], kept: Split | None,
    ) -> None:  # fmt: skip
        self.instruction = instruction
        self.factors = factors
        self.wishes = wishes
        self.operands = operands
        self.shapes = [operand.shape for operand in instruction.operands]
        self.leaves = [leaf for _, leaf in instruction.shape.leaves()]
        self.apart = tuple(dict.fromkeys(split for operand in operands for split in operand.apart))
        self.through = self._through(kept)
        self.kept = kept if self.through else None

    def _through(self, kept: Split | None) -> tuple[int, ...]:
        """The operands whose addends give addends of the result."""
        if kept is None:
            return ()
        having = {number for number, operand in enumerate(self.operands) if operand.placement.addends == kept}
        for together in addends_of(self.instruction):
            if having and having == set(together):
                return together
        return ()

    def plan(self, wishes_first: bool) -> Plan:
        chosen: Chosen = {}
        for factor in self.factors if wishes_first else ():
            self._choose(factor, self._wished(factor), chosen)
        order = sorted(self.factors, key=lambda factor: not factor.is_summed) if not wishes_first else self.factors
        for factor in order:
            here = self._given(factor)
            alike = len(set(here) if wishes_first else set(here) - {None}) == 1
            if factor not in chosen and (alike or not factor.is_summed):
                self._choose(factor, here, chosen)
        for factor in self.factors:
            if factor not in chosen:
                self._choose(factor, self._wished(factor), chosen)
        return self._planned(chosen)

    def _wished(self, factor: Factor) -> list[Split | None]:
        pairs = zip(self.wishes, factor.results, strict=True)
        return [wish.splits[d] for wish, d in pairs if wish and d is not None]

    def _given(self, factor: Factor) -> list[Split | None]:
        pairs = zip(self.operands, factor.operands, strict=True)
        return [leaf.placement.splits[d] for leaf, d in pairs if d is not None]

    def _choose(self, factor: Factor, splits: Sequence[Split | None], chosen: Chosen) -> None:
        """Cuts a factor by the first of the splits that may be."""
        pairs = [*zip(self.shapes, factor.operands, strict=True), *zip(self.leaves, factor.results, strict=True)]
        sizes = [shape.dimensions[d] for shape, d in pairs if d is not None]
        others = [*chosen.values(), self.kept, *self.apart]
        for split in splits:
            if split and all(fits(size, split) for size in sizes) and are_independent([split, *others]):
                chosen[factor] = split
                return

    def _planned(self, chosen: Chosen) -> Plan:
        summed = [factor for factor in chosen if factor.is_summed]
        are_addends = is_sum(self.instruction)
        addends = labels([self.kept, *[chosen[factor] for factor in summed if are_addends]])
        operands = [
            placement(shape, [(f.operands[number], s) for f, s in chosen.items()])
            for number, shape in enumerate(self.shapes)
        ]
        for number in self.through:
            operands[number] = operands[number].with_addends(self.kept)
        if self.instruction.op is opcodes.SCATTER and are_addends:
            operands[0] = operands[0].with_addends(addends)
        results = [
            placement(leaf, [(f.results[number], s) for f, s in chosen.items()]).with_addends(addends)
            for number, leaf in enumerate(self.leaves)
        ]
        return Plan(chosen, tuple(operands), tuple(results), () if are_addends else tuple(summed))

    def cost(self, plan: Plan) -> float:
        """The bytes that a device is sent for the operands, and for the result to lie as is wished."""
        total = sum(
            bytes_sent(shape, operand.placement, target, operand.apart)
            for shape, operand, target in zip(self.shapes, self.operands, plan.operands, strict=True)
        )
        for leaf, result, wish in zip(self.leaves, plan.results, self.wishes, strict=True):
            total += bytes_sent(leaf, result, wish or result.with_addends(None), self.apart)
            total += sum(2 * leaf.byte_size for _ in plan.combined)
        return total


def placement(shape: Shape, cuts: Sequence[tuple[int | None, Split]]) -> Placement:
    """Of an array cut along some dimensions."""
    found = whole(shape)
    for dimension, split in cuts:
        if dimension is not None:
            found = found.with_split(dimension, split)
    return found
