"""Import rules of CHLO's special functions and of its operations that broadcast their operands.

A special function that HLO has no opcode for is inlined as the instructions of its approximation, which
`xlapy.builder.mathematics` defines. Operands are broadcast as in NumPy. The CHLO operations that HLO has are in the
module of their family.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_operations as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp, mathematics
from xlapy.builder.sources import parameter
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integers
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.elementwise import DIRECT_OPCODES, emit_compare, emit_extremum

Emit = Callable[[ComputationBuilder, Sequence[Instruction]], Instruction]

_FUNCTIONS: dict[str, Callable[..., XlaOp]] = {
    "bessel_i1e": mathematics.bessel_i1e,
    "conj": mathematics.conjugate,
    "digamma": mathematics.digamma,
    "erf_inv": mathematics.erf_inv,
    "erfc": mathematics.erfc,
    "is_inf": mathematics.is_inf,
    "is_neg_inf": mathematics.is_neg_inf,
    "is_pos_inf": mathematics.is_pos_inf,
    "lgamma": mathematics.lgamma,
    "next_after": mathematics.next_after,
    "polygamma": mathematics.polygamma,
    "square": mathematics.square,
    "zeta": mathematics.zeta,
}

_BINARY_FUNCTIONS = frozenset({"next_after", "polygamma", "zeta"})


@functools.lru_cache(maxsize=256)
def _function_computation(name: str, shapes: tuple[Shape, ...]) -> XlaComputation:
    """Builds the computation of a special function for parameters with these shapes."""
    xla_builder = XlaBuilder(name)
    operands = [parameter(xla_builder, number, shape, f"x{number}") for number, shape in enumerate(shapes)]
    return xla_builder.build(_FUNCTIONS[name](*operands))


def _emit_function(name: str, builder: ComputationBuilder, operands: Sequence[Instruction]) -> Instruction:
    """Inlines the instructions of a special function."""
    arity = 2 if name in _BINARY_FUNCTIONS else 1
    if len(operands) != arity or any(operand.shape != operands[0].shape for operand in operands):
        given = ", ".join(operand.shape.to_text(layout=False) for operand in operands)
        raise ShapeError(codes.SAME_SHAPES, f"{name} takes {arity} operands with the same shape, but got ({given})")
    computation = _function_computation(name, tuple([operand.shape.without_layout() for operand in operands]))
    return builder.inline(computation.module.entry_computation, operands)


@rule(*(f"chlo.{name}" for name in _FUNCTIONS))
def special_function(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return _emit_function(operation.name.removeprefix("chlo."), builder, builder.operands(operation))


# -- broadcasting

_BROADCASTING_OPCODES: dict[str, OpDef] = {
    f"chlo.broadcast_{name.removeprefix('stablehlo.')}": DIRECT_OPCODES[name]
    for name in (
        "stablehlo.add",
        "stablehlo.and",
        "stablehlo.atan2",
        "stablehlo.complex",
        "stablehlo.divide",
        "stablehlo.multiply",
        "stablehlo.or",
        "stablehlo.power",
        "stablehlo.remainder",
        "stablehlo.shift_left",
        "stablehlo.shift_right_arithmetic",
        "stablehlo.shift_right_logical",
        "stablehlo.subtract",
        "stablehlo.xor",
    )
}


@rule(*_BROADCASTING_OPCODES, operands=2)
def broadcast_elementwise(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.emit(_BROADCASTING_OPCODES[operation.name], broadcast_operands(builder, operation))


@rule("chlo.broadcast_maximum", "chlo.broadcast_minimum", operands=2)
def broadcast_extremum(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return emit_extremum(
        builder, operation.name.removeprefix("chlo.broadcast_"), broadcast_operands(builder, operation)
    )


@rule("chlo.broadcast_compare", operands=2)
def broadcast_compare(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return emit_compare(builder, operation, broadcast_operands(builder, operation))


@rule("chlo.broadcast_next_after", "chlo.broadcast_polygamma", "chlo.broadcast_zeta", operands=2)
def broadcast_function(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    name = operation.name.removeprefix("chlo.broadcast_")
    return _emit_function(name, builder, broadcast_operands(builder, operation))


@rule("chlo.broadcast_select", operands=3)
def broadcast_select(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Broadcasts all three operands, aligned at their last dimensions."""
    operands = builder.operands(operation)
    sizes = broadcast_sizes([operand.shape.dimensions for operand in operands])
    return builder.emit(opcodes.SELECT, [broadcast_to(builder, operand, sizes) for operand in operands])


def broadcast_operands(builder: ComputationBuilder, operation: ir.Operation) -> list[Instruction]:
    """Broadcasts the two operands of an operation to the shape of its result.

    Dimensions are aligned at the last one, unless `broadcast_dimensions` maps the dimensions of the operand with the
    lower rank to those of the other. A dimension of size 1 is expanded.
    """
    lhs, rhs = builder.operands(operation)
    given = integers(operation, "broadcast_dimensions", ())
    if given and lhs.shape.rank != rhs.shape.rank:
        if lhs.shape.rank < rhs.shape.rank:
            lhs = _expand_rank(builder, lhs, given, rhs.shape.rank)
        else:
            rhs = _expand_rank(builder, rhs, given, lhs.shape.rank)
    sizes = broadcast_sizes([lhs.shape.dimensions, rhs.shape.dimensions])
    return [broadcast_to(builder, operand, sizes) for operand in (lhs, rhs)]


def _expand_rank(
    builder: ComputationBuilder, operand: Instruction, dimensions: Sequence[int], rank: int
) -> Instruction:
    """Makes the operand's dimensions the given ones of a higher rank; all other dimensions have size 1."""
    if len(dimensions) != operand.shape.rank or any(not 0 <= dimension < rank for dimension in dimensions):
        raise ShapeError(
            codes.BROADCAST_DIMENSIONS,
            f"broadcast_dimensions {list(dimensions)} do not map {operand.shape.to_text(layout=False)} to rank {rank}",
        )
    sizes = [1] * rank
    for size, dimension in zip(operand.shape.dimensions, dimensions, strict=True):
        sizes[dimension] = size
    shape = Shape.array(operand.shape.element_type, sizes)
    return builder.broadcast_in_dim(operand, shape, dimensions)


def broadcast_sizes(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Returns the sizes that all shapes broadcast to, aligned at the last dimensions."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(sizes)) + tuple(sizes) for sizes in shapes]
    common: list[int] = []
    for column in zip(*padded, strict=True):
        distinct = {size for size in column if size != 1} or {1}
        if len(distinct) > 1:
            raise ShapeError(
                codes.BROADCAST_SHAPES, f"shapes {', '.join(str(list(sizes)) for sizes in shapes)} do not broadcast"
            )
        common.append(distinct.pop())
    return tuple(common)


def broadcast_to(builder: ComputationBuilder, operand: Instruction, sizes: Sequence[int]) -> Instruction:
    """Broadcasts the operand to the given sizes, aligned at the last dimensions."""
    if operand.shape.dimensions == tuple(sizes):
        return operand
    first = len(sizes) - operand.shape.rank
    shape = Shape.array(operand.shape.element_type, sizes)
    return builder.broadcast_in_dim(operand, shape, range(first, len(sizes)))
