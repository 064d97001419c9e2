"""Import rules of operations whose sizes are operands: dynamic reshapes, broadcasts, slices, pads and the like.

If the sizes follow from the program and the shapes of its arguments (see `core.constant_evaluation`), the operation is
imported as its static counterpart. If they are known only at run time, but the result has bounds (`#stablehlo.bounds`),
the result gets dynamic dimensions.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32, Array
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import DimensionAttributes, DynamicSliceAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.convolution import emit_convolution
from xlapy.stablehlo.importing.core.attributes import Ints, integer, integers
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.types import element_type, known_shape, type_text
from xlapy.stablehlo.importing.indexing import emit_gather
from xlapy.stablehlo.importing.movement import emit_pad, emit_slice
from xlapy.stablehlo.importing.sources import emit_iota

_MAX_COMPARED_DEPTH = 8
"""How many levels of operands are compared to find out that two computations of sizes agree."""


def constant_sizes(builder: ComputationBuilder, sizes: Instruction, what: str) -> Ints:
    """Returns the numbers in a vector of sizes. Raises `UnsupportedError` if they are known only at run time.

    `what` names the vector in the message.
    """
    found = builder.context.constants.value_of(sizes)
    if found is None:
        raise UnsupportedError(
            codes.KNOWN_SIZES,
            f"{what} ({sizes.name}) is not known before the program runs; give the shapes of the arguments "
            "(argument_shapes), or bounds",
        )
    if found.dtype.kind not in "iu":
        raise ShapeError(
            operation_codes.SIZE_VECTOR, f"{what} must be integers, but are {sizes.shape.to_text(layout=False)}"
        )
    flat: list[int] = found.ravel().tolist()
    return tuple(flat)


def constant_size(builder: ComputationBuilder, size: Instruction, what: str) -> int:
    """Returns the only number in a scalar or a vector of one size; raises as `constant_sizes` does."""
    sizes = constant_sizes(builder, size, what)
    if len(sizes) != 1:
        raise ShapeError(
            operation_codes.SIZE_VECTOR, f"{what} must be one integer, but is {size.shape.to_text(layout=False)}"
        )
    return sizes[0]


def _result_shape(
    builder: ComputationBuilder, operation: ir.Operation, sizes: Instruction, what: str
) -> tuple[Shape, bool]:
    """Returns the shape of a result whose sizes an operand lists, and whether some sizes are known only at run time."""
    declared = operation.results[0].type
    known = known_shape(declared)
    if known is not None and known.is_static:
        check_sizes(builder, known, sizes)
        return known, False
    found = builder.context.constants.value_of(sizes)
    if found is None and known is not None:
        return known, True
    if not isinstance(declared, ir.TensorType | ir.UnrankedTensorType):
        raise ShapeError(codes.TENSOR_VALUE, f"its result must be a tensor, but is declared {type_text(declared)}")
    return Shape.array(element_type(declared.element), constant_sizes(builder, sizes, what)), False


def check_sizes(builder: ComputationBuilder, shape: Shape, sizes: Instruction) -> None:
    """Raises `ShapeError` if a vector of sizes does not fit the declared shape or is known to differ from it."""
    if sizes.shape.rank != 1 or sizes.shape.dimensions[0] != shape.rank:
        raise ShapeError(
            operation_codes.SIZE_VECTOR,
            f"the sizes of {shape.to_text(layout=False)} must be a vector of {shape.rank}, "
            f"but got {sizes.shape.to_text(layout=False)}",
        )
    found = builder.context.constants.value_of(sizes)
    if found is not None and found.tolist() != list(shape.dimensions):
        raise ShapeError(
            codes.DECLARED_RESULT,
            f"its result is declared {shape.to_text(layout=False)}, but its sizes are {found.tolist()}",
        )


def _set_dynamic_sizes(
    builder: ComputationBuilder, operand: Instruction, shape: Shape, sizes: Instruction
) -> Instruction:
    """Sets the sizes of the dynamic dimensions of an array, which has the bounds as its sizes, from a vector."""
    for dimension in range(shape.rank):
        if shape.dynamic_dimensions[dimension]:
            size = _vector_element(builder, sizes, dimension)
            attributes = DimensionAttributes.make(dimension=dimension)
            operand = builder.emit(opcodes.SET_DIMENSION_SIZE, (operand, size), attributes)
    return operand


def _vector_element(builder: ComputationBuilder, vector: Instruction, index: int) -> Instruction:
    """Returns an element of a vector as an s32 scalar."""
    element = emit_slice(builder, vector, (index,), (index + 1,), (1,))
    return builder.convert(builder.reshape(element, ()), S32)


def _static_bounds(shape: Shape) -> Shape:
    """Returns the shape with its bounds as static sizes."""
    return Shape.array(shape.element_type, shape.dimensions)


@rule("stablehlo.dynamic_reshape", operands=2)
def dynamic_reshape(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operand, sizes = builder.operands(operation)
    shape, at_run_time = _result_shape(builder, operation, sizes, "the shape of its result")
    if not at_run_time:
        return builder.reshape(operand, shape.dimensions)
    elements = [_vector_element(builder, sizes, index) for index in range(shape.rank)]
    return builder.emit(opcodes.DYNAMIC_RESHAPE, (operand, *elements), shape=shape)


@rule("stablehlo.dynamic_broadcast_in_dim", operands=2)
def dynamic_broadcast_in_dim(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Expands dimensions of size 1. An operand with dynamic dimensions is not supported, as any may have size 1."""
    operand, sizes = builder.operands(operation)
    shape, at_run_time = _result_shape(builder, operation, sizes, "the shape of its result")
    dimensions = integers(operation, "broadcast_dimensions")
    if not at_run_time:
        return builder.broadcast_in_dim(operand, shape, dimensions)
    if operand.shape.is_dynamic:
        raise UnsupportedError(
            codes.STATIC_OPERAND,
            f"a broadcast of {operand.shape.to_text(layout=False)} to sizes that are known only at run time",
        )
    bounded = builder.broadcast_in_dim(operand, _static_bounds(shape), dimensions)
    return _set_dynamic_sizes(builder, bounded, shape, sizes)


@rule("stablehlo.dynamic_iota", operands=1)
def dynamic_iota(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (sizes,) = builder.operands(operation)
    shape, at_run_time = _result_shape(builder, operation, sizes, "the shape of its result")
    bounded = emit_iota(builder, _static_bounds(shape), integer(operation, "iota_dimension"))
    return _set_dynamic_sizes(builder, bounded, shape, sizes) if at_run_time else bounded


@rule("stablehlo.dynamic_pad", operands=5)
def dynamic_pad(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operand, value, *paddings = builder.operands(operation)
    names = ("its low padding", "its high padding", "its interior padding")
    low, high, interior = [constant_sizes(builder, vector, name) for vector, name in zip(paddings, names, strict=True)]
    return emit_pad(builder, operand, value, low, high, interior)


@rule("stablehlo.real_dynamic_slice", operands=4)
def real_dynamic_slice(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports a slice whose limits are operands.

    The start indices may be known only at run time if the size of the slice follows from the program; see
    `_emit_dynamic_slice`.
    """
    operand, starts, limits, strides = builder.operands(operation)
    known = builder.context.constants.value_of(starts)
    if known is None:
        constant_strides = constant_sizes(builder, strides, "its strides")
        return _emit_dynamic_slice(builder, operation, operand, starts, limits, constant_strides)
    named = zip((starts, limits, strides), ("its start indices", "its limit indices", "its strides"), strict=True)
    return emit_slice(builder, operand, *[constant_sizes(builder, vector, name) for vector, name in named])


def _emit_dynamic_slice(
    builder: ComputationBuilder,
    operation: ir.Operation,
    operand: Instruction,
    starts: Instruction,
    limits: Instruction,
    strides: Ints,
) -> Instruction:
    """Emits a dynamic-slice of known size at start indices known only at run time, and applies the strides to it."""
    declared = known_shape(operation.results[0].type)
    for vector in (starts, limits):
        if vector.shape.rank != 1 or vector.shape.dimensions[0] != operand.shape.rank:
            raise ShapeError(
                operation_codes.SIZE_VECTOR,
                f"the indices of a slice of {operand.shape.to_text(layout=False)} must be vectors of "
                f"{operand.shape.rank}, but got {vector.shape.to_text(layout=False)}",
            )
    if len(strides) != operand.shape.rank or (declared is not None and declared.rank != operand.shape.rank):
        raise ShapeError(
            operation_codes.LIST_LENGTHS,
            f"strides {list(strides)} do not fit {operand.shape.to_text(layout=False)} and the result",
        )
    if declared is not None and declared.is_static:
        sizes = zip(declared.dimensions, strides, strict=True)
        extent = tuple([(size - 1) * stride + 1 if size else 0 for size, stride in sizes])
    else:
        difference = _constant_difference(builder, limits, starts)
        if difference is None:
            constant_sizes(builder, starts, "its start indices")
            raise AssertionError("the difference of constant limits and starts is constant")
        extent = tuple([int(each) for each in difference.ravel()])
    indices = [_vector_element(builder, starts, dimension) for dimension in range(len(extent))]
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=extent)
    contiguous = builder.emit(opcodes.DYNAMIC_SLICE, (operand, *indices), attributes)
    return emit_slice(builder, contiguous, (0,) * len(extent), extent, strides)


def _constant_difference(
    builder: ComputationBuilder, limits: Instruction, starts: Instruction, depth: int = 0
) -> Array | None:
    """Returns `limits - starts` if it is constant, even if neither operand is; else None.

    Recognizes equal computations, `limits = starts + constant`, and concatenations and reshapes of such pairs.
    """
    if _are_identical(limits, starts):
        return np.zeros(starts.shape.dimensions, np.int64)
    values = [builder.context.constants.value_of(each) for each in (limits, starts)]
    if values[0] is not None and values[1] is not None:
        return np.asarray(values[0] - values[1])
    if limits.op is opcodes.ADD:
        for base, other in (limits.operands, reversed(limits.operands)):
            if _are_identical(base, starts):
                return builder.context.constants.value_of(other)
    if limits.op is not starts.op or limits.op not in (opcodes.CONCATENATE, opcodes.RESHAPE):
        return None
    if depth > _MAX_COMPARED_DEPTH:
        return None
    if len(limits.operands) != len(starts.operands):
        return None
    pairs = zip(limits.operands, starts.operands, strict=True)
    differences = [_constant_difference(builder, limit, start, depth + 1) for limit, start in pairs]
    known = [np.ravel(difference) for difference in differences if difference is not None]
    return np.concatenate(known) if len(known) == len(differences) else None


def _are_identical(a: Instruction, b: Instruction, depth: int = 0) -> bool:
    """Returns whether two instructions are the same computation of the same operands."""
    if a is b:
        return True
    if a.op is not b.op or a.attributes != b.attributes or a.shape != b.shape or a.op is opcodes.PARAMETER:
        return False
    if depth > _MAX_COMPARED_DEPTH or len(a.operands) != len(b.operands) or a.computations or not a.operands:
        return bool(a.op is opcodes.CONSTANT)
    return all(_are_identical(x, y, depth + 1) for x, y in zip(a.operands, b.operands, strict=True))


@rule("stablehlo.dynamic_gather", operands=3)
def dynamic_gather(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operand, indices, sizes = builder.operands(operation)
    return emit_gather(builder, operation, (operand, indices), constant_sizes(builder, sizes, "its slice sizes"))


@rule("stablehlo.dynamic_conv", operands=3)
def dynamic_conv(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    lhs, rhs, padding = builder.operands(operation)
    found = builder.context.constants.value_of(padding)
    if found is None:
        constant_sizes(builder, padding, "its padding")
    return emit_convolution(builder, operation, (lhs, rhs), found)
