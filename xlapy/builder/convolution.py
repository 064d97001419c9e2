"""Builder functions of convolutions, from default dimension numbers without dilation to the general form.

Responsible for the builder functions of `opcodes/convolution.py` and the custom calls for convolutions of dynamic size.
Does not depend on how products are summed.
Source: Conv, ConvWithGeneralPadding, ConvWithGeneralDimensions, ConvGeneral, ConvGeneralDilated of the specification;
DynamicConvForward, -InputGrad and -KernelGrad of xla_builder.h.

Arguments that all forms share:
`lhs`: the input, with a batch, a feature and n spatial dimensions.
`rhs`: the kernel, with an input feature, an output feature and n spatial dimensions.
`window_strides`: one per spatial dimension (empty: all 1).
`padding`: SAME, VALID or pairs (low, high); negative padding removes elements.
`feature_group_count`: input and output features are split into this number of groups, which are convolved separately.
`batch_group_count`: the batch and the output features are split likewise. At most one of the two counts is not 1.
`preferred_element_type`: the element type of the result; the default is the more precise of the operands' types.
`dimension_numbers`: the role of each dimension, also as text (`"b01f_01io->b01f"`); None for the default.
One of lhs and rhs may be a NumPy array, which becomes a constant of the other operand's element type.
Every function raises `BuilderError` at the caller's line if the arguments do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.shape import Shape
from xlapy.builder.contraction import PrecisionConfig, append_typed
from xlapy.builder.core.broadcasting import as_ints, constants_like
from xlapy.builder.core.builder import append, builder_of
from xlapy.builder.core.op import Operand, XlaOp
from xlapy.builder.core.padding import Padding, PaddingLike, dilated_sizes, make_padding
from xlapy.builder.elementwise import ElementType, element_type_of
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Window
from xlapy.opcodes.contraction import Algorithm
from xlapy.opcodes.convolution import CONVOLUTION, ConvolutionAttributes
from xlapy.opcodes.custom import CUSTOM_CALL, CustomCallAttributes, PaddingType

DimensionNumbers: TypeAlias = ConvDimensions | str | None


def conv(
    lhs: Operand,
    rhs: Operand,
    window_strides: Sequence[int],
    padding: PaddingLike,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """A convolution with default dimension numbers.

    Input and result are `[batch, feature, *spatial]`, the kernel is `[output feature, input feature, *spatial]`.
    """
    return conv_general(
        lhs,
        rhs,
        window_strides,
        padding,
        None,
        feature_group_count,
        batch_group_count,
        precision_config,
        preferred_element_type,
    )


conv_with_general_padding = conv
"""XLA's name for `conv` with padding given as pairs, which `conv` accepts too."""


def conv_general(
    lhs: Operand,
    rhs: Operand,
    window_strides: Sequence[int],
    padding: PaddingLike,
    dimension_numbers: DimensionNumbers,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """`conv` with explicit padding and dimension numbers."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        (),
        (),
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision_config,
        preferred_element_type,
    )


conv_with_general_dimensions = conv_general
"""XLA's name for `conv_general` with padding given by name, which `conv_general` accepts too."""


def conv_general_dilated(
    lhs: Operand,
    rhs: Operand,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: DimensionNumbers,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: ElementType | None = None,
    window_reversal: Sequence[bool] | None = None,
) -> XlaOp:
    """The general convolution.

    Dilation by d puts d - 1 holes between adjacent elements along a spatial dimension: of the input (a transposed
    convolution) by `lhs_dilation`, of the kernel (an atrous convolution) by `rhs_dilation`. `window_reversal` reverses
    the kernel along the selected dimensions.
    """
    builder = builder_of("convolution", (lhs, rhs))
    with builder.building("convolution"):
        left, right = constants_like(builder, lhs, rhs)
        attributes = _attributes(
            left,
            right,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            precision_config,
            window_reversal,
        )
        return append_typed(CONVOLUTION, (left, right), attributes, preferred_element_type)


def _attributes(
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: DimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision_config: PrecisionConfig | None,
    window_reversal: Sequence[bool] | None = None,
) -> ConvolutionAttributes:
    numbers = _numbers(dimension_numbers, lhs.shape)
    sizes = _spatial_sizes("kernel", rhs, numbers.kernel_spatial_dimensions)
    base = _spatial_sizes("input", lhs, numbers.input_spatial_dimensions)
    strides = as_ints("window_strides", window_strides)
    precision = precision_config or PrecisionConfig()
    outer, inner = as_ints("lhs_dilation", lhs_dilation), as_ints("rhs_dilation", rhs_dilation)
    pairs = make_padding(dilated_sizes(base, outer), dilated_sizes(sizes, inner), strides, padding)
    window = Window.make(sizes, strides, pairs, outer, inner, tuple(map(bool, window_reversal or ())))
    return ConvolutionAttributes.make(
        window=window,
        dim_labels=numbers,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        operand_precision=tuple(precision.operand_precision),
        algorithm=precision.algorithm,
    )


def _numbers(dimension_numbers: DimensionNumbers, lhs: Shape) -> ConvDimensions:
    if dimension_numbers is None:
        return ConvDimensions.default(max(lhs.rank - 2, 0))
    if isinstance(dimension_numbers, ConvDimensions):
        return dimension_numbers
    try:
        return ConvDimensions.parse(dimension_numbers)
    except ShapeError as error:
        raise InvalidArgumentError(error.code, f"dimension_numbers: {error.message}") from None


def _spatial_sizes(what: str, operand: XlaOp, dimensions: Sequence[int]) -> tuple[int, ...]:
    shape = operand.shape
    if not all(0 <= dimension < shape.rank for dimension in dimensions):
        raise ShapeError(
            shared.DIMENSION_NUMBER,
            f"{what} spatial dimensions {list(dimensions)} do not all exist in {shape.to_text(layout=False)}",
        )
    return tuple(shape.dimensions[dimension] for dimension in dimensions)


# -- convolutions whose padding depends on sizes known at run time


def dynamic_conv_forward(
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: DimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision_config: PrecisionConfig | None,
    padding_type: Padding | str,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """A convolution of an input of dynamic size; `padding_type` determines the padding at run time.

    Creates the custom call "DynamicConvolutionForward", which the dynamic padder replaces. A PrecisionConfig must not
    name an algorithm.
    """
    return _dynamic_conv(
        "DynamicConvolutionForward",
        (lhs, rhs),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision_config,
        padding_type,
        preferred_element_type,
    )


def dynamic_conv_input_grad(
    input_sizes: XlaOp,
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: DimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision_config: PrecisionConfig | None,
    padding_type: Padding | str,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """The gradient of a dynamic convolution with respect to its input, whose run-time sizes are `input_sizes`.

    Creates the custom call "DynamicConvolutionInputGrad"; lhs is the gradient of the result, rhs the kernel.
    """
    return _dynamic_conv(
        "DynamicConvolutionInputGrad",
        (input_sizes, lhs, rhs),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision_config,
        padding_type,
        preferred_element_type,
    )


def dynamic_conv_kernel_grad(
    activations: XlaOp,
    gradients: XlaOp,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: DimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision_config: PrecisionConfig | None,
    padding_type: Padding | str,
    preferred_element_type: ElementType | None = None,
) -> XlaOp:
    """The gradient of a dynamic convolution with respect to its kernel, which has static size.

    Creates the custom call "DynamicConvolutionKernelGrad".
    """
    return _dynamic_conv(
        "DynamicConvolutionKernelGrad",
        (activations, gradients),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision_config,
        padding_type,
        preferred_element_type,
        static=True,
    )


def _dynamic_conv(
    target: str,
    operands: Sequence[XlaOp],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: DimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision_config: PrecisionConfig | None,
    padding_type: Padding | str,
    preferred_element_type: ElementType | None,
    static: bool = False,
) -> XlaOp:
    """Creates the custom call. Its last two operands are the input and the kernel; its shape is that of their
    convolution.
    """
    lhs, rhs = operands[-2:]
    with builder_of(target, operands).building(target):
        given = _attributes(
            lhs,
            rhs,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            precision_config,
        )
        if given.algorithm is not Algorithm.UNSET:
            raise InvalidArgumentError(
                codes.DOT_ALGORITHM, f"a dynamic convolution takes no algorithm, given {given.algorithm.value}"
            )
        shape = CONVOLUTION.result_shape((lhs.shape, rhs.shape), given)
        if static:
            shape = shape.with_dimensions(shape.dimensions)
        if preferred_element_type is not None:
            shape = shape.with_element_type(element_type_of(preferred_element_type))
        attributes = CustomCallAttributes.make(
            window=given.window,
            dim_labels=given.dim_labels,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            operand_precision=given.operand_precision,
            padding_type=PaddingType[Padding(padding_type).name],
            custom_call_target=target,
        )
        return append(CUSTOM_CALL, operands, attributes, shape=shape)
