"""Gather and scatter on dynamic dimensions.

Updates that are not there are aimed outside the operand, where they are dropped. Windows that are not there in full are
scattered element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, S32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes, window_dims_to_operand_dims
from xlapy.passes.expand.blocks import compare, concatenate, slice_dimension
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, Size, Sized, SizeWriter, Value, array_of, sizes_of


@DYNAMIC_EXPANSIONS.rule(opcodes.GATHER)
def gather(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Slices are moved to lie inside the bounds. A dimension that slices take whole has the operand's size."""
    attrs: GatherAttributes = instruction.attributes_as(GatherAttributes)
    operand, indices = map(array_of, values)
    bounds = operand.shape.dimensions
    dropped = (*attrs.collapsed_slice_dims, *attrs.operand_batching_dims)
    rows = enumerate(zip(attrs.slice_sizes, bounds, sizes_of(values[0]), strict=True))
    slices = [size if taken == bound > 1 else taken for d, (taken, bound, size) in rows if d not in dropped]
    batch = [size for d, size in enumerate(sizes_of(values[1])) if d != attrs.index_vector_dim]
    offsets, rest = iter(slices), iter(batch)
    sizes = tuple(next(offsets if d in attrs.offset_dims else rest) for d in range(instruction.shape.rank))
    return Sized(write.like(instruction, [operand, indices]), sizes)


@DYNAMIC_EXPANSIONS.rule(opcodes.SCATTER)
def scatter(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The updates that are there, at the indices that are there; what lies beyond the operand's sizes stays.

    A window dimension of the updates that is dynamic and covers a dimension of the operand covers it at its size.
    """
    count = len(values) // 2
    plan = _Scatter(write, instruction, values)
    operands = [array_of(value) for value in values[:count]]
    updates = [array_of(value) for value in values[count + 1 :]]
    if any(instruction.operands[count + 1].shape.dynamic_dimensions[d] for d in plan.attrs.update_window_dims):
        result = plan.by_element(operands, updates)
    else:
        result = write.like(instruction, [*operands, plan.indices_there(), *updates])
    if count == 1:
        return Sized(result, sizes_of(values[0]))
    return tuple(Sized(write.get_tuple_element(result, number), sizes_of(values[number])) for number in range(count))


class _Scatter:
    """One scatter: which updates there are, where their windows begin, what these may cover."""

    def __init__(self, write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> None:
        count = len(values) // 2
        self.write, self.instruction = write, instruction
        self.attrs: ScatterAttributes = instruction.attributes_as(ScatterAttributes)
        self.bounds = instruction.operands[0].shape.dimensions
        self.update = array_of(values[count + 1]).shape.dimensions
        self.rows = [d for d in range(len(self.update)) if d not in self.attrs.update_window_dims]
        indices = array_of(values[count])
        t = indices.shape.element_type
        self.indices = indices if t.is_signed and t.bits >= 32 else write.convert(indices, S32)
        sources = [d for d in range(indices.shape.rank) if d != self.attrs.index_vector_dim]
        self.limits: list[Size] = list(write.smallest(values[count + 1 :]))
        for source, row in zip(sources, self.rows, strict=True):
            self.limits[row] = write.smaller(self.limits[row], sizes_of(values[count])[source])
        self.taken: list[Size] = list(self.bounds)
        dynamic = instruction.operands[count + 1].shape.dynamic_dimensions
        for source, dimension in self.windows():
            if dynamic[source] and self.update[source] == self.bounds[dimension]:
                smaller = write.smaller(sizes_of(values[0])[dimension], self.limits[source])
                self.taken[dimension] = self.limits[source] = smaller

    def windows(self) -> list[tuple[int, int]]:
        """Pairs (window dimension of the updates, dimension of the operand)."""
        dimensions = window_dims_to_operand_dims(len(self.bounds), self.attrs)
        return list(zip(self.attrs.update_window_dims, dimensions, strict=True))

    def indices_there(self) -> Instruction:
        """The indices, -1 for updates that are not there."""
        write, shape = self.write, self.indices.shape
        limits = iter([self.limits[row] for row in self.rows])
        vector = self.attrs.index_vector_dim
        sizes: list[Size] = [next(limits) if d != vector else shape.dimensions[d] for d in range(shape.rank)]
        return write.masked(self.indices, sizes, write.scalar(-1, shape.element_type))

    def by_element(self, operands: Sequence[Instruction], updates: Sequence[Instruction]) -> Instruction:
        """Every element of the updates on its own, window by window, if its whole window lies inside."""
        write, rank = self.write, len(self.bounds)
        order = [*self.rows, *self.attrs.update_window_dims]
        places = self._places()
        mask = self._inside(places)
        there = write.inside(self.update, self.limits)
        mask = mask if there is None else there if mask is None else write.add(opcodes.AND, mask, there)
        columns = [write.reshape(each, Shape.array(places[0].shape.element_type, (*self.update, 1))) for each in places]
        indices = concatenate(write, columns, len(self.update))
        if mask is not None:
            wide = write.broadcast(mask, indices.shape.with_element_type(PRED), range(len(self.update)))
            indices = write.where(wide, indices, write.splat(-1, indices.shape))
        attributes = ScatterAttributes.make(
            update_window_dims=(),
            inserted_window_dims=tuple(range(rank)),
            scatter_dims_to_operand_dims=tuple(range(rank)),
            index_vector_dim=len(order),
        )
        given = [write.transpose(indices, [*order, len(order)]), *(write.transpose(each, order) for each in updates)]
        called = self.instruction.computations
        return write.add(opcodes.SCATTER, *operands, *given, attributes=attributes, computations=called)

    def _starts(self) -> list[Instruction | None]:
        """Where windows begin in each dimension of the operand, for every element of the updates; None: at 0."""
        attrs, write = self.attrs, self.write
        t = self.indices.shape.element_type
        starts: list[Instruction | None] = [None] * len(self.bounds)
        for number, dimension in enumerate(attrs.scatter_dims_to_operand_dims):
            starts[dimension] = self._spread(self._column(number))
        sources = [d for d in range(self.indices.shape.rank) if d != attrs.index_vector_dim]
        for dimension, source in zip(attrs.input_batching_dims, attrs.scatter_indices_batching_dims, strict=True):
            starts[dimension] = write.convert(write.positions(self.update, self.rows[sources.index(source)]), t)
        return starts

    def _column(self, number: int) -> Instruction:
        """One component of all index vectors, of the dimensions of the rows."""
        vector, shape = self.attrs.index_vector_dim, self.indices.shape
        if vector == shape.rank:
            return self.indices
        part = slice_dimension(self.write, self.indices, vector, number, number + 1)
        return self.write.reshape(part, shape.with_dimensions(n for d, n in enumerate(shape.dimensions) if d != vector))

    def _spread(self, column: Instruction) -> Instruction:
        return self.write.broadcast(column, Shape.array(column.shape.element_type, self.update), self.rows)

    def _places(self) -> list[Instruction]:
        """The place of every element of the updates, in each dimension of the operand."""
        write, t = self.write, self.indices.shape.element_type
        offsets = {target: write.convert(write.positions(self.update, source), t) for source, target in self.windows()}
        places: list[Instruction] = []
        for dimension, start in enumerate(self._starts()):
            offset = offsets.get(dimension)
            if start is not None and offset is not None:
                places.append(write.add(opcodes.ADD, start, offset))
            else:
                places.append(start or offset or write.splat(0, Shape.array(t, self.update)))
        return places

    def _inside(self, places: Sequence[Instruction]) -> Instruction | None:
        """Where the window of an element lies within what may be covered."""
        write, t = self.write, self.indices.shape.element_type
        extents = {target: self.limits[source] for source, target in self.windows()}
        mask: Instruction | None = None
        for dimension, start in enumerate(self._starts()):
            if start is not None:
                last = write.minus(self.taken[dimension], extents.get(dimension, 1))
                for limit, direction in ((last, ComparisonDirection.LE), (0, ComparisonDirection.GE)):
                    bound = self._number(limit, t)
                    within = compare(write, start, bound, direction)
                    mask = within if mask is None else write.add(opcodes.AND, mask, within)
        return mask

    def _number(self, size: Size, t: PrimitiveType) -> Instruction:
        return self.write.convert(self.write.spread(size, self.update), t)
