"""Kernels of convolutions with structured sparsity, made dense.

Must not know: how a convolution is computed. Source: SparsityConfig of xla_data.proto; hlo_evaluator_sparsity_test.cc.

A kernel of sparsity 1xN along a dimension is a tuple (elements, places): of N elements of the dense kernel one is
stored, and its place, from 0 to N-1, among them. With a stride of S the N are S apart. Example: the elements [5, 6] at
the places [3, 0] of 1x4 are [0,0,0,5, 6,0,0,0] with a stride of 1, [0,6,0,0, 0,0,5,0] with a stride of 2.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import Array, Value
from xlapy.opcodes.convolution import ConvolutionAttributes, TensorSparsity


def dense_kernel(instruction: Instruction, kernel: Value) -> Array:
    """The kernel as an array; one that is an array already is returned as it is.

    `UnsupportedError` for a sparsity that has no meaning, `ExecutionError` for a place outside its block.
    """
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    sparsity = attrs.sparsity_config.rhs
    if not isinstance(kernel, tuple):
        if sparsity is not None:
            _refuse(instruction, f"of sparsity {sparsity.to_text()} must be a tuple of its elements and their places")
        return kernel
    if sparsity is None:
        _refuse(instruction, "that is a tuple needs a sparsity_config of rhs")
    elements, places = kernel
    _check(instruction, sparsity, elements, places)
    size = sparsity.block_size
    moved, offsets = (np.moveaxis(array, sparsity.dimension, 0) for array in (elements, places.astype(np.int64)))
    outside = offsets[(offsets < 0) | (offsets >= size)]
    if outside.size:
        raise ExecutionError(
            f"{describe_instruction(instruction)}: an element of the kernel has the place {outside[0]} in a block of "
            f"{size}"
        )
    rounds, within = np.divmod(np.arange(len(moved)), sparsity.stride)
    starts = (rounds * size * sparsity.stride + within).reshape(-1, *[1] * (moved.ndim - 1))
    dense = np.zeros((len(moved) * size, *moved.shape[1:]), elements.dtype)
    np.put_along_axis(dense, starts + offsets * sparsity.stride, moved, axis=0)
    return np.moveaxis(dense, 0, sparsity.dimension)


def _check(instruction: Instruction, sparsity: TensorSparsity, elements: Array, places: Array) -> None:
    features = instruction.attributes_as(ConvolutionAttributes).dim_labels.kernel_input_feature_dimension
    if sparsity.dimension != features:
        _refuse(instruction, f"is sparse along its input features, dimension {features}, not {sparsity.dimension}")
    if places.shape != elements.shape or not PrimitiveType.from_dtype(places.dtype).is_integral:
        _refuse(instruction, f"of sizes {list(elements.shape)} needs an integer place for each element")
    stored = elements.shape[features]
    if sparsity.stride < 1 or stored % sparsity.stride:
        _refuse(instruction, f"stores {stored} elements, no multiple of its stride {sparsity.stride}")


def _refuse(instruction: Instruction, what: str) -> NoReturn:
    raise UnsupportedError(f"{describe_instruction(instruction)}: a kernel {what}")
