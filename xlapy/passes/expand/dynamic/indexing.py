"""Gather and scatter on dynamic dimensions.

Updates beyond the actual sizes get an index outside the operand, so that they are dropped. Windows with a dynamic
dimension are scattered element by element.
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
    """Slices are clamped to the bounds. A dimension that slices cover completely has the operand's size."""
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
    """Applies the updates within the actual sizes; elements beyond the operand's sizes stay as they are.

    A dynamic window dimension of the updates that covers an operand dimension covers it at its actual size.
    """
    count = len(values) // 2
    plan = _Scatter(write, instruction, values)
    operands = [array_of(value) for value in values[:count]]
    updates = [array_of(value) for value in values[count + 1 :]]
    if any(instruction.operands[count + 1].shape.dynamic_dimensions[d] for d in plan.attrs.update_window_dims):
        result = plan.by_element(operands, updates)
    else:
        result = write.like(instruction, [*operands, plan.masked_indices(), *updates])
    if count == 1:
        return Sized(result, sizes_of(values[0]))
    return tuple(Sized(write.get_tuple_element(result, number), sizes_of(values[number])) for number in range(count))


class _Scatter:
    """One scatter: the sizes of its updates, the start of each window, and the sizes that windows may cover."""

    def __init__(self, write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> None:
        count = len(values) // 2
        self.write, self.instruction = write, instruction
        self.attrs: ScatterAttributes = instruction.attributes_as(ScatterAttributes)
        self.operand_bounds = instruction.operands[0].shape.dimensions
        self.update_bounds = array_of(values[count + 1]).shape.dimensions
        self.scatter_dims = [d for d in range(len(self.update_bounds)) if d not in self.attrs.update_window_dims]
        indices = array_of(values[count])
        t = indices.shape.element_type
        self.indices = indices if t.is_signed and t.bits >= 32 else write.convert(indices, S32)
        sources = [d for d in range(indices.shape.rank) if d != self.attrs.index_vector_dim]
        self.update_sizes: list[Size] = list(write.smallest_sizes(values[count + 1 :]))
        for source, row in zip(sources, self.scatter_dims, strict=True):
            self.update_sizes[row] = write.smaller(self.update_sizes[row], sizes_of(values[count])[source])
        self.covered: list[Size] = list(self.operand_bounds)
        dynamic = instruction.operands[count + 1].shape.dynamic_dimensions
        for source, dimension in self.windows():
            if dynamic[source] and self.update_bounds[source] == self.operand_bounds[dimension]:
                smaller = write.smaller(sizes_of(values[0])[dimension], self.update_sizes[source])
                self.covered[dimension] = self.update_sizes[source] = smaller

    def windows(self) -> list[tuple[int, int]]:
        """Returns pairs (window dimension of the updates, dimension of the operand)."""
        dimensions = window_dims_to_operand_dims(len(self.operand_bounds), self.attrs)
        return list(zip(self.attrs.update_window_dims, dimensions, strict=True))

    def masked_indices(self) -> Instruction:
        """Returns the indices, with -1 for updates beyond the actual sizes."""
        write, shape = self.write, self.indices.shape
        limits = iter([self.update_sizes[row] for row in self.scatter_dims])
        vector = self.attrs.index_vector_dim
        sizes: list[Size] = [next(limits) if d != vector else shape.dimensions[d] for d in range(shape.rank)]
        return write.masked(self.indices, sizes, write.scalar(-1, shape.element_type))

    def by_element(self, operands: Sequence[Instruction], updates: Sequence[Instruction]) -> Instruction:
        """Scatters each element of the updates on its own, if its whole window lies inside the operand."""
        write, rank = self.write, len(self.operand_bounds)
        order = [*self.scatter_dims, *self.attrs.update_window_dims]
        positions = self._operand_indices()
        mask = self._window_mask()
        within_sizes = write.mask_within(self.update_bounds, self.update_sizes)
        mask = (
            mask
            if within_sizes is None
            else within_sizes
            if mask is None
            else write.add(opcodes.AND, mask, within_sizes)
        )
        columns = [
            write.reshape(each, Shape.array(positions[0].shape.element_type, (*self.update_bounds, 1)))
            for each in positions
        ]
        indices = concatenate(write, columns, len(self.update_bounds))
        if mask is not None:
            wide = write.broadcast(mask, indices.shape.with_element_type(PRED), range(len(self.update_bounds)))
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
        """Returns the start of the window in each operand dimension, for every element of the updates.

        None stands for windows that start at 0.
        """
        attrs, write = self.attrs, self.write
        t = self.indices.shape.element_type
        starts: list[Instruction | None] = [None] * len(self.operand_bounds)
        for number, dimension in enumerate(attrs.scatter_dims_to_operand_dims):
            starts[dimension] = self._broadcast_to_update(self._index_component(number))
        sources = [d for d in range(self.indices.shape.rank) if d != attrs.index_vector_dim]
        for dimension, source in zip(attrs.input_batching_dims, attrs.scatter_indices_batching_dims, strict=True):
            starts[dimension] = write.convert(
                write.positions(self.update_bounds, self.scatter_dims[sources.index(source)]), t
            )
        return starts

    def _index_component(self, number: int) -> Instruction:
        """Returns one component of all index vectors, with the scatter dimensions of the updates."""
        vector, shape = self.attrs.index_vector_dim, self.indices.shape
        if vector == shape.rank:
            return self.indices
        part = slice_dimension(self.write, self.indices, vector, number, number + 1)
        return self.write.reshape(part, shape.with_dimensions(n for d, n in enumerate(shape.dimensions) if d != vector))

    def _broadcast_to_update(self, column: Instruction) -> Instruction:
        return self.write.broadcast(
            column, Shape.array(column.shape.element_type, self.update_bounds), self.scatter_dims
        )

    def _operand_indices(self) -> list[Instruction]:
        """Returns the operand index of every element of the updates, one array per operand dimension."""
        write, t = self.write, self.indices.shape.element_type
        offsets = {
            target: write.convert(write.positions(self.update_bounds, source), t) for source, target in self.windows()
        }
        positions: list[Instruction] = []
        for dimension, start in enumerate(self._starts()):
            offset = offsets.get(dimension)
            if start is not None and offset is not None:
                positions.append(write.add(opcodes.ADD, start, offset))
            else:
                positions.append(start or offset or write.splat(0, Shape.array(t, self.update_bounds)))
        return positions

    def _window_mask(self) -> Instruction | None:
        """Returns a mask of the elements of the updates whose window lies within the sizes that windows may cover."""
        write, t = self.write, self.indices.shape.element_type
        extents = {target: self.update_sizes[source] for source, target in self.windows()}
        mask: Instruction | None = None
        for dimension, start in enumerate(self._starts()):
            if start is not None:
                last = write.minus(self.covered[dimension], extents.get(dimension, 1))
                for limit, direction in ((last, ComparisonDirection.LE), (0, ComparisonDirection.GE)):
                    bound = self._number(limit, t)
                    within = compare(write, start, bound, direction)
                    mask = within if mask is None else write.add(opcodes.AND, mask, within)
        return mask

    def _number(self, size: Size, t: PrimitiveType) -> Instruction:
        return self.write.convert(self.write.broadcast_size(size, self.update_bounds), t)
