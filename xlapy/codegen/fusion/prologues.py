"""Decides which instructions the kernel of a dot computes as elements of its operands, instead of loading them.

Example: the weights of a dot are converted from s8 and multiplied by a scale for each block of 128 terms. A kernel
that reads each weight once computes them in registers, which saves a kernel, and memory for weights in f32.

A kernel may compute an element of an operand several times, because several of its tasks or tiles need it. Whether that
costs less than to store the element and to load it again follows from shapes alone, so that the order of additions does
not depend on the machine. Does not depend on how a kernel computes its operands.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from xlapy import opcodes
from xlapy.analysis.cost import STORED_ELEMENT_COST, element_cost
from xlapy.analysis.cost.reference_machine import F32_LANES, MEMORY_BYTES_PER_CYCLE, OPERATION_CYCLES
from xlapy.base.element_types import F32
from xlapy.codegen.epilogue import CONTRACTIONS
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import DotAttributes

MAX_PROLOGUE_COST = 15
"""The largest cost of an element of an operand, as of `element_cost`. A transcendental function costs more, and is
stored once."""

LARGE_OPERAND_BYTES = 1 << 20
"""The size in bytes from which on storing an operand takes the bandwidth of memory beyond the caches of a core."""

MAX_REPEATED_COST_OF_LARGE_OPERAND = round(F32.byte_size / MEMORY_BYTES_PER_CYCLE * F32_LANES / OPERATION_CYCLES)
"""The largest cost of the repeated evaluations of an element of such an operand: 32 additions, which vectors compute in
the cycle that loading an element of four bytes from main memory takes."""

MAX_ROWS_OF_ONE_PASS = 64
"""The largest number of rows that share each load of a large operand whose columns are contiguous,
in estimates. The strategy of a dot is chosen by cost, later; with more rows, it often packs."""

MAX_INNER_PRODUCT_ROWS = 32
"""The largest number of rows or columns of operands with contiguous terms that are not packed, in estimates."""

ROWS_OF_TASK = 128
"""The rows or columns that at least share an element of an operand that is packed."""

ROWS_OF_TILE = 4
"""The rows or columns that at least share an element of an operand that is not packed."""

MIN_PACKED_BYTES = 1 << 17
"""The size in bytes from which on operands count as packed. Tiles often load smaller ones where they lie."""

MAX_STEPS_BACK = 32
"""The largest number of instructions that are searched for a reduction or a contraction, which bounds compile time."""

_PERMUTING_OPCODES = frozenset({opcodes.REVERSE, opcodes.SLICE, opcodes.TRANSPOSE})
"""Opcodes of which an element is an element of their operand, so that only its position is computed."""


def reason_against_prologue(dot: Instruction, members: Collection[Instruction], instruction: Instruction) -> str:
    """Why the kernel of a dot should not compute elements of an instruction that its operands depend on; "" if it
    should.

    members: the instructions that the kernel computes already.
    """
    kernel = f"{dot.name} (dot)"
    if not instruction.op.elementwise and instruction.op not in (opcodes.REVERSE, opcodes.TRANSPOSE):
        return f"{kernel} reads its elements more than once"
    inside = {*members, instruction}
    cones = [_cone(operand, inside) for operand in dot.operands]
    for user in instruction.users:
        if user is not dot and not any(user in cone for cone in cones):
            return f"{user.name} ({user.op.name}) needs it besides {kernel}"
    contraction = _contraction_before(instruction)
    if contraction is not None:
        return f"it can be computed once, where the kernel of {contraction.name} ({contraction.op.name}) stores it"
    for number, (operand, cone) in enumerate(zip(dot.operands, cones, strict=True)):
        reason = _reason_against_operand(dot, number, operand, cone) if instruction in cone else ""
        if reason:
            return reason
    return ""


def _contraction_before(instruction: Instruction) -> Instruction | None:
    """A dot or convolution whose result the elements of an instruction are computed from one by one.

    Only those within `MAX_STEPS_BACK` instructions are found.
    """
    seen, stack = set[Instruction](), [instruction]
    while stack and len(seen) < MAX_STEPS_BACK:
        current = stack.pop()
        if current in seen or current.shape.size < instruction.shape.size:
            continue
        seen.add(current)
        if current.op in CONTRACTIONS:
            return current
        if current.op.elementwise or current.op in (opcodes.RESHAPE, opcodes.TRANSPOSE):
            stack += current.operands
    return None


def _cone(operand: Instruction, inside: Collection[Instruction]) -> set[Instruction]:
    """The instructions of a kernel that compute an operand."""
    found, stack = set[Instruction](), [operand]
    while stack:
        instruction = stack.pop()
        if instruction in inside and instruction not in found:
            found.add(instruction)
            stack += instruction.operands
    return found


def _reason_against_operand(dot: Instruction, number: int, operand: Instruction, cone: Collection[Instruction]) -> str:
    """Why the kernel of a dot should not compute all instructions that an operand depends on."""
    what = f"each element of {operand.name}, an operand of {dot.name} (dot),"
    cost = sum(element_cost(i) for i in cone if i.op not in _PERMUTING_OPCODES)
    if cost > MAX_PROLOGUE_COST:
        return f"{what} would take {cost} operations, more than {MAX_PROLOGUE_COST}"
    times = evaluations(dot, number)
    size = operand.shape.size * operand.shape.element_type.byte_size
    most = STORED_ELEMENT_COST if size < LARGE_OPERAND_BYTES else MAX_REPEATED_COST_OF_LARGE_OPERAND
    if (times - 1) * cost > most:
        return f"{what} would be computed {times} times: {(times - 1) * cost} repeated operations, of at most {most}"
    reduction = _reduction_of_same_size(operand, cone)
    if reduction is not None:
        return f"{what} is computed from {reduction.name}, whose kernel reads the same rows"
    if any(i.op is opcodes.TRANSPOSE for i in cone) and _full_arrays(operand, cone) > 1:
        return f"{what} would be computed from arrays in different orders of elements"
    return ""


def _reduction_of_same_size(operand: Instruction, cone: Collection[Instruction]) -> Instruction | None:
    """A reduction of an array of the operand's size that the operand depends on, as the sum of a softmax.

    Only reductions within `MAX_STEPS_BACK` smaller instructions are found.
    """
    seen = set(cone)
    stack = [o for i in cone for o in i.operands]
    while stack and len(seen) < len(cone) + MAX_STEPS_BACK:
        array = stack.pop()
        if array in seen or not array.shape.is_array:
            continue
        seen.add(array)
        if array.op is opcodes.REDUCE and array.operands[0].shape.size >= operand.shape.size:
            return array
        if array.op is opcodes.BROADCAST or array.shape.size < operand.shape.size:
            stack += array.operands
    return None


def _full_arrays(operand: Instruction, cone: Collection[Instruction]) -> int:
    """How many arrays of at least the size of an operand its elements are computed from."""
    read = {_broadcast_array(o) for i in cone for o in i.operands if o not in cone}
    return sum(array.shape.is_array and array.shape.size >= operand.shape.size for array in read)


def _broadcast_array(array: Instruction) -> Instruction:
    """The array that a broadcast repeats, which the kernel reads instead; any other array itself."""
    while array.op is opcodes.BROADCAST:
        array = array.operands[0]
    return array


def evaluations(dot: Instruction, number: int) -> int:
    """How often the kernel of a dot computes an element of an operand, about; the number is 0 for the left operand."""
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    lhs, rhs = (operand.shape for operand in dot.operands)
    rows = math.prod(lhs.dimensions[d] for d in attrs.lhs_free_dims(lhs.rank))
    columns = math.prod(rhs.dimensions[d] for d in attrs.rhs_free_dims(rhs.rank))
    terms = math.prod(lhs.dimensions[d] for d in attrs.lhs_contracting_dims)
    own, other = (columns, rows) if number else (rows, columns)
    if own * terms * dot.shape.element_type.byte_size <= MIN_PACKED_BYTES:
        return -(-other // ROWS_OF_TILE)
    if min(rows, columns) <= MAX_INNER_PRODUCT_ROWS and all(_has_contiguous_terms(dot, n) for n in (0, 1)):
        return -(-other // ROWS_OF_TILE)
    is_right = number == 1 or columns == 1
    if is_right and other <= MAX_ROWS_OF_ONE_PASS:
        return -(-other // ROWS_OF_TILE) if _has_contiguous_terms(dot, number) else 1
    return -(-other // ROWS_OF_TASK)


def _has_contiguous_terms(dot: Instruction, number: int) -> bool:
    """Whether the last dimension of an operand, or of what it transposes, is contracted."""
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    operand = dot.operands[number]
    last = operand.shape.rank - 1
    if operand.op is opcodes.TRANSPOSE:
        last = operand.dimensions.index(last)
    return last in (attrs.rhs_contracting_dims if number else attrs.lhs_contracting_dims)
