"""Large reductions to few results in two steps, so that the first has work for every thread and runs through memory.

Only computations whose terms may be put together in any order are split; how, follows from the shape alone. Example:
the sum of f32[4096,4096] over dimension 0 becomes that of f32[2,2048,4096] over dimension 1, then that of
f32[2,4096] over dimension 0.

Must not know: kernels, threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.emitters.column_reduction import BLOCK_BYTES, columns_of
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.lower.reduction import identity_of, monoid, regroups
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.passes.rewrite import Writer, editable_computations, has_control_edges, settle, take_over

LEAST = 1 << 17
"""Elements from which on a reduction is worth two steps."""

ROWS = 16
"""About so many rows are added up in one pass over columns, at least."""

MOST_ROWS = 2048
"""And at most: longer sums would round more often."""

TASKS = 16
"""So many blocks of columns, all pieces together, keep threads busy."""

PIECES = 64
"""About so many partial results a vector is added up to."""


@dataclass(frozen=True)
class SplitReductions:
    """Splits reductions along dimensions that leave too little to do side by side."""

    name: ClassVar[str] = "split-reductions"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            pending = [i for i in computation if i.op is opcodes.REDUCE]
            while pending:
                made = _split(pending.pop())
                changed |= made is not None
                pending += [] if made is None else [made]
        return settle(module, changed)


def _split(reduction: Instruction) -> Instruction | None:
    """The second step, which takes the reduction's place; None where one step will do."""
    count = len(reduction.operands) // 2
    operands, inits = reduction.operands[:count], reduction.operands[count:]
    shape = operands[0].shape
    if shape.size < LEAST or shape.is_dynamic or has_control_edges(reduction) or not regroups(reduction.to_apply):
        return None
    first = _first_step(list(shape.dimensions), sorted(reduction.dimensions), _rows_at_once(reduction))
    if first is None:
        return None
    dimensions, inner, outer = first
    write = Writer(reduction)
    split = [write.reshape(operand, operand.shape.with_dimensions(dimensions)) for operand in operands]
    if monoid(reduction.to_apply) is None:
        neutral: Sequence[Instruction] = inits  # what selects may see its initial values any number of times
    else:
        neutral = [write.scalar(identity_of(reduction.to_apply), shape.element_type)]
    partial = _reduce(write, split, neutral, inner, reduction)
    parts = [write.element(partial, i) for i in range(count)] if partial.shape.is_tuple else [partial]
    result = _reduce(write, parts, inits, outer, reduction)
    take_over(reduction, result)
    return result


def _reduce(
    write: Writer,
    operands: Sequence[Instruction],
    inits: Sequence[Instruction],
    dimensions: list[int],
    like: Instruction,
) -> Instruction:
    attributes = ReduceAttributes.make(dimensions=tuple(dimensions))
    return write.add(opcodes.REDUCE, *operands, *inits, attributes=attributes, computations=[like.to_apply])


def _rows_at_once(reduction: Instruction) -> int:
    """How many rows are added up in one pass over columns: all that leave work for threads, where a kernel for
    columns does it."""
    shape = columns_of(reduction)
    if shape is None:
        return ROWS
    rows = math.prod(shape.rows)
    blocks = -(-math.prod(shape.columns) * reduction.shape.element_type.byte_size // BLOCK_BYTES)
    pieces = max(-(-TASKS // blocks), -(-rows // MOST_ROWS))
    return max(ROWS, rows // pieces)


def _first_step(sizes: list[int], reduced: list[int], rows: int) -> tuple[list[int], list[int], list[int]] | None:
    """The sizes of the operand split, the dimensions reduced first, and those reduced of what that leaves.

    rows: how many are reduced first, about.
    """
    rank = len(sizes)
    if len(reduced) > 1:
        if reduced[-1] == rank - 1 and sizes[-1] >= ROWS and sum(sizes[d] > 1 for d in reduced) > 1:
            return sizes, [rank - 1], reduced[:-1]
        return _first_rows(sizes, reduced, rows)
    (d,) = reduced
    is_last = d == rank - 1
    wanted = sizes[d] // PIECES if is_last else rows
    if sizes[d] < 4 * ROWS or (is_last and any(size > 1 for size in sizes[:d])):
        return None
    if not is_last and any(size > 1 for size in sizes[:d]):
        return None
    inner = _divisor_near(sizes[d], wanted)
    if not ROWS // 2 <= inner <= sizes[d] // 2:
        return None
    return [*sizes[:d], sizes[d] // inner, inner, *sizes[d + 1 :]], [d + 1], [d]


def _first_rows(sizes: list[int], reduced: list[int], wanted: int) -> tuple[list[int], list[int], list[int]] | None:
    """As `_first_step`, for columns over several dimensions: the last of them, or a part of it, are about as many."""
    is_row = math.prod(sizes[d] for d in reduced) == math.prod(sizes[: reduced[-1] + 1])
    if not is_row or math.prod(sizes[d] for d in reduced) < 4 * ROWS:
        return None
    first = len(reduced)
    rows = 1
    while rows < wanted // 2:
        first -= 1
        rows *= sizes[reduced[first]]
    if rows <= 4 * wanted:
        return (sizes, reduced[first:], reduced[:first]) if first else None
    d = reduced[first]
    inner = _divisor_near(sizes[d], max(1, wanted * sizes[d] // rows))
    whole = rows // sizes[d] * inner
    if not wanted // 2 <= whole <= 4 * wanted or inner == sizes[d]:
        return None
    split = [*sizes[:d], sizes[d] // inner, inner, *sizes[d + 1 :]]
    return split, [d + 1, *(r + 1 for r in reduced[first + 1 :])], reduced[: first + 1]


def _divisor_near(number: int, wanted: int) -> int:
    """The divisor that is nearest to a number; 1 if there is none within a factor of 8."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    fitting = [d for n in small for d in (n, number // n) if wanted <= 8 * d and d <= 8 * wanted]
    return min(fitting, key=lambda divisor: (abs(divisor - wanted), divisor), default=1)
