"""What the algorithms share that sort rows of which devices hold tiles.

They rely on a strict weak order. If the comparator compares floats by IEEE's partial order, devices look for NaN
first: with NaN, which is unordered, the rows are gathered and each device sorts the whole ones.

The last tiles of a row need not be full. What fills them up is not an element of the row and comes last.

Responsible for local sorts, for the search of NaN and for the sort of gathered rows. Does not depend on how tiles are
exchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import ancestors, post_order
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DimensionsAttributes, DynamicSliceAttributes
from xlapy.opcodes.sorting import SortAttributes
from xlapy.passes.expand.blocks import (
    compare,
    index_type,
    new_computation,
    reduce_dimensions,
    reducer_computation,
    slice_dimension,
)
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.tile_group import TileGroup, pad_end


@dataclass(frozen=True)
class TiledRows:
    """Rows to be sorted, of each of which every member of a group holds a tile.

    comparator: orders the elements. partial_keys: the keys of its left element that are compared by IEEE's partial
    order. length: the number of elements of a row; those that fill up the last tiles are zeros.
    """

    group: TileGroup
    comparator: Computation
    partial_keys: Sequence[Instruction]
    length: int


DistributedSort = Callable[[TiledRows, Writer, Sequence[Instruction], Instruction], list[Instruction]]
"""Writes the sort of tiles `[rows, tile size]`, given the number of the device's tile; returns the sorted tiles."""


def sort_tiles(
    write: Writer, comparator: Computation, operands: Sequence[Instruction], dimension: int, is_stable: bool = True
) -> list[Instruction]:
    """Writes a sort along a dimension; returns the sorted operands."""
    attributes = SortAttributes.make(dimension=dimension, is_stable=is_stable)
    result = write.add(opcodes.SORT, *operands, attributes=attributes, computations=[comparator])
    if len(operands) == 1:
        return [result]
    return [write.get_tuple_element(result, number) for number in range(len(operands))]


def sort_filled_tile(
    write: Writer, comparator: Computation, operands: Sequence[Instruction], is_filling: Instruction | None
) -> list[Instruction]:
    """Writes a stable sort of one dimension, the filling elements last.

    is_filling: whether an element fills up the tile; None if none does. A second sort, by this flag alone, is faster
    than one by the flag and the comparator: it takes a single pass over the elements.
    """
    if is_filling is None:
        return sort_tiles(write, comparator, operands, 0)
    *found, flags = sort_tiles(write, _ignoring_last(write, comparator), [*operands, is_filling], 0)
    scalars = [Shape.scalar(o.shape.element_type) for o in (flags, *found) for _ in range(2)]
    by_flag = new_computation(
        write, "filling_last", scalars, lambda into, given: compare(into, given[0], given[1], ComparisonDirection.LT)
    )
    return sort_tiles(write, by_flag, [flags, *found], 0)[1:]


def _ignoring_last(write: Writer, comparator: Computation) -> Computation:
    """Returns a comparator with one more pair of operands, flags, which it does not read."""
    scalars = [parameter.shape for parameter in comparator.parameters]
    flag = Shape.scalar(PRED)
    return new_computation(
        write, "ordered", [*scalars, flag, flag], lambda into, given: inlined(into, comparator, given[:-2])
    )


def inlined(into: Writer, computation: Computation, arguments: Sequence[Instruction]) -> Instruction:
    """Writes the instructions of a computation, given its arguments; returns the root."""
    root = computation.root_instruction
    return _copied(into, [root], {p: arguments[p.parameter_number] for p in computation.parameters})[0]


def _copied(into: Writer, wanted: Sequence[Instruction], copies: dict[Instruction, Instruction]) -> list[Instruction]:
    needed = ancestors(wanted)
    parent = wanted[0].parent
    assert parent is not None
    for each in [one for one in post_order(parent) if one in needed and one not in copies]:
        copies[each] = edit.clone_instruction(each, into.computation, [copies[o] for o in each.operands])
    return [copies[each] for each in wanted]


def sort_ordered_rows(rows: TiledRows, tiles: Sequence[Instruction], distributed: DistributedSort) -> list[Instruction]:
    """Writes the sort of rows by an algorithm that relies on a strict weak order. tiles: `[rows, tile size]`."""
    write, tile_index = rows.group.resharder.write, rows.group.tile_index()
    if not rows.partial_keys:
        return distributed(rows, write, tiles, tile_index)
    argument = write.add(opcodes.TUPLE, tile_index, *tiles)

    def branch(algorithm: DistributedSort) -> Callable[[Writer, list[Instruction]], Instruction]:
        def body(into: Writer, given: list[Instruction]) -> Instruction:
            index, *parts = [into.get_tuple_element(given[0], number) for number in range(len(tiles) + 1)]
            return into.add(opcodes.TUPLE, *algorithm(rows, into, parts, index))

        return body

    branches = [
        new_computation(write, "unordered_rows", [argument.shape], branch(_sort_gathered_rows)),
        new_computation(write, "ordered_rows", [argument.shape], branch(distributed)),
    ]
    result = write.add(opcodes.CONDITIONAL, _has_nan(rows, tiles), argument, argument, computations=branches)
    return [write.get_tuple_element(result, number) for number in range(len(tiles))]


def _has_nan(rows: TiledRows, tiles: Sequence[Instruction]) -> Instruction:
    """Returns whether any key of any member's elements is NaN."""
    group, write = rows.group, rows.group.resharder.write
    scalars = [Shape.scalar(tile.shape.element_type) for tile in tiles]

    def is_nan(into: Writer, given: list[Instruction]) -> Instruction:
        copies = {parameter: given[parameter.parameter_number // 2] for parameter in rows.comparator.parameters}
        keys = _copied(into, rows.partial_keys, copies)
        tests = [compare(into, key, key, ComparisonDirection.NE) for key in keys]
        return functools.reduce(lambda one, other: into.add(opcodes.OR, one, other), tests)

    shape = tiles[0].shape.with_element_type(PRED)
    attributes = DimensionsAttributes.make(dimensions=(0, 1))
    called = [new_computation(write, "is_nan", scalars, is_nan)]
    tests = write.add(opcodes.MAP, *tiles, attributes=attributes, computations=called, shape=shape)
    own = reduce_dimensions(write, opcodes.OR, tests, [0, 1])
    return group.resharder.all_reduce(own, reducer_computation(write, opcodes.OR, PRED), group.groups)


def _sort_gathered_rows(
    rows: TiledRows, write: Writer, tiles: Sequence[Instruction], tile_index: Instruction
) -> list[Instruction]:
    """Gathers rows and sorts them on each device; returns the tiles of each member."""
    group, (count, size) = rows.group, tiles[0].shape.dimensions
    filled = group.size * size
    whole = [slice_dimension(write, group.joined(write, tile), 1, 0, rows.length) for tile in tiles]
    number = write.convert(tile_index, index_type(filled))
    zero = write.scalar(0, number.shape.element_type)
    start = write.add(opcodes.MULTIPLY, number, write.scalar(size, number.shape.element_type))
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(count, size))
    found = [pad_end(write, row, 1, filled - rows.length) for row in sort_tiles(write, rows.comparator, whole, 1)]
    return [write.add(opcodes.DYNAMIC_SLICE, row, zero, start, attributes=attributes) for row in found]
