"""Import rules of random numbers: rng and rng_bit_generator."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.random import RandomAlgorithm, RandomDistribution, RngAttributes, RngBitGeneratorAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import text
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.dynamic import check_sizes, constant_sizes

_DISTRIBUTIONS = {"UNIFORM": RandomDistribution.UNIFORM, "NORMAL": RandomDistribution.NORMAL}
_ALGORITHMS = {
    "DEFAULT": RandomAlgorithm.DEFAULT,
    "THREE_FRY": RandomAlgorithm.THREE_FRY,
    "PHILOX": RandomAlgorithm.PHILOX,
}


@rule("stablehlo.rng", operands=3)
def rng(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports uniform numbers between a and b, or normal numbers with mean a and standard deviation b.

    The third operand is the shape.
    """
    a, b, sizes = builder.operands(operation)
    name = text(operation, "rng_distribution")
    if name not in _DISTRIBUTIONS:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no distribution {name!r}")
    shape = builder.declared_shape(
        operation.results[0], lambda: Shape.array(a.shape.element_type, constant_sizes(builder, sizes, "its shape"))
    )
    check_sizes(builder, shape, sizes)
    attributes = RngAttributes.make(distribution=_DISTRIBUTIONS[name])
    return builder.emit(opcodes.RNG, (a, b), attributes, shape=shape)


@rule("stablehlo.rng_bit_generator", operands=1, results=2)
def rng_bit_generator(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    return emit_rng_bit_generator(
        builder, operation, builder.operands(operation), builder.declared_shape(operation.results[1])
    )


def emit_rng_bit_generator(
    builder: ComputationBuilder, operation: ir.Operation, operands: Sequence[Instruction], bits: Shape
) -> Sequence[Instruction]:
    """Emits the generator and returns the next state and the random bits, which have the shape `bits`."""
    name = text(operation, "rng_algorithm")
    if name not in _ALGORITHMS:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no algorithm {name!r}")
    attributes = RngBitGeneratorAttributes.make(algorithm=_ALGORITHMS[name])
    shape = Shape.tuple([operands[0].shape, bits])
    return builder.unpack(builder.emit(opcodes.RNG_BIT_GENERATOR, operands, attributes, shape=shape), 2)
