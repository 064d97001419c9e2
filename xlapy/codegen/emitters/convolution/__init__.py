"""Convolutions: direct and grouped kernels, gradients of kernels, and matrix multiplications (im2col)."""
