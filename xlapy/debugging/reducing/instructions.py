"""Passes that make instructions unnecessary: another root, or something simpler in their place.

Owns: what may stand for an instruction: an operand, a parameter, zeros, ones. Must not know: attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.debugging.reducing.proposals import Proposals
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import AFTER_ALL
from xlapy.opcodes.movement import BROADCAST, BroadcastAttributes
from xlapy.opcodes.sources import CONSTANT, PARAMETER, ConstantAttributes, ParameterAttributes
from xlapy.opcodes.tuples import TUPLE

_MOST_WRITTEN = 64
"""Larger constants are one element, broadcast."""


# -- roots


def _root_elements(module: Module) -> int:
    root = module.entry_computation.root_instruction
    return len(root.operands) if root.op is TUPLE else 0


def _drop_root_elements(module: Module, numbers: Sequence[int]) -> None:
    entry = module.entry_computation
    kept = [o for number, o in enumerate(entry.root_instruction.operands) if number not in numbers]
    edit.set_root(entry, edit.create(entry, TUPLE, kept))


def _take_as_root(module: Module, numbers: Sequence[int]) -> None:
    """The last of the instructions asked for: what only those behind it need goes."""
    entry = module.entry_computation
    edit.set_root(entry, entry.instructions[numbers[-1]])


ROOTS = (
    Proposals("results", _root_elements, _drop_root_elements),
    Proposals("root", lambda module: len(module.entry_computation), _take_as_root),
)


# -- replacements


def _made(module: Module) -> list[Instruction]:
    """The instructions that are no constants, last ones first: with them goes most."""
    return [i for c in reversed(module.computations) for i in reversed(c.instructions) if i.op is not CONSTANT]


def filled(computation: Computation, shape: Shape, number: int) -> Instruction:
    """A value of a shape that is the number everywhere; a token is one of nothing."""
    if shape.is_tuple:
        return edit.create(computation, TUPLE, [filled(computation, part, number) for part in shape.tuple_shapes])
    if shape.is_token:
        return edit.create(computation, AFTER_ALL, ())
    if shape.size <= _MOST_WRITTEN:
        return _constant(computation, np.full(shape.dimensions, number), shape)
    scalar = _constant(computation, np.full((), number), Shape.scalar(shape.element_type))
    return edit.create(computation, BROADCAST, (scalar,), BroadcastAttributes.make(dimensions=()), shape=shape)


def _constant(computation: Computation, array: np.ndarray[Any, Any], shape: Shape) -> Instruction:
    literal = Literal.array_of(array.astype(shape.dtype), shape.with_default_layout())
    return edit.create(computation, CONSTANT, (), ConstantAttributes.make(literal=literal), shape=shape)


def _fill(number: int) -> Callable[[Module, Sequence[int]], None]:
    def apply(module: Module, numbers: Sequence[int]) -> None:
        made = _made(module)
        for i in numbers:
            computation = made[i].parent
            if computation is not None:
                edit.replace_uses(made[i], filled(computation, made[i].shape, number))

    return apply


def _operand_pairs(module: Module) -> list[tuple[Instruction, Instruction]]:
    """Instructions with an operand that has their shape."""
    return [(i, o) for i in _made(module) for o in dict.fromkeys(i.operands) if o.shape.compatible(i.shape)]


def _take_operands(module: Module, numbers: Sequence[int]) -> None:
    for instruction, operand in [_operand_pairs(module)[number] for number in numbers]:
        edit.replace_uses(instruction, operand)


def _replaceable(module: Module) -> list[Instruction]:
    """Instructions of the entry whose value may come from outside; tuples and tokens may not."""
    entry = module.entry_computation
    return [
        i for i in reversed(entry.instructions) if i.shape.is_array and not is_parameter(i) and i.op is not CONSTANT
    ]


def _take_parameters(module: Module, numbers: Sequence[int]) -> None:
    entry = module.entry_computation
    instructions = _replaceable(module)
    for instruction in [instructions[number] for number in numbers]:
        attributes = ParameterAttributes.make(number=len(entry.parameters))
        parameter = edit.create(entry, PARAMETER, (), attributes, shape=instruction.shape, name=instruction.name)
        edit.replace_uses(instruction, parameter)


PASSES = (
    Proposals("zeros", lambda module: len(_made(module)), _fill(0)),
    Proposals("operands", lambda module: len(_operand_pairs(module)), _take_operands),
    Proposals("parameters", lambda module: len(_replaceable(module)), _take_parameters),
    Proposals("ones", lambda module: len(_made(module)), _fill(1)),
)
