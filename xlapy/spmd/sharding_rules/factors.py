"""Factors: the dimensions of the operands and results of an operation that are split together.

Responsible for what a factor is and for factors of dimensions that all arrays of an operation have alike. Does not
depend on single operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction


@dataclass(frozen=True)
class Factor:
    """Dimensions that are split alike: one of each operand and of each array of the result; None for no dimension.

    exchanged: the numbers of operands of which a tile of the result needs elements of other tiles, too. groups: the
    number of groups along which a grouped convolution is split, which the number of tiles must divide. is_uneven:
    whether the last tiles may not be full. These are filled up with elements of any value, on which no other element
    depends; in the operands of reductions they are replaced by the identity.
    """

    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]
    exchanged: tuple[int, ...] = ()
    groups: int = 0
    is_uneven: bool = False

    @property
    def is_reduction(self) -> bool:
        """Whether the dimension is reduced: the results of the tiles are to be combined."""
        return all(dimension is None for dimension in self.results)


Rule = Callable[[Instruction], Iterator[Factor]]
"""Yields the factors of an operation."""


def same_dimensions(instruction: Instruction, dimensions: Sequence[int], is_uneven: bool = False) -> Iterator[Factor]:
    """Yields a factor of each dimension that all results and all operands of the first operand's rank have alike."""
    rank = instruction.operands[0].shape.rank
    count = 1 if instruction.shape.is_array else len(instruction.shape.tuple_shapes)
    for dimension in dimensions:
        taken = tuple([dimension if operand.shape.rank == rank else None for operand in instruction.operands])
        yield Factor(taken, (dimension,) * count, is_uneven=is_uneven)


def dimensions_except(shape: Shape, dimensions: Sequence[int]) -> list[int]:
    """Returns the dimensions of a shape that are not among the given ones, in order."""
    return [dimension for dimension in range(shape.rank) if dimension not in dimensions]
