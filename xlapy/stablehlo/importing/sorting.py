"""Import rules: sorting.

Owns: sort, and CHLO's top_k. Must not know: what comparators compute.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import flag, integer
from xlapy.stablehlo.importing.core.rules import SOME, rule
from xlapy.stablehlo.importing.core.scope import Scope


@rule("stablehlo.sort", operands=SOME, results=SOME, regions=1, stored=True)
def sort(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    """A negative dimension counts from the end."""
    operands = scope.operands(operation)
    scalars = [Shape.scalar(operand.shape.element_type) for operand in operands for _ in range(2)]
    body = scope.body(operation.regions[0], scalars)
    dimension = integer(operation, "dimension", -1)
    rank = operands[0].shape.rank if operands else 0
    attributes = SortAttributes.make(
        dimension=dimension + rank if dimension < 0 else dimension, is_stable=flag(operation, "is_stable")
    )
    return scope.elements(scope.emit(opcodes.SORT, operands, attributes, (body,)), len(operands))


@rule("chlo.top_k", operands=1, results=2)
def top_k(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    stable = flag(operation, "is_stable", True)
    return emit_top_k(scope, scope.operands(operation), integer(operation, "k"), True, stable)


def emit_top_k(
    scope: Scope, operands: Sequence[Instruction], k: int, largest: bool, is_stable: bool
) -> Sequence[Instruction]:
    """The greatest (or least) elements of the last dimension, and where they stand."""
    attributes = TopKAttributes.make(k=k, largest=largest, is_stable=is_stable)
    return scope.elements(scope.emit(opcodes.TOPK, operands, attributes), 2)
