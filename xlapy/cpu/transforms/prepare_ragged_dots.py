"""Prepares ragged dots for their kernel, which computes only what each group needs.

1. A ragged dot gets group sizes that are not negative and whose sum does not exceed the ragged dimension. If no kernel
   computes it, it is expanded.
2. A dot of operands that are masked by groups (`masked_ragged_dots`) becomes a ragged dot if both have the same value:

    f32[m,n] dot(masked, f32[g,k,n] w)
    -> conditional(no group ends before it starts and all of w is finite, ragged-dot(x, w, sizes), the dot)

   An infinite weight times the zeros of the other groups is NaN in the dot, but not in the ragged dot. The ends of the
   groups have any integer type, in which differences of them would wrap; s64 holds both. As s64, ends from 2^63 on are
   negative, so that their group ends before it starts.

Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.element_types import F8E8M0FNU, S64
from xlapy.base.shape import Shape
from xlapy.codegen.plan import has_plan
from xlapy.cpu.transforms.masked_ragged_dots import MaskedDot, masked_dot
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.contraction import RaggedDotAttributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.sorting import SortAttributes
from xlapy.passes.expand.blocks import compare, concatenate, new_computation, reduce_dimensions, slice_dimension
from xlapy.passes.expand.contraction import ends_of_groups
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class PrepareRaggedDots:
    """Normalizes the group sizes of ragged dots, and finds ragged dots among masked dots."""

    name: ClassVar[str] = "prepare-ragged-dots"
    has_kernel: Callable[[Instruction], bool]
    """Whether a kernel computes a ragged dot with normalized group sizes."""

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            normalized: dict[tuple[Instruction, int], Instruction] = {}
            for instruction in computation.instructions:
                if instruction.op is opcodes.RAGGED_DOT:
                    changed |= self._prepare(instruction, normalized)
                elif instruction.op is opcodes.DOT and not (instruction.has_control_edges or has_plan(instruction)):
                    masked = masked_dot(instruction)
                    if masked is not None:
                        _replace_masked_dot(instruction, masked)
                        changed = True
        return update_schedule(module, changed)

    def _prepare(self, dot: Instruction, normalized: dict[tuple[Instruction, int], Instruction]) -> bool:
        """normalized: the group sizes that ragged dots of the computation share, by the given sizes and their limit."""
        shapes = dot.shape, *dot.operand_shapes
        if any(shape.is_dynamic or shape.element_type is F8E8M0FNU for shape in shapes):
            return False
        write = Writer(dot)
        if self.has_kernel(dot):
            attrs: RaggedDotAttributes = dot.attributes_as(RaggedDotAttributes)
            sizes = dot.operands[2], dot.operands[0].shape.dimensions[attrs.lhs_ragged_dims[0]]
            if sizes not in normalized:
                normalized[sizes] = _normalized_sizes(write, *sizes)
            edit.replace_operand(dot, 2, normalized[sizes])  # errors about its plan name the dot itself
        else:
            replace_with_new(dot, EXPANSIONS.find(opcodes.RAGGED_DOT)(write, dot))
        return True


def _normalized_sizes(write: Writer, sizes: Instruction, limit: int) -> Instruction:
    """Writes the sizes of the groups as far as they are inside the ragged dimension, which has `limit` indices.

    The group of an index is the number of groups that end at or before it, so that the ends count in ascending order.
    """
    ends = ends_of_groups(write, sizes)
    if ends.shape.dimensions[-1] > 1:
        ends = _sorted(write, ends)
    return _differences(write, _clamped(write, ends, limit))


def _sorted(write: Writer, numbers: Instruction) -> Instruction:
    """Writes the sorted rows of an array of s64."""

    def precedes(into: Writer, given: list[Instruction]) -> Instruction:
        return compare(into, given[0], given[1], ComparisonDirection.LT)

    return write.add(
        opcodes.SORT,
        numbers,
        attributes=SortAttributes.make(dimension=numbers.shape.rank - 1),
        computations=[new_computation(write, "precedes", [Shape.scalar(S64)] * 2, precedes)],
    )


def _clamped(write: Writer, positions: Instruction, limit: int) -> Instruction:
    t = positions.shape.element_type
    return write.add(opcodes.CLAMP, write.scalar(0, t), positions, write.scalar(limit, t))


def _differences(write: Writer, ends: Instruction) -> Instruction:
    """Writes the differences of neighbors along the last dimension; the first one is the first element."""
    return write.add(opcodes.SUBTRACT, ends, _starts(write, ends))


def _starts(write: Writer, ends: Instruction) -> Instruction:
    """Writes where each group starts: 0, and the ends of all groups but the last one."""
    last = ends.shape.rank - 1
    *leading, count = ends.shape.dimensions
    first = write.splat(0, ends.shape.with_dimensions((*leading, 1)))
    return concatenate(write, [first, slice_dimension(write, ends, last, 0, count - 1)], last)


# -- masked dots


def _replace_masked_dot(dot: Instruction, masked: MaskedDot) -> None:
    """Replaces a dot by a conditional, which computes it as a ragged dot if that has the same value."""
    write = Writer(dot)
    parts = masked.lhs, masked.rhs, masked.ends
    state = Shape.tuple([part.shape for part in parts])

    def ragged_dot(into: Writer, given: list[Instruction]) -> Instruction:
        lhs, rhs, ends = _elements(into, given, len(parts))
        sizes = _differences(into, _clamped(into, into.convert(ends, S64), masked.limit))
        shape = dot.shape.with_dimensions([dot.shape.dimensions[masked.order.index(d)] for d in range(dot.shape.rank)])
        product = into.add(opcodes.RAGGED_DOT, lhs, rhs, sizes, attributes=masked.attributes, shape=shape)
        return into.transpose(product, masked.order) if shape != dot.shape else product

    def whole_dot(into: Writer, given: list[Instruction]) -> Instruction:
        known = dict(zip(parts, _elements(into, given, len(parts)), strict=True))
        return _copied(into, dot, known)

    computations = [
        new_computation(write, "ragged_dot", [state], ragged_dot),
        new_computation(write, "masked_dot", [state], whole_dot),
    ]
    operand = write.add(opcodes.TUPLE, *parts)
    chosen = write.add(
        opcodes.CONDITIONAL, _condition(write, masked), operand, operand, computations=computations, shape=dot.shape
    )
    replace_with_new(dot, chosen)


def _elements(into: Writer, given: list[Instruction], count: int) -> list[Instruction]:
    return [into.get_tuple_element(given[0], number) for number in range(count)]


def _condition(write: Writer, masked: MaskedDot) -> Instruction:
    """Writes whether no group ends before it starts, and the tested operand has no infinity or NaN."""
    ends = write.convert(masked.ends, S64)
    tests = [compare(write, _starts(write, ends), ends, ComparisonDirection.LE)]
    if masked.tested is not None:
        tests.append(write.add(opcodes.IS_FINITE, masked.tested))
    found = [reduce_dimensions(write, opcodes.AND, test, range(test.shape.rank), True) for test in tests]
    return found[0] if len(found) == 1 else write.add(opcodes.AND, *found)


def _copied(into: Writer, instruction: Instruction, known: dict[Instruction, Instruction]) -> Instruction:
    """Copies an instruction, and those that it depends on, into another computation. known: those already there."""
    if instruction not in known:
        operands = [_copied(into, operand, known) for operand in instruction.operands]
        known[instruction] = edit.clone_instruction(instruction, into.computation, operands)
    return known[instruction]
