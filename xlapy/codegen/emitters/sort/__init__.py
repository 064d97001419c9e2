"""Sorting and top-k kernels."""
