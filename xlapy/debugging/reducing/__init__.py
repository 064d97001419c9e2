"""Reduces a module to the smallest one that still shows a property. The entry point is `reduce_module`."""

from xlapy.debugging.reducing.reducer import Progress, reduce_module

__all__ = ["Progress", "reduce_module"]
