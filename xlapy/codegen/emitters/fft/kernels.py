"""Returns the kernel of one transform of a plan, by the emitter for its length."""

from __future__ import annotations

from xlapy.codegen.emitters.fft.convolution_kernel import ConvolutionEmitter
from xlapy.codegen.emitters.fft.kernel import FftEmitter, FourierKernel
from xlapy.codegen.emitters.fft.plan import Transform, is_smooth
from xlapy.codegen.target import Target
from xlapy.loops import ScalarType


def fourier_kernel(
    name: str, target: Target, type: ScalarType, transform: Transform, sign: int, scale: float, in_place: bool = False
) -> FourierKernel:
    """Returns the kernel of a transform with roots exp(sign 2 pi i / n), whose results are multiplied by `scale`.

    in_place: whether the results overwrite the operand, so that there is no buffer for the operand. The transform must
    keep places.
    """
    emitter = FftEmitter if is_smooth(transform.points.size) else ConvolutionEmitter
    return emitter(name, target, type, transform, sign, scale, in_place).build()
