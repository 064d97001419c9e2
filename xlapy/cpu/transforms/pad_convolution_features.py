"""Pads the input features of narrow convolutions, so that they fill the groups of dot instructions.

Example: an image of bf16[8,224,224,3] becomes bf16[8,224,224,4], and its kernel bf16[7,7,3,64] becomes bf16[7,7,4,64].
The processor multiplies pairs of features: two pairs take two thirds of the time of three features. The zeros of both
operands add nothing. Does not depend on kernels, or on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.plan import has_plan
from xlapy.cpu.transforms.canonicalize_convolutions import MIN_PRODUCTS, MIN_PRODUCTS_PER_MOVED_ELEMENT
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension
from xlapy.opcodes.convolution import ConvolutionAttributes, SparsityConfig
from xlapy.opcodes.movement import PadAttributes
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

MAX_GROWTH = 4 / 3
"""The largest factor by which features are padded: above it, the zeros take most of the time that groups save."""


@dataclass(frozen=True)
class PadConvolutionFeatures:
    """Pads input features that are the last dimension of the input, if there is one group of features.

    group_size: returns the number of features in a group of a convolution; 1 if the machine has no dot instruction for
    its types.
    """

    name: ClassVar[str] = "pad-convolution-features"
    group_size: Callable[[Instruction], int]

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in post_order(computation):
                if instruction.op is opcodes.CONVOLUTION and _can_be_padded(instruction):
                    changed |= _pad(instruction, self.group_size(instruction))
        return update_schedule(module, changed)


def _can_be_padded(convolution: Instruction) -> bool:
    attrs: ConvolutionAttributes = convolution.attributes_as(ConvolutionAttributes)
    arrays = [*convolution.operands, convolution]
    if any(array.shape.is_dynamic or not array.shape.size for array in arrays):
        return False
    if has_plan(convolution) or convolution.has_control_edges:
        return False
    is_plain = attrs.sparsity_config == SparsityConfig() and attrs.feature_group_count == attrs.batch_group_count == 1
    return is_plain and attrs.dim_labels.input_feature_dimension == convolution.shape.rank - 1


def _pad(convolution: Instruction, group_size: int) -> bool:
    """Pads the features of a convolution to whole groups if that saves time; returns whether it does."""
    numbers = convolution.attributes_as(ConvolutionAttributes).dim_labels
    input, kernel = convolution.operands
    features = input.shape.dimensions[-1]
    missing = -features % group_size
    if not missing or features + missing > MAX_GROWTH * features:
        return False
    outputs = kernel.shape.dimensions[numbers.kernel_output_feature_dimension]
    products = convolution.shape.size * (kernel.shape.size // outputs)
    if products < max(MIN_PRODUCTS, MIN_PRODUCTS_PER_MOVED_ELEMENT * input.shape.size):
        return False
    write = Writer(convolution)
    padded = [
        _padded(write, input, numbers.input_feature_dimension, missing),
        _padded(write, kernel, numbers.kernel_input_feature_dimension, missing),
    ]
    made = write.add(opcodes.CONVOLUTION, *padded, attributes=convolution.attributes, shape=convolution.shape)
    replace_with_new(convolution, made)
    return True


def _padded(write: Writer, array: Instruction, dimension: int, count: int) -> Instruction:
    """An array with `count` more zeros at the end of a dimension."""
    sizes, padding = list(array.shape.dimensions), [PaddingDimension(0, 0, 0)] * array.shape.rank
    sizes[dimension] += count
    padding[dimension] = PaddingDimension(0, count, 0)
    attributes = PadAttributes.make(padding=PaddingConfig(tuple(padding)))
    zero = write.scalar(0, array.shape.element_type)
    return write.add(opcodes.PAD, array, zero, attributes=attributes, shape=array.shape.with_dimensions(sizes))
