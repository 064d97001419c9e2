"""Finds indices that count along one of their own dimensions, so that a gather or scatter is split along it.

Example: `x[arange(8), labels]` gathers with index vectors (i, labels[i]). Along dimension 0 of `x`, index vector i
reads row i: if `x` and the indices are split alike, each device reads its own rows. XLA calls such dimensions index
parallel.

Responsible for recognizing them. Does not depend on how operations are split.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.analysis.constants import CHEAP_TO_RECOMPUTE_OPS, depends_only_on_operands, has_all_elements
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Context

_MAX_INSTRUCTIONS = 64
"""The largest number of instructions that are evaluated to find out whether indices count."""

_MAX_ELEMENTS = 1 << 22
"""The largest number of elements of an array that is evaluated."""


def counted_dimension(indices: Instruction, index_vector_dim: int, component: int) -> int | None:
    """Returns the dimension of the indices along which a component of their vectors counts from 0; None without one.

    Example: for indices s32[8,2] that concatenate an iota s32[8,1] and labels s32[8,1], component 0 counts along
    dimension 0.
    """
    part = indices
    if index_vector_dim < indices.shape.rank:
        found = _component(indices, index_vector_dim, component)
        if found is None:
            return None
        part, component = found
    value = _evaluated(part)
    if value is None:
        return None
    if index_vector_dim < indices.shape.rank:
        value = np.take(value, [component], index_vector_dim)
    for dimension, size in enumerate(value.shape):
        counts = np.arange(size).reshape([size if d == dimension else 1 for d in range(value.ndim)])
        if dimension != index_vector_dim and size > 1 and np.array_equal(value, np.broadcast_to(counts, value.shape)):
            return dimension
    return None


def _component(indices: Instruction, index_vector_dim: int, component: int) -> tuple[Instruction, int] | None:
    """Returns the operand of a concatenate that has a component, and its number there; the indices if they are one."""
    if indices.op is not opcodes.CONCATENATE or indices.dimension != index_vector_dim:
        return indices, component
    for part in indices.operands:
        size = part.shape.dimensions[index_vector_dim]
        if component < size:
            return part, component
        component -= size
    return None


def _evaluated(instruction: Instruction) -> np.ndarray[Any, Any] | None:
    """Returns the value of an instruction that depends on constants only; None for others, and for large ones."""
    order = _constant_expression(instruction)
    values: dict[Instruction, Any] = {}
    for each in order:
        operands = [values[operand] for operand in each.operands]
        is_constant = each.op is opcodes.CONSTANT
        values[each] = each.literal.array if is_constant else RULES.find(each.op)(Context(), each, operands)
    return np.asarray(values[instruction]) if order else None


def _constant_expression(root: Instruction) -> list[Instruction]:
    """Returns the instructions that a value depends on, operands first; none if they are many, or not constant.

    The search ends at the first instruction that is not constant, so that it is cheap in large programs.
    """
    found: dict[Instruction, None] = {}
    pending = [(root, False)]
    while pending:
        instruction, is_complete = pending.pop()
        if is_complete:
            found[instruction] = None
        elif instruction not in found:
            if len(pending) + len(found) > _MAX_INSTRUCTIONS or not _can_be_evaluated(instruction):
                return []
            pending.append((instruction, True))
            pending += [(operand, False) for operand in instruction.operands]
    return list(found)


def _can_be_evaluated(instruction: Instruction) -> bool:
    if instruction.shape.is_tuple or instruction.computations or instruction.shape.size > _MAX_ELEMENTS:
        return False
    if instruction.op is opcodes.CONSTANT:
        return has_all_elements(instruction.literal)
    return instruction.op in CHEAP_TO_RECOMPUTE_OPS or depends_only_on_operands(instruction)
