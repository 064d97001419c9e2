"""Converts convolution kernels with structured sparsity to dense kernels.

Does not depend on how a convolution is computed. Source: SparsityConfig of xla_data.proto;
hlo_evaluator_sparsity_test.cc.

A kernel of sparsity 1xN along a dimension is a tuple (elements, positions): of each block of N elements of the dense
kernel it has one element, and its position in the block, from 0 to N-1. With a stride S, the N elements of a block are
S apart. Example: the elements [5, 6] at the positions [3, 0] of 1x4 are [0,0,0,5, 6,0,0,0] with a stride of 1, and
[0,6,0,0, 0,0,5,0] with a stride of 2.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.operations import convolution as convolution_codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import Array, Value
from xlapy.opcodes.convolution import ConvolutionAttributes, TensorSparsity


def dense_kernel(instruction: Instruction, kernel: Value) -> Array:
    """Returns the dense kernel; a kernel that is an array is returned unchanged.

    Raises `UnsupportedError` for an undefined sparsity, `ExecutionError` for a position outside its block.
    """
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    sparsity = attrs.sparsity_config.rhs
    if not isinstance(kernel, tuple):
        if sparsity is not None:
            _refuse(
                instruction, f"of sparsity {sparsity.to_text()} must be a tuple of its elements and their positions"
            )
        return kernel
    if sparsity is None:
        _refuse(instruction, "that is a tuple needs a sparsity_config of rhs")
    elements, positions = kernel
    _check(instruction, sparsity, elements, positions)
    size = sparsity.block_size
    moved, offsets = (np.moveaxis(array, sparsity.dimension, 0) for array in (elements, positions.astype(np.int64)))
    outside = offsets[(offsets < 0) | (offsets >= size)]
    if outside.size:
        raise ExecutionError(
            codes.SPARSE_POSITION,
            f"{describe_instruction(instruction)}: an element of the kernel has the position {outside[0]} in a block "
            f"of "
            f"{size}",
        )
    groups, within = np.divmod(np.arange(len(moved)), sparsity.stride)
    starts = (groups * size * sparsity.stride + within).reshape(-1, *[1] * (moved.ndim - 1))
    dense = np.zeros((len(moved) * size, *moved.shape[1:]), elements.dtype)
    np.put_along_axis(dense, starts + offsets * sparsity.stride, moved, axis=0)
    return np.moveaxis(dense, 0, sparsity.dimension)


def _check(instruction: Instruction, sparsity: TensorSparsity, elements: Array, positions: Array) -> None:
    features = instruction.attributes_as(ConvolutionAttributes).dim_labels.kernel_input_feature_dimension
    if sparsity.dimension != features:
        _refuse(instruction, f"is sparse along its input features, dimension {features}, not {sparsity.dimension}")
    if positions.shape != elements.shape or not PrimitiveType.from_dtype(positions.dtype).is_integral:
        _refuse(instruction, f"of sizes {list(elements.shape)} needs an integer position for each element")
    stored = elements.shape[features]
    if sparsity.stride < 1 or stored % sparsity.stride:
        _refuse(instruction, f"stores {stored} elements, which is not a multiple of its stride {sparsity.stride}")


def _refuse(instruction: Instruction, what: str) -> NoReturn:
    raise UnsupportedError(convolution_codes.SPARSE_KERNEL, f"{describe_instruction(instruction)}: a kernel {what}")
