"""Fourier transforms as thunks of a program: dimension by dimension, a kernel for each thunk of a plan.

Owns: the order of dimensions, the memory between kernels, which transforms have kernels at all. Must not know: what
kernels do inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xlapy import opcodes
from xlapy.base.element_types import C64, C128, Array, PrimitiveType
from xlapy.base.element_types import F32 as HLO_F32
from xlapy.base.shape import Shape
from xlapy.codegen.emitters.fft.kernel import fourier_kernel, max_points
from xlapy.codegen.emitters.fft.plan import Axis, Transform, is_smooth, plan_transforms
from xlapy.codegen.emitters.fft.real_transforms import packing_kernel, real_twiddle_factors, unpacking_kernel
from xlapy.codegen.target import Target
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk
from xlapy.cpu.target import host_target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.loops import F32, F64, Kernel, ScalarType
from xlapy.opcodes.linalg import FftAttributes, FftType

Made = tuple[Kernel, int, Array]
"""A kernel of three buffers, the work of one parallel iteration, the roots that are its second buffer."""


_Halving = Callable[[str, Target, ScalarType, int, int], tuple[Kernel, int]]


@dataclass(frozen=True, slots=True)
class _Stage:
    """A kernel, and how many complex numbers it makes."""

    make: Callable[[str], Made]
    size: int


def has_kernels(instruction: Instruction) -> bool:
    """Whether a transform goes by kernels as it is: its lengths have small factors, real ones are even."""
    if not instruction.shape.size or 0 in instruction.attributes_as(FftAttributes).fft_length:
        return False
    return _Stages(instruction).all() is not None


@THUNK_RULES.rule(opcodes.FFT)
def _fft(context: LoweringContext, instruction: Instruction) -> None:
    stages = _Stages(instruction).all()
    assert stages is not None, f"{instruction.name} is split before"
    source = context.slice_of(instruction.operands[0])
    (target,) = context.allocate(instruction)
    if not stages:
        context.thunks.append(CopyThunk(source, target))
    complex_type = C64 if _part(instruction) is HLO_F32 else C128
    for number, stage in enumerate(stages):
        made = target
        if number < len(stages) - 1:
            made = BufferSlice(Shape.array(complex_type, (stage.size,)), name=instruction.name)
        kernel, work, roots = stage.make(instruction.name)
        table = context.builder.module_state(_Tables).slice_of(context, instruction, roots)
        context.thunks.append(KernelThunk(kernel, [source, table, made], work, instruction.name))
        source = made


class _Tables:
    """The constants with roots of a program, the same ones once."""

    def __init__(self, _: Module, __: NativeProgram) -> None:
        self._slots: dict[tuple[str, bytes], BufferSlice] = {}

    def slice_of(self, context: LoweringContext, instruction: Instruction, roots: Array) -> BufferSlice:
        key = (roots.dtype.name, roots.tobytes())
        if key not in self._slots:
            shape = Shape.array(_part(instruction), roots.shape)
            self._slots[key] = context.builder.add_constant(roots, shape, instruction.name)
        return self._slots[key]


def _part(instruction: Instruction) -> PrimitiveType:
    """The element type of real and imaginary parts."""
    return instruction.shape.element_type.component_type


# -- stages


class _Stages:
    """The kernels of a transform, one after the other."""

    def __init__(self, instruction: Instruction) -> None:
        attributes = instruction.attributes_as(FftAttributes)
        self.kind: FftType = attributes.fft_type
        self.lengths: tuple[int, ...] = attributes.fft_length
        self.type = F32 if _part(instruction) is HLO_F32 else F64
        self.most, self.width = max_points(host_target()), host_target().vector_bytes // self.type.byte_size
        self.sign = 1 if self.kind in (FftType.IFFT, FftType.IRFFT) else -1
        # of the array of complex numbers that the outer dimensions are transformed of
        array = instruction.operands[0] if self.kind is FftType.IRFFT else instruction
        self.dimensions = array.shape.dimensions

    def all(self) -> list[_Stage] | None:
        """None for a transform without kernels."""
        rank, count = len(self.dimensions), len(self.lengths)
        outer = [self.along(axis) for axis in range(rank - count, rank - 1)]
        last = self.along(rank - 1) if self.kind in (FftType.FFT, FftType.IFFT) else self.real()
        groups = [last, *outer] if self.kind is FftType.RFFT else [*outer, last]
        if any(group is None for group in groups):
            return None
        return [stage for group in groups if group is not None for stage in group]

    def along(self, axis: int) -> list[_Stage] | None:
        """The transform of a dimension of complex numbers."""
        length = self.dimensions[axis]
        if length == 1:
            return []
        outer, inner = prod(self.dimensions[:axis]), prod(self.dimensions[axis + 1 :])
        return self.complex(length, outer, inner, 1 / length)

    def complex(self, length: int, outer: int, inner: int, scale: float) -> list[_Stage] | None:
        """Inverse transforms are scaled, by the last kernel."""
        plan = plan_transforms(length, outer, inner, self.most, self.width)
        if plan is None:
            return None
        scales = [1.0] * (len(plan) - 1) + [scale if self.sign > 0 else 1.0]
        return [self.stage(*each) for each in zip(plan, scales, strict=True)]

    def stage(self, transform: Transform, scale: float) -> _Stage:
        def make(name: str) -> Made:
            made = fourier_kernel(name, host_target(), self.type, transform, self.sign, scale)
            return made.kernel, made.work, made.twiddles

        rows = transform.size // transform.points.size
        return _Stage(make, transform.size + (rows if transform.halves and self.sign < 0 else 0))

    def real(self) -> list[_Stage] | None:
        """The last dimension, of real numbers on one side."""
        length, rows = self.lengths[-1], prod(self.dimensions[:-1])
        half, is_forward = length // 2, self.kind is FftType.RFFT
        if length % 2 or not is_smooth(half):
            return None
        scale = 1.0 if is_forward else 1 / length
        if rows >= self.width and half < self.most:
            lanes = Axis(rows, half + (not is_forward), half + is_forward)
            return [self.stage(Transform(Axis(half, 1, 1), lanes, halves=True), scale)]
        stages = self.complex(half, rows, 1, scale)
        if stages is None:
            return None
        stage = self.halving(unpacking_kernel if is_forward else packing_kernel, rows, half)
        return [*stages, stage] if is_forward else [stage, *stages]

    def halving(
        self, kernel: Callable[[str, Target, ScalarType, int, int], tuple[Kernel, int]], rows: int, half: int
    ) -> _Stage:
        """The kernel behind or before the transform of half the length."""
        roots = real_twiddle_factors(2 * half, self.sign, self.type)
        size = half + 1 if self.kind is FftType.RFFT else half
        return _Stage(lambda name: (*kernel(name, host_target(), self.type, rows, half), roots), rows * size)
