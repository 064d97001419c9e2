"""The pass that flattens nested tuples in the state of loops and in operands and results of branches and calls.

Rewrites of tuples and get-tuple-elements themselves are in `algebra/tuples.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import CallAttributes
from xlapy.passes.algebra import tuples
from xlapy.passes.rewrite import (
    Writer,
    editable_computations,
    is_dead,
    remove_replaced,
    remove_uncalled_computations,
    replace_with_existing,
    transfer_annotations,
    update_schedule,
)
from xlapy.passes.signature import Values, clone_with_signature, flat_shape, has_nested_tuples, leaves_of, nest_leaves
from xlapy.passes.simplify import simplify_computation

_RULES = (tuples.get_element_of_tuple, tuples.get_element_of_constant, tuples.tuple_of_all_elements)


@dataclass(frozen=True)
class FlattenTuples:
    """Makes loops, conditionals and calls carry flat tuples, and removes tuples whose elements only are used.

    A loop on one array becomes a loop on a tuple of it, so that other passes see loops in one form only. Instructions
    with a sharding keep their shape, and so does the entry computation.
    """

    name: ClassVar[str] = "flatten-tuples"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            if computation.module is None:  # replaced by a copy with another signature
                continue
            for instruction in computation.instructions:
                changed |= instruction.parent is not None and not is_dead(instruction) and _flatten(instruction)
            changed |= simplify_computation(computation, rules=_RULES)
        for computation in editable_computations(module):  # the copies too
            changed |= simplify_computation(computation, rules=_RULES)
        return update_schedule(module, changed)


def _flatten(instruction: Instruction) -> bool:
    if instruction.sharding is not None or instruction.shape.is_dynamic or not instruction.computations:
        return False
    flattened = _FLATTENERS.get(instruction.op)
    if flattened is None:
        return False
    called = instruction.computations
    changed = flattened(instruction)
    remove_uncalled_computations(called)
    return changed


def _flatten_while(loop: Instruction) -> bool:
    if not has_nested_tuples(loop.shape) and not loop.shape.is_array:
        return False
    state = flat_shape(loop.shape)
    write = Writer(loop)
    init = write.add(opcodes.TUPLE, *leaves_of(write, loop.operands[0]), shape=state)
    condition, body = loop.computations
    computations = [_copy(condition, [state], flat_result=False), _copy(body, [state], flat_result=True)]
    made = write.add(opcodes.WHILE, init, computations=computations, shape=state)
    _replace_by_flat(write, loop, made)
    return True


def _flatten_conditional(conditional: Instruction) -> bool:
    index, *operands = conditional.operands
    if not has_nested_tuples(conditional.shape) and not any(has_nested_tuples(operand.shape) for operand in operands):
        return False
    write = Writer(conditional)
    flat_operands: list[Instruction] = []
    branches: list[Computation] = []
    for operand, branch in zip(operands, conditional.computations, strict=True):
        shape = flat_shape(operand.shape) if has_nested_tuples(operand.shape) else operand.shape
        flat = operand
        if has_nested_tuples(operand.shape):
            flat = write.add(opcodes.TUPLE, *leaves_of(write, operand), shape=shape)
        flat_operands.append(flat)
        branches.append(_copy(branch, [shape], flat_result=has_nested_tuples(conditional.shape)))
    shape = flat_shape(conditional.shape) if has_nested_tuples(conditional.shape) else conditional.shape
    made = write.add(opcodes.CONDITIONAL, index, *flat_operands, computations=branches, shape=shape)
    _replace_by_flat(write, conditional, made)
    return True


def _flatten_call(call: Instruction) -> bool:
    """Makes each leaf of the operands an operand."""
    if call.attributes_as(CallAttributes).is_composite or not (
        has_nested_tuples(call.shape) or any(o.shape.is_tuple for o in call.operands)
    ):
        return False
    write = Writer(call)
    operands = [leaf for operand in call.operands for leaf in leaves_of(write, operand)]
    parameters = [operand.shape for operand in operands]
    called = _copy(call.computations[0], parameters, flat_result=has_nested_tuples(call.shape))
    shape = flat_shape(call.shape) if has_nested_tuples(call.shape) else call.shape
    made = write.add(opcodes.CALL, *operands, attributes=call.attributes, computations=[called], shape=shape)
    _replace_by_flat(write, call, made)
    return True


_FLATTENERS = {opcodes.WHILE: _flatten_while, opcodes.CONDITIONAL: _flatten_conditional, opcodes.CALL: _flatten_call}


def _copy(computation: Computation, shapes: Sequence[Shape], flat_result: bool) -> Computation:
    """Returns a copy whose parameters are the leaves of the old ones, in flat tuples or one by one.

    flat_result: whether the copy returns the flat tuple of the result's leaves.
    """

    def bind(write: Writer, parameters: Sequence[Instruction]) -> Values:
        leaves = iter([leaf for parameter in parameters for leaf in leaves_of(write, parameter)])
        return {original: nest_leaves(write, leaves, original.shape) for original in computation.parameters}

    def finish(write: Writer, values: Values) -> Instruction:
        root = values[computation.root_instruction]
        if not flat_result:
            return root
        return write.add(opcodes.TUPLE, *leaves_of(write, root), shape=flat_shape(root.shape))

    return clone_with_signature(computation, shapes, bind, finish)


def _replace_by_flat(write: Writer, instruction: Instruction, made: Instruction) -> None:
    """Replaces an instruction by the flat one; users get the leaves in nested tuples again."""
    made.backend_config = instruction.backend_config
    transfer_annotations(instruction, made)
    value = made
    if made.shape != instruction.shape:
        value = nest_leaves(write, iter(leaves_of(write, made)), instruction.shape)
    replace_with_existing(instruction, value)
    remove_replaced(instruction)
