"""XLA's custom calls for dynamic dimensions, which its dynamic padder and the builder create.

Responsible for padding to static shapes and back, and for SAME padding computed from sizes at run time. Operands and
results may have dynamic dimensions or not. Does not depend on how windows are evaluated (see the ordinary rules).
Source: DynamicConvForward, -InputGrad and -KernelGrad of xla_builder.h; XLA's dynamic padder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.shape import Shape
from xlapy.base.value import DynamicArray, actual_array, array_of_bounds, pad_value_to_bounds, sizes_of
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.builtin_targets.signatures import require_signature
from xlapy.interpreter.core import RULES, Array, Context, InterpreterRule, Value
from xlapy.interpreter.dynamic.convolution import crop_paired_features
from xlapy.interpreter.dynamic.core import check_size
from xlapy.interpreter.dynamic.reduction import fit_source_to_windows
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Window, WindowDimension, dilated, same_padding
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.custom import CustomCallAttributes, PaddingType
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.requirements import compatible_ignoring_dynamic

# -- conversion between dynamic and static


def _check_pad_to_static(instruction: Instruction) -> None:
    shapes, sizes = instruction.operand_shapes, [Shape.scalar(S32)]
    fits = len(shapes) == 1 and shapes[0].is_array
    fits = fits and compatible_ignoring_dynamic(Shape.tuple([shapes[0], *sizes * shapes[0].rank]), instruction.shape)
    require_signature(
        instruction, fits, "an array and returns (the static array, the size of each dimension in s32 ...)"
    )


def _pad_to_static(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    return array_of_bounds(values[0]), *(np.array(size, np.int32) for size in sizes_of(values[0]))


def _check_slice_to_dynamic(instruction: Instruction) -> None:
    shapes = instruction.operand_shapes
    fits = bool(shapes) and compatible_ignoring_dynamic(shapes[0], instruction.shape) and instruction.shape.is_array
    fits = fits and shapes[1:] == (Shape.scalar(S32),) * shapes[0].rank
    require_signature(
        instruction, fits, "an array and the size of each dimension in s32, and returns the dynamic array"
    )


def _slice_to_dynamic(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    bounds = instruction.shape
    sizes = [check_size(instruction, int(size), dimension, bounds) for dimension, size in enumerate(values[1:])]
    return DynamicArray(array_of_bounds(values[0]), tuple(sizes))


# -- windows with SAME padding


def _check_window(count: int) -> Callable[[Instruction], None]:
    def check(instruction: Instruction) -> None:
        window = instruction.attributes_as(CustomCallAttributes).window
        fits = len(instruction.operands) == count and window is not None and instruction.shape.is_array
        fits = fits and window is not None and len(window.dimensions) == instruction.shape.rank
        require_signature(instruction, fits, f"{count} operands and a window with a dimension for each of the first")

    return check


def _window(instruction: Instruction) -> Window:
    """Returns the window, which `_check_window` and `_check_convolution` require."""
    window = instruction.attributes_as(CustomCallAttributes).window
    assert window is not None
    return window


def _same_window(instruction: Instruction, sizes: Sequence[int]) -> Window:
    """Returns the window with SAME padding for the sizes at run time, in dynamic dimensions that the window covers."""
    rows = zip(_window(instruction).dimensions, instruction.operands[0].shape.dynamic_dimensions, sizes, strict=True)
    moved = [_same(d, size) if dynamic and d != WindowDimension(1) else d for d, dynamic, size in rows]
    return Window(tuple(moved))


def _same(dimension: WindowDimension, size: int) -> WindowDimension:
    low, high = same_padding(size, dimension.dilated_size, dimension.stride)
    return replace(dimension, padding_low=low, padding_high=high)


def _reduce_window(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    array = actual_array(values[0])
    attributes = WindowAttributes.make(window=_same_window(instruction, array.shape))
    return _evaluate(context, opcodes.REDUCE_WINDOW, instruction, [array, values[1]], attributes)


def _select_and_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    operand, source, init = values
    array = actual_array(operand)
    window = _same_window(instruction, array.shape)
    arrays = [array, fit_source_to_windows(array, source, init, window), init]
    return _evaluate(context, opcodes.SELECT_AND_SCATTER, instruction, arrays, WindowAttributes.make(window=window))


def _evaluate(
    context: Context, op: OpDef, instruction: Instruction, arrays: Sequence[Array], attributes: Attributes
) -> Value:
    """Applies the ordinary rule of an op to arrays of actual sizes, which are the last operands of a custom call."""
    operands = instruction.operands[-len(arrays) :]
    shapes = [Shape.array(o.shape.element_type, a.shape) for a, o in zip(arrays, operands, strict=True)]
    inferred = op.result_shape(shapes, attributes, [c.program_shape for c in instruction.computations])
    shape = inferred.with_element_type(instruction.shape.element_type)
    called = Instruction(op, shape, operands, attributes, instruction.computations, instruction.name)
    return pad_value_to_bounds(RULES.find(op)(context, called, arrays), instruction.shape)


# -- convolutions


def _check_convolution(count: int) -> Callable[[Instruction], None]:
    def check(instruction: Instruction) -> None:
        given = instruction.attributes_as(CustomCallAttributes)
        fits = len(instruction.operands) == count and None not in (given.window, given.dim_labels)
        require_signature(instruction, fits and instruction.shape.is_array, f"{count} operands, window and dim_labels")

    return check


def _dim_labels(instruction: Instruction) -> ConvDimensions:
    """Returns the dimension labels, which `_check_convolution` requires."""
    labels = instruction.attributes_as(CustomCallAttributes).dim_labels
    assert labels is not None
    return labels


def _convolve(
    context: Context, instruction: Instruction, lhs: Array, rhs: Array, spatial: Sequence[WindowDimension]
) -> Value:
    given = instruction.attributes_as(CustomCallAttributes)
    attributes = ConvolutionAttributes.make(
        window=Window(tuple(spatial)),
        dim_labels=_dim_labels(instruction),
        feature_group_count=given.feature_group_count,
        batch_group_count=given.batch_group_count,
    )
    return _evaluate(context, opcodes.CONVOLUTION, instruction, [lhs, rhs], attributes)


def _forward(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Convolves the elements within the actual sizes; SAME padding is computed from those sizes."""
    numbers = _dim_labels(instruction)
    attributes = instruction.attributes_as(CustomCallAttributes)
    lhs, rhs = crop_paired_features(values, numbers, attributes.feature_group_count)
    flags = instruction.operands[0].shape.dynamic_dimensions
    same = attributes.padding_type is PaddingType.SAME
    rows = zip(_window(instruction).dimensions, numbers.input_spatial_dimensions, strict=True)
    spatial = [_same(window, lhs.shape[d]) if same and flags[d] else window for window, d in rows]
    return _convolve(context, instruction, lhs, rhs, spatial)


def _input_gradient(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Computes the gradient of the input, whose sizes are operand 0; the convolution's strides become dilations."""
    numbers, input_sizes = _dim_labels(instruction), values[0]
    gradient, kernel = crop_paired_features(
        values[1:], numbers, instruction.attributes_as(CustomCallAttributes).feature_group_count
    )
    flags = instruction.operands[1].shape.dynamic_dimensions
    spatial: list[WindowDimension] = []
    for window, d, out in zip(
        _window(instruction).dimensions,
        numbers.input_spatial_dimensions,
        numbers.output_spatial_dimensions,
        strict=True,
    ):
        if flags[d]:
            size = check_size(instruction, int(input_sizes[d]), out, instruction.shape)
            window = _input_gradient_window(instruction, window, size, gradient.shape[d])
        spatial.append(window)
    return _convolve(context, instruction, gradient, kernel, spatial)


def _input_gradient_window(
    instruction: Instruction, window: WindowDimension, size: int, positions: int
) -> WindowDimension:
    """Returns the window that gives `size` input gradients from the gradients at `positions` window positions."""
    reach = window.dilated_size - 1
    forward = WindowDimension(window.size, window.base_dilation, window_dilation=window.window_dilation)
    low = reach - (
        _same(forward, size).padding_low
        if instruction.attributes_as(CustomCallAttributes).padding_type is PaddingType.SAME
        else 0
    )
    return replace(window, padding_low=low, padding_high=size + reach - low - dilated(positions, window.base_dilation))


def _kernel_gradient(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Computes the gradient of the kernel: the output gradients are a window over the activations."""
    numbers = _dim_labels(instruction)
    activations, gradients = crop_paired_features(
        values, numbers, instruction.attributes_as(CustomCallAttributes).feature_group_count
    )
    flags = instruction.operands[0].shape.dynamic_dimensions
    spatial: list[WindowDimension] = []
    for window, d, taps, out in zip(
        _window(instruction).dimensions,
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
        strict=True,
    ):
        window = replace(window, size=gradients.shape[taps])
        if flags[d]:
            kernel, size = instruction.shape.dimensions[out], activations.shape[d]
            window = _kernel_gradient_window(instruction, window, kernel, size)
        spatial.append(window)
    return _convolve(context, instruction, activations, gradients, spatial)


def _kernel_gradient_window(
    instruction: Instruction, window: WindowDimension, kernel: int, size: int
) -> WindowDimension:
    """Returns the window of gradients, which has `kernel` positions over `size` activations."""
    forward = WindowDimension(kernel, window.window_dilation, window_dilation=window.stride)
    low = (
        _same(forward, size).padding_low
        if instruction.attributes_as(CustomCallAttributes).padding_type is PaddingType.SAME
        else 0
    )
    extent = window.dilated_size + (kernel - 1) * window.stride
    return replace(window, padding_low=low, padding_high=extent - low - size)


DYNAMIC_TARGETS: dict[str, tuple[Callable[[Instruction], None], InterpreterRule]] = {
    "PadToStatic": (_check_pad_to_static, _pad_to_static),
    "SliceToDynamic": (_check_slice_to_dynamic, _slice_to_dynamic),
    "DynamicReduceWindowSamePadding": (_check_window(2), _reduce_window),
    "DynamicSelectAndScatterSamePadding": (_check_window(3), _select_and_scatter),
    "DynamicConvolutionForward": (_check_convolution(2), _forward),
    "DynamicConvolutionInputGrad": (_check_convolution(3), _input_gradient),
    "DynamicConvolutionKernelGrad": (_check_convolution(2), _kernel_gradient),
}
"""For each target name, a check of the instruction and the rule that evaluates it."""
