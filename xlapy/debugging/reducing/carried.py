"""Passes that drop one of several values that go through an instruction together.

Owns: what loops carry, what is sorted or reduced together, which branches a conditional has. Whoever used the tuple of
all results gets one that is put together again. Must not know: what the computations do.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.shape import Shape
from xlapy.debugging.reducing.instructions import filled
from xlapy.debugging.reducing.proposals import Proposals
from xlapy.debugging.reducing.tuples import forward_elements
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import CONDITIONAL, WHILE
from xlapy.opcodes.reduction import REDUCE, REDUCE_WINDOW
from xlapy.opcodes.sorting import SORT
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes


def _home(instruction: Instruction) -> Computation:
    computation = instruction.parent
    assert computation is not None
    return computation


def _element(value: Instruction, index: int) -> Instruction:
    if value.op is TUPLE:
        return value.operands[index]
    return edit.create(_home(value), GET_TUPLE_ELEMENT, (value,), GetTupleElementAttributes.make(index=index))


def _elements(value: Instruction, without: int) -> list[Instruction]:
    """All elements of a tuple but one."""
    return [_element(value, i) for i in range(len(value.shape.tuple_shapes)) if i != without]


def _replace_whole(old: Instruction, elements: Sequence[Instruction], made: Instruction | None = None) -> None:
    """Who took an element of the old value gets it from the new ones, others a tuple of them.

    Where it is what the program returns, that becomes `made`, if there is one.
    """
    if made is not None and old.is_root and _home(old).is_entry:
        edit.set_root(_home(old), made)
    whole = edit.create(_home(old), TUPLE, elements)
    edit.replace_uses(old, whole)
    forward_elements([user for user in whole.users if user.op is GET_TUPLE_ELEMENT])


# -- loops


def _carried(module: Module) -> list[tuple[Instruction, int]]:
    loops = [i for i in module.instructions() if i.op is WHILE]
    return [(loop, index) for loop in loops for index in reversed(range(len(loop.shape.tuple_shapes)))]


def _drop_carried(module: Module, numbers: Sequence[int]) -> None:
    """Inside, the element is zeros; behind the loop, what it was before it."""
    carried = _carried(module)
    for loop, index in [carried[number] for number in numbers]:
        computations = [edit.clone_computation(c, module) for c in loop.computations]
        for computation in computations:
            _narrow_parameter(computation, index)
        body = computations[1]
        edit.set_root(body, edit.create(body, TUPLE, _elements(body.root_instruction, index)))
        initial = loop.operands[0]
        start = edit.create(_home(loop), TUPLE, _elements(initial, index))
        made = edit.create(_home(loop), WHILE, (start,), loop.attributes, computations)
        elements = [_element(made, i) for i in range(len(made.shape.tuple_shapes))]
        elements.insert(index, _element(initial, index))
        _replace_whole(loop, elements, made)


def _narrow_parameter(computation: Computation, index: int) -> None:
    (old,) = computation.parameters
    shapes = list(old.shape.tuple_shapes)
    missing = filled(computation, shapes.pop(index), 0)
    new = edit.create(computation, PARAMETER, (), ParameterAttributes.make(number=1), shape=Shape.tuple(shapes))
    elements = [_element(new, i) for i in range(len(shapes))]
    elements.insert(index, missing)
    _replace_whole(old, elements)
    edit.remove_parameter(old)


# -- sorted or reduced together


def _together(module: Module) -> list[tuple[Instruction, int]]:
    several = [i for i in module.instructions() if i.op in (SORT, REDUCE, REDUCE_WINDOW) and i.shape.is_tuple]
    return [(i, index) for i in several for index in range(len(i.shape.tuple_shapes)) if len(i.shape.tuple_shapes) > 1]


def _drop_together(module: Module, numbers: Sequence[int]) -> None:
    """The result left out is zeros."""
    together = _together(module)
    for instruction, index in [together[number] for number in numbers]:
        count = len(instruction.shape.tuple_shapes)
        sorts = instruction.op is SORT
        gone = {2 * index, 2 * index + 1} if sorts else {index, count + index}
        computation = edit.clone_computation(instruction.to_apply, module)
        _drop_parameters(computation, gone)
        if not sorts:
            left = _elements(computation.root_instruction, index)
            edit.set_root(computation, left[0] if len(left) == 1 else edit.create(computation, TUPLE, left))
        operands = [o for i, o in enumerate(instruction.operands) if i % count != index]
        made = edit.create(_home(instruction), instruction.op, operands, instruction.attributes, (computation,))
        parts = [_element(made, i) for i in range(count - 1)] if made.shape.is_tuple else [made]
        parts.insert(index, filled(_home(instruction), instruction.shape.tuple_shapes[index], 0))
        _replace_whole(instruction, parts, made)


def _drop_parameters(computation: Computation, numbers: set[int]) -> None:
    """Whoever uses them gets zeros."""
    for number in sorted(numbers, reverse=True):
        parameter = computation.parameters[number]
        edit.replace_uses(parameter, filled(computation, parameter.shape, 0))
        edit.remove_parameter(parameter)


# -- branches


def _branches(module: Module) -> list[tuple[Instruction, int]]:
    numbered = [
        i for i in module.instructions() if i.op is CONDITIONAL and i.operands[0].shape.element_type.is_integral
    ]
    return [(i, branch) for i in numbered for branch in range(len(i.computations)) if len(i.computations) > 1]


def _drop_branch(module: Module, numbers: Sequence[int]) -> None:
    branches = _branches(module)
    for conditional, branch in [branches[number] for number in numbers]:
        computations = [c for i, c in enumerate(conditional.computations) if i != branch]
        operands = [o for i, o in enumerate(conditional.operands) if i != branch + 1]
        made = edit.create(_home(conditional), CONDITIONAL, operands, conditional.attributes, computations)
        edit.replace_uses(conditional, made)


PASSES = (
    Proposals("carried values", lambda module: len(_carried(module)), _drop_carried),
    Proposals("values together", lambda module: len(_together(module)), _drop_together),
    Proposals("branches of many", lambda module: len(_branches(module)), _drop_branch),
)
