"""Import rules of convolutions, with their windows and dimension numbers.

The rule of `dynamic_conv`, whose padding is an operand, is in `dynamic`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.error_codes.operations import convolution as codes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Window
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.contraction import precision
from xlapy.stablehlo.importing.core.attributes import Fields, fields, flags, integer, integers, matrix, pairs
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.types import element_type


@rule("stablehlo.convolution", operands=2)
def convolution(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return emit_convolution(builder, operation, builder.operands(operation), matrix(operation, "padding"))


def emit_convolution(
    builder: ComputationBuilder, operation: ir.Operation, operands: Sequence[Instruction], padding: Array | None
) -> Instruction:
    """Emits a convolution of lhs and rhs with the attributes of an operation and the given padding."""
    numbers = _dimension_numbers(fields(operation, "dimension_numbers"))
    rank = operands[1].shape.rank
    if any(not 0 <= dimension < rank for dimension in numbers.kernel_spatial_dimensions):
        raise ShapeError(
            codes.CONVOLUTION_LABELS,
            f"kernel spatial dimensions {list(numbers.kernel_spatial_dimensions)} are not all dimensions of "
            f"{operands[1].shape.to_text(layout=False)}",
        )
    window = Window.make(
        [operands[1].shape.dimensions[dimension] for dimension in numbers.kernel_spatial_dimensions],
        integers(operation, "window_strides", ()),
        pairs(None if padding is None else np.asarray(padding), "padding"),
        integers(operation, "lhs_dilation", ()),
        integers(operation, "rhs_dilation", ()),
        flags(operation, "window_reversal"),
    )
    attributes = ConvolutionAttributes.make(
        window=window,
        dim_labels=numbers,
        feature_group_count=integer(operation, "feature_group_count", 1),
        batch_group_count=integer(operation, "batch_group_count", 1),
        operand_precision=precision(operation),
    )
    inferred = opcodes.CONVOLUTION.result_shape([operand.shape for operand in operands], attributes)
    declared = operation.results[0].type
    if isinstance(declared, ir.TensorType | ir.UnrankedTensorType):
        expressed = declared.element.expressed if isinstance(declared.element, ir.QuantizedType) else None
        inferred = inferred.with_element_type(expressed or element_type(declared.element))
    return builder.emit(opcodes.CONVOLUTION, operands, attributes, shape=inferred)


def _dimension_numbers(numbers: Fields) -> ConvDimensions:
    return ConvDimensions(
        numbers.integer("input_batch_dimension"),
        numbers.integer("input_feature_dimension"),
        numbers.integers("input_spatial_dimensions"),
        numbers.integer("kernel_input_feature_dimension"),
        numbers.integer("kernel_output_feature_dimension"),
        numbers.integers("kernel_spatial_dimensions"),
        numbers.integer("output_batch_dimension"),
        numbers.integer("output_feature_dimension"),
        numbers.integers("output_spatial_dimensions"),
    )
