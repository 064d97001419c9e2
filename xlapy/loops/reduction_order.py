"""The order in which reductions combine their terms: the numbers and rules that decide it.

Floating-point addition is not associative, so the order decides the bits of a result. The functions of this module
derive it from the shapes of a program and from the width of the vector registers, never from the number of threads:

- a reduction in vectors has `accumulator_vectors` partial results in each lane, combined by `combine_halves`;
- a column reduction combines `rows_per_step` rows of a column and its partial result by `combine_pairwise`;
- a large reduction becomes two by `split_dimensions`: partial results over a part of the terms, then their reduction;
- a packed matrix multiplication adds the terms of a block of `contraction_block` in order, then the blocks in order.

Two orders are fixed by the code that emits them: `cpu/llvm/kernels.py` combines the lanes of one vector
(`reduce_lanes`, by the rule of `combine_halves`) and scans the lanes of one vector (`scan`, for cumulative sums).

Which of these orders applies to an instruction depends on the kernel that computes it. For each kernel,
`docs/explanation/reduction-order.md` names the deciding function and states what users can rely on.
`lower.reduction.can_be_reordered` decides whether a reduction may be reordered at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

ACCUMULATOR_VECTORS: Final = 4
"""The largest number of vectors of partial results of one reduction: enough to hide the latency of an addition."""

MAX_ACCUMULATOR_REGISTERS: Final = 8
"""The largest number of vectors of partial results of all reductions in one loop, so that they stay in registers."""

INNER_PRODUCT_ACCUMULATOR_VECTORS: Final = MAX_ACCUMULATOR_REGISTERS
"""The largest number of vectors of partial results of one sum in a dot that is computed by inner products."""

MAX_UNROLLED_STATEMENTS: Final = 64
"""The largest number of statements in the bodies of all accumulators of a loop. More statements do not hide more
latency and compile slowly."""

MIN_VECTOR_TERMS: Final = 16
"""The smallest number of terms along contiguous memory for which vectors run along the terms. With fewer terms, each
lane computes a sum of its own, and vectors run along the result."""

CONTRACTION_BLOCK_TERMS: Final = 256
"""The largest number of terms that a packed matrix multiplication adds up in registers before it adds them to the sum
in memory (KC)."""


# -- vectors


def accumulator_vectors(extent: int, lanes: int, *, sums: int = 1, limit: int = ACCUMULATOR_VECTORS) -> int:
    """How many vectors of partial results each of `sums` reductions keeps in one loop over `extent` terms.

    Vector number v of the terms goes to accumulator v modulo the result.
    """
    return max(1, min(limit, MAX_ACCUMULATOR_REGISTERS // sums, extent // lanes))


def accumulators_for_body(accumulators: int, statements: int) -> int:
    """Limits the accumulators of a loop whose body has this many statements, to a power of two."""
    enough = max(1, MAX_UNROLLED_STATEMENTS // max(1, statements))
    return min(accumulators, 1 << (enough.bit_length() - 1))


def combine_halves(partial: Sequence[T], combine: Callable[[T, T], T]) -> T:
    """Combines partial results: item i of the first half with item i of the second half, until one is left.

    Of an odd number, the last item of the first half goes unchanged to the next step. Example: a b c d e becomes
    a+d b+e c, then (a+d)+c b+e, then ((a+d)+c)+(b+e).
    """
    items = list(partial)
    while len(items) > 1:
        half = (len(items) + 1) // 2
        pairs = [combine(a, b) for a, b in zip(items[:half], items[half:], strict=False)]
        items = pairs + items[len(items) - half : half]
    return items[0]


# -- columns

_MAX_ROWS_PER_STEP: Final = 8
"""The largest number of rows that a column reduction combines at once."""

_MAX_UNROLLED_COLUMN_INSTRUCTIONS: Final = 64
"""The largest number of instructions in the unrolled rows of one step; longer code takes long to compile."""


def rows_per_step(instructions: int) -> int:
    """How many rows a column reduction combines at once, if an element takes this many instructions."""
    return max(2, min(_MAX_ROWS_PER_STEP, _MAX_UNROLLED_COLUMN_INSTRUCTIONS // instructions))


def combine_pairwise(terms: Sequence[T], combine: Callable[[T, T], T]) -> T:
    """Combines neighboring terms in a binary tree. Of an odd number, the last term goes to the front of the next step.

    Example: a b c becomes c a+b, then c+(a+b).
    """
    items = list(terms)
    while len(items) > 1:
        pairs = [combine(*items[n : n + 2]) for n in range(0, len(items) - 1, 2)]
        items = [*items[len(pairs) * 2 :], *pairs]
    return items[0]


# -- matrix multiplications


def contraction_block(outer: int, inner: int) -> tuple[int, int]:
    """Returns the block of terms that a packed matrix multiplication adds up in registers: positions of the outer and
    of the inner loop over terms. Example: 1 x 1000 terms form blocks of 1 x 250."""
    most = CONTRACTION_BLOCK_TERMS
    return balanced_size(outer, max(1, most // inner)), balanced_size(inner, most)


def balanced_size(size: int, most: int) -> int:
    """Splits `size` in the fewest pieces of at most `most`, about equally; returns the size of a piece."""
    pieces = -(-size // most)
    return -(-size // pieces)


_PART_BYTES: Final = 1 << 18
"""The largest size in bytes of the factors of a part of a dot, for the larger operand: they stay in the cache while all
rows are multiplied."""

_MIN_PARTS: Final = 4
"""The smallest number of parts of a dot that is split."""

_MAX_PART_RESULTS: Final = 1 << 12
"""The largest number of results of a dot that is split. 50000 terms of 64 x 64 results take 0.4 times as long if they
are split, 50000 of 128 x 64 as long (benchmarks/products.py)."""

_MAX_PART_SIDE: Final = 128
"""The largest number of rows and of columns of a dot that is split; there is work for every thread if it has more."""

_MIN_PART_SIDES: Final = 2, 8
"""The smallest number of rows and of columns of a dot that is split; the second one if both operands are contiguous
along the terms, so that few results are computed at the rate at which memory is read."""


def terms_of_part(rows: int, columns: int, terms: int, element_bytes: int, *, along_terms: bool) -> int | None:
    """Returns how many terms each part of a dot has; None if the dot is not split.

    along_terms: whether both operands are contiguous along the terms; parts of them must be of equal size. Otherwise
    terms that fill no part, fewer than there are parts, are added last.
    """
    if rows * columns > _MAX_PART_RESULTS or min(rows, columns) < _MIN_PART_SIDES[along_terms]:
        return None
    if max(rows, columns) > _MAX_PART_SIDE:
        return None
    most = _PART_BYTES // (max(rows, columns) * element_bytes)
    if terms < _MIN_PARTS * most:
        return None
    divisor = next((size for size in range(most, most // 2, -1) if terms % size == 0), None)
    return divisor if divisor or along_terms else terms // -(-terms // most)


_MIN_ROW_BYTES: Final = 1 << 22
"""The smallest size in bytes of a matrix [K, N] that a row is multiplied by in parts. 1 x 1024 times 1024 x 1024 in f32
takes 0.85 of the time in four parts, 1 x 512 times 512 x 512 1.1 times as long (benchmarks/products.py)."""

_ROW_PART_BYTES: Final = 1 << 21
"""The size in bytes, about, of the part of the matrix that a part of such a product reads, if there are enough parts
and not too many."""

_ROW_PARTS: Final = 4, 8
"""The smallest and the largest number of parts of such a product: with more, adding their sums takes longer."""

_MIN_ROW_PART_TERMS: Final = 256
"""The smallest number of terms of a part of such a product, so that storing and adding the sums of the parts takes a
few percent of the time. 1 x 256 times 256 x 4096 takes 1.2 times as long in parts of 64 terms."""


def terms_of_row_part(columns: int, terms: int, element_bytes: int) -> int | None:
    """Returns how many terms each part of a row times a matrix [terms, columns] has, so that a part reads memory in
    order; None if the product is not split. Terms that fill no part, fewer than there are parts, are added last.

    Example: 1 x 1024 times f32[1024,1024] has parts of 256 terms, which are 1 MB of the matrix each.
    """
    least, most = _ROW_PARTS
    size = columns * terms * element_bytes
    parts = min(most, max(least, size // _ROW_PART_BYTES), terms // _MIN_ROW_PART_TERMS)
    if size < _MIN_ROW_BYTES or parts < least:
        return None
    whole = next((count for count in range(parts, least - 1, -1) if terms % count == 0), parts)
    return terms // whole


# -- two steps

MIN_SPLIT_ELEMENTS: Final = 1 << 17
"""The smallest number of operand elements of a reduction that is split in two steps."""

_MIN_ROWS: Final = 16
"""The smallest number of rows, about, that one pass over columns combines."""

_MAX_ROWS: Final = 2048
"""The largest number of rows that one pass over columns combines; longer sums round more often."""

_MIN_TASKS: Final = 16
"""The smallest number of blocks of columns, counted over all parts of the rows, that keeps threads busy."""

_PARTIAL_RESULTS: Final = 64
"""The number of partial results, about, into which a reduction along the last dimension is split."""


def rows_of_first_step(rows: int | None, blocks: int) -> int:
    """Returns the smallest number of rows, about, that the first of two steps combines.

    rows: of a column reduction, whose columns form `blocks` blocks; None for any other reduction.
    """
    if rows is None:
        return _MIN_ROWS
    parts = max(-(-_MIN_TASKS // blocks), -(-rows // _MAX_ROWS))
    return max(_MIN_ROWS, rows // parts)


def split_dimensions(sizes: list[int], reduced: list[int], rows: int) -> tuple[list[int], list[int], list[int]] | None:
    """Splits a reduction in two steps; returns None if one step does as well.

    sizes: the operand's dimensions; reduced: those that are reduced, ascending; rows: how many the first step combines,
    about. Returns the dimensions to which the operand is reshaped, those that the first step reduces, and those that
    the second step reduces of the first step's result. Example: 4096 rows of 4096 columns, reduced to one row, with
    rows = 2048 become [2, 2048, 4096]; the first step reduces dimension 1, the second step dimension 0.
    """
    rank = len(sizes)
    if len(reduced) > 1:
        if reduced[-1] == rank - 1 and sizes[-1] >= _MIN_ROWS and sum(sizes[d] > 1 for d in reduced) > 1:
            return sizes, [rank - 1], reduced[:-1]
        return _split_rows(sizes, reduced, rows)
    (d,) = reduced
    is_last = d == rank - 1
    wanted = sizes[d] // _PARTIAL_RESULTS if is_last else rows
    if sizes[d] < 4 * _MIN_ROWS or any(size > 1 for size in sizes[:d]):
        return None
    inner = _divisor_near(sizes[d], wanted)
    if not _MIN_ROWS // 2 <= inner <= sizes[d] // 2:
        return None
    return [*sizes[:d], sizes[d] // inner, inner, *sizes[d + 1 :]], [d + 1], [d]


def _split_rows(sizes: list[int], reduced: list[int], wanted: int) -> tuple[list[int], list[int], list[int]] | None:
    """Splits a reduction over several leading dimensions: the last of them, or a part of one, make about `wanted`."""
    reduces_leading_dimensions = math.prod(sizes[d] for d in reduced) == math.prod(sizes[: reduced[-1] + 1])
    if not reduces_leading_dimensions or math.prod(sizes[d] for d in reduced) < 4 * _MIN_ROWS:
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
    """The divisor of a number that is nearest to `wanted`; 1 if there is none within a factor of 8."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    fitting = [d for n in small for d in (n, number // n) if wanted <= 8 * d and d <= 8 * wanted]
    return min(fitting, key=lambda divisor: (abs(divisor - wanted), divisor), default=1)
