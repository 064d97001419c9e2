"""Kernels for the operations that general loops are too slow for: contractions and convolutions in register tiles."""

from xlapy.cpu.library.dot import dot_kernel

__all__ = ["dot_kernel"]
