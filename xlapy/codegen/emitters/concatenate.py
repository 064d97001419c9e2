"""Kernels of large concatenations: one for each operand, which goes to its place in the result.

So no element is selected among all operands, and nothing is read under a mask. What computes an operand is computed in
its kernel.

Owns: which concatenations, and their loops. Must not know: what elements are.
"""

from __future__ import annotations

import math

from xlapy import opcodes
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, choose_loop_nest, row_loops
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import delinear

LEAST_ELEMENTS = 1 << 12
"""Of a result that is worth several kernels."""

LEAST_BYTES = 256
"""That an operand puts in one place: fewer, and the lines of the result are written by several kernels."""

MOST_NARROW = 16
"""Of so many elements one may be of such an operand: the borders of an image."""

MOST_OPERANDS = 16


def concatenating_kernels(region: Region) -> list[tuple[Kernel, int]] | None:
    """The kernels of a region whose result is a concatenation, with the work of one parallel iteration of each.

    The buffers of every one are those that `elementwise.loop_kernel` gives a kernel. None for any other region.
    """
    root = region.root
    if root.op is not opcodes.CONCATENATE or root.shape.size < LEAST_ELEMENTS or len(root.operands) > MOST_OPERANDS:
        return None
    lanes, dimension = choose_loop_nest(region, root.shape).lanes, root.attributes.dimension
    size = root.shape.element_type.byte_size
    pieces = [math.prod(operand.shape.dimensions[dimension:]) for operand in root.operands]
    narrow = sum(piece for piece in pieces if piece * size < LEAST_BYTES)
    if lanes == 1 or narrow * MOST_NARROW > sum(pieces):
        return None
    kernels: list[tuple[Kernel, int]] = []
    start = 0
    for operand, piece in zip(root.operands, pieces, strict=True):
        if operand.shape.size:
            kernels.append(_piece(region, operand, start, lanes))
        start += piece
    return kernels


def _piece(region: Region, operand: Instruction, start: int, lanes: int) -> tuple[Kernel, int]:
    """Puts an operand where it begins in every row of the result, a row being all from the dimension on."""
    root, dimension = region.root, region.root.attributes.dimension
    builder = kernel_builder(region.name, region.target)
    lowering = Lowering(builder, {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)})
    target = result_buffer(builder, root.shape, "out0")
    outer, inner = operand.shape.dimensions[:dimension], operand.shape.dimensions[dimension:]
    pitch = math.prod(root.shape.dimensions[dimension:])
    with row_loops(builder, math.prod(outer), math.prod(inner), lanes) as (row, place):
        element = lowering.element(operand, (*delinear(builder, row, outer), *delinear(builder, place, inner)))
        store_element(builder, target, row * pitch + place + start, element, root.shape.element_type)
    return builder.kernel, min(TASK_ELEMENTS, math.prod(inner)) * max(1, len(region.instructions))
