"""Expands XLA's own custom calls for linear algebra and selection into LAPACK calls and other operations.

Does not depend on how calls are executed. `interpreter/custom/decompositions` defines their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.cpu.lapack.row_major import call_by_columns
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.builtin_targets.decompositions import approx_top_k_of, reads_lower
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.sorting import SortAttributes
from xlapy.passes.expand.blocks import compare, counted_loop, iota, reduce_dimensions, slice_at_index, slice_dimension
from xlapy.passes.rewrite import Writer


def _by_columns(shape: Shape) -> Shape:
    """Returns the shape with column-major matrices and a row-major batch."""
    rank = shape.rank
    return shape.with_layout(Layout((rank - 2, rank - 1, *reversed(range(rank - 2)))))


def _info(matrices: Shape) -> Shape:
    return Shape.array(S32, matrices.dimensions[:-2])


def _qr(write: Writer, instruction: Instruction) -> Instruction:
    (a,), (packed, scalars) = instruction.operands, instruction.shape.tuple_shapes
    layouts = [_by_columns(packed), scalars]
    return write.add(opcodes.TUPLE, *call_by_columns(write, "geqrf", [a], [_by_columns(a.shape)], layouts, "{}"))


def _product(write: Writer, instruction: Instruction) -> Instruction:
    a, scalars = instruction.operands
    layouts = [_by_columns(a.shape), scalars.shape]
    (made,) = call_by_columns(write, "orgqr", [a, scalars], layouts, [_by_columns(a.shape)], "{}")
    return made


def _lu(write: Writer, instruction: Instruction) -> Instruction:
    (a,), (factors, pivots, order) = instruction.operands, instruction.shape.tuple_shapes
    layouts = [_by_columns(factors), pivots, _info(factors)]
    made, rows, _ = call_by_columns(write, "getrf", [a], [_by_columns(a.shape)], layouts, "{}")
    rows = write.add(opcodes.SUBTRACT, rows, write.splat(1, rows.shape))
    return write.add(opcodes.TUPLE, made, rows, _order(write, rows, order))


def _order(write: Writer, pivots: Instruction, shape: Shape) -> Instruction:
    """Swaps rows one after the other, each with its pivot."""
    last = shape.rank - 1
    places = iota(write, shape, last)

    def step(into: Writer, number: Instruction, state: list[Instruction]) -> Sequence[Instruction]:
        order, pivots, places = state
        here = into.broadcast(number, shape)
        there = _spread(into, slice_at_index(into, pivots, number, last), shape)
        is_here = compare(into, places, here, ComparisonDirection.EQ)
        is_there = compare(into, places, there, ComparisonDirection.EQ)
        first, second = (_chosen(into, order, chosen) for chosen in (is_here, is_there))
        changed = into.add(opcodes.SELECT, is_here, second, into.add(opcodes.SELECT, is_there, first, order))
        return changed, pivots, places

    return counted_loop(write, pivots.shape.dimensions[-1], [places, pivots, places], step, "rows_exchanged")[0]


def _spread(write: Writer, one: Instruction, shape: Shape) -> Instruction:
    """Repeats a number of each row along the row."""
    batch = shape.with_dimensions(shape.dimensions[:-1])
    return write.broadcast(write.reshape(one, batch), shape, range(batch.rank))


def _chosen(write: Writer, values: Instruction, chosen: Instruction) -> Instruction:
    """Repeats the one element of each row that is selected along the row."""
    shape = values.shape
    alone = write.add(opcodes.SELECT, chosen, values, write.splat(0, shape))
    return write.broadcast(reduce_dimensions(write, opcodes.ADD, alone, [shape.rank - 1]), shape, range(shape.rank - 1))


def _eigh(write: Writer, instruction: Instruction) -> Instruction:
    (a,), (vectors, values) = instruction.operands, instruction.shape.tuple_shapes
    layouts = [_by_columns(vectors), values, _info(vectors)]
    letter = "L" if reads_lower(instruction) else "U"
    attributes = f"{{mode = {ord('V')} : ui8, uplo = {ord(letter)} : ui8}}"
    made = call_by_columns(write, "syevd", [a], [_by_columns(a.shape)], layouts, attributes)
    return write.add(opcodes.TUPLE, *made[:2])


def _approx_top_k(write: Writer, instruction: Instruction) -> Instruction:
    dimension, count = approx_top_k_of(instruction)
    operands = instruction.operands[: len(instruction.operands) // 2]
    made = write.add(
        opcodes.SORT,
        *operands,
        attributes=SortAttributes.make(dimension=dimension, is_stable=True),
        computations=[instruction.computations[0]],
    )
    parts = [write.get_tuple_element(made, n) for n in range(len(operands))] if len(operands) > 1 else [made]
    kept = [slice_dimension(write, part, dimension, 0, count) for part in parts]
    return write.add(opcodes.TUPLE, *kept) if instruction.shape.is_tuple else kept[0]


DECOMPOSITIONS: dict[str, Callable[[Writer, Instruction], Instruction]] = {
    "Qr": _qr,
    "ProductOfElementaryHouseholderReflectors": _product,
    "LuDecomposition": _lu,
    "Eigh": _eigh,
    "ApproxTopK": _approx_top_k,
}
"""The expansions by target name."""
