"""How much work an instruction is, roughly: elements read, written and combined.

Owns: estimates from shapes and attributes alone. Must not know: machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import called_computations

_SORT_FACTOR = 32


def element_count(shape: Shape) -> int:
    """The elements of all arrays in a shape, dynamic dimensions at their bounds."""
    return sum(leaf.size for _, leaf in shape.leaves() if leaf.is_array)


def work_of(instruction: Instruction) -> int:
    """Elements read and written, times how often each is combined; a called computation counts once an element.

    Loops and conditionals count as one pass through all their computations.
    """
    inside: dict[Computation, int] = {}
    for computation in _callees_first(instruction):
        inside[computation] = sum(_work(each, inside) for each in computation)
    return _work(instruction, inside)


def _work(instruction: Instruction, inside: Mapping[Computation, int]) -> int:
    """The work of an instruction, given that of the computations that it calls."""
    moved = element_count(instruction.shape) + sum(element_count(o.shape) for o in instruction.operands)
    called = sum(inside[computation] for computation in instruction.computations)
    if instruction.op in (opcodes.CALL, opcodes.WHILE, opcodes.CONDITIONAL, opcodes.FUSION):
        return moved + called
    return moved + _combined(instruction) + (moved + _combined(instruction)) * called


def _callees_first(instruction: Instruction) -> list[Computation]:
    """The computations that an instruction reaches through calls, each once, after those that it calls itself."""
    order: dict[Computation, None] = {}
    stack = list(instruction.computations)
    while stack:
        missing = [c for c in called_computations(stack[-1]) if c not in order]
        if missing and stack[-1] not in order:
            stack += missing
        else:
            order[stack.pop()] = None
    return list(order)


def _combined(instruction: Instruction) -> int:
    """Elements that are combined beyond those read and written."""
    op, attributes = instruction.op, instruction.attributes
    if op is opcodes.DOT:
        sizes = instruction.operands[0].shape.dimensions
        return instruction.shape.size * prod(sizes[d] for d in attributes.lhs_contracting_dims)
    if op is opcodes.CONVOLUTION:
        return instruction.shape.size * instruction.operands[1].shape.size
    if op in (opcodes.REDUCE_WINDOW, opcodes.SELECT_AND_SCATTER):
        return element_count(instruction.operands[0].shape) * prod(attributes.window.sizes)
    if op in (opcodes.SORT, opcodes.TOPK):
        return element_count(instruction.shape) * _SORT_FACTOR
    if op.family in ("linalg", "contraction"):
        sizes = instruction.operands[0].shape.dimensions
        return element_count(instruction.shape) * max(sizes, default=1)
    return 0
