"""Import rules: random numbers.

Owns: rng, rng_bit_generator. Must not know: how they are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.random import RandomAlgorithm, RandomDistribution, RngAttributes, RngBitGeneratorAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import text
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.dynamic import check_sizes, sizes_of

_DISTRIBUTIONS = {"UNIFORM": RandomDistribution.UNIFORM, "NORMAL": RandomDistribution.NORMAL}
_ALGORITHMS = {
    "DEFAULT": RandomAlgorithm.DEFAULT,
    "THREE_FRY": RandomAlgorithm.THREE_FRY,
    "PHILOX": RandomAlgorithm.PHILOX,
}


@rule("stablehlo.rng", operands=3)
def rng(scope: Scope, operation: ir.Operation) -> Instruction:
    """Numbers between a and b, or of mean a and deviation b; the third operand is the shape."""
    a, b, sizes = scope.operands(operation)
    name = text(operation, "rng_distribution")
    if name not in _DISTRIBUTIONS:
        raise ShapeError(f"there is no distribution {name!r}")
    shape = scope.declared(
        operation.results[0], lambda: Shape.array(a.shape.element_type, sizes_of(scope, sizes, "its shape"))
    )
    check_sizes(scope, shape, sizes)
    attributes = RngAttributes.make(distribution=_DISTRIBUTIONS[name])
    return scope.emit(opcodes.RNG, (a, b), attributes, shape=shape)


@rule("stablehlo.rng_bit_generator", operands=1, results=2)
def rng_bit_generator(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    return emit_bits(scope, operation, scope.operands(operation), scope.declared(operation.results[1]))


def emit_bits(
    scope: Scope, operation: ir.Operation, operands: Sequence[Instruction], bits: Shape
) -> Sequence[Instruction]:
    """The next state and random bits in a shape."""
    name = text(operation, "rng_algorithm")
    if name not in _ALGORITHMS:
        raise ShapeError(f"there is no algorithm {name!r}")
    attributes = RngBitGeneratorAttributes.make(algorithm=_ALGORITHMS[name])
    shape = Shape.tuple([operands[0].shape, bits])
    return scope.elements(scope.emit(opcodes.RNG_BIT_GENERATOR, operands, attributes, shape=shape), 2)
