"""Passes that make tuples smaller: elements are taken before the tuple is made, loops carry less.

Owns: tuples of loops and of parameters. Must not know: what elements hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.ops.control import WHILE
from xlapy.ops.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes
from xlapy.testing.reducing.instructions import filled
from xlapy.testing.reducing.proposals import Proposals


def _taken(module: Module) -> list[Instruction]:
    """Elements of tuples that are made in the same computation."""
    return [i for i in module.instructions() if i.op is GET_TUPLE_ELEMENT and i.operands[0].op is TUPLE]


def _forward(module: Module, numbers: Sequence[int]) -> None:
    taken = _taken(module)
    for element in [taken[number] for number in numbers]:
        edit.replace_uses(element, element.operands[0].operands[element.attributes.index])


# -- loops


def _carried(module: Module) -> list[tuple[Instruction, int]]:
    """The elements that loops carry, where the tuples of all turns are made and taken apart element by element."""
    loops = [i for i in module.instructions() if i.op is WHILE and _is_apart(i)]
    return [(loop, index) for loop in loops for index in reversed(range(len(loop.shape.tuple_shapes)))]


def _is_apart(loop: Instruction) -> bool:
    condition, body = loop.computations
    shared = len(condition.callers) > 1 or len(body.callers) > 1
    made = loop.operands[0].op is TUPLE and body.root_instruction.op is TUPLE
    users = [user for i in (loop, condition.parameters[0], body.parameters[0]) for user in i.users]
    return made and not shared and not loop.is_root and all(user.op is GET_TUPLE_ELEMENT for user in users)


def _drop_carried(module: Module, numbers: Sequence[int]) -> None:
    carried = _carried(module)
    for loop, index in [carried[number] for number in numbers]:
        _drop_from_loop(loop, index)


def _drop_from_loop(loop: Instruction, index: int) -> None:
    """Whoever asks for the element gets zeros; behind the loop, what it was in the beginning."""
    condition, body = loop.computations
    initial, root = loop.operands[0], body.root_instruction
    _take_from_users(loop, index, initial.operands[index])
    for parameter in (condition.parameters[0], body.parameters[0]):
        computation = parameter.parent
        assert computation is not None
        _take_from_users(parameter, index, filled(computation, parameter.shape.tuple_shapes[index], 0))
    shape = _without(loop.shape, index)
    for instruction in (loop, condition.parameters[0], body.parameters[0]):
        edit.set_shape(instruction, shape)
    for made in (initial, root):
        computation = made.parent
        assert computation is not None
        smaller = edit.create(computation, TUPLE, [o for i, o in enumerate(made.operands) if i != index])
        if made is root:
            edit.set_root(computation, smaller)
        else:
            edit.set_operands(loop, (smaller,))


def _take_from_users(value: Instruction, index: int, instead: Instruction) -> None:
    for user in value.users:
        number = user.attributes.index
        if number == index:
            edit.replace_uses(user, instead)
            edit.remove_control_edges(user)
            edit.remove(user)
        elif number > index:
            user.attributes = GetTupleElementAttributes.make(index=number - 1)


def _without(shape: Shape, index: int) -> Shape:
    return Shape.tuple([part for i, part in enumerate(shape.tuple_shapes) if i != index])


PASSES = (
    Proposals("tuple elements", lambda module: len(_taken(module)), _forward),
    Proposals("carried elements", lambda module: len(_carried(module)), _drop_carried),
)
