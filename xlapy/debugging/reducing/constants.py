"""Passes that make constants plain: zeros, ones, one number everywhere, whole numbers.

Owns: the numbers in literals. Must not know: who uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base.literal import Literal
from xlapy.debugging.reducing.proposals import Proposals
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.sources import CONSTANT, ConstantAttributes

Array = np.ndarray[Any, Any]


def _constants(module: Module) -> list[Instruction]:
    return [i for i in module.instructions() if i.op is CONSTANT and i.shape.is_array and i.shape.size]


def _elements(module: Module) -> list[tuple[Instruction, int]]:
    """Elements that are neither 0 nor 1."""
    found: list[tuple[Instruction, int]] = []
    for instruction in _constants(module):
        flat = np.asarray(instruction.literal.array).reshape(-1)
        zero, one = np.zeros((), flat.dtype), np.ones((), flat.dtype)
        plain = (flat == zero) | (flat == one)
        found += [(instruction, int(place)) for place in np.flatnonzero(~plain)]
    return found


def _set(instruction: Instruction, array: Array) -> None:
    literal = Literal.array_of(array, instruction.literal.shape)
    instruction.attributes = ConstantAttributes.make(literal=literal)


def _fill_elements(number: int) -> Callable[[Module, Sequence[int]], None]:
    def apply(module: Module, numbers: Sequence[int]) -> None:
        elements = _elements(module)
        for instruction, place in [elements[i] for i in numbers]:
            array = np.array(instruction.literal.array)
            array.reshape(-1)[place] = number
            _set(instruction, array)

    return apply


def _changed(change: Callable[[Array], Array]) -> Callable[[Module, Sequence[int]], None]:
    def apply(module: Module, numbers: Sequence[int]) -> None:
        constants = _constants(module)
        for instruction in [constants[i] for i in numbers]:
            with np.errstate(all="ignore"):
                array = np.array(instruction.literal.array)
                _set(instruction, np.asarray(change(array), array.dtype))

    return apply


def _first_everywhere(array: Array) -> Array:
    return np.full(array.shape, array.reshape(-1)[0])


def _whole(array: Array) -> Array:
    if array.dtype.kind == "c":
        return np.round(array)
    return np.round(array.astype(np.float64)) if array.dtype.kind not in "biu" else array


def _count(module: Module) -> int:
    return len(_constants(module))


PASSES = (
    Proposals("equal elements", _count, _changed(_first_everywhere)),
    Proposals("zero elements", lambda module: len(_elements(module)), _fill_elements(0)),
    Proposals("one elements", lambda module: len(_elements(module)), _fill_elements(1)),
    Proposals("whole numbers", _count, _changed(_whole)),
)
