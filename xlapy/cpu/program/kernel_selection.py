"""Selects the emitter that generates the kernels of a region.

Responsible for the order in which emitters are tried. Does not depend on how an emitter works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.codegen.emitters.column_reduction import column_reduction_kernel
from xlapy.codegen.emitters.concatenate import concatenate_kernels
from xlapy.codegen.emitters.convolution.direct import direct_kernel
from xlapy.codegen.emitters.convolution.grouped import grouped_kernel
from xlapy.codegen.emitters.convolution.im2col import convolution_kernel
from xlapy.codegen.emitters.convolution.kernel_gradient import kernel_gradient_kernel
from xlapy.codegen.emitters.elementwise import loop_kernel
from xlapy.codegen.emitters.interleaved import interleaved_kernel
from xlapy.codegen.emitters.matmul.dot import dot_kernel
from xlapy.codegen.emitters.pooling import pooling_kernel
from xlapy.codegen.emitters.scan import scan_kernel
from xlapy.codegen.emitters.transpose import transpose_kernel
from xlapy.codegen.region import Region
from xlapy.loops import Kernel

_EMITTERS: Sequence[Callable[[Region], tuple[Kernel, int] | None]] = (
    dot_kernel,
    grouped_kernel,
    kernel_gradient_kernel,
    direct_kernel,
    convolution_kernel,
    scan_kernel,
    pooling_kernel,
    column_reduction_kernel,
    interleaved_kernel,
    transpose_kernel,
    loop_kernel,
)
"""The emitters in order of preference. Each returns None for a region that it does not handle; the last handles all."""


def select_kernels(region: Region) -> list[tuple[Kernel, int]]:
    """Returns the kernels that together compute a region, each with the work of one parallel iteration."""
    several = concatenate_kernels(region)
    if several:
        return several
    return [next(found for emitter in _EMITTERS if (found := emitter(region)) is not None)]
