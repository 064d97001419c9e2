"""Arithmetic of native functions on Python values. A pointer is a pair of an object and an offset in bytes, or 0.

Responsible for the results of instructions without effects. Must not know memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlapy.native import ir
from xlapy.native.checker.memory import ScheduleError


def compute(operation: str, type: str, operands: Sequence[ir.Operand], values: Sequence[Any]) -> Any:
    """The result of arithmetic. Pointers are pairs of an object and an offset, or 0."""
    match operation:
        case "copy" | "zext" | "ptrtoint" | "inttoptr":
            return values[0]
        case "trunc":
            return values[0] & _mask(type)
        case "ctlz":
            return _BITS[type] - int(values[0]).bit_length()
        case "select":
            return values[1] if values[0] else values[2]
        case "offset":
            if values[0] == 0:
                raise ScheduleError("bounds", "an offset from the null pointer")
            object, offset = values[0]
            return object, offset + _signed(values[1], 64)
        case "icmp eq":
            return int(values[0] == values[1])
        case "icmp ne":
            return int(values[0] != values[1])
        case "icmp slt":
            bits = _BITS[operands[0].type]
            return int(_signed(values[0], bits) < _signed(values[1], bits))
    return _ARITHMETIC[operation](*values) & _mask(type)


def modified(operation: str, type: str, before: Any, value: Any) -> Any:
    """The value that a read-modify-write stores."""
    match operation:
        case "xchg":
            return value
        case "umax":
            return max(before, value)
    return _ARITHMETIC[operation](before, value) & _mask(type)


_BITS = {"i1": 1, "i8": 8, "i32": 32, "i64": 64}

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "udiv": lambda a, b: a // b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": lambda a, b: a >> b,
    "icmp ult": lambda a, b: int(a < b),
    "icmp ule": lambda a, b: int(a <= b),
    "icmp ugt": lambda a, b: int(a > b),
    "icmp uge": lambda a, b: int(a >= b),
}


def _mask(type: str) -> int:
    return (1 << _BITS.get(type, 64)) - 1


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
