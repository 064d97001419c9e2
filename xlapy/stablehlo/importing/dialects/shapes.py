"""Import rules of MLIR's dialects shape and tensor, which programs with unknown sizes use.

A shape is imported as a vector of s64, a size or index as a scalar. The values of such instructions are evaluated by
`core.constant_evaluation`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, S64
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.error_codes.formats import stablehlo_text as text_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape_fields import MAX_ARRAY_RANK
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import DimensionAttributes, DynamicSliceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import Ints, array, as_integers, flag, integer, integers
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder, single_block
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, Results, rule
from xlapy.stablehlo.importing.dialects.arithmetic import check_holds, compare
from xlapy.stablehlo.importing.dynamic import constant_size, dynamic_reshape
from xlapy.stablehlo.importing.movement import emit_slice

_ARITHMETIC: dict[str, OpDef] = {
    "shape.add": opcodes.ADD,
    "shape.div": opcodes.DIVIDE,
    "shape.max": opcodes.MAXIMUM,
    "shape.min": opcodes.MINIMUM,
    "shape.mul": opcodes.MULTIPLY,
}


@rule(*_ARITHMETIC, operands=2)
def arithmetic(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports arithmetic on sizes. Sizes are not negative, so that rounding the quotient toward zero is right."""
    return builder.emit(_ARITHMETIC[operation.name], builder.operands(operation))


# -- shapes


@rule("shape.const_shape", operands=0)
def const_shape(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return _vector(builder, integers(operation, "shape"))


@rule("shape.const_size", operands=0)
def const_size(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.scalar(integer(operation, "value"), S64)


def _vector(builder: ComputationBuilder, numbers: Sequence[int]) -> Instruction:
    return builder.constant(np.array(numbers, np.int64))


@rule("shape.shape_of", operands=1)
def shape_of(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    if not operand.shape.is_dynamic:
        return _vector(builder, operand.shape.dimensions)
    return _stack_scalars(builder, [_size(builder, operand, dimension) for dimension in range(operand.shape.rank)])


def _size(builder: ComputationBuilder, operand: Instruction, dimension: int) -> Instruction:
    """Returns the size of a dimension as an s64 scalar."""
    if not operand.shape.dynamic_dimensions[dimension]:
        return builder.scalar(operand.shape.dimensions[dimension], S64)
    attributes = DimensionAttributes.make(dimension=dimension)
    return builder.convert(builder.emit(opcodes.GET_DIMENSION_SIZE, (operand,), attributes), S64)


def _stack_scalars(builder: ComputationBuilder, scalars: Sequence[Instruction]) -> Instruction:
    """Returns a vector of the scalars."""
    if not scalars:
        return _vector(builder, ())
    vectors = [builder.reshape(scalar, (1,)) for scalar in scalars]
    return vectors[0] if len(vectors) == 1 else _concatenate(builder, vectors)


def _concatenate(builder: ComputationBuilder, vectors: Sequence[Instruction]) -> Instruction:
    return builder.emit(opcodes.CONCATENATE, vectors, DimensionAttributes.make(dimension=0))


def _length(vector: Instruction) -> int:
    """Returns the number of sizes in a shape. Raises `ShapeError` if it is not a vector that can be one."""
    shape = vector.shape
    if shape.rank != 1 or shape.dimensions[0] > MAX_ARRAY_RANK:
        raise ShapeError(
            operation_codes.SIZE_VECTOR,
            f"a shape is a vector of at most {MAX_ARRAY_RANK} sizes, not {shape.to_text(layout=False)}",
        )
    return shape.dimensions[0]


def _vector_elements(builder: ComputationBuilder, vector: Instruction) -> list[Instruction]:
    """Returns the elements of a vector of sizes as scalars."""
    indices = range(_length(vector))
    return [builder.reshape(emit_slice(builder, vector, (index,), (index + 1,), (1,)), ()) for index in indices]


@rule("tensor.dim", "shape.dim", operands=2)
def dim(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operand, index = builder.operands(operation)
    return _size(builder, operand, _constant_dimension(builder, index, operand.shape.rank))


def _constant_dimension(builder: ComputationBuilder, index: Instruction, rank: int) -> int:
    """Returns the number of a dimension from a scalar, which must be constant."""
    dimension = constant_size(builder, index, "the number of the dimension")
    if not 0 <= dimension < rank:
        raise ShapeError(shared.DIMENSION_NUMBER, f"there is no dimension {dimension} in a shape of rank {rank}")
    return dimension


@rule("shape.get_extent", operands=2)
def get_extent(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    vector, index = builder.operands(operation)
    return _vector_elements(builder, vector)[_constant_dimension(builder, index, _length(vector))]


@rule("shape.rank", "tensor.rank", operands=1)
def rank(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    is_shape = operation.name == "shape.rank"
    return builder.scalar(_length(operand) if is_shape else operand.shape.rank, S64)


@rule("shape.num_elements", operands=1)
def num_elements(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (vector,) = builder.operands(operation)
    product = builder.scalar(1, S64)
    for size in _vector_elements(builder, vector):
        product = builder.emit(opcodes.MULTIPLY, (product, size))
    return product


@rule("shape.concat", operands=2)
def concat(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return _concatenate(builder, builder.operands(operation))


@rule("shape.split_at", operands=2, results=2)
def split_at(builder: ComputationBuilder, operation: ir.Operation) -> Results:
    """Splits a shape in two. A negative index counts from the end."""
    vector, index = builder.operands(operation)
    count = _length(vector)
    position = constant_size(builder, index, "the index of the split")
    if not -count <= position <= count:
        raise ShapeError(shared.DIMENSION_NUMBER, f"a shape of {count} sizes cannot be split at {position}")
    position %= count + (position >= 0)
    return [emit_slice(builder, vector, (low,), (high,), (1,)) for low, high in ((0, position), (position, count))]


@rule("shape.any", operands=ONE_OR_MORE)
def any_(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.operands(operation)[0]


@rule(
    *("shape.from_extent_tensor", "shape.index_to_size", "shape.size_to_index", "shape.to_extent_tensor"),
    *("shape.value_as_shape", "tensor.cast"),
    operands=1,
)
def cast(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports operations that change the MLIR type only, not the value."""
    (operand,) = builder.operands(operation)
    return builder.convert(operand, S64) if operation.name == "shape.value_as_shape" else operand


@rule("shape.from_extents")
def from_extents(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return _stack_scalars(builder, builder.operands(operation))


@rule("shape.broadcast", operands=ONE_OR_MORE)
def broadcast(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Computes the shape that all operands broadcast to, aligned at the last dimension."""
    first, *others = _align_ranks(builder, builder.operands(operation))
    for other in others:
        first = [
            builder.emit(opcodes.SELECT, (compare(builder, "EQ", a, builder.scalar(1, S64)), b, a))
            for a, b in zip(first, other, strict=True)
        ]
    return _stack_scalars(builder, first)


def _align_ranks(builder: ComputationBuilder, vectors: Sequence[Instruction]) -> list[list[Instruction]]:
    """Returns the sizes of each shape, with leading ones up to the greatest rank."""
    sizes = [_vector_elements(builder, vector) for vector in vectors]
    longest = max(map(len, sizes))
    return [[builder.scalar(1, S64)] * (longest - len(each)) + each for each in sizes]


# -- conditions


@rule("shape.is_broadcastable", "shape.cstr_broadcastable", operands=ONE_OR_MORE)
def is_broadcastable(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Computes whether the sizes of each dimension are equal or 1."""
    one, all_fit = builder.scalar(1, S64), builder.scalar(True, PRED)
    for sizes in zip(*_align_ranks(builder, builder.operands(operation)), strict=True):
        for number, a in enumerate(sizes):
            for b in sizes[:number]:
                each = [compare(builder, "EQ", *pair) for pair in ((a, b), (a, one), (b, one))]
                fits = builder.emit(opcodes.OR, (builder.emit(opcodes.OR, each[:2]), each[2]))
                all_fit = builder.emit(opcodes.AND, (all_fit, fits))
    return all_fit


@rule("shape.shape_eq", "shape.cstr_eq", operands=ONE_OR_MORE)
def shape_eq(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    first, *others = builder.operands(operation)
    equal = builder.scalar(all(other.shape == first.shape for other in others), PRED)
    for other in others:
        if other.shape == first.shape:
            for pair in zip(_vector_elements(builder, first), _vector_elements(builder, other), strict=True):
                equal = builder.emit(opcodes.AND, (equal, compare(builder, "EQ", *pair)))
    return equal


@rule("shape.cstr_require", operands=1)
def cstr_require(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.operands(operation)[0]


@rule("shape.const_witness", operands=0)
def const_witness(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.scalar(flag(operation, "passing"), PRED)


@rule("shape.assuming_all", operands=ONE_OR_MORE)
def assuming_all(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    first, *others = builder.operands(operation)
    for other in others:
        first = builder.emit(opcodes.AND, (first, other))
    return first


@rule("shape.assuming", operands=1, results=None, regions=1)
def assuming(builder: ComputationBuilder, operation: ir.Operation) -> Results:
    """Checks the condition during the import and inlines the region."""
    check_holds(builder, builder.operands(operation)[0], "the condition of shape.assuming")
    block = single_block(operation.regions[0])
    if not block.operations or block.operations[-1].name != "shape.assuming_yield":
        raise ShapeError(codes.REGION_BLOCK, "its region must end in shape.assuming_yield")
    builder.import_operations(block.operations[:-1])
    return builder.operands(block.operations[-1])


# -- tensors


@rule("tensor.from_elements")
def from_elements(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    shape = builder.declared_shape(operation.results[0])
    operands = builder.operands(operation)
    if len(operands) != shape.size:
        raise ShapeError(
            text_codes.ELEMENT_COUNT,
            f"{shape.to_text(layout=False)} has {shape.size} elements, but got {len(operands)}",
        )
    if not operands:
        return builder.constant(np.zeros(shape.dimensions, shape.dtype), shape)
    return builder.reshape(_stack_scalars(builder, operands), shape.dimensions)


@rule("tensor.splat", operands=1)
def splat(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.broadcast(builder.operands(operation)[0], builder.declared_shape(operation.results[0]))


@rule("tensor.extract", operands=ONE_OR_MORE)
def extract(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operand, *indices = builder.operands(operation)
    if len(indices) != operand.shape.rank:
        raise ShapeError(
            operation_codes.SIZE_VECTOR,
            f"{operand.shape.to_text(layout=False)} takes {operand.shape.rank} indices, but got {len(indices)}",
        )
    if not indices:
        return operand
    ones = (1,) * operand.shape.rank
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=ones)
    return builder.reshape(builder.emit(opcodes.DYNAMIC_SLICE, (operand, *indices), attributes), ())


@rule("tensor.reshape", operands=2)
def reshape(builder: ComputationBuilder, operation: ir.Operation) -> Results:
    return dynamic_reshape(builder, operation)


@rule("tensor.collapse_shape", operands=1)
def collapse(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Merges groups of adjacent dimensions."""
    (operand,) = builder.operands(operation)
    if operand.shape.is_dynamic:
        raise UnsupportedError(
            codes.STATIC_OPERAND,
            f"dimensions of {operand.shape.to_text(layout=False)} cannot be merged, as sizes are known only at run "
            "time",
        )
    groups: list[Ints] = [as_integers(group, "reassociation") for group in array(operation, "reassociation")]
    if [dimension for group in groups for dimension in group] != list(range(operand.shape.rank)):
        raise ShapeError(
            operation_codes.REASSOCIATION,
            f"reassociation {groups} does not group the dimensions of {operand.shape.to_text(layout=False)} in order",
        )
    sizes = operand.shape.dimensions
    return builder.reshape(operand, [math.prod(sizes[dimension] for dimension in group) for group in groups])
