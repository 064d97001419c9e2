"""Decides whether the computations that an instruction applies to elements can be part of a kernel.

A reducer, comparator or map body becomes part of a kernel as one expression of scalars. A loop, a branch, a sort, a
random draw, an array constant or a call to the host inside of it has no such expression: a back end then needs another
way to run the instruction.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Builder
from xlapy.lower.core import LOWERINGS, Lowering
from xlapy.lower.element_types import components, load_element, storage_type

CONTROL_FLOW = frozenset({opcodes.ASYNC_START, opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE})
"""Opcodes whose computations run on whole arrays, as parts of the program: they are not applied to elements."""


def applies_unlowerable_computation(instruction: Instruction) -> bool:
    """Whether an instruction applies to elements a computation that is not an expression of scalars."""
    if instruction.op in CONTROL_FLOW:
        return False
    return not all(_has_lowerings(c) and _is_scalar_expression(c) for c in instruction.computations)


def _has_lowerings(computation: Computation) -> bool:
    """Whether all operations of a computation, and of those that it calls, have lowerings."""
    pending, visited = [computation], set[Computation]()
    while pending:
        at = pending.pop()
        if at in visited:
            continue
        visited.add(at)
        for inner in at:
            if inner.op not in LOWERINGS and inner.op is not opcodes.PARAMETER:
                return False
            pending += inner.computations
    return True


def _is_scalar_expression(computation: Computation) -> bool:
    """Whether the lowerings accept the types and constants of a computation, which it finds out by applying them."""
    types = [parameter.shape.element_type for parameter in computation.parameters if parameter.shape.is_array]
    if len(types) < len(computation.parameters) or any(parameter.shape.rank for parameter in computation.parameters):
        return True
    builder = Builder(computation.name)
    arguments = [
        load_element(builder, builder.buffer(f"in{n}", storage_type(t), components(t)), Affine(), t)
        for n, t in enumerate(types)
    ]
    try:
        Lowering(builder, {}).apply(computation, arguments)
    except UnsupportedError:
        return False
    return True
