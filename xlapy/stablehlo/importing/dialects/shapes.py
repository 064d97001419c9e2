"""Import rules: operations of MLIR's own dialects shape and tensor, as programs with open sizes have them.

Owns: shapes as vectors of s64, sizes and indices as scalars. Must not know: how sizes come about (`constants.py`
evaluates them).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, S64
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import DimensionAttributes, DynamicSliceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import Ints, as_integers, flag, integer, integers, required
from xlapy.stablehlo.importing.core.rules import SOME, Results, rule
from xlapy.stablehlo.importing.core.scope import Scope, only_block
from xlapy.stablehlo.importing.dialects.arithmetic import compare, holds
from xlapy.stablehlo.importing.dynamic import dynamic_reshape, sizes_of
from xlapy.stablehlo.importing.movement import emit_slice

_ARITHMETIC: dict[str, OpDef] = {
    "shape.add": opcodes.ADD,
    "shape.div": opcodes.DIVIDE,
    "shape.max": opcodes.MAXIMUM,
    "shape.min": opcodes.MINIMUM,
    "shape.mul": opcodes.MULTIPLY,
}


@rule(*_ARITHMETIC, operands=2)
def arithmetic(scope: Scope, operation: ir.Operation) -> Instruction:
    """Sizes are not negative, so that every quotient is rounded towards zero."""
    return scope.emit(_ARITHMETIC[operation.name], scope.operands(operation))


# -- shapes


@rule("shape.const_shape", operands=0)
def const_shape(scope: Scope, operation: ir.Operation) -> Instruction:
    return _vector(scope, integers(operation, "shape"))


@rule("shape.const_size", operands=0)
def const_size(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.scalar(integer(operation, "value"), S64)


def _vector(scope: Scope, numbers: Sequence[int]) -> Instruction:
    return scope.constant(np.array(numbers, np.int64))


@rule("shape.shape_of", operands=1)
def shape_of(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    if not operand.shape.is_dynamic:
        return _vector(scope, operand.shape.dimensions)
    return _together(scope, [_size(scope, operand, dimension) for dimension in range(operand.shape.rank)])


def _size(scope: Scope, operand: Instruction, dimension: int) -> Instruction:
    """How long an array is along a dimension, as a scalar."""
    if not operand.shape.dynamic_dimensions[dimension]:
        return scope.scalar(operand.shape.dimensions[dimension], S64)
    attributes = DimensionAttributes.make(dimension=dimension)
    return scope.convert(scope.emit(opcodes.GET_DIMENSION_SIZE, (operand,), attributes), S64)


def _together(scope: Scope, scalars: Sequence[Instruction]) -> Instruction:
    """Scalars as a vector."""
    if not scalars:
        return _vector(scope, ())
    rows = [scope.reshape(scalar, (1,)) for scalar in scalars]
    return rows[0] if len(rows) == 1 else _concatenated(scope, rows)


def _concatenated(scope: Scope, vectors: Sequence[Instruction]) -> Instruction:
    return scope.emit(opcodes.CONCATENATE, vectors, DimensionAttributes.make(dimension=0))


def _entries(scope: Scope, vector: Instruction) -> list[Instruction]:
    """The elements of a vector."""
    places = range(vector.shape.dimensions[0])
    return [scope.reshape(emit_slice(scope, vector, (place,), (place + 1,), (1,)), ()) for place in places]


@rule("tensor.dim", "shape.dim", operands=2)
def dim(scope: Scope, operation: ir.Operation) -> Instruction:
    operand, index = scope.operands(operation)
    return _size(scope, operand, _place(scope, index, operand.shape.rank))


def _place(scope: Scope, index: Instruction, count: int) -> int:
    (place,) = sizes_of(scope, index, "which dimension is meant")
    if not 0 <= place < count:
        raise ShapeError(f"there is no dimension {place}, only {count}")
    return place


@rule("shape.get_extent", operands=2)
def get_extent(scope: Scope, operation: ir.Operation) -> Instruction:
    vector, index = scope.operands(operation)
    return _entries(scope, vector)[_place(scope, index, vector.shape.dimensions[0])]


@rule("shape.rank", "tensor.rank", operands=1)
def rank(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    is_shape = operation.name == "shape.rank"
    return scope.scalar(operand.shape.dimensions[0] if is_shape else operand.shape.rank, S64)


@rule("shape.num_elements", operands=1)
def num_elements(scope: Scope, operation: ir.Operation) -> Instruction:
    (vector,) = scope.operands(operation)
    product = scope.scalar(1, S64)
    for entry in _entries(scope, vector):
        product = scope.emit(opcodes.MULTIPLY, (product, entry))
    return product


@rule("shape.concat", operands=2)
def concat(scope: Scope, operation: ir.Operation) -> Instruction:
    return _concatenated(scope, scope.operands(operation))


@rule("shape.split_at", operands=2, results=2)
def split_at(scope: Scope, operation: ir.Operation) -> Results:
    """A negative index counts from the end."""
    vector, index = scope.operands(operation)
    count = vector.shape.dimensions[0]
    (place,) = sizes_of(scope, index, "where the shape is split")
    if not -count <= place <= count:
        raise ShapeError(f"a shape of {count} sizes is not split at {place}")
    place %= count + (place >= 0)
    return [emit_slice(scope, vector, (low,), (high,), (1,)) for low, high in ((0, place), (place, count))]


@rule("shape.any", operands=SOME)
def any_(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.operands(operation)[0]


@rule(
    *("shape.from_extent_tensor", "shape.index_to_size", "shape.size_to_index", "shape.to_extent_tensor"),
    *("shape.value_as_shape", "tensor.cast"),
    operands=1,
)
def same(scope: Scope, operation: ir.Operation) -> Instruction:
    """The same value of another type."""
    (operand,) = scope.operands(operation)
    return scope.convert(operand, S64) if operation.name == "shape.value_as_shape" else operand


@rule("shape.from_extents")
def from_extents(scope: Scope, operation: ir.Operation) -> Instruction:
    return _together(scope, scope.operands(operation))


@rule("shape.broadcast", operands=SOME)
def broadcast(scope: Scope, operation: ir.Operation) -> Instruction:
    """The shape that all stretch to: sizes counted from the last, where that is 1 the other one."""
    first, *others = _aligned(scope, scope.operands(operation))
    for other in others:
        first = [
            scope.emit(opcodes.SELECT, (compare(scope, "EQ", a, scope.scalar(1, S64)), b, a))
            for a, b in zip(first, other, strict=True)
        ]
    return _together(scope, first)


def _aligned(scope: Scope, vectors: Sequence[Instruction]) -> list[list[Instruction]]:
    """The sizes of shapes, with ones in front up to the same rank."""
    sizes = [_entries(scope, vector) for vector in vectors]
    longest = max(map(len, sizes))
    return [[scope.scalar(1, S64)] * (longest - len(each)) + each for each in sizes]


# -- conditions


@rule("shape.is_broadcastable", "shape.cstr_broadcastable", operands=SOME)
def is_broadcastable(scope: Scope, operation: ir.Operation) -> Instruction:
    """Whether sizes at one place are the same, those of 1 aside."""
    one, holds_ = scope.scalar(1, S64), scope.scalar(True, PRED)
    for sizes in zip(*_aligned(scope, scope.operands(operation)), strict=True):
        for number, a in enumerate(sizes):
            for b in sizes[:number]:
                each = [compare(scope, "EQ", *pair) for pair in ((a, b), (a, one), (b, one))]
                fits = scope.emit(opcodes.OR, (scope.emit(opcodes.OR, each[:2]), each[2]))
                holds_ = scope.emit(opcodes.AND, (holds_, fits))
    return holds_


@rule("shape.shape_eq", "shape.cstr_eq", operands=SOME)
def shape_eq(scope: Scope, operation: ir.Operation) -> Instruction:
    first, *others = scope.operands(operation)
    equal = scope.scalar(all(other.shape == first.shape for other in others), PRED)
    for other in others:
        if other.shape == first.shape:
            for pair in zip(_entries(scope, first), _entries(scope, other), strict=True):
                equal = scope.emit(opcodes.AND, (equal, compare(scope, "EQ", *pair)))
    return equal


@rule("shape.cstr_require", operands=1)
def cstr_require(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.operands(operation)[0]


@rule("shape.const_witness", operands=0)
def const_witness(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.scalar(flag(operation, "passing"), PRED)


@rule("shape.assuming_all", operands=SOME)
def assuming_all(scope: Scope, operation: ir.Operation) -> Instruction:
    first, *others = scope.operands(operation)
    for other in others:
        first = scope.emit(opcodes.AND, (first, other))
    return first


@rule("shape.assuming", operands=1, results=None, regions=1)
def assuming(scope: Scope, operation: ir.Operation) -> Results:
    """What is inside, where the condition is known to hold."""
    holds(scope, scope.operands(operation)[0], "the condition of shape.assuming")
    block = only_block(operation.regions[0])
    if not block.operations or block.operations[-1].name != "shape.assuming_yield":
        raise ShapeError("its region ends in shape.assuming_yield")
    for inner in block.operations[:-1]:
        scope.execute(inner)
    return scope.operands(block.operations[-1])


# -- tensors


@rule("tensor.from_elements")
def from_elements(scope: Scope, operation: ir.Operation) -> Instruction:
    shape = scope.declared(operation.results[0])
    operands = scope.operands(operation)
    if len(operands) != shape.size:
        raise ShapeError(f"{shape.to_text(layout=False)} has {shape.size} elements, given are {len(operands)}")
    if not operands:
        return scope.constant(np.zeros(shape.dimensions, shape.dtype), shape)
    return scope.reshape(_together(scope, operands), shape.dimensions)


@rule("tensor.splat", operands=1)
def splat(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.broadcast(scope.operands(operation)[0], scope.declared(operation.results[0]))


@rule("tensor.extract", operands=SOME)
def extract(scope: Scope, operation: ir.Operation) -> Instruction:
    operand, *indices = scope.operands(operation)
    if len(indices) != operand.shape.rank:
        raise ShapeError(
            f"an element of {operand.shape.to_text(layout=False)} "
            f"has {operand.shape.rank} indices, given {len(indices)}"
        )
    if not indices:
        return operand
    ones = (1,) * operand.shape.rank
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=ones)
    return scope.reshape(scope.emit(opcodes.DYNAMIC_SLICE, (operand, *indices), attributes), ())


@rule("tensor.reshape", operands=2)
def reshape(scope: Scope, operation: ir.Operation) -> Results:
    return dynamic_reshape(scope, operation)


@rule("tensor.collapse_shape", operands=1)
def collapse(scope: Scope, operation: ir.Operation) -> Instruction:
    """Neighbouring dimensions become one."""
    (operand,) = scope.operands(operation)
    if operand.shape.is_dynamic:
        raise UnsupportedError(
            f"dimensions of {operand.shape.to_text(layout=False)}, whose sizes are known only at run time, collapse"
        )
    groups: list[Ints] = [as_integers(group, "reassociation") for group in required(operation, "reassociation")]
    if [dimension for group in groups for dimension in group] != list(range(operand.shape.rank)):
        raise ShapeError(
            f"reassociation {groups} does not group the dimensions of {operand.shape.to_text(layout=False)} in order"
        )
    sizes = operand.shape.dimensions
    return scope.reshape(operand, [math.prod(sizes[dimension] for dimension in group) for group in groups])
