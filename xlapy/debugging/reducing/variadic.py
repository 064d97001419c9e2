"""Reduction passes that drop one of variadic values of an instruction.

Responsible for the elements that loops carry, the operands of variadic sorts and reductions, and the branches of
conditionals. Users of the whole result get a tuple that is assembled again. Does not depend on what the computations
do.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.shape import Shape
from xlapy.debugging.reducing.instructions import create_splat
from xlapy.debugging.reducing.reduction_pass import ReductionPass
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


def _parent(instruction: Instruction) -> Computation:
    computation = instruction.parent
    assert computation is not None
    return computation


def _element(value: Instruction, index: int) -> Instruction:
    if value.op is TUPLE:
        return value.operands[index]
    return edit.create(_parent(value), GET_TUPLE_ELEMENT, (value,), GetTupleElementAttributes.make(index=index))


def _elements(value: Instruction, without: int) -> list[Instruction]:
    """Returns all elements of a tuple except one."""
    return [_element(value, i) for i in range(len(value.shape.tuple_shapes)) if i != without]


def _replace_tuple(old: Instruction, elements: Sequence[Instruction], replacement: Instruction | None = None) -> None:
    """Replaces users of elements of a tuple by the new elements, and other users by a tuple of them.

    If `old` is the root of the entry, `replacement` becomes the root, if given; the result of the program then changes.
    """
    if replacement is not None and old.is_root and _parent(old).is_entry:
        edit.set_root(_parent(old), replacement)
    tuple_ = edit.create(_parent(old), TUPLE, elements)
    edit.replace_uses(old, tuple_)
    forward_elements([user for user in tuple_.users if user.op is GET_TUPLE_ELEMENT])


# -- loops


def _loop_elements(module: Module) -> list[tuple[Instruction, int]]:
    loops = [i for i in module.instructions() if i.op is WHILE]
    return [(loop, index) for loop in loops for index in reversed(range(len(loop.shape.tuple_shapes)))]


def _drop_loop_element(module: Module, numbers: Sequence[int]) -> None:
    """Drops an element from the tuple that a loop carries. In the loop, zeros replace it; after it, its initial value
    does.
    """
    carried = _loop_elements(module)
    for loop, index in [carried[number] for number in numbers]:
        computations = [edit.clone_computation(c, module) for c in loop.computations]
        for computation in computations:
            _drop_parameter_element(computation, index)
        body = computations[1]
        edit.set_root(body, edit.create(body, TUPLE, _elements(body.root_instruction, index)))
        initial = loop.operands[0]
        start = edit.create(_parent(loop), TUPLE, _elements(initial, index))
        replacement = edit.create(_parent(loop), WHILE, (start,), loop.attributes, computations)
        elements = [_element(replacement, i) for i in range(len(replacement.shape.tuple_shapes))]
        elements.insert(index, _element(initial, index))
        _replace_tuple(loop, elements, replacement)


def _drop_parameter_element(computation: Computation, index: int) -> None:
    (old,) = computation.parameters
    shapes = list(old.shape.tuple_shapes)
    zeros = create_splat(computation, shapes.pop(index), 0)
    new = edit.create(computation, PARAMETER, (), ParameterAttributes.make(number=1), shape=Shape.tuple(shapes))
    elements = [_element(new, i) for i in range(len(shapes))]
    elements.insert(index, zeros)
    _replace_tuple(old, elements)
    edit.remove_parameter(old)


# -- operands of sorts and reductions


def _variadic_operands(module: Module) -> list[tuple[Instruction, int]]:
    variadic = [i for i in module.instructions() if i.op in (SORT, REDUCE, REDUCE_WINDOW) and i.shape.is_tuple]
    return [(i, index) for i in variadic for index in range(len(i.shape.tuple_shapes)) if len(i.shape.tuple_shapes) > 1]


def _drop_variadic_operand(module: Module, numbers: Sequence[int]) -> None:
    """Drops an operand of a variadic sort or reduction. Zeros replace its result."""
    pairs = _variadic_operands(module)
    for instruction, index in [pairs[number] for number in numbers]:
        count = len(instruction.shape.tuple_shapes)
        sorts = instruction.op is SORT
        dropped = {2 * index, 2 * index + 1} if sorts else {index, count + index}
        computation = edit.clone_computation(instruction.to_apply, module)
        _drop_parameters(computation, dropped)
        if not sorts:
            left = _elements(computation.root_instruction, index)
            edit.set_root(computation, left[0] if len(left) == 1 else edit.create(computation, TUPLE, left))
        operands = [o for i, o in enumerate(instruction.operands) if i % count != index]
        replacement = edit.create(
            _parent(instruction), instruction.op, operands, instruction.attributes, (computation,)
        )
        results = [_element(replacement, i) for i in range(count - 1)] if replacement.shape.is_tuple else [replacement]
        results.insert(index, create_splat(_parent(instruction), instruction.shape.tuple_shapes[index], 0))
        _replace_tuple(instruction, results, replacement)


def _drop_parameters(computation: Computation, numbers: set[int]) -> None:
    """Removes parameters. Zeros replace them."""
    for number in sorted(numbers, reverse=True):
        parameter = computation.parameters[number]
        edit.replace_uses(parameter, create_splat(computation, parameter.shape, 0))
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
        replacement = edit.create(_parent(conditional), CONDITIONAL, operands, conditional.attributes, computations)
        edit.replace_uses(conditional, replacement)


PASSES = (
    ReductionPass("carried values", lambda module: len(_loop_elements(module)), _drop_loop_element),
    ReductionPass("variadic operands", lambda module: len(_variadic_operands(module)), _drop_variadic_operand),
    ReductionPass("numbered branches", lambda module: len(_branches(module)), _drop_branch),
)
