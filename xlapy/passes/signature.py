"""Copies computations with other parameters or another result, and converts between tuples and their leaves.

Responsible for which instructions are copied when parameters change. Does not depend on the operation that calls the
computation.
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
"""Maps an instruction of the original to the instruction with its value in the copy."""

Bind = Callable[[Writer, Sequence[Instruction]], Values]
Finish = Callable[[Writer, Values], Instruction]


def clone_with_signature(
    computation: Computation, parameters: Sequence[Shape], bind: Bind, finish: Finish
) -> Computation:
    """Returns a copy of a computation with parameters of other shapes.

    bind: gets the new parameters and returns the values of original instructions, usually of the old parameters.
    Instructions that depend on an unbound parameter are not copied. finish: gets the values of all copied instructions
    and writes the root. Instructions that are dead then are removed.
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
    """Returns the flat tuple shape of all leaves of a shape."""
    return Shape.tuple(leaf for _, leaf in shape.leaves())


def has_nested_tuples(shape: Shape) -> bool:
    """Returns whether a tuple shape contains tuples."""
    return any(element.is_tuple for element in shape.tuple_shapes)


def leaves_of(write: Writer, value: Instruction) -> list[Instruction]:
    """Returns the leaves of a value; writes the get-tuple-elements that are needed."""
    if not value.shape.is_tuple:
        return [value]
    found: list[Instruction] = []
    for index in range(len(value.shape.tuple_shapes)):
        element = value.operands[index] if value.op is opcodes.TUPLE else write.get_tuple_element(value, index)
        found += leaves_of(write, element)
    return found


def nest_leaves(write: Writer, leaves: Iterator[Instruction], shape: Shape) -> Instruction:
    """Returns a value of a shape, possibly of nested tuples, with the given leaves."""
    if not shape.is_tuple:
        return next(leaves)
    return write.add(
        opcodes.TUPLE, *[nest_leaves(write, leaves, element) for element in shape.tuple_shapes], shape=shape
    )


def tuple_elements(write: Writer, value: Instruction) -> list[Instruction]:
    """Returns the elements of a tuple value; writes get-tuple-elements unless it is a tuple instruction."""
    if value.op is opcodes.TUPLE:
        return list(value.operands)
    return [write.get_tuple_element(value, index) for index in range(len(value.shape.tuple_shapes))]
