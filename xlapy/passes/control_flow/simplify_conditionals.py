"""The pass that simplifies conditionals: known or equal branches, and elements of results that need no branch.

Does not depend on what branches compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements
from xlapy.analysis.cost import element_cost
from xlapy.analysis.structural_numbering import StructuralNumbering
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.passes.algebra.core import known_array
from xlapy.passes.control_flow.inline_calls import inline_call_with_annotations, keeps_annotations
from xlapy.passes.rewrite import (
    Writer,
    can_replace,
    editable_computations,
    is_dead,
    remove_if_dead,
    remove_replaced,
    remove_uncalled_computations,
    replace_with_existing,
    replace_with_new,
    transfer_annotations,
    update_schedule,
)
from xlapy.passes.signature import Values, clone_with_signature, leaves_of, nest_leaves

MAX_SELECTED_COST = 8
"""The largest cost of two branches that are both computed (`analysis.cost.element_cost`). A wrong guess of a branch
takes about 15 cycles."""

_FREE = frozenset({opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE})


@dataclass(frozen=True)
class SimplifyConditionals:
    """Replaces conditionals whose branch is known by that branch, and simplifies the results of others.

    Two branches that only compute a few numbers become selections in loops.
    A branch is known if the index is constant, if there is only one, or if all are equal and have the same operand.
    Unused elements of the result are removed. Elements that are the same constant, or the same value from outside, in
    all branches are replaced by it. Constant elements of a branch's operand are copied into the branch.
    """

    name: ClassVar[str] = "simplify-conditionals"

    def run(self, module: Module) -> bool:
        changed = False
        while _simplify_all(module):  # a value that one conditional passed on may decide another
            changed = True
        return update_schedule(module, changed)


def _simplify_all(module: Module) -> bool:
    numbering = StructuralNumbering()
    changed = False
    for computation in editable_computations(module):
        for instruction in [i for i in computation if i.op is opcodes.CONDITIONAL and computation.module is module]:
            changed |= instruction.parent is not None and _simplify(instruction, numbering)
    return changed


def _simplify(conditional: Instruction, numbering: StructuralNumbering) -> bool:
    if is_dead(conditional) or conditional.shape.is_dynamic:
        return False
    branch = _taken_branch(conditional, numbering)
    called = conditional.computations
    if branch is not None:
        _replace_by_branch(conditional, branch)
        remove_uncalled_computations(called)
        return True
    if _has_cheap_branches(conditional):
        _replace_by_selections(conditional)
        remove_uncalled_computations(called)
        return True
    changed = False
    for number in range(len(called)):
        changed |= _copy_constants_into(conditional, number)
    if conditional.shape.is_tuple and conditional.sharding is None:
        changed |= _replace_common_elements(conditional)
        changed |= _remove_unused_elements(conditional)
        remove_uncalled_computations(called)
    return changed


# -- which branch


def _taken_branch(conditional: Instruction, numbering: StructuralNumbering) -> int | None:
    """Returns the number of the branch that is always taken; None if there is no such branch."""
    branches = conditional.computations
    index = known_array(conditional.operands[0])
    if index is not None:
        number = int(not index) if conditional.operands[0].shape.element_type is PRED else int(index)
        return number if 0 <= number < len(branches) else len(branches) - 1
    same_operands = len(set(conditional.operands[1:])) == 1
    same_branches = len({numbering.number(branch) for branch in branches}) == 1
    return 0 if same_operands and same_branches else None


def _replace_by_branch(conditional: Instruction, number: int) -> None:
    """Replaces a conditional by a call of one branch, and inlines it if annotations allow that."""
    write = Writer(conditional)
    branch = conditional.computations[number]
    call = write.add(opcodes.CALL, conditional.operands[number + 1], computations=[branch], shape=conditional.shape)
    replace_with_new(conditional, call)
    if keeps_annotations(call):
        inline_call_with_annotations(call)


# -- branches that are computed both


def _has_cheap_branches(conditional: Instruction) -> bool:
    """Whether two branches in a loop compute a few numbers in less time than a wrong guess of the processor takes."""
    computation = conditional.parent
    if computation is None or not any(caller.op is opcodes.WHILE for caller in computation.callers):
        return False
    if len(conditional.computations) != 2 or conditional.has_control_edges or conditional.sharding is not None:
        return False
    if not all(leaf.is_array and not leaf.rank for _, leaf in conditional.shape.leaves()):
        return False
    cost = 0
    for branch in conditional.computations:
        for one in branch:
            if one.has_control_edges or one.sharding is not None:
                return False
            if one.op in _FREE:
                continue
            if not one.op.elementwise or one.shape.rank:
                return False
            cost += element_cost(one)
    return cost <= MAX_SELECTED_COST


def _replace_by_selections(conditional: Instruction) -> None:
    """Replaces a conditional with two branches by both of them, and selections of the elements of their results."""
    write = Writer(conditional)
    index, *operands = conditional.operands
    if index.shape.element_type is not PRED:  # the branch 0; any other index takes the last branch
        zero = write.scalar(0, index.shape.element_type)
        equal = CompareAttributes.make(direction=ComparisonDirection.EQ)
        index = write.add(opcodes.COMPARE, index, zero, attributes=equal)
    results: list[Sequence[Instruction]] = []
    for branch, operand in zip(conditional.computations, operands, strict=True):
        copies: dict[Instruction, Instruction] = {branch.parameters[0]: operand}
        for one in post_order(branch):
            if one not in copies:
                copies[one] = edit.clone_instruction(one, write.computation, [copies[o] for o in one.operands])
        results.append(leaves_of(write, copies[branch.root_instruction]))
    chosen = [write.add(opcodes.SELECT, index, *pair) for pair in zip(*results, strict=True)]
    value = nest_leaves(write, iter(chosen), conditional.shape)
    edit.replace_uses(conditional, value)
    remove_replaced(conditional)


# -- constant operands of branches


def _copy_constants_into(conditional: Instruction, number: int) -> bool:
    """Copies constant elements of a branch's operand into the branch, unless the branch has other callers."""
    branch, operand = conditional.computations[number], conditional.operands[number + 1]
    if len(branch.callers) != 1 or conditional.computations.count(branch) != 1:
        return False
    (parameter,) = branch.parameters
    changed = False
    for user in parameter.users:
        reads = user.op is opcodes.GET_TUPLE_ELEMENT and operand.op is opcodes.TUPLE
        source = operand.operands[user.tuple_index] if reads else None
        if source is not None and _is_known(source) and (user.has_users or user.is_root):
            constant = Writer(user).add(opcodes.CONSTANT, attributes=source.attributes, shape=source.shape)
            replace_with_new(user, constant)
            changed = True
    return changed


def _is_known(instruction: Instruction) -> bool:
    return instruction.op is opcodes.CONSTANT and has_all_elements(instruction.literal)


# -- elements of the result


def _readers(conditional: Instruction) -> list[Instruction] | None:
    """Returns the get-tuple-elements that read the result; None if it is used as a whole."""
    if conditional.is_root or any(user.op is not opcodes.GET_TUPLE_ELEMENT for user in conditional.users):
        return None
    if any(branch.root_instruction.op is not opcodes.TUPLE for branch in conditional.computations):
        return None
    return list(conditional.users)


def _replace_common_elements(conditional: Instruction) -> bool:
    """Replaces elements of the result that are the same in all branches by their sources."""
    changed = False
    for reader in _readers(conditional) or ():
        results = [branch.root_instruction.operands[reader.tuple_index] for branch in conditional.computations]
        if is_dead(reader):
            continue
        if all(_is_known(result) and result.attributes == results[0].attributes for result in results):
            constant = Writer(reader).add(opcodes.CONSTANT, attributes=results[0].attributes, shape=reader.shape)
            replace_with_new(reader, constant)
            changed = True
            continue
        sources = {_value_outside(conditional, *each) for each in enumerate(results)}
        source = sources.pop()
        if not sources and source is not None and can_replace(source, reader):
            replace_with_existing(reader, source)
            changed = True
    return changed


def _value_outside(conditional: Instruction, number: int, result: Instruction) -> Instruction | None:
    """Returns the value outside of the conditional that a branch returns as it is; None for other values."""
    operand = conditional.operands[number + 1]
    if result.op is opcodes.PARAMETER:
        return operand
    is_element = result.op is opcodes.GET_TUPLE_ELEMENT and result.operands[0].op is opcodes.PARAMETER
    return operand.operands[result.tuple_index] if is_element and operand.op is opcodes.TUPLE else None


def _remove_unused_elements(conditional: Instruction) -> bool:
    """Rebuilds the conditional without the elements of the result that have no users."""
    readers = _readers(conditional)
    if readers is None:
        return False
    kept = sorted({reader.tuple_index for reader in readers if not is_dead(reader)})
    if len(kept) == len(conditional.shape.tuple_shapes) or not readers:
        return False
    shape = Shape.tuple(conditional.shape.tuple_shapes[index] for index in kept)
    write = Writer(conditional)
    branches = [_with_elements(branch, kept, shape) for branch in conditional.computations]
    made = write.add(opcodes.CONDITIONAL, *conditional.operands, computations=branches, shape=shape)
    made.backend_config = conditional.backend_config
    transfer_annotations(conditional, made)
    for reader in readers:
        if is_dead(reader):
            remove_if_dead(reader)
        else:
            replace_with_new(reader, Writer(reader).get_tuple_element(made, kept.index(reader.tuple_index)))
    if conditional.parent is not None:
        remove_replaced(conditional)
    return True


def _with_elements(branch: Computation, kept: Sequence[int], shape: Shape) -> Computation:
    """Returns a copy of a branch that returns only the kept elements."""

    def bind(_: Writer, parameters: Sequence[Instruction]) -> Values:
        return dict(zip(branch.parameters, parameters, strict=True))

    def finish(write: Writer, values: Values) -> Instruction:
        root = branch.root_instruction
        return write.add(opcodes.TUPLE, *[values[root.operands[index]] for index in kept], shape=shape)

    return clone_with_signature(branch, [parameter.shape for parameter in branch.parameters], bind, finish)
