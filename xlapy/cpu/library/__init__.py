"""Kernels for the operations that general loops are too slow for: contractions and convolutions in register tiles."""

from xlapy.cpu.library.convolution import convolution_kernel
from xlapy.cpu.library.dot import dot_kernel
from xlapy.cpu.schedule import Region
from xlapy.loops import Kernel

__all__ = ["library_kernel"]


def library_kernel(region: Region) -> tuple[Kernel, int] | None:
    """The kernel of a region, and the work of one task; None where general loops do."""
    return dot_kernel(region) or convolution_kernel(region)
