"""Reduction: the smallest module that still shows what a larger one shows; `reduce_module` is the way in."""

from xlapy.debugging.reducing.reducer import Progress, reduce_module

__all__ = ["Progress", "reduce_module"]
