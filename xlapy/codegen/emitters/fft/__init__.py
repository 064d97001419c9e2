"""Fourier transforms: plans, kernels, and transforms of real numbers."""
