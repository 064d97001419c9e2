"""The StableHLO values of an HLO instruction's result, in the structure of its shape.

StableHLO functions and regions do not use tuples, so that the export keeps a tuple as a Python tuple of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xlapy.base.shape import Shape
from xlapy.stablehlo import ir

ValueTree: TypeAlias = ir.Value | tuple["ValueTree", ...]
"""A value for an array, token or buffer; a tuple of the elements' trees for a tuple."""


def flatten(tree: ValueTree) -> list[ir.Value]:
    """Returns the values of a tree in order."""
    if isinstance(tree, ir.Value):
        return [tree]
    return [value for element in tree for value in flatten(element)]


def unflatten(shape: Shape, values: Sequence[ir.Value]) -> ValueTree:
    """Returns the tree with the structure of a shape that holds these values in order. The reverse of `flatten`."""
    pending = iter(values)

    def build(part: Shape) -> ValueTree:
        return tuple(build(element) for element in part.tuple_shapes) if part.is_tuple else next(pending)

    return build(shape)
