"""Reduction passes that simplify constants: zeros, ones, splats, integers.

Responsible for the numbers in literals. Does not depend on their users.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base.literal import Literal
from xlapy.debugging.reducing.reduction_pass import ReductionPass
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.sources import CONSTANT, ConstantAttributes

Array = np.ndarray[Any, Any]


def _constants(module: Module) -> list[Instruction]:
    return [i for i in module.instructions() if i.op is CONSTANT and i.shape.is_array and i.shape.size]


def _elements(module: Module) -> list[tuple[Instruction, int]]:
    """Returns the elements that are neither 0 nor 1."""
    found: list[tuple[Instruction, int]] = []
    for instruction in _constants(module):
        flat = np.asarray(instruction.literal.array).reshape(-1)
        zero, one = np.zeros((), flat.dtype), np.ones((), flat.dtype)
        plain = (flat == zero) | (flat == one)
        found += [(instruction, int(index)) for index in np.flatnonzero(~plain)]
    return found


def _set(instruction: Instruction, array: Array) -> None:
    literal = Literal.array_of(array, instruction.literal.shape)
    instruction.attributes = ConstantAttributes.make(literal=literal)


def _set_elements(number: int) -> Callable[[Module, Sequence[int]], None]:
    def apply(module: Module, numbers: Sequence[int]) -> None:
        elements = _elements(module)
        for instruction, index in [elements[i] for i in numbers]:
            array = np.array(instruction.literal.array)
            array.reshape(-1)[index] = number
            _set(instruction, array)

    return apply


def _transform_constants(change: Callable[[Array], Array]) -> Callable[[Module, Sequence[int]], None]:
    def apply(module: Module, numbers: Sequence[int]) -> None:
        constants = _constants(module)
        for instruction in [constants[i] for i in numbers]:
            with np.errstate(all="ignore"):
                array = np.array(instruction.literal.array)
                _set(instruction, np.asarray(change(array), array.dtype))

    return apply


def _splat_first_element(array: Array) -> Array:
    return np.full(array.shape, array.reshape(-1)[0])


def _round_elements(array: Array) -> Array:
    if array.dtype.kind == "c":
        return np.round(array)
    return np.round(array.astype(np.float64)) if array.dtype.kind not in "biu" else array


def _count(module: Module) -> int:
    return len(_constants(module))


PASSES = (
    ReductionPass("equal elements", _count, _transform_constants(_splat_first_element)),
    ReductionPass("zero elements", lambda module: len(_elements(module)), _set_elements(0)),
    ReductionPass("one elements", lambda module: len(_elements(module)), _set_elements(1)),
    ReductionPass("whole numbers", _count, _transform_constants(_round_elements)),
)
