"""What a region reads for one element of its result, as positions in memory by the result's dimensions.

Owns: the reads, and which dimensions they go through in one go. Must not know: kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from xlapy import opcodes
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_elements
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Builder, Value
from xlapy.lower import Lowering, Source
from xlapy.lower.core import Element, Index, delinear, linear

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""The sizes of a result's dimensions, neighbours that are gone through as one taken together."""

PERMUTING = frozenset({opcodes.TRANSPOSE, opcodes.BITCAST})
SUMS = frozenset({opcodes.REDUCE, opcodes.DOT, opcodes.CONVOLUTION, opcodes.REDUCE_WINDOW})


@dataclass(frozen=True, slots=True)
class Read:
    """An element read: of what, where, and whether it is for every element of the result, not under a mask."""

    source: Source
    offset: Affine
    everywhere: bool


def reads(region: Region, groups: Groups) -> tuple[list[Read], list[Value]]:
    """What the region reads for one element, by an axis for each group of dimensions."""
    builder = kernel_builder(region.name, region.target)
    lowering = _Probe(builder, {o: operand_source(builder, o, o.name) for o in region.operands})
    sizes = [math.prod(group) for group in groups]
    with ExitStack() as stack:
        positions = [stack.enter_context(builder.loop(size)) for size in sizes]
        result_elements(lowering, region, index_at(builder, groups, positions), linear(tuple(positions), sizes))
    return list(lowering.found), [value for position in positions for value, _ in position.terms]


def reads_by_groups(region: Region, dimensions: tuple[int, ...]) -> tuple[Groups, list[Value], list[Read]]:
    """The result's dimensions in as few groups as what is read everywhere allows, an axis for each, and that."""
    found, axes = reads(region, tuple((size,) for size in dimensions))
    groups = grouped([read for read in found if read.everywhere], axes, dimensions)
    if len(groups) < len(dimensions):
        found, axes = reads(region, groups)
    return groups, axes, [read for read in found if read.everywhere]


def columns_of(offset: Affine, axes: Sequence[Value]) -> int | None:
    """The axis along which an operand is to be read; None if it is read along the last one, or in no order."""
    *others, last = axes
    if offset.coefficient(last) in (0, 1):
        return None
    if any(value not in axes and value.block.depth >= axes[0].block.depth for value, _ in offset.terms):
        return None
    return next((number for number, axis in enumerate(others) if offset.coefficient(axis) == 1), None)


def grouped(found: Sequence[Read], axes: Sequence[Value], dimensions: tuple[int, ...]) -> Groups:
    """The dimensions, those that all reads go through in one go taken together."""
    groups: list[tuple[int, ...]] = [dimensions[:1]]
    before = axes[0]
    for axis, size in zip(axes[1:], dimensions[1:], strict=True):
        steps = [(read.offset.coefficient(before), read.offset.coefficient(axis)) for read in found]
        together = size == 1 or all(outer == size * inner for outer, inner in steps)
        groups[-1:] = [(*groups[-1], size)] if together else [groups[-1], (size,)]
        before = before if size == 1 else axis
    return tuple(groups)


def index_at(builder: Builder, groups: Groups, positions: Sequence[Affine]) -> Index:
    """The index at positions in the groups."""
    pairs = zip(groups, positions, strict=True)
    return tuple(place for group, position in pairs for place in delinear(builder, position, group))


class _Probe(Lowering):
    """Computes elements to see what is read for them."""

    def __init__(self, builder: Builder, sources: Mapping[Instruction, Source]) -> None:
        super().__init__(builder, sources)
        self.found: dict[Read, None] = {}

    def load(self, source: Source, index: Index) -> Element:
        everywhere = self.mask is None and self.builder.guard is None
        self.found[Read(source, source.offset(index), everywhere)] = None
        return super().load(source, index)
