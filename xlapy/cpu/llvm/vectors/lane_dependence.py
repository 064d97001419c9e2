"""Which values of loop IR differ between the lanes of a vector.

Responsible for that alone. Does not depend on how kernels are emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.loops import For, If, Scan, Value, While
from xlapy.loops.ir import Block, Combiner, inner_blocks


def combiner_values(combiner: Combiner) -> frozenset[Value]:
    return _dependent_values(combiner.block, combiner.parameters)


def varying_values(loop: For) -> frozenset[Value]:
    """The values in the body of a vector loop that differ between lanes."""
    return _dependent_values(loop.body, [loop.axis, *(carry.variable for carry in loop.carries)])


def _dependent_values(block: Block, values: Sequence[Value]) -> frozenset[Value]:
    """Returns the given values and those in the block that are computed from them."""
    found = set(values)
    size = 0
    while size != len(found):
        size = len(found)
        _add_dependent_values(block, found)
    return frozenset(found)


def _add_dependent_values(block: Block, found: set[Value]) -> None:
    for statement in block.statements:
        if isinstance(statement, Value):
            if statement.op != "any" and not found.isdisjoint(statement.args):
                found.add(statement)
        elif isinstance(statement, (For, While)):
            for inner in inner_blocks(statement):
                _add_dependent_values(inner, found)
            for carry in statement.carries:
                if carry.initial in found or (carry.next is not None and carry.next in found):
                    found.update(v for v in (carry.variable, carry.result) if v is not None)
        elif isinstance(statement, If):
            _add_dependent_values(statement.then, found)
        elif isinstance(statement, Scan):
            found.update(statement.results)
