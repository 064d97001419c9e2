"""Generates random valid modules. `random_module(seed)` returns one; equal seeds give equal modules."""

from xlapy.testing.random_modules.module import random_module

__all__ = ["random_module"]
