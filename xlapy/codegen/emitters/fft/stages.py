"""Decomposes an FFT instruction into stages: one kernel each, run one after the other.

Responsible for the order of dimensions and for which transforms have kernels at all. Does not depend on memory between
stages or on what kernels do inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from xlapy.base.element_types import F32 as HLO_F32
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.codegen.emitters.fft.kernel import max_points
from xlapy.codegen.emitters.fft.kernels import fourier_kernel
from xlapy.codegen.emitters.fft.plan import (
    MAX_LONG_POINTS,
    MIN_SPLIT_POINTS,
    Axis,
    Transform,
    is_smooth,
    plan_transforms,
)
from xlapy.codegen.emitters.fft.real_transforms import unpacking_kernel, unpacking_twiddle_factors
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import F32, F64, Kernel
from xlapy.opcodes.linalg import FftAttributes, FftType


class StageKernel(NamedTuple):
    """The kernel of a stage. Its buffers: the operand (unless it works in place), the twiddle factors, the result."""

    kernel: Kernel
    twiddles: Array


@dataclass(frozen=True, slots=True)
class Stage:
    """One kernel of a transform.

    emit: returns the kernel under a name, which works in place if the second argument is true. size: the number of
    complex results. keeps_places: whether it can work in place.
    """

    emit: Callable[[str, bool], StageKernel]
    size: int
    keeps_places: bool = False


def has_kernels(instruction: Instruction, target: Target) -> bool:
    """Whether an FFT has kernels: its lengths have only small prime factors, and lengths of real numbers are even."""
    if not instruction.shape.size or 0 in instruction.attributes_as(FftAttributes).fft_length:
        return False
    return fft_stages(instruction, target) is not None


def has_kernel_of_rows(length: int, rows: int, type: PrimitiveType, target: Target) -> bool:
    """Whether there are kernels for a number of rows of a length, whose parts have a type."""
    return plan_transforms(length, rows, 1, max_points(target), target.vector_bytes // type.byte_size) is not None


def fft_stages(instruction: Instruction, target: Target) -> list[Stage] | None:
    """Returns the stages of an FFT; None if it has no kernels."""
    return _StageBuilder(instruction, target).stages()


def component_type(instruction: Instruction) -> PrimitiveType:
    """Returns the element type of the real and imaginary parts of an FFT."""
    return instruction.shape.element_type.component_type


class _StageBuilder:
    def __init__(self, instruction: Instruction, target: Target) -> None:
        attributes = instruction.attributes_as(FftAttributes)
        self.target = target
        self.kind: FftType = attributes.fft_type
        self.lengths: tuple[int, ...] = attributes.fft_length
        self.type = F32 if component_type(instruction) is HLO_F32 else F64
        self.max_points, self.lanes = max_points(target), target.vector_bytes // self.type.byte_size
        self.sign = 1 if self.kind in (FftType.IFFT, FftType.IRFFT) else -1
        # The outer dimensions transform an array of complex numbers.
        array = instruction.operands[0] if self.kind is FftType.IRFFT else instruction
        self.dimensions = array.shape.dimensions

    def stages(self) -> list[Stage] | None:
        """Returns all stages; None if a dimension has no kernels."""
        rank, count = len(self.dimensions), len(self.lengths)
        outer = [self.dimension_stages(axis) for axis in range(rank - count, rank - 1)]
        is_complex = self.kind in (FftType.FFT, FftType.IFFT)
        last = self.dimension_stages(rank - 1) if is_complex else self.real_stages()
        groups = [last, *outer] if self.kind is FftType.RFFT else [*outer, last]
        if any(group is None for group in groups):
            return None
        return [stage for group in groups if group is not None for stage in group]

    def dimension_stages(self, axis: int) -> list[Stage] | None:
        """Returns the stages that transform a dimension of complex numbers."""
        length = self.dimensions[axis]
        if length == 1:
            return []
        outer, inner = prod(self.dimensions[:axis]), prod(self.dimensions[axis + 1 :])
        return self.complex_stages(length, outer, inner, 1 / length)

    def complex_stages(
        self, length: int, outer: int, inner: int, scale: float, pitches: tuple[int, int] | None = None
    ) -> list[Stage] | None:
        """Returns the stages of a complex transform. The last stage of an inverse transform applies the scale.

        pitches: the distances of rows in the operand and in the result. If they are farther apart in the operand, it
        has the spectrum of real numbers.
        """
        plan = plan_transforms(length, outer, inner, self.max_points, self.lanes, pitches)
        if plan is None:
            return None
        if pitches is not None and pitches[0] > length:
            plan[0] = replace(plan[0], packs=True)
        scales = [1.0] * (len(plan) - 1) + [scale if self.sign > 0 else 1.0]
        return [self.stage(*each) for each in zip(plan, scales, strict=True)]

    def stage(self, transform: Transform, scale: float) -> Stage:
        def emit(name: str, in_place: bool) -> StageKernel:
            found = fourier_kernel(name, self.target, self.type, transform, self.sign, scale, in_place)
            return StageKernel(found.kernel, found.twiddles)

        size = max(axis.size * axis.target for axis in transform.axes)
        if transform.reals:
            size = transform.size // transform.points.size * (transform.points.size // 2 + 1)
        return Stage(emit, size, transform.keeps_places)

    def real_stages(self) -> list[Stage] | None:
        """Returns the stages of the last dimension of a transform from or to real numbers."""
        length, rows = self.lengths[-1], prod(self.dimensions[:-1])
        half, is_forward = length // 2, self.kind is FftType.RFFT
        scale = 1.0 if is_forward else 1 / length
        if length % 2 or not is_smooth(half):
            if rows < self.lanes or not self.is_one_kernel(length, rows):
                return None
            pitches = (length, half + 1) if is_forward else (half + 1, length)
            return [self.stage(Transform(Axis(length, 1, 1), Axis(rows, *pitches), reals=True), scale)]
        if half <= self.max_points and (rows >= self.lanes or half < MIN_SPLIT_POINTS):
            lanes = Axis(rows, half + (not is_forward), half + is_forward)
            return [self.stage(Transform(Axis(half, 1, 1), lanes, halves=True), scale)]
        pitches = (half, half + 1) if is_forward else (half + 1, half)
        stages = self.complex_stages(half, rows, 1, scale, pitches)
        if stages is None or not is_forward:
            return stages
        return [*stages, self.unpacking_stage(rows, half)]

    def is_one_kernel(self, length: int, rows: int) -> bool:
        """Whether the transforms of rows of real numbers fit into a kernel. Of several kernels, the second one would
        need whole complex numbers."""
        if is_smooth(length):
            return length <= MAX_LONG_POINTS * self.max_points
        return plan_transforms(length, rows, 1, self.max_points, self.lanes) is not None

    def unpacking_stage(self, rows: int, half: int) -> Stage:
        """Returns the stage after the complex transform of half the length, which works in place."""

        def emit(name: str, in_place: bool) -> StageKernel:
            assert in_place
            kernel = unpacking_kernel(name, self.target, self.type, rows, half)
            return StageKernel(kernel, unpacking_twiddle_factors(half, self.type))

        return Stage(emit, rows * (half + 1), keeps_places=True)
