"""Sorts positions instead of operands, where a sort has many operands that its comparator does not read.

A kernel that sorts moves the elements of all operands, so its code grows with their number, and LLVM's time grows even
faster: 28 s for 3,000 operands. The sort of the positions moves only what is compared. A gather for each other operand
follows.

Responsible for that choice and for the gathers. Does not depend on how sorts or gathers are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.element_types import S32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.sorting import SortAttributes
from xlapy.passes.expand.blocks import iota, new_computation
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

MAX_MOVED_OPERANDS = 16
"""Sorts with more operands that the comparator does not read sort positions."""


@dataclass(frozen=True)
class GatherSortedOperands:
    """Replaces sorts of many operands by sorts of positions."""

    name: ClassVar[str] = "gather-sorted-operands"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.SORT and not instruction.has_control_edges:
                    changed |= _gather_operands(instruction)
        return update_schedule(module, changed)


def _gather_operands(sort: Instruction) -> bool:
    shape, dimension = sort.operands[0].shape, sort.attributes_as(SortAttributes).dimension
    compared = _compared_operands(sort.to_apply)
    if len(sort.operands) - len(compared) <= MAX_MOVED_OPERANDS:
        return False
    if shape.is_dynamic or shape.dimensions[dimension] > 1 << 31:
        return False
    write = Writer(sort)
    keys = [sort.operands[number] for number in compared]
    positions = iota(write, shape.with_element_type(S32), dimension)
    ordered = write.add(
        opcodes.SORT,
        *keys,
        positions,
        attributes=SortAttributes.make(dimension=dimension, is_stable=True),
        computations=[_comparator(write, sort, compared)],
    )
    parts = [ordered] if not keys else [write.get_tuple_element(ordered, number) for number in range(len(keys) + 1)]
    results = dict(zip(compared, parts, strict=False))
    attributes = _gather_attributes(shape.rank, dimension)
    replacement = [
        results[number]
        if number in results
        else write.add(opcodes.GATHER, operand, parts[-1], attributes=attributes, shape=operand.shape)
        for number, operand in enumerate(sort.operands)
    ]
    replace_with_new(sort, write.add(opcodes.TUPLE, *replacement))
    return True


def _compared_operands(comparator: Computation) -> list[int]:
    """Returns the numbers of the operands whose elements a comparator reads."""
    read = {p.parameter_number // 2 for p in comparator.parameters if p.has_users or p.is_root}
    return sorted(read)


def _comparator(write: Writer, sort: Instruction, compared: Sequence[int]) -> Computation:
    """Returns the comparator for the compared operands and the positions."""
    old = sort.to_apply
    types = [sort.operands[number].shape.element_type for number in compared]
    place_of = {number: place for place, number in enumerate(compared)}

    def body(into: Writer, given: list[Instruction]) -> Instruction:
        unread: dict[PrimitiveType, Instruction] = {}
        arguments: list[Instruction] = []
        for parameter in old.parameters:
            number, side = divmod(parameter.parameter_number, 2)
            if number in place_of:
                arguments.append(given[2 * place_of[number] + side])
                continue
            element_type = parameter.shape.element_type
            if element_type not in unread:
                unread[element_type] = into.scalar(0, element_type)
            arguments.append(unread[element_type])
        return inline_call(into.add(opcodes.CALL, *arguments, computations=[old]))

    scalars = [Shape.scalar(t) for t in (*types, S32) for _ in range(2)]
    return new_computation(write, old.name, scalars, body)


def _gather_attributes(rank: int, dimension: int) -> GatherAttributes:
    """Attributes of the gather that takes, along a dimension, the elements at the positions in an array of the same
    sizes."""
    others = tuple(d for d in range(rank) if d != dimension)
    return GatherAttributes.make(
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        index_vector_dim=rank,
        slice_sizes=(1,) * rank,
    )
