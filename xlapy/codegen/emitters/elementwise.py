"""Kernels: which loops compute an instruction or a fusion, and which axis goes in vectors and which over threads.

The last dimension of the result runs in vectors, the others over threads; where the elements are sums over contiguous
memory, the sum runs in vectors instead. Elementwise computations, and results whose last dimension is short, go through
all elements as one dimension.

Owns: the choice of axes. Must not know: what elements are (`lower`), where buffers lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.codegen.element_cost import cost
from xlapy.codegen.emitters.row_reduction import RowKernel, RowPlan, emit_short_rows, lanes_of, plan_rows
from xlapy.codegen.fusion.horizontal_reductions import reduced_together
from xlapy.codegen.row_groups import Space, first_leaf
from xlapy.cpu.llvm.jit import vector_bytes
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.loops import I64, Affine, AxisKind, Buffer, Builder, Kernel
from xlapy.lower import LOWERINGS, Element, Lowering, Source, components, storage_type, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.reduction import regroups

CHUNK = 1 << 13
"""Elements of a task, where all elements are one dimension."""


@dataclass(frozen=True, slots=True)
class Region:
    """What one kernel computes: instructions in an order, of which `operands` come from memory."""

    name: str
    root: Instruction
    operands: tuple[Instruction, ...]
    inner: tuple[Instruction, ...]

    @property
    def results(self) -> tuple[Instruction, ...]:
        """The root, or what its tuple is made of."""
        return self.root.operands if self.root.op is opcodes.TUPLE else (self.root,)


def region_of(instruction: Instruction) -> Region:
    """The fused computation of a fusion, or the instruction alone."""
    if instruction.op is not opcodes.FUSION:
        return Region(instruction.name, instruction, tuple(dict.fromkeys(instruction.operands)), (instruction,))
    fused = instruction.computations[0]
    order = post_order(fused)
    inner = tuple(i for i in order if not is_parameter(i))
    return Region(instruction.name, fused.root_instruction, tuple(fused.parameters), inner)


def make_kernel(region: Region) -> tuple[Kernel, int]:
    """The kernel of a region, and the work of one parallel iteration.

    Its buffers are the operands in their order, then an output for each array of the result.
    """
    builder = kernel_builder(region.name)
    sources = {operand: source(builder, operand, f"in{n}") for n, operand in enumerate(region.operands)}
    shapes = [shape for _, shape in region.root.shape.leaves()]
    outputs = [output(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
    plan = plan_rows(region.results, region.inner)
    if plan is not None and plan.space.is_written_out(sum(map(cost, region.inner))):
        axes = _axes_over_rows(builder, region, plan)
        with _flat_loops(builder, axes, plan.space.rows, _rows_of_task(plan.space)) as row:
            emit_short_rows(builder, plan, sources, row, list(zip(region.results, outputs, strict=True)))
        return builder.kernel, axes.work
    if plan is not None:
        RowKernel(builder, plan, sources).emit(list(zip(region.results, outputs, strict=True)))
        return builder.kernel, plan.space.length * max(1, len(region.inner))
    values: dict[Instruction, Element] = {}
    lowering = Lowering(builder, sources, values)
    axes = choose_axes(region, shapes[0])
    with loops(builder, axes, shapes[0]) as index:
        position = linear(index, shapes[0].dimensions)
        values.update(reduced_together(lowering, region.inner, position))
        for buffer, part, shape in zip(outputs, elements_at(lowering, region, index, position), shapes, strict=True):
            store_element(builder, buffer, position, part, shape.element_type)
    return builder.kernel, axes.work * max(1, len(region.inner))


def elements_at(lowering: Lowering, region: Region, index: Index, position: Affine) -> list[Element]:
    """The elements of all results at a position, before any of them is stored: results may lie where operands lie."""
    dimensions = first_leaf(region.root.shape).dimensions
    found: list[Element] = []
    for result in region.results:
        shape = first_leaf(result.shape)
        at = index if shape.dimensions == dimensions else delinear(lowering.builder, position, shape.dimensions)
        element = lowering.elements(result, at)
        found += element if isinstance(element, list) else [element]
    return found


def kernel_builder(name: str) -> Builder:
    """For a kernel in vectors of the host's width."""
    return Builder(name, vector_bytes())


def source(builder: Builder, operand: Instruction, name: str) -> Source:
    """A buffer that holds an operand."""
    t = operand.shape.element_type
    return Source(builder.buffer(name, storage_type(t), operand.shape.size * components(t)), operand.shape)


def output(builder: Builder, shape: Shape, name: str) -> Buffer:
    """A buffer that a result goes to."""
    t = shape.element_type
    return builder.buffer(name, storage_type(t), shape.size * components(t), written=True)


# -- axes


@dataclass(frozen=True, slots=True)
class Axes:
    """flat: all elements as one dimension, in chunks. lanes: of the vector axis, 1 for none. work: of an iteration."""

    flat: bool
    lanes: int
    work: int


def choose_axes(region: Region, shape: Shape) -> Axes:
    """How the loops around an element are laid out."""
    dimensions = [size for size in shape.dimensions if size > 1]
    last = dimensions[-1] if dimensions else 1
    lanes = _lanes(region)
    reduced = _reduced_work(region)
    if shape.size == 1 or _sums_contiguously(region):
        return Axes(False, 1, reduced)
    if len(dimensions) == 1 or last < lanes or _is_elementwise(region):
        lanes = min(lanes, 1 << (shape.size.bit_length() - 1))
        return Axes(True, lanes, reduced * min(CHUNK, shape.size))
    return Axes(False, lanes, reduced * last)


def _rows_of_task(space: Space) -> int:
    """Of short rows: whole vectors of any width."""
    return CHUNK // space.length // 64 * 64


def _axes_over_rows(builder: Builder, region: Region, plan: RowPlan) -> Axes:
    """For short rows: all of them as one dimension."""
    rows, length = plan.space.rows, plan.space.length
    lanes = min(lanes_of(builder, [*plan.kinds, *region.operands]), 1 << (rows.bit_length() - 1))
    return Axes(True, lanes, min(CHUNK, rows * length) * max(1, len(region.inner)))


def _lanes(region: Region) -> int:
    """Lanes of a vector of the widest elements; 1 where lanes may have to go different ways."""
    if any(i.op not in LOWERINGS for i in region.inner):
        return 1
    arrays = [i.shape for i in (*region.inner, *region.operands) if i.shape.is_array and i.shape.rank]
    widest = max((components(s.element_type) and storage_type(s.element_type).byte_size for s in arrays), default=4)
    return vector_bytes() // widest


def _reduced_work(region: Region) -> int:
    """How many terms the largest sum in the region has."""
    work = 1
    for instruction in region.inner:
        if instruction.op is opcodes.REDUCE:
            work = max(work, instruction.operands[0].shape.size // max(1, first_leaf(instruction.shape).size))
        elif instruction.op is opcodes.DOT:
            lhs = instruction.operands[0].shape
            work = max(work, math.prod(lhs.dimensions[d] for d in instruction.attributes.lhs_contracting_dims))
        elif instruction.op is opcodes.CONVOLUTION:
            work = max(work, instruction.operands[1].shape.size)
        elif instruction.op is opcodes.REDUCE_WINDOW:
            work = max(work, math.prod(instruction.window.sizes))
    return work


def _sums_contiguously(region: Region) -> bool:
    """Whether the root is a sum, in lanes, along the last dimension of its operands."""
    root = region.root
    if root.op is opcodes.REDUCE:
        operand = root.operands[0].shape
        long = operand.rank and operand.dimensions[-1] >= 16 and operand.rank - 1 in root.dimensions
        return bool(long) and regroups(root.to_apply)
    if root.op is opcodes.DOT:
        (left, right), attrs = root.operands, root.attributes
        ends = zip((left, right), (attrs.lhs_contracting_dims, attrs.rhs_contracting_dims), strict=True)
        return all(o.shape.rank - 1 in dims and o.shape.dimensions[-1] >= 16 for o, dims in ends)
    return False


def _is_elementwise(region: Region) -> bool:
    """Whether all positions of all arrays are the same, scalars aside."""
    size = first_leaf(region.root.shape).dimensions
    for instruction in region.inner:
        scalar_broadcast = instruction.op is opcodes.BROADCAST and not instruction.operands[0].shape.rank
        plain = (
            instruction.op.elementwise
            or instruction.op in (opcodes.CONSTANT, opcodes.MAP, opcodes.TUPLE)
            or scalar_broadcast
        )
        if not plain or any(leaf.dimensions not in ((), size) for _, leaf in instruction.shape.leaves()):
            return False
    return all(not operand.shape.is_array or operand.shape.dimensions in ((), size) for operand in region.operands)


@contextmanager
def loops(builder: Builder, axes: Axes, shape: Shape) -> Iterator[Index]:
    """The loops around one element; gives its index."""
    if axes.flat:
        with _flat_loops(builder, axes, shape.size) as position:
            yield delinear(builder, position, shape.dimensions)
    elif not shape.rank:
        yield ()
    else:
        with _nested_loops(builder, axes, shape.dimensions) as index:
            yield index


@contextmanager
def _flat_loops(builder: Builder, axes: Axes, size: int, most: int = CHUNK) -> Iterator[Affine]:
    """Tasks of a chunk each, the last of what is left; one loop where a chunk, of `most`, holds everything."""
    if size <= most:
        with builder.loop(size, AxisKind.VECTOR, width=axes.lanes) as position:
            yield position
        return
    with builder.loop(-(-size // most), AxisKind.PARALLEL) as chunk:
        start = chunk * most
        left = builder.value_of(Affine((), size) - start)
        end = builder.binary("smin", left, builder.constant(I64, most))
        with builder.loop(end if size % most else most, AxisKind.VECTOR, width=axes.lanes) as inner:
            for value, _ in inner.terms:
                value.range = (0, most - 1)
            yield start + inner


@contextmanager
def _nested_loops(builder: Builder, axes: Axes, dimensions: Sequence[int]) -> Iterator[Index]:
    """The last dimension that is not 1 inside, all before it as one parallel axis; without vectors, only that."""
    if axes.lanes == 1:
        with builder.loop(math.prod(dimensions), AxisKind.PARALLEL) as position:
            yield delinear(builder, position, dimensions)
        return
    inner = max((d for d, size in enumerate(dimensions) if size > 1), default=len(dimensions) - 1)
    outer = dimensions[:inner]
    with builder.loop(math.prod(outer), AxisKind.PARALLEL) as row:
        places = delinear(builder, row, outer)
        with builder.loop(dimensions[inner], AxisKind.VECTOR, width=axes.lanes) as position:
            yield (*places, position, *[Affine()] * (len(dimensions) - inner - 1))


@contextmanager
def row_loops(builder: Builder, rows: int, size: int, lanes: int) -> Iterator[tuple[Affine, Affine]]:
    """The loops over rows of `size` elements: tasks of a chunk of a row each, the last one in a row of what is left."""
    chunks = -(-size // CHUNK)
    with builder.loop(rows * chunks, AxisKind.PARALLEL) as task:
        row, chunk = delinear(builder, task, (rows, chunks))
        if chunks == 1:
            with builder.loop(size, AxisKind.VECTOR, width=lanes) as place:
                yield row, place
            return
        left = builder.value_of(Affine((), size) - chunk * CHUNK)
        extent = builder.binary("smin", left, builder.constant(I64, CHUNK)) if size % CHUNK else CHUNK
        with builder.loop(extent, AxisKind.VECTOR, width=lanes) as place:
            for value, _ in place.terms:
                value.range = (0, CHUNK - 1)
            yield row, chunk * CHUNK + place
