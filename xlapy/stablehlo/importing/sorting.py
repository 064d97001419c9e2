"""Import rules of sort and of CHLO's top_k."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import flag, integer
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, rule


@rule("stablehlo.sort", operands=ONE_OR_MORE, results=ONE_OR_MORE, regions=1, on_storage_type=True)
def sort(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    """A negative dimension counts from the end."""
    operands = builder.operands(operation)
    scalars = [Shape.scalar(operand.shape.element_type) for operand in operands for _ in range(2)]
    body = builder.import_region(operation.regions[0], scalars)
    dimension = integer(operation, "dimension", -1)
    rank = operands[0].shape.rank if operands else 0
    attributes = SortAttributes.make(
        dimension=dimension + rank if dimension < 0 else dimension, is_stable=flag(operation, "is_stable")
    )
    return builder.unpack(builder.emit(opcodes.SORT, operands, attributes, (body,)), len(operands))


@rule("chlo.top_k", operands=1, results=2)
def top_k(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    stable = flag(operation, "is_stable", True)
    return emit_top_k(builder, builder.operands(operation), integer(operation, "k"), True, stable)


def emit_top_k(
    builder: ComputationBuilder, operands: Sequence[Instruction], k: int, largest: bool, is_stable: bool
) -> Sequence[Instruction]:
    """Emits a top-k and returns the largest (or smallest) elements of the last dimension and their indices."""
    attributes = TopKAttributes.make(k=k, largest=largest, is_stable=is_stable)
    return builder.unpack(builder.emit(opcodes.TOPK, operands, attributes), 2)
