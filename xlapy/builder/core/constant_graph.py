"""Constant values: which values do not depend on the inputs of a program, and the computation that produces one.

Responsible for the definition of constant and for copying the instructions that a constant depends on. Does not depend
on builders or on how the computation is evaluated.
Source: IsConstant, BuildConstantSubGraph of xla_builder.h. XLA also rejects calls, loops and scatters, because it does
not inspect their computations, and treats replica-id and partition-id as constants. Here called computations are
inspected, and values that differ between devices are not constant.
"""

from __future__ import annotations

from xlapy.base.literal import Literal
from xlapy.base.program_shape import ProgramShape
from xlapy.builder.core.computation import XlaComputation
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, computation_post_order
from xlapy.opcodes.custom import CUSTOM_CALL
from xlapy.opcodes.movement import GET_DIMENSION_SIZE
from xlapy.opcodes.registry import Effect
from xlapy.opcodes.sources import CONSTANT, PARAMETER, ConstantAttributes
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE


def is_constant(root: Instruction) -> bool:
    """Whether the value needs no parameter, random number, transfer, other device or code outside of HLO.

    The size of a dimension is always constant; the operand of get-dimension-size is not inspected.
    """
    return all(_is_function(instruction) for instruction in _needed(root))


def constant_sub_graph(name: str, root: Instruction, dynamic_dimension_is_minus_one: bool) -> XlaComputation:
    """Returns a computation without parameters that computes a constant value from copies of the instructions it
    depends on.

    Sizes of dimensions become constants: the bound, or -1 if the dimension is dynamic and the caller requests it.
    """
    needed = _needed(root)
    module = Module(name)
    copies = _copied_computations(needed, module)
    entry = edit.add_computation(module, name, entry=True)
    made: dict[Instruction, Instruction] = {}
    for instruction in root.parent or ():
        if instruction in needed:
            made[instruction] = _copied(instruction, entry, made, copies, dynamic_dimension_is_minus_one)
    edit.set_root(entry, made[_source(root)])
    module.config.entry_computation_layout = ProgramShape((), entry.program_shape.result)
    return XlaComputation(module)


def _needed(root: Instruction) -> set[Instruction]:
    """Returns the instructions that a value depends on, including itself; of a tuple, only the elements that are
    read."""
    found: set[Instruction] = set()
    stack = [_source(root)]
    while stack:
        current = stack.pop()
        if current not in found:
            found.add(current)
            if current.op is not GET_DIMENSION_SIZE:
                stack.extend(map(_source, current.operands))
    return found


def _source(instruction: Instruction) -> Instruction:
    """Returns the element itself for a get-tuple-element of a tuple instruction."""
    while instruction.op is GET_TUPLE_ELEMENT and instruction.operands[0].op is TUPLE:
        instruction = instruction.operands[0].operands[instruction.tuple_index]
    return instruction


def _is_function(instruction: Instruction) -> bool:
    """Whether an instruction returns the same value for the same operands, in every run and on every device."""
    if instruction.op is PARAMETER or not _is_pure(instruction):
        return False
    return all(_is_pure(inner) for called in _reachable(instruction) for inner in called)


def _is_pure(instruction: Instruction) -> bool:
    op = instruction.op
    if op is CUSTOM_CALL or op.family == "collectives":
        return False
    return op.effect_of(instruction.attributes) is not Effect.SIDE_EFFECT


def _reachable(instruction: Instruction) -> set[Computation]:
    """Returns the computations that an instruction calls, and the computations that those call."""
    found: set[Computation] = set()
    stack = list(instruction.computations)
    while stack:
        computation = stack.pop()
        if computation not in found:
            found.add(computation)
            stack.extend(called_computations(computation))
    return found


def _copied_computations(needed: set[Instruction], into: Module) -> dict[Computation, Computation]:
    called = {computation for instruction in needed for computation in _reachable(instruction)}
    copies: dict[Computation, Computation] = {}
    source = next((computation.module for computation in called), None)
    for computation in computation_post_order(source) if source is not None else ():
        if computation in called:
            copies[computation] = edit.clone_computation(computation, into, copies)
    return copies


def _copied(
    instruction: Instruction,
    into: Computation,
    made: dict[Instruction, Instruction],
    copies: dict[Computation, Computation],
    dynamic_dimension_is_minus_one: bool,
) -> Instruction:
    if instruction.op is GET_DIMENSION_SIZE:
        shape, dimension = instruction.operands[0].shape, instruction.dimension
        unknown = dynamic_dimension_is_minus_one and shape.dynamic_dimensions[dimension]
        size = -1 if unknown else shape.dimensions[dimension]
        attributes = ConstantAttributes.make(literal=Literal.of(size, instruction.shape.element_type))
        return edit.create(into, CONSTANT, (), attributes, shape=instruction.shape)
    operands = [made[_source(operand)] for operand in instruction.operands]
    return edit.clone_instruction(instruction, into, operands, [copies[c] for c in instruction.computations])
