"""The types of values and observers that back ends, devices and tools share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy.hlo.instruction import Instruction

Value = Any
"""A NumPy array, a `DynamicArray`, a tuple of values, or a token, as the interpreter defines them."""

Observer = Callable[[Instruction, Sequence[Value], Value], None]
"""A function that is called after each instruction with the instruction, its operand values and its value."""
