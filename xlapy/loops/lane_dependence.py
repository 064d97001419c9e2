"""Which values of loop IR differ between the lanes of a vector.

Responsible for that alone. Does not depend on how kernels are emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.loops import For, If, Scan, Value, While
from xlapy.loops.ir import Block, Combiner, inner_blocks
from xlapy.loops.positions import is_equal_in_lanes


def combiner_values(combiner: Combiner) -> frozenset[Value]:
    return _dependent_values(combiner.block, combiner.parameters, None)


def varying_values(loop: For) -> frozenset[Value]:
    """The values in the body of a vector loop that differ between lanes."""
    return _dependent_values(loop.body, [loop.axis, *(carry.variable for carry in loop.carries)], loop)


def _dependent_values(block: Block, values: Sequence[Value], vector: For | None) -> frozenset[Value]:
    """Returns the given values and those in the block that are computed from them. vector: the loop over lanes."""
    found = set(values)
    while _add_dependent_values(block, found, vector):
        pass
    return frozenset(found)


def _add_dependent_values(block: Block, found: set[Value], vector: For | None) -> bool:
    """Adds the values of a block. Returns whether statements that were visited before may depend on an added value,
    because a loop carries it to its next iteration."""
    is_carried = False
    for statement in block.statements:
        if isinstance(statement, Value):
            if _depends(statement, found, vector):
                found.add(statement)
        elif isinstance(statement, (For, While)):
            found.update(carry.variable for carry in statement.carries if carry.initial in found)
            for inner in inner_blocks(statement):
                is_carried |= _add_dependent_values(inner, found, vector)
            for carry in statement.carries:
                if carry.next is not None and carry.next in found and carry.variable not in found:
                    found.add(carry.variable)
                    is_carried = True
                if carry.result is not None and carry.variable in found:
                    found.add(carry.result)
        elif isinstance(statement, If):
            is_carried |= _add_dependent_values(statement.then, found, vector)
        elif isinstance(statement, Scan):
            found.update(statement.results)
    return is_carried


def _depends(value: Value, found: set[Value], vector: For | None) -> bool:
    """Whether a value is computed from those found, so that it differs between lanes."""
    varying = [arg for arg in value.args if arg in found]
    if not varying or value.op == "any":
        return False
    is_by_axis = vector is not None and all(arg is vector.axis for arg in varying)
    return not (is_by_axis and vector is not None and is_equal_in_lanes(value, vector.axis, vector.width))
