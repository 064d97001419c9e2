"""Import rules: operations of CHLO that HLO has no op for, and those that broadcast their operands.

Owns: special functions in place of an operation, broadcasting as NumPy does. Must not know: the approximations
(`builder/mathematics`). Operations of CHLO that HLO has are in the file of their family.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp, mathematics
from xlapy.builder.sources import parameter
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integers
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.elementwise import PLAIN, emit_compare, emit_extremum

Emit = Callable[[Scope, Sequence[Instruction]], Instruction]

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

_OF_TWO = frozenset({"next_after", "polygamma", "zeta"})


@functools.lru_cache(maxsize=256)
def _computation(name: str, shapes: tuple[Shape, ...]) -> XlaComputation:
    """A function as a computation of arrays of these shapes."""
    builder = XlaBuilder(name)
    operands = [parameter(builder, number, shape, f"x{number}") for number, shape in enumerate(shapes)]
    return builder.build(_FUNCTIONS[name](*operands))


def _emit_function(name: str, scope: Scope, operands: Sequence[Instruction]) -> Instruction:
    """A special function, its operations in place."""
    wanted = 2 if name in _OF_TWO else 1
    if len(operands) != wanted or any(operand.shape != operands[0].shape for operand in operands):
        given = ", ".join(operand.shape.to_text(layout=False) for operand in operands)
        raise ShapeError(f"{name} takes {wanted} operands of one shape, given are ({given})")
    computation = _computation(name, tuple([operand.shape.without_layout() for operand in operands]))
    return scope.put_in_place(computation.module.entry_computation, operands)


@rule(*(f"chlo.{name}" for name in _FUNCTIONS))
def function(scope: Scope, operation: ir.Operation) -> Instruction:
    """Of one operand, or of two of one shape."""
    return _emit_function(operation.name.removeprefix("chlo."), scope, scope.operands(operation))


# -- broadcasting

_BROADCASTING: dict[str, OpDef] = {
    f"chlo.broadcast_{name.removeprefix('stablehlo.')}": PLAIN[name]
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


@rule(*_BROADCASTING, operands=2)
def broadcasting(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.emit(_BROADCASTING[operation.name], broadcast_pair(scope, operation))


@rule("chlo.broadcast_maximum", "chlo.broadcast_minimum", operands=2)
def broadcast_extremum(scope: Scope, operation: ir.Operation) -> Instruction:
    return emit_extremum(scope, operation.name.removeprefix("chlo.broadcast_"), broadcast_pair(scope, operation))


@rule("chlo.broadcast_compare", operands=2)
def broadcast_compare(scope: Scope, operation: ir.Operation) -> Instruction:
    return emit_compare(scope, operation, broadcast_pair(scope, operation))


@rule("chlo.broadcast_next_after", "chlo.broadcast_polygamma", "chlo.broadcast_zeta", operands=2)
def broadcast_function(scope: Scope, operation: ir.Operation) -> Instruction:
    name = operation.name.removeprefix("chlo.broadcast_")
    return _emit_function(name, scope, broadcast_pair(scope, operation))


@rule("chlo.broadcast_select", operands=3)
def broadcast_select(scope: Scope, operation: ir.Operation) -> Instruction:
    """All three operands are broadcast, aligned at their last dimensions."""
    operands = scope.operands(operation)
    sizes = common_sizes([operand.shape.dimensions for operand in operands])
    return scope.emit(opcodes.SELECT, [broadcast_to(scope, operand, sizes) for operand in operands])


def broadcast_pair(scope: Scope, operation: ir.Operation) -> list[Instruction]:
    """The two operands in the shape of the result.

    Dimensions are aligned at the last ones, or `broadcast_dimensions` says which of the operand of higher rank those of
    the other are; a dimension of size 1 is stretched.
    """
    lhs, rhs = scope.operands(operation)
    given = integers(operation, "broadcast_dimensions", ())
    if given and lhs.shape.rank != rhs.shape.rank:
        if lhs.shape.rank < rhs.shape.rank:
            lhs = _placed(scope, lhs, given, rhs.shape.rank)
        else:
            rhs = _placed(scope, rhs, given, lhs.shape.rank)
    sizes = common_sizes([lhs.shape.dimensions, rhs.shape.dimensions])
    return [broadcast_to(scope, operand, sizes) for operand in (lhs, rhs)]


def _placed(scope: Scope, operand: Instruction, dimensions: Sequence[int], rank: int) -> Instruction:
    """The operand with dimensions of size 1 around its own, which become those given."""
    if len(dimensions) != operand.shape.rank or any(not 0 <= dimension < rank for dimension in dimensions):
        raise ShapeError(
            f"broadcast_dimensions {list(dimensions)} do not place {operand.shape.to_text(layout=False)} in rank {rank}"
        )
    sizes = [1] * rank
    for size, dimension in zip(operand.shape.dimensions, dimensions, strict=True):
        sizes[dimension] = size
    shape = Shape.array(operand.shape.element_type, sizes)
    return scope.broadcast_in_dim(operand, shape, dimensions)


def common_sizes(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The sizes that all shapes can be stretched to, aligned at the last dimensions."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(sizes)) + tuple(sizes) for sizes in shapes]
    common: list[int] = []
    for column in zip(*padded, strict=True):
        wanted = {size for size in column if size != 1} or {1}
        if len(wanted) > 1:
            raise ShapeError(f"shapes {', '.join(str(list(sizes)) for sizes in shapes)} do not broadcast")
        common.append(wanted.pop())
    return tuple(common)


def broadcast_to(scope: Scope, operand: Instruction, sizes: Sequence[int]) -> Instruction:
    """The operand with the given sizes, aligned at the last dimensions."""
    if operand.shape.dimensions == tuple(sizes):
        return operand
    first = len(sizes) - operand.shape.rank
    shape = Shape.array(operand.shape.element_type, sizes)
    return scope.broadcast_in_dim(operand, shape, range(first, len(sizes)))
