"""Copies of computations with other parameters or another result, and tuples taken apart and put together.

Owns: what is copied when parameters change. Must not know: which op calls the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.rewrite import Writer, remove_if_dead

Values = Mapping[Instruction, Instruction]
"""An instruction of the original -> the one with its value in the copy."""

Bind = Callable[[Writer, Sequence[Instruction]], Values]
Finish = Callable[[Writer, Values], Instruction]


def rebuild(computation: Computation, parameters: Sequence[Shape], bind: Bind, finish: Finish) -> Computation:
    """A copy with parameters of other shapes.

    `bind` is given the new parameters and says which original instructions have which values; parameters and what
    depends on an unbound one are left out. `finish` is given all values and writes the root; what is dead then goes.
    """
    assert computation.module is not None
    copy = edit.add_computation(computation.module, computation.name)
    copy.execution_thread = computation.execution_thread
    write = Writer(computation.root_instruction, copy)
    values = dict(bind(write, [_parameter(copy, *each) for each in enumerate(parameters)]))
    for instruction in post_order(computation):
        known = all(operand in values for operand in instruction.operands)
        if instruction not in values and known and not is_parameter(instruction):
            values[instruction] = edit.clone_instruction(instruction, copy, [values[o] for o in instruction.operands])
    for original, clone in values.items():
        for before in original.control_predecessors:
            if before in values and clone.parent is copy:
                edit.add_control_edge(values[before], clone)
    edit.set_root(copy, finish(write, values))
    for instruction in reversed(copy.instructions):
        remove_if_dead(instruction)
    return copy


def _parameter(computation: Computation, number: int, shape: Shape) -> Instruction:
    attributes = ParameterAttributes.make(number=number)
    return edit.create(computation, opcodes.PARAMETER, attributes=attributes, shape=shape)


def flat_shape(shape: Shape) -> Shape:
    """The tuple of all leaves."""
    return Shape.tuple(leaf for _, leaf in shape.leaves())


def is_nested(shape: Shape) -> bool:
    """Whether there is a tuple inside a tuple."""
    return any(element.is_tuple for element in shape.tuple_shapes)


def leaves_of(write: Writer, value: Instruction) -> list[Instruction]:
    """The leaves of a value, nested tuples taken apart."""
    if not value.shape.is_tuple:
        return [value]
    found: list[Instruction] = []
    for index in range(len(value.shape.tuple_shapes)):
        element = value.operands[index] if value.op is opcodes.TUPLE else write.element(value, index)
        found += leaves_of(write, element)
    return found


def nested(write: Writer, leaves: Iterator[Instruction], shape: Shape) -> Instruction:
    """Leaves put together to a value of a shape."""
    if not shape.is_tuple:
        return next(leaves)
    return write.add(opcodes.TUPLE, *[nested(write, leaves, element) for element in shape.tuple_shapes], shape=shape)


def elements_of_value(write: Writer, value: Instruction) -> list[Instruction]:
    """The elements of a tuple value."""
    if value.op is opcodes.TUPLE:
        return list(value.operands)
    return [write.element(value, index) for index in range(len(value.shape.tuple_shapes))]
