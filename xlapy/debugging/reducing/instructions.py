"""Reduction passes that choose another root, or replace instructions by operands, parameters, zeros or ones.

Responsible for the values that can replace an instruction. Does not depend on attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.debugging.reducing.reduction_pass import ReductionPass
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import AFTER_ALL
from xlapy.opcodes.movement import BROADCAST, BroadcastAttributes
from xlapy.opcodes.sources import CONSTANT, PARAMETER, ConstantAttributes, ParameterAttributes
from xlapy.opcodes.tuples import TUPLE

_MAX_LITERAL_ELEMENTS = 64
"""Constants with more elements than this are created as the broadcast of a scalar."""


# -- roots


def _root_elements(module: Module) -> int:
    root = module.entry_computation.root_instruction
    return len(root.operands) if root.op is TUPLE else 0


def _drop_root_elements(module: Module, numbers: Sequence[int]) -> None:
    entry = module.entry_computation
    kept = [o for number, o in enumerate(entry.root_instruction.operands) if number not in numbers]
    edit.set_root(entry, edit.create(entry, TUPLE, kept))


def _set_root(module: Module, numbers: Sequence[int]) -> None:
    """Makes the last of the selected instructions the root. Instructions that only later ones use become unused."""
    entry = module.entry_computation
    edit.set_root(entry, entry.instructions[numbers[-1]])


ROOTS = (
    ReductionPass("results", _root_elements, _drop_root_elements),
    ReductionPass("root", lambda module: len(module.entry_computation), _set_root),
)


# -- replacements


def _non_constants(module: Module) -> list[Instruction]:
    """Returns the instructions that are not constants, last ones first: removing the last ones makes most others
    unused.
    """
    return [i for c in reversed(module.computations) for i in reversed(c.instructions) if i.op is not CONSTANT]


def create_splat(computation: Computation, shape: Shape, number: int) -> Instruction:
    """Creates a value of a shape with all elements equal to `number`; a token becomes an after-all without operands."""
    if shape.is_tuple:
        return edit.create(computation, TUPLE, [create_splat(computation, part, number) for part in shape.tuple_shapes])
    if shape.is_token:
        return edit.create(computation, AFTER_ALL, ())
    if shape.size <= _MAX_LITERAL_ELEMENTS:
        return _constant(computation, np.full(shape.dimensions, number), shape)
    scalar = _constant(computation, np.full((), number), Shape.scalar(shape.element_type))
    return edit.create(computation, BROADCAST, (scalar,), BroadcastAttributes.make(dimensions=()), shape=shape)


def _constant(computation: Computation, array: np.ndarray[Any, Any], shape: Shape) -> Instruction:
    literal = Literal.array_of(array.astype(shape.dtype), shape.with_default_layout())
    return edit.create(computation, CONSTANT, (), ConstantAttributes.make(literal=literal), shape=shape)


def _replace_by_splat(number: int) -> Callable[[Module, Sequence[int]], None]:
    def apply(module: Module, numbers: Sequence[int]) -> None:
        instructions = _non_constants(module)
        for i in numbers:
            computation = instructions[i].parent
            if computation is not None:
                edit.replace_uses(instructions[i], create_splat(computation, instructions[i].shape, number))

    return apply


def _operand_pairs(module: Module) -> list[tuple[Instruction, Instruction]]:
    """Returns each instruction with each of its operands that has the same shape."""
    return [(i, o) for i in _non_constants(module) for o in dict.fromkeys(i.operands) if o.shape.compatible(i.shape)]


def _replace_by_operand(module: Module, numbers: Sequence[int]) -> None:
    for instruction, operand in [_operand_pairs(module)[number] for number in numbers]:
        edit.replace_uses(instruction, operand)


def _replaceable_by_parameter(module: Module) -> list[Instruction]:
    """Returns the instructions of the entry that a parameter can replace: all arrays except parameters and
    constants."""
    entry = module.entry_computation
    return [
        i for i in reversed(entry.instructions) if i.shape.is_array and not is_parameter(i) and i.op is not CONSTANT
    ]


def _replace_by_parameter(module: Module, numbers: Sequence[int]) -> None:
    entry = module.entry_computation
    instructions = _replaceable_by_parameter(module)
    for instruction in [instructions[number] for number in numbers]:
        attributes = ParameterAttributes.make(number=len(entry.parameters))
        parameter = edit.create(entry, PARAMETER, (), attributes, shape=instruction.shape, name=instruction.name)
        edit.replace_uses(instruction, parameter)


PASSES = (
    ReductionPass("zeros", lambda module: len(_non_constants(module)), _replace_by_splat(0)),
    ReductionPass("operands", lambda module: len(_operand_pairs(module)), _replace_by_operand),
    ReductionPass("parameters", lambda module: len(_replaceable_by_parameter(module)), _replace_by_parameter),
    ReductionPass("ones", lambda module: len(_non_constants(module)), _replace_by_splat(1)),
)
