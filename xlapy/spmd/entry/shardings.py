"""The shardings of the entry computation, and the conversion between global arrays and the local arrays of partitions.

Responsible for which part of a global array each partition holds. Does not depend on how programs are partitioned or
run.

Worked example: `f32[8,2]` with the sharding `{devices=[2,1,2]<=[4] last_tile_dim_replicate}` on four partitions.
Partitions 0 and 1 hold rows 0 to 3, partitions 2 and 3 rows 4 to 7. The global array is made of the local arrays of the
partitions 0 and 2, the first ones that hold each tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.sharding import Sharding
from xlapy.spmd.array_sharding import ArraySharding, array_sharding_of, tile_count

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class EntryShardings:
    """How the arguments and the results of a partitioned program are distributed over its partitions.

    parameters, results: one sharding for each leaf of the shapes. program_shape: the shapes of the global arrays, as
    before partitioning. num_partitions: the number of partitions.

    A dimension of a parameter or a result that does not divide evenly is not split, whatever the program says.

    >>> from xlapy.spmd import partition
    >>> text = "HloModule m ENTRY e { x = f32[4] parameter(0), sharding={devices=[2]<=[2]}  ROOT y = f32[4] negate(x) }"
    >>> shardings = partition(xla.parse_hlo(text), 2)
    >>> shardings.local_arguments([np.float32([1, 2, 3, 4])], partition=1)
    [array([3., 4.], dtype=float32)]
    >>> shardings.parameters[0].to_text(), shardings.results[0].to_text()
    ('{devices=[2]<=[2]}', '{replicated}')
    """

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    program_shape: ProgramShape
    num_partitions: int

    def local_arguments(self, arguments: Sequence[Any], partition: int) -> list[Any]:
        """Returns the arguments of one partition. Local arrays are views of the global ones.

        arguments: the global arguments, one for each parameter, of its shape in `program_shape`: arrays, or tuples.
        """
        shapes = self.program_shape.parameters
        leaves = [leaf for pair in zip(shapes, arguments, strict=True) for leaf in _leaves(*pair)]
        rows = zip(leaves, self.parameters, strict=True)
        local = iter([local_array(value, shape, one, partition, self.num_partitions) for (shape, value), one in rows])
        return [_nested(shape, local) for shape in shapes]

    def global_result(self, results: Sequence[Any]) -> Any:
        """Returns the global result: an array, or a tuple. results: that of each partition."""
        columns = zip(*[_leaves(self.program_shape.result, result) for result in results], strict=True)
        parts = [{number: value for number, (_, value) in enumerate(column)} for column in columns]
        return _nested(self.program_shape.result, iter([self.global_leaf(leaf, p) for leaf, p in enumerate(parts)]))

    def global_leaf(self, leaf: int, parts: Mapping[int, Any]) -> Any:
        """Returns the global array of a leaf of the result. parts: the local arrays of `holders(leaf)`, at least."""
        return global_array(parts, self._result_shape(leaf), self.results[leaf], self.num_partitions)

    def holders(self, leaf: int) -> list[int]:
        """Returns the partitions whose local arrays make up a leaf of the result: the first that holds each part."""
        how = array_sharding_of(self.results[leaf], self._result_shape(leaf), self.num_partitions)
        return _holders(how, self.num_partitions)

    def _result_shape(self, leaf: int) -> Shape:
        return list(self.program_shape.result.leaves())[leaf][1]


def local_array(value: Any, shape: Shape, sharding: Sharding, partition: int, partitions: int) -> Any:
    """Returns the part of a global array that a partition holds, as a view; a value that is not split, as it is.

    Of an array that is left unreduced, one partition of each sum holds the numbers, and the others hold zeros.
    """
    how = array_sharding_of(sharding, shape, partitions)
    if how.is_replicated:
        return value
    array = np.asarray(value)[_place(how, shape.dimensions, partition)]
    if how.partial_sums is None or how.partial_sums.tile_of(partition) == 0:
        return array
    return np.negative(np.zeros_like(array)) if array.dtype.kind not in "biu" else np.zeros_like(array)


def global_array(parts: Mapping[int, Any], shape: Shape, sharding: Sharding, partitions: int) -> Any:
    """Returns the global array of the local ones; a value that is not split, as the first partition holds it.

    parts: the local arrays by partition; each tile must be in one of them. Arrays that are left unreduced are added in
    the order of their partitions.
    """
    how = array_sharding_of(sharding, shape, partitions)
    holders = _holders(how, partitions)
    if how.is_replicated:
        return parts[holders[0]]
    whole = np.zeros(shape.dimensions, shape.dtype)
    written = set[tuple[int, ...]]()
    for partition in holders:
        place, tile = _place(how, shape.dimensions, partition), _tile(how, partition)
        part = np.asarray(parts[partition])
        whole[place] = whole[place] + part if tile in written else part
        written.add(tile)
    return whole


def _holders(how: ArraySharding, partitions: int) -> list[int]:
    """Returns the first partition that holds each tile, or each partial sum of a tile."""
    first: dict[tuple[Ints, int], int] = {}
    for partition in range(1 if how.is_replicated else partitions):
        share = how.partial_sums.tile_of(partition) if how.partial_sums is not None else 0
        first.setdefault((_tile(how, partition), share), partition)
    return list(first.values())


def _tile(how: ArraySharding, partition: int) -> Ints:
    return tuple([tiling.tile_of(partition) if tiling else 0 for tiling in how.tilings])


def _place(how: ArraySharding, dimensions: Ints, partition: int) -> tuple[slice, ...]:
    """Returns the indices of a partition's tile in the global array."""
    sizes = [size // tile_count(tiling) for size, tiling in zip(dimensions, how.tilings, strict=True)]
    pairs = zip(_tile(how, partition), sizes, strict=True)
    return tuple([slice(index * size, (index + 1) * size) for index, size in pairs])


def _leaves(shape: Shape, value: Any) -> Iterator[tuple[Shape, Any]]:
    """The leaves of a value, with their shapes."""
    if not shape.is_tuple:
        yield shape, value
        return
    for element, one in zip(shape.tuple_shapes, value, strict=True):
        yield from _leaves(element, one)


def _nested(shape: Shape, leaves: Iterator[Any]) -> Any:
    """The value of a shape that has these leaves."""
    return tuple([_nested(one, leaves) for one in shape.tuple_shapes]) if shape.is_tuple else next(leaves)
