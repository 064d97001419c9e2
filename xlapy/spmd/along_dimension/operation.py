"""An operation along a split dimension, as the rules of this folder see it.

Responsible for the sharding that its operands and results have, and for the local arrays of operands. Does not depend
on what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.base.shape import Ints
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.along_dimension.tile_group import TileGroup
from xlapy.spmd.array_sharding import (
    ArraySharding,
    Tiling,
    are_independent,
    local_shape,
    replicated,
    uneven_dimensions,
)
from xlapy.spmd.partitioned_values import requested_shardings
from xlapy.spmd.resharding import PartitionedArray, Resharder
from xlapy.spmd.uneven_tiles import with_filling


@dataclass(frozen=True)
class SplitOperation:
    """An operation, the distribution of its operands and the requested shardings of its results.

    requested: empty if the program requests none.
    """

    resharder: Resharder
    instruction: Instruction
    operands: Sequence[PartitionedArray]
    requested: Sequence[ArraySharding]
    manual_axes: tuple[Tiling, ...]

    def sharding_along(self, dimension: int) -> ArraySharding | None:
        """Returns the sharding that splits the dimension, and that operands and results should have.

        The last tiles need not be full. It is the requested sharding, or else that of the first operand that is split
        along the dimension. None if the dimension is not split, or if the result is to be split along other dimensions
        only, so that resharding the operands is enough.
        """
        wanted = self.requested[0].with_partial_sums(None) if self.requested else None
        if wanted is not None and any(wanted.tilings):
            return wanted if self._splits(wanted, dimension) else None
        size = self.instruction.operands[0].shape.dimensions
        for operand in self.operands:
            found = operand.sharding.with_partial_sums(None)
            if operand.instruction.shape.rank == len(size) and self._splits(found, dimension):
                return found
        return None

    def _splits(self, sharding: ArraySharding, dimension: int) -> bool:
        sizes = self.instruction.operands[0].shape.dimensions
        if len(sharding.tilings) != len(sizes) or sharding.tilings[dimension] is None:
            return False
        return are_independent([*sharding.all_tilings, *self.manual_axes])

    @property
    def needs_whole(self) -> bool:
        """Whether every device needs the whole results, so that tiles of them would be gathered."""
        if self.requested:
            return all(sharding.is_replicated for sharding in self.requested)
        return _is_read_whole(self.instruction, self.resharder.devices)

    def is_even(self, sharding: ArraySharding, dimension: int) -> bool:
        """Returns whether all tiles of a dimension of the first operand are full."""
        return dimension not in uneven_dimensions(self.instruction.operands[0].shape, sharding)

    def local_sizes(self, sharding: ArraySharding) -> Ints:
        """Returns the sizes of a device's tile of the first operand."""
        return local_shape(self.instruction.operands[0].shape, sharding).dimensions

    def group(self, sharding: ArraySharding, dimension: int) -> TileGroup:
        """Returns the devices that hold the tiles of the dimension."""
        return TileGroup.along(self.resharder, sharding, dimension, self.manual_axes)

    def local(self, number: int, sharding: ArraySharding) -> Instruction:
        """Returns a device's tile of an operand."""
        return self.resharder.reshard(self.operands[number], sharding).instruction

    def whole(self, number: int) -> Instruction:
        """Returns a whole operand on every device."""
        return self.resharder.reshard(
            self.operands[number], replicated(self.instruction.operand_shapes[number])
        ).instruction

    def fill(self, tile: Instruction, sharding: ArraySharding, dimension: int, fill: Instruction) -> Instruction:
        """Replaces the elements that fill up the last tiles of a dimension by a scalar."""
        return with_filling(self.resharder, tile, self.instruction.operands[0].shape, sharding, [dimension], fill)

    def results(self, instructions: Sequence[Instruction], sharding: ArraySharding) -> list[PartitionedArray]:
        """Returns the results of the operation, given their tiles."""
        shapes = [leaf for _, leaf in self.instruction.shape.leaves()]
        return [
            PartitionedArray(instruction, sharding, self.manual_axes, shape)
            for instruction, shape in zip(instructions, shapes, strict=True)
        ]


def _is_read_whole(instruction: Instruction, devices: int) -> bool:
    """Returns whether all users of a value, or of its elements, have a sharding that does not split it."""
    if instruction.sharding is not None:
        return all(placement.is_replicated for placement in requested_shardings(instruction, devices, True))
    users = [user for user in instruction.users if user.users or user.is_root]
    return bool(users) and all(_is_read_whole(user, devices) for user in users)
