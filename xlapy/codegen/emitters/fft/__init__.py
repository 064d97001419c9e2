"""Fourier transforms: their plan, their kernels, what is written by other transforms."""
