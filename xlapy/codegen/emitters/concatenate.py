"""Emits large concatenations as loops over the operands, each of which writes its part of the result.

So no element has to be selected among the operands, and nothing is loaded under a mask. The computation of an operand
is part of its loop. If rows of the result are short, one kernel writes row after row, so that each cache line is
written once; else each operand has a kernel of its own.
"""

from __future__ import annotations

import math

from xlapy import opcodes
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, preferred_lanes, row_loops
from xlapy.codegen.emitters.streaming import store_past_caches
from xlapy.codegen.kernel_cost import vector_cycles
from xlapy.codegen.plan import Candidate, NoParameters, Rejection, Strategy
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import AxisKind, Kernel
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import delinear

MIN_RESULT_ELEMENTS = 1 << 12
"""The smallest number of elements of a result with one kernel per operand; smaller concatenations are one kernel."""

MIN_RUN_BYTES = 256
"""The smallest number of contiguous bytes that an operand writes in a kernel of its own. With shorter runs, several
kernels would write to the same cache lines."""

MIN_RUN_VECTORS = 2
"""The smallest number of vectors per operand and row, on average, in a kernel that writes rows. With less, the loops
over operands take longer than the selection of elements."""

MIN_ELEMENTS_PER_SHORT_RUN_ELEMENT = 16
"""The smallest number of elements of the result for each element that comes from an operand with shorter runs, such as
a border."""

MAX_OPERANDS = 128
"""The largest number of operands of a concatenation with one kernel per operand; above it, it is one kernel. A kernel
compiles in about 3 ms. The one kernel of 64 operands of bf16[1,1,32,768], which selects elements, takes 12 times the
run time (dynamic_slice_loop_1x2048x768_bf16 of XLA's benchmarks)."""


class ConcatenateStrategy(Strategy[NoParameters]):
    """Emits one kernel per operand of a concatenation that is the root of a region."""

    name = "concatenate"
    required_opcodes = frozenset({opcodes.CONCATENATE})

    def candidate(self, region: Region) -> Candidate | Rejection:
        root = region.root
        if root.op is not opcodes.CONCATENATE:
            return Rejection("its root is not a concatenation")
        lanes = preferred_lanes(region)
        if root.shape.size < MIN_RESULT_ELEMENTS:
            return Rejection(f"{root.shape.size} elements are fewer than {MIN_RESULT_ELEMENTS}", is_possible=True)
        if len(root.operands) > MAX_OPERANDS:
            return Rejection(f"{len(root.operands)} operands are more than {MAX_OPERANDS}", is_possible=True)
        run_lengths = _run_lengths(region)
        cost = vector_cycles(region, root.shape.size, lanes) / len(root.operands)
        if _writes_rows(region, lanes):
            return Candidate(cost)
        size = root.shape.element_type.byte_size
        short_runs = sum(length for length in run_lengths if length * size < MIN_RUN_BYTES)
        if lanes == 1 or short_runs * MIN_ELEMENTS_PER_SHORT_RUN_ELEMENT > sum(run_lengths):
            return Rejection(f"operands write runs of less than {MIN_RUN_BYTES} bytes", is_possible=True)
        return Candidate(cost)

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        kernels: list[Kernel] = []
        start, lanes = 0, preferred_lanes(region)
        if _writes_rows(region, lanes):
            return [_rows_kernel(region, lanes)]
        for operand, length in zip(region.root.operands, _run_lengths(region), strict=True):
            if operand.shape.size:
                kernels.append(_operand_kernel(region, operand, start, lanes))
            start += length
        return kernels


def _run_lengths(region: Region) -> list[int]:
    """The contiguous elements that each operand writes."""
    root = region.root
    return [math.prod(operand.shape.dimensions[root.dimension :]) for operand in root.operands]


def _writes_rows(region: Region, lanes: int) -> bool:
    """Whether one kernel writes all operands' parts of a row of the result, then the next row."""
    root, pitch = region.root, sum(_run_lengths(region))
    rows = root.shape.size // pitch
    fills_vectors = lanes > 1 and pitch >= MIN_RUN_VECTORS * lanes * len(root.operands)
    return rows > 1 and pitch <= TASK_ELEMENTS and fills_vectors


def _rows_kernel(region: Region, lanes: int) -> Kernel:
    """The kernel of all operands."""
    root, dimension = region.root, region.root.dimension
    builder = kernel_builder(region.name, region.target)
    sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
    target = result_buffer(builder, root.shape, "out0")
    outer, pitch = root.shape.dimensions[:dimension], sum(_run_lengths(region))
    store_past_caches(region.target, [(target, root.shape)], lanes, _run_lengths(region))
    with builder.loop(math.prod(outer), AxisKind.PARALLEL) as row:
        index, start = delinear(builder, row, outer), 0
        for operand, length in zip(root.operands, _run_lengths(region), strict=True):
            if length:
                with builder.loop(length, AxisKind.VECTOR, width=lanes) as position:
                    inner = delinear(builder, position, operand.shape.dimensions[dimension:])
                    element = Lowering(builder, sources).element(operand, (*index, *inner))
                    store_element(builder, target, row * pitch + position + start, element, root.shape.element_type)
            start += length
    return builder.kernel


def _operand_kernel(region: Region, operand: Instruction, start: int, lanes: int) -> Kernel:
    """The kernel of one operand, which begins at `start` in every row of the result.

    A row of the result consists of the concatenated dimension and those after it.
    """
    root, dimension = region.root, region.root.dimension
    builder = kernel_builder(region.name, region.target)
    lowering = Lowering(builder, {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)})
    target = result_buffer(builder, root.shape, "out0")
    outer, inner = operand.shape.dimensions[:dimension], operand.shape.dimensions[dimension:]
    pitch = math.prod(root.shape.dimensions[dimension:])
    rows = math.prod(outer)
    store_past_caches(region.target, [(target, root.shape)], lanes, (start, pitch) if rows > 1 else (start,))
    with row_loops(builder, rows, math.prod(inner), lanes) as (row, position):
        element = lowering.element(operand, (*delinear(builder, row, outer), *delinear(builder, position, inner)))
        store_element(builder, target, row * pitch + position + start, element, root.shape.element_type)
    return builder.kernel
