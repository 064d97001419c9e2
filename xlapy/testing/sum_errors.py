"""The errors of sums: how many terms an element of the result has, and how large they are together.

Responsible for the terms of each operation that adds. Does not depend on tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xlapy.base.element_types import C128, F64, PrimitiveType, float_format_of
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import Context, DynamicArray, rule_of
from xlapy.opcodes.contraction import DOT, DotAttributes
from xlapy.opcodes.convolution import CONVOLUTION, ConvolutionAttributes
from xlapy.opcodes.elementwise import DIVIDE, MULTIPLY
from xlapy.opcodes.normalization import BATCH_NORM_GRAD, BATCH_NORM_TRAINING, BatchNormAttributes
from xlapy.opcodes.reduction import REDUCE, REDUCE_WINDOW, ReduceAttributes, WindowAttributes
from xlapy.testing.random_values import is_integer

Array = np.ndarray[Any, Any]
Value = Any


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction with the values of its operands and its own value."""

    instruction: Instruction
    operands: tuple[Value, ...]
    value: Value


def terms_and_magnitude(step: Step) -> tuple[int, Value]:
    """Returns the number of terms of each result element, and the step's value for the absolute values of its
    operands, integers among them if they are factors; None for operations on several devices."""
    instruction = step.instruction
    if instruction.op.family == "collectives":
        return _max_terms(step), None
    operands = tuple(_absolute_values(value) for value in step.operands)
    if instruction.op in (DOT, CONVOLUTION):
        instruction = _with_wide_result(instruction)
        operands = tuple(map(_absolute_factor, operands))
    with np.errstate(all="ignore"):
        magnitude = rule_of(instruction)(Context(), instruction, operands)
    return _max_terms(step), magnitude


def canceling_magnitude(step: Step) -> Value:
    """Returns the magnitude of the terms that cancel in a batch norm (squares in a variance, terms of sums) or in a
    complex product or quotient (which may overflow where their difference does not). None for other ops.
    """
    if step.instruction.op in (MULTIPLY, DIVIDE) and step.instruction.shape.element_type.is_complex:
        return _complex_magnitude(step)
    if step.instruction.op is BATCH_NORM_TRAINING:
        return _batch_norm_training_magnitude(step)
    if step.instruction.op is not BATCH_NORM_GRAD:
        return None
    operand, scale, mean, variance, gradient = step.operands
    root = np.sqrt(_smallest(variance) + step.instruction.attributes_as(BatchNormAttributes).epsilon)
    deviation = (_largest(operand) + _largest(mean)) / root
    total = float(np.sum(np.abs(gradient.astype(np.float64))))
    factor = _largest(scale) * _largest(gradient) / root
    sizes = (factor * (2 + deviation**2), total * deviation, total)
    return tuple(np.full(part.shape, size) for part, size in zip(step.value, sizes, strict=True))


def _complex_magnitude(step: Step) -> Array:
    """Returns a bound of the terms of finite parts in each part of a complex product or quotient.

    It is inf where an infinite dividend meets a part of the divisor that underflows when the larger part is scaled to
    1: `inf * 0` is NaN then, also in XLA:CPU.
    """
    left, right = (_sum_of_finite_parts(value) for value in step.operands)
    if step.instruction.op is MULTIPLY:
        return np.asarray(left * right)
    dividend, divisor = step.operands
    parts = np.abs(np.stack((divisor.real, divisor.imag))).astype(np.float64)
    is_lost = parts.min(axis=0) < parts.max(axis=0) * 2 * float(np.finfo(divisor.dtype).smallest_normal)
    with np.errstate(divide="ignore"):
        return np.where(np.isinf(dividend) & is_lost, np.inf, left * np.nan_to_num(2 / right))


def _sum_of_finite_parts(array: Array) -> Array:
    wide = array.astype(np.complex128)
    return np.asarray(sum(np.where(np.isfinite(part), np.abs(part), 0) for part in (wide.real, wide.imag)))


def _batch_norm_training_magnitude(step: Step) -> Value:
    """Returns the magnitudes for batch-norm-training.

    The squares enter the mean and the variance directly; in the normalized result they are divided by the variance.
    """
    operand, scale, offset = map(_largest, step.operands)
    variance = _smallest(step.value[2]) + step.instruction.attributes_as(BatchNormAttributes).epsilon
    normalized = scale * operand / np.sqrt(variance) * (1 + operand**2 / variance) + offset
    sizes = (normalized, operand**2, operand**2)
    return tuple(np.full(part.shape, size) for part, size in zip(step.value, sizes, strict=True))


def _smallest(array: Array) -> float:
    return float(np.min(array.astype(np.float64), initial=np.inf))


def _largest(array: Array) -> float:
    return float(np.max(np.abs(array.astype(np.float64)), initial=0.0))


def _absolute_values(value: Value) -> Value:
    """Returns absolute values of finite floats and 0 for others. Integers are unchanged: they are positions, or
    exact."""
    if isinstance(value, tuple):
        return tuple(map(_absolute_values, value))
    if isinstance(value, DynamicArray):
        return DynamicArray(_absolute_values(value.array), value.sizes)
    if not isinstance(value, np.ndarray) or not _is_inexact(value.dtype):
        return value
    finite = np.isfinite(value.astype(np.complex128) if value.dtype.kind == "c" else value.astype(np.float64))
    with np.errstate(all="ignore"):
        return np.where(finite, np.abs(value), np.zeros((), value.dtype)).astype(value.dtype)


def _absolute_factor(value: Value) -> Value:
    """Returns absolute values of an array of integers that are multiplied."""
    return np.abs(value) if isinstance(value, np.ndarray) and is_integer(value.dtype) else value


def _is_inexact(dtype: np.dtype[Any]) -> bool:
    t = PrimitiveType.from_dtype(dtype)
    return t.is_floating or t.is_complex


def _with_wide_result(instruction: Instruction) -> Instruction:
    """Returns the instruction with a wider result type that does not overflow."""
    if not _is_inexact(instruction.shape.dtype):
        return instruction
    shape = instruction.shape.with_element_type(C128 if instruction.shape.element_type.is_complex else F64)
    return Instruction(
        instruction.op, shape, instruction.operands, instruction.attributes, (), instruction.name, instruction.metadata
    )


def _max_terms(step: Step) -> int:
    """Returns an upper bound of the terms of an element: those that are contracted or reduced, else all of the operand
    and of the updates."""
    instruction = step.instruction
    shape: Shape = instruction.operands[0].shape
    if instruction.op is DOT:
        return prod(shape.dimensions[d] for d in instruction.attributes_as(DotAttributes).lhs_contracting_dims)
    if instruction.op is CONVOLUTION:
        kernel = instruction.operands[1].shape
        numbers = instruction.attributes_as(ConvolutionAttributes).dim_labels
        return max(1, kernel.size // max(1, kernel.dimensions[numbers.kernel_output_feature_dimension]))
    if instruction.op is REDUCE:
        return 1 + prod(shape.dimensions[d] for d in instruction.attributes_as(ReduceAttributes).dimensions)
    if instruction.op is REDUCE_WINDOW:
        return 1 + prod(d.size for d in instruction.attributes_as(WindowAttributes).window.dimensions)
    if instruction.op.family == "collectives" and instruction.parent is not None and instruction.parent.module:
        config = instruction.parent.module.config
        return config.replica_count * config.num_partitions
    return max(1, *(operand.shape.size for operand in instruction.operands if operand.shape.is_array))


def cannot_overflow(magnitude: Array, result: np.dtype[Any]) -> Array:
    """Whether a sum of absolute values cannot overflow, so that the order of its terms does not matter."""
    if not _is_inexact(result):
        return np.ones(np.shape(magnitude), np.bool_)
    return np.abs(magnitude.astype(np.complex128)) < float_format_of(result).largest / 2
