"""Splits dots of many terms with few results, so that there is work for every thread, and a row times a large matrix.

The terms are split in parts whose factors stay in the cache; each part is a dot of its own, and the sums of the parts
are added. How depends on the shape alone. For example, f32[16,16] dot(f32[131072,16], f32[131072,16]), which contracts
the first dimensions, becomes f32[32,16,16] dot(f32[32,4096,16], f32[32,4096,16]), followed by a sum over the first
dimension. Terms that fill no part make a dot of their own.

A row times a matrix [K, N] is split so that each thread reads whole rows of the matrix, which follow each other in
memory, and not a part of every row: f32[2048] dot(f32[2048], f32[2048,2048]) becomes f32[8,2048] dot(f32[8,256],
f32[8,256,2048]) and a sum over the first dimension. A matrix that is computed from others stays as it is, because its
elements are computed in the kernel of the dot.

Does not depend on kernels or threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.element_types import F32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.codegen.plan import has_plan
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.loops.reduction_order import terms_of_part, terms_of_row_part
from xlapy.opcodes.contraction import Algorithm, DotAttributes
from xlapy.passes.expand.blocks import reduce_dimensions, slice_dimension
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class SplitDots:
    """Splits dots that have too few results to compute in parallel."""

    name: ClassVar[str] = "split-dots"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for dot in [i for i in computation if i.op is opcodes.DOT]:
                changed |= _split(dot)
        return update_schedule(module, changed)


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot, whose contracted dimensions are the `count` ones from `first` on."""

    operand: Instruction
    first: int
    count: int

    @property
    def terms(self) -> int:
        return math.prod(self.operand.shape.dimensions[self.first : self.first + self.count])

    @property
    def results(self) -> int:
        """How many rows or columns of the result belong to the operand."""
        return self.operand.shape.size // self.terms

    @property
    def has_contiguous_terms(self) -> bool:
        return math.prod(self.operand.shape.dimensions[self.first + self.count :]) == 1

    def with_terms(self, write: Writer, operand: Instruction, *sizes: int) -> Instruction:
        """Writes an operand whose terms are dimensions of these sizes."""
        dimensions = self.operand.shape.dimensions
        kept = dimensions[: self.first], dimensions[self.first + self.count :]
        return write.reshape(operand, operand.shape.with_dimensions((*kept[0], *sizes, *kept[1])))


def _split(dot: Instruction) -> bool:
    """Replaces a dot by the sum of dots of parts of its terms; returns whether it does."""
    partial_type, sides = _type_of_parts(dot), _sides(dot)
    if partial_type is None or sides is None:
        return False
    left, right = sides
    size = _terms_of_row_part(left, right) or terms_of_part(
        left.results,
        right.results,
        left.terms,
        partial_type.byte_size,
        along_terms=left.has_contiguous_terms and right.has_contiguous_terms,
    )
    if size is None:
        return False
    write = Writer(dot)
    shape = dot.shape.with_element_type(partial_type)
    count = left.terms // size
    whole = [side.with_terms(write, side.operand, side.terms) for side in sides]
    taken = [slice_dimension(write, one, side.first, 0, count * size) for one, side in zip(whole, sides, strict=True)]
    parts = [side.with_terms(write, one, count, size) for one, side in zip(taken, sides, strict=True)]
    products = _product(write, dot, parts, sides, shape.with_dimensions((count, *shape.dimensions)))
    total = reduce_dimensions(write, opcodes.ADD, products, [0])
    if count * size < left.terms:
        rest = [
            slice_dimension(write, one, side.first, count * size, left.terms)
            for one, side in zip(whole, sides, strict=True)
        ]
        total = write.add(opcodes.ADD, total, _product(write, dot, rest, sides, shape))
    replace_with_new(dot, write.convert(total, dot.shape.element_type))
    return True


def _terms_of_row_part(left: _Side, right: _Side) -> int | None:
    """Returns how many terms each part of a row times a matrix has whose terms are its first dimensions; None if the
    dot is another one or is not split."""
    row, matrix = (left, right) if left.results == 1 else (right, left)
    if row.results > 1 or matrix.first or matrix.has_contiguous_terms or matrix.operand.op.elementwise:
        return None
    return terms_of_row_part(matrix.results, matrix.terms, matrix.operand.shape.element_type.byte_size)


def _type_of_parts(dot: Instruction) -> PrimitiveType | None:
    """The type in which parts are added: what a dot adds its terms in. None if the dot cannot be split."""
    given = dot.shape.element_type
    shapes = [operand.shape for operand in dot.operands]
    if (
        len(shapes) != 2
        or dot.has_control_edges
        or has_plan(dot)
        or any(shape.is_dynamic or not shape.size for shape in shapes)
    ):
        return None
    if given.is_complex:
        return None
    if given.is_floating and given.byte_size < F32.byte_size:
        return F32 if dot.attributes_as(DotAttributes).algorithm is Algorithm.UNSET else None
    return given


def _sides(dot: Instruction) -> tuple[_Side, _Side] | None:
    """Both operands of a dot without batch dimensions that contracts neighboring dimensions in their order."""
    attributes: DotAttributes = dot.attributes_as(DotAttributes)
    left = _side(dot.operands[0], attributes.lhs_contracting_dims)
    right = _side(dot.operands[1], attributes.rhs_contracting_dims)
    return (left, right) if left and right and not attributes.lhs_batch_dims else None


def _side(operand: Instruction, contracted: Sequence[int]) -> _Side | None:
    """The operand, or what it transposes: a transpose with two users is not computed where it is read."""
    if operand.op is opcodes.TRANSPOSE:
        free = [operand.dimensions[d] for d in range(operand.shape.rank) if d not in contracted]
        if free == sorted(free):
            operand, contracted = operand.operands[0], [operand.dimensions[d] for d in contracted]
    count = len(contracted)
    if not count or list(contracted) != list(range(contracted[0], contracted[0] + count)):
        return None
    return _Side(operand, contracted[0], count)


def _product(
    write: Writer, dot: Instruction, operands: Sequence[Instruction], sides: Sequence[_Side], shape: Shape
) -> Instruction:
    """Writes the dot of operands with one dimension of terms, behind one of parts if the shape has it."""
    batch = int(shape.rank > dot.shape.rank)
    left, right = (side.first for side in sides)
    attributes = dot.attributes_as(DotAttributes).replace(
        lhs_batch_dims=(left,) * batch,
        rhs_batch_dims=(right,) * batch,
        lhs_contracting_dims=(left + batch,),
        rhs_contracting_dims=(right + batch,),
    )
    return write.add(opcodes.DOT, *operands, attributes=attributes, shape=shape)
