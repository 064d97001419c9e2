"""Import rules: operations whose sizes are operands.

Owns: dynamic reshapes, broadcasts, slices, pads, gathers, convolutions and iotas. Must not know: how sizes come about
(`constants.py` evaluates them).

Sizes that follow from the program and the shapes of its arguments make the ordinary operation. Where the result has
bounds (`#stablehlo.bounds`), sizes that are known only at run time make dynamic dimensions of HLO.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32, Array
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import DimensionAttributes, DynamicSliceAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.convolution import emit_convolution
from xlapy.stablehlo.importing.core.attributes import Ints, integer, integers
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import element_type, known_shape, type_text
from xlapy.stablehlo.importing.indexing import emit_gather
from xlapy.stablehlo.importing.movement import emit_pad, emit_slice
from xlapy.stablehlo.importing.sources import emit_iota

_DEEPEST = 8


def sizes_of(scope: Scope, sizes: Instruction, what: str) -> Ints:
    """The numbers in a vector that follows from the program; `UnsupportedError` for one known only at run time."""
    found = scope.program.constants.value_of(sizes)
    if found is None:
        raise UnsupportedError(
            f"{what} ({sizes.name}) is not known before the program runs; give the shapes of the arguments "
            "(argument_shapes), or bounds"
        )
    flat: list[int] = found.ravel().tolist()
    return tuple(flat)


def _result_shape(scope: Scope, operation: ir.Operation, sizes: Instruction, what: str) -> tuple[Shape, bool]:
    """The shape of a result whose sizes an operand lists, and whether some are known only at run time."""
    declared = operation.results[0].type
    known = known_shape(declared)
    if known is not None and known.is_static:
        check_sizes(scope, known, sizes)
        return known, False
    found = scope.program.constants.value_of(sizes)
    if found is None and known is not None:
        return known, True
    if not isinstance(declared, ir.TensorType | ir.UnrankedTensorType):
        raise ShapeError(f"it gives a tensor, declared is {type_text(declared)}")
    return Shape.array(element_type(declared.element), sizes_of(scope, sizes, what)), False


def check_sizes(scope: Scope, shape: Shape, sizes: Instruction) -> None:
    """`ShapeError` where an operand is known to list other sizes than those of the declared result."""
    if sizes.shape.rank != 1 or sizes.shape.dimensions[0] != shape.rank:
        raise ShapeError(
            f"the sizes of {shape.to_text(layout=False)} are a vector of "
            f"{shape.rank}, given is {sizes.shape.to_text(layout=False)}"
        )
    found = scope.program.constants.value_of(sizes)
    if found is not None and found.tolist() != list(shape.dimensions):
        raise ShapeError(
            f"its result is declared {shape.to_text(layout=False)}, its sizes are given as {found.tolist()}"
        )


def _cut(scope: Scope, whole: Instruction, shape: Shape, sizes: Instruction) -> Instruction:
    """An array of the bounds, with the sizes of its dynamic dimensions set to those in a vector."""
    for dimension in range(shape.rank):
        if shape.dynamic_dimensions[dimension]:
            size = _entry(scope, sizes, dimension)
            whole = scope.emit(opcodes.SET_DIMENSION_SIZE, (whole, size), DimensionAttributes.make(dimension=dimension))
    return whole


def _entry(scope: Scope, vector: Instruction, place: int) -> Instruction:
    """An element of a vector as an s32 scalar."""
    one = emit_slice(scope, vector, (place,), (place + 1,), (1,))
    return scope.convert(scope.reshape(one, ()), S32)


def _bounds(shape: Shape) -> Shape:
    return Shape.array(shape.element_type, shape.dimensions)


@rule("stablehlo.dynamic_reshape", operands=2)
def dynamic_reshape(scope: Scope, operation: ir.Operation) -> Instruction:
    operand, sizes = scope.operands(operation)
    shape, at_run_time = _result_shape(scope, operation, sizes, "the shape of its result")
    if not at_run_time:
        return scope.reshape(operand, shape.dimensions)
    entries = [_entry(scope, sizes, place) for place in range(shape.rank)]
    return scope.emit(opcodes.DYNAMIC_RESHAPE, (operand, *entries), shape=shape)


@rule("stablehlo.dynamic_broadcast_in_dim", operands=2)
def dynamic_broadcast_in_dim(scope: Scope, operation: ir.Operation) -> Instruction:
    """Dimensions of size 1 are stretched; which those are must be known."""
    operand, sizes = scope.operands(operation)
    shape, at_run_time = _result_shape(scope, operation, sizes, "the shape of its result")
    dimensions = integers(operation, "broadcast_dimensions")
    if not at_run_time:
        return scope.broadcast_in_dim(operand, shape, dimensions)
    if operand.shape.is_dynamic:
        raise UnsupportedError(
            f"a broadcast of {operand.shape.to_text(layout=False)} to sizes that are known only at run time"
        )
    return _cut(scope, scope.broadcast_in_dim(operand, _bounds(shape), dimensions), shape, sizes)


@rule("stablehlo.dynamic_iota", operands=1)
def dynamic_iota(scope: Scope, operation: ir.Operation) -> Instruction:
    (sizes,) = scope.operands(operation)
    shape, at_run_time = _result_shape(scope, operation, sizes, "the shape of its result")
    whole = emit_iota(scope, _bounds(shape), integer(operation, "iota_dimension"))
    return _cut(scope, whole, shape, sizes) if at_run_time else whole


@rule("stablehlo.dynamic_pad", operands=5)
def dynamic_pad(scope: Scope, operation: ir.Operation) -> Instruction:
    operand, value, *paddings = scope.operands(operation)
    low, high, interior = _each(scope, paddings, ("the padding before", "the padding behind", "the padding between"))
    return emit_pad(scope, operand, value, low, high, interior)


@rule("stablehlo.real_dynamic_slice", operands=4)
def real_dynamic_slice(scope: Scope, operation: ir.Operation) -> Instruction:
    """A slice with limits in operands. Where it starts may be known at run time only if its extent follows."""
    operand, starts, limits, strides = scope.operands(operation)
    known = scope.program.constants.value_of(starts)
    if known is None:
        return _slice_at(scope, operation, operand, starts, limits, sizes_of(scope, strides, "its stride"))
    named = zip((starts, limits, strides), ("where it starts", "where it ends", "its stride"), strict=True)
    return emit_slice(scope, operand, *[sizes_of(scope, vector, name) for vector, name in named])


def _slice_at(
    scope: Scope, operation: ir.Operation, operand: Instruction, starts: Instruction, limits: Instruction, strides: Ints
) -> Instruction:
    """A slice of known extent from a place known at run time."""
    declared = known_shape(operation.results[0].type)
    if declared is not None and declared.is_static:
        sizes = zip(declared.dimensions, strides, strict=True)
        extent = tuple([(size - 1) * stride + 1 if size else 0 for size, stride in sizes])
    else:
        found = _distance(scope, limits, starts)
        if found is None:
            sizes_of(scope, starts, "where it starts")
            raise AssertionError("a distance is known wherever both ends are")
        extent = tuple([int(each) for each in found.ravel()])
    places = [_entry(scope, starts, place) for place in range(len(extent))]
    cut = scope.emit(opcodes.DYNAMIC_SLICE, (operand, *places), DynamicSliceAttributes.make(dynamic_slice_sizes=extent))
    return emit_slice(scope, cut, (0,) * len(extent), extent, strides)


def _distance(scope: Scope, limits: Instruction, starts: Instruction, depth: int = 0) -> Array | None:
    """limits - starts where that is known though they are not: `starts + 2`, or vectors put together of such."""
    if _same(limits, starts):
        return np.zeros(starts.shape.dimensions, np.int64)
    values = [scope.program.constants.value_of(each) for each in (limits, starts)]
    if values[0] is not None and values[1] is not None:
        return np.asarray(values[0] - values[1])
    if limits.op is opcodes.ADD:
        for base, other in (limits.operands, reversed(limits.operands)):
            if _same(base, starts):
                return scope.program.constants.value_of(other)
    if limits.op is not starts.op or limits.op not in (opcodes.CONCATENATE, opcodes.RESHAPE) or depth > _DEEPEST:
        return None
    if len(limits.operands) != len(starts.operands):
        return None
    pairs = zip(limits.operands, starts.operands, strict=True)
    parts = [_distance(scope, limit, start, depth + 1) for limit, start in pairs]
    known = [np.ravel(part) for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _same(a: Instruction, b: Instruction, depth: int = 0) -> bool:
    """Whether two instructions compute the same from the same."""
    if a is b:
        return True
    if a.op is not b.op or a.attributes != b.attributes or a.shape != b.shape or a.op is opcodes.PARAMETER:
        return False
    if depth > _DEEPEST or len(a.operands) != len(b.operands) or a.computations or not a.operands:
        return bool(a.op is opcodes.CONSTANT)
    return all(_same(x, y, depth + 1) for x, y in zip(a.operands, b.operands, strict=True))


def _each(scope: Scope, vectors: Sequence[Instruction], names: Sequence[str]) -> list[Ints]:
    return [sizes_of(scope, vector, name) for vector, name in zip(vectors, names, strict=True)]


@rule("stablehlo.dynamic_gather", operands=3)
def dynamic_gather(scope: Scope, operation: ir.Operation) -> Instruction:
    operand, indices, sizes = scope.operands(operation)
    return emit_gather(scope, operation, (operand, indices), sizes_of(scope, sizes, "the size of its slices"))


@rule("stablehlo.dynamic_conv", operands=3)
def dynamic_conv(scope: Scope, operation: ir.Operation) -> Instruction:
    lhs, rhs, padding = scope.operands(operation)
    found = scope.program.constants.value_of(padding)
    if found is None:
        sizes_of(scope, padding, "its padding")
    return emit_convolution(scope, operation, (lhs, rhs), found)
