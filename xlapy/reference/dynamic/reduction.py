"""Contractions, reductions, normalization and sorting on dynamic dimensions: at the actual sizes."""

from __future__ import annotations

from math import prod

from xlapy import opcodes
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.base.value import (
    array_of_bounds,
    pad_to_bounds,
    pad_value_to_bounds,
    sizes_of,
)
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.contraction import ContractionAttributes
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.sorting import TopKAttributes
from xlapy.reference.core import Device, Value, functions_of
from xlapy.reference.dynamic.core import (
    Operands,
    at_actual_sizes,
    cropped,
    cropped_pair,
    cropped_to_smallest,
    defines_dynamic,
    smallest_sizes,
)
from xlapy.reference.elements import array_of_shape
from xlapy.reference.reduction import fold, halves, reduced_rows, tabulate_rows


@defines_dynamic(opcodes.DOT)
def dot(device: Device, instruction: Instruction, operands: Operands) -> Value:
    a = instruction.attributes_as(ContractionAttributes)
    left, right = (*a.lhs_batch_dims, *a.lhs_contracting_dims), (*a.rhs_batch_dims, *a.rhs_contracting_dims)
    return at_actual_sizes(device, instruction, cropped_pair(operands[0], operands[1], zip(left, right, strict=True)))


@defines_dynamic(opcodes.CONVOLUTION)
def convolution(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """The padding of the window surrounds the elements within the actual sizes."""
    a, kernel = instruction.attributes_as(ConvolutionAttributes), instruction.operands[1].shape
    if any(kernel.dynamic_dimensions[d] for d in a.dim_labels.kernel_spatial_dimensions):
        raise UnsupportedError(
            codes.DYNAMIC_KERNEL, f"{describe_instruction(instruction)}: the kernel has a dynamic spatial dimension"
        )
    pair = (a.dim_labels.input_feature_dimension, a.dim_labels.kernel_input_feature_dimension)
    return at_actual_sizes(
        device, instruction, cropped_pair(operands[0], operands[1], [pair] if a.feature_group_count == 1 else [])
    )


@defines_dynamic(opcodes.REDUCE)
def reduce(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """The initial value is used whatever the sizes, unless the bounds of the reduced dimensions hold one element."""
    arrays, inits = halves(operands)
    fitting = cropped_to_smallest(arrays)
    if prod(instruction.operands[0].shape.dimensions[d] for d in instruction.dimensions) == 1:
        return at_actual_sizes(device, instruction, [*fitting, *inits])
    (reducer,) = functions_of(device, instruction)
    kept = [size for d, size in enumerate(fitting[0].shape) if d not in instruction.dimensions]
    shapes = [Shape.array(init.shape.element_type, kept) for init in instruction.operands[len(arrays) :]]
    sized = Instruction(instruction.op, Shape.tuple(shapes) if instruction.shape.is_tuple else shapes[0])
    result = tabulate_rows(
        sized, lambda index: fold(reducer, inits, reduced_rows(fitting, instruction.dimensions, index))
    )
    return pad_value_to_bounds(result, instruction.shape)


@defines_dynamic(opcodes.REDUCE_WINDOW)
def reduce_window(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """The padding of the window surrounds the elements within the actual sizes."""
    arrays, inits = halves(operands)
    return at_actual_sizes(device, instruction, [*cropped_to_smallest(arrays), *inits])


@defines_dynamic(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """A source with too few elements is filled up with the initial value."""
    operand, source, init = operands
    sizes = instruction.attributes_as(WindowAttributes).window.output_sizes(sizes_of(operand))
    whole = array_of_shape(Shape.array(instruction.shape.element_type, sizes), lambda _: init[()])
    fitting = array_of_bounds(pad_to_bounds(cropped(source, sizes), sizes, onto=whole))
    return at_actual_sizes(device, instruction, [operand, fitting, init])


@defines_dynamic(opcodes.BATCH_NORM_GRAD, opcodes.BATCH_NORM_INFERENCE, opcodes.BATCH_NORM_TRAINING)
def batch_norm(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Arrays are cropped to the smallest sizes, and the vectors of features accordingly."""
    wide = (0, 4) if instruction.op is opcodes.BATCH_NORM_GRAD else (0,)
    feature = instruction.attributes_as(BatchNormAttributes).feature_index
    sizes = list(smallest_sizes(operands[k] for k in wide))
    sizes[feature] = min(sizes[feature], *(sizes_of(v)[0] for k, v in enumerate(operands) if k not in wide))
    fitting = [cropped(v, sizes if k in wide else [sizes[feature]]) for k, v in enumerate(operands)]
    return at_actual_sizes(device, instruction, fitting)


@defines_dynamic(opcodes.SORT)
def sort(device: Device, instruction: Instruction, operands: Operands) -> Value:
    return at_actual_sizes(device, instruction, cropped_to_smallest(operands))


@defines_dynamic(opcodes.TOPK)
def topk(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """All elements if there are fewer than k."""
    k = min(instruction.attributes_as(TopKAttributes).k, sizes_of(operands[0])[-1])
    return at_actual_sizes(device, instruction, operands, k=k)
