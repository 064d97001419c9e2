"""Transposes the weights of a loop before it, so that the dots in the loop load vectors of columns.

A step of a recurrent network multiplies a few rows by the same weights in every iteration. If the weights are stored
with contiguous terms, [columns, terms], as in torch and in gradients, each result is a sum across the lanes of vectors.
One transpose before the loop makes the columns contiguous:

    body: gates = f32[32,1024] dot(f32[32,256] hidden, f32[1024,256] weights), both contracting dimension 1
    ->    before the loop: turned = f32[256,1024] transpose(weights)
          body: gates = f32[32,1024] dot(hidden, turned), rhs_contracting_dims={0}

Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from xlapy import opcodes
from xlapy.analysis.counted_loops import estimated_trip_count
from xlapy.analysis.loops import TupleLoop
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.contraction import DotAttributes
from xlapy.passes.control_flow.hoist_loop_invariants import carry_values, extensible_loop, rewrite_loops
from xlapy.passes.rewrite import Writer, replace_with_new

MIN_ROWS: Final = 8
"""The smallest number of rows for which weights are transposed. With 4 rows of 256 by 1,024 weights, inner products
take 0.9x the time of columns, with 8 rows 1.25x (a loop of such dots on a Zen 5 processor)."""

MAX_ROWS: Final = 64
"""The largest number of rows for which weights are transposed; products of more rows pack them (`emitters/matmul`)."""

MAX_BF16_ROWS: Final = 32
"""The same in bf16. A layer of LSTM with 256 by 1,024 weights takes 0.59x the time with 32 rows, 1.09x with 64
(benchmarks/recurrent_programs.py)."""

MIN_WEIGHTS: Final = 1 << 12
"""The smallest number of weights that are transposed; smaller products are limited by the loop around them."""

MIN_TRIP_COUNT: Final = 16
"""The smallest trip count of a loop whose weights are transposed. Per iteration of 8 rows, columns save a tenth of the
time that the transpose takes; of 32 rows, a quarter."""

_MAX_ROWS: Final = {
    PrimitiveType.F32: MAX_ROWS,
    PrimitiveType.F64: MAX_ROWS,
    PrimitiveType.BF16: MAX_BF16_ROWS,
}
"""The element types of dots whose weights are transposed, with the largest number of rows."""


@dataclass(frozen=True)
class TransposeLoopWeights:
    """Carries transposed weights in the state of loops whose dots have contiguous terms."""

    name: ClassVar[str] = "transpose-loop-weights"

    def run(self, module: Module) -> bool:
        return rewrite_loops(module, _transpose_weights)


def _transpose_weights(loop: Instruction) -> bool:
    """Transposes the weights of all dots of a loop; returns whether there are any."""
    view = extensible_loop(loop)
    dots = [] if view is None else list(_dots_with_weights(view))
    if view is None or not dots or estimated_trip_count(loop) < MIN_TRIP_COUNT:
        return False
    transposes: dict[Instruction, Instruction] = {}
    for dot, weights in dots:
        if weights not in transposes:
            transposes[weights] = _transposed(dot, weights)
        _replace_right_operand(dot, transposes[weights])
    moved = list(transposes.values())
    carry_values(view, dict.fromkeys(moved), moved)
    return True


def _dots_with_weights(view: TupleLoop) -> Iterator[tuple[Instruction, Instruction]]:
    """Yields the dots that multiply a few rows by invariant weights [columns, terms], and the weights."""
    for instruction in view.body:
        if instruction.op is opcodes.DOT and len(instruction.operands) == 2 and _has_few_rows(instruction):
            weights = _weights(view, instruction)
            if weights is not None:
                yield instruction, weights


def _has_few_rows(dot: Instruction) -> bool:
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    left, right = (operand.shape for operand in dot.operands)
    if attrs.lhs_batch_dims or len(attrs.rhs_contracting_dims) != 1 or right.rank != 2:
        return False
    most = min(_MAX_ROWS.get(shape.element_type, 0) for shape in (left, right, dot.shape))
    if not most or dot.shape.is_dynamic:
        return False
    terms = right.dimensions[attrs.rhs_contracting_dims[0]]
    rows = left.size // terms if terms else 0
    return MIN_ROWS <= rows <= most and right.size >= MIN_WEIGHTS


def _weights(view: TupleLoop, dot: Instruction) -> Instruction | None:
    """The invariant element of the state with contiguous terms that a dot multiplies by; None if it has none."""
    (contracted,) = dot.attributes_as(DotAttributes).rhs_contracting_dims
    right = dot.operands[1]
    if right.op is opcodes.TRANSPOSE and right.dimensions == (1, 0):
        right, contracted = right.operands[0], 1 - contracted
    is_element = right.op is opcodes.GET_TUPLE_ELEMENT and right.operands[0] is view.body.parameters[0]
    return right if is_element and contracted == 1 and view.is_invariant(right.tuple_index) else None


def _transposed(dot: Instruction, weights: Instruction) -> Instruction:
    """A transpose of the weights [columns, terms] in front of the dot."""
    shape = weights.shape.with_dimensions(weights.shape.dimensions[::-1])
    return Writer(dot).transpose(weights, (1, 0), shape=shape)


def _replace_right_operand(dot: Instruction, transposed: Instruction) -> None:
    """Replaces the dot by one that multiplies by weights [terms, columns]."""
    attrs = dot.attributes_as(DotAttributes).replace(rhs_contracting_dims=(0,))
    made = Writer(dot).add(opcodes.DOT, dot.operands[0], transposed, attributes=attrs, shape=dot.shape)
    replace_with_new(dot, made)
