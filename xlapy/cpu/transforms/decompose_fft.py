"""Decomposes Fourier transforms that have no kernels into transforms that do and other operations.

An odd number of real numbers is transformed as complex numbers; half a spectrum is mirrored; lengths with large prime
factors become convolutions by transforms of other lengths (Bluestein). Transforms that are too long for kernels become
products with matrices.

Responsible for these rewrites. Does not depend on how a transform is computed.
Source: Bluestein (1970).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from xlapy import opcodes
from xlapy.codegen.emitters.fft.plan import bluestein_points, is_smooth
from xlapy.codegen.emitters.fft.stages import has_kernel_of_rows, has_kernels
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.linalg import FftAttributes, FftType
from xlapy.passes.expand.blocks import concatenate, conjugated, slice_dimension
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.expand.fourier import chirp_of, times
from xlapy.passes.expand.linalg import mirrored
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class DecomposeFft:
    """Replaces all transforms without kernels."""

    name: ClassVar[str] = "decompose-fft"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in list(computation):
                if instruction.op is opcodes.FFT and not has_kernels(instruction, host_target()):
                    changed |= _replace(instruction)
        return update_schedule(module, changed)


def _replace(instruction: Instruction) -> bool:
    if instruction.shape.is_dynamic or instruction.operands[0].shape.is_dynamic:
        return False
    write = Writer(instruction)
    replacement = _written(write, instruction)
    if any(i.op is opcodes.FFT and not has_kernels(i, host_target()) for i in write.created):
        write.discard()
        replacement = EXPANSIONS.find(opcodes.FFT)(write, instruction)
    if replacement not in write.created:
        replacement = write.add(opcodes.COPY, replacement)
    replace_with_new(instruction, replacement)
    return True


def _written(write: Writer, instruction: Instruction) -> Instruction:
    """Decomposes a transform dimension by dimension, with real numbers as complex ones."""
    (operand,), shape, attributes = instruction.operands, instruction.shape, instruction.attributes_as(FftAttributes)
    if 0 in attributes.fft_length or not operand.shape.size:
        return write.splat(0, shape)
    kind, count, last = attributes.fft_type, len(attributes.fft_length), shape.rank - 1
    outer = range(shape.rank - count, last)
    if kind is FftType.RFFT:
        whole = _along(write, write.convert(operand, shape.element_type), [last], FftType.FFT)
        return _along(write, slice_dimension(write, whole, last, 0, shape.dimensions[last]), outer, FftType.FFT)
    if kind is FftType.IRFFT:
        half = _along(write, operand, outer, FftType.IFFT)
        return write.add(
            opcodes.REAL, _along(write, mirrored(write, half, attributes.fft_length[-1]), [last], FftType.IFFT)
        )
    return _along(write, operand, [*outer, last], kind)


def _along(write: Writer, operand: Instruction, dimensions: Sequence[int], kind: FftType) -> Instruction:
    """Transforms some dimensions, one after the other."""
    last = operand.shape.rank - 1
    for dimension in dimensions:
        order = list(range(last + 1))
        order[dimension], order[last] = last, dimension
        moved = operand if dimension == last else write.transpose(operand, order)
        made = _transformed(write, moved, kind)
        operand = made if dimension == last else write.transpose(made, order)
    return operand


def _transform(write: Writer, operand: Instruction, kind: FftType) -> Instruction:
    attributes = FftAttributes.make(fft_type=kind, fft_length=(operand.shape.dimensions[-1],))
    return write.add(opcodes.FFT, operand, attributes=attributes)


def _transformed(write: Writer, operand: Instruction, kind: FftType) -> Instruction:
    """Transforms the last dimension, by a convolution if its length has no kernels.

    The second transform of the convolution is not an inverse one, which would add up numbers that are not yet divided
    by its length: these may overflow where the results do not.
    """
    *leading, length = operand.shape.dimensions
    type = operand.shape.element_type.component_type
    if is_smooth(length) or has_kernel_of_rows(length, prod(leading), type, host_target()):
        return _transform(write, operand, kind)
    size = bluestein_points(length)
    chirp, kernel = chirp_of(length, size, 1 if kind is FftType.IFFT else -1)
    zeros = write.splat(0, operand.shape.with_dimensions((*leading, size - length)))
    padded = concatenate(write, [times(write, operand, chirp), zeros], len(leading))
    product = times(write, _transform(write, padded, FftType.FFT), np.fft.fft(kernel) / size)
    reflected = _transform(write, conjugated(write, product), FftType.FFT)
    convolved = slice_dimension(write, conjugated(write, reflected), len(leading), 0, length)
    scale = 1 / length if kind is FftType.IFFT else 1
    return times(write, convolved, scale * chirp)
