"""The pass that makes dynamic dimensions static: arrays padded to their bounds, with their sizes as further values.

XLA's counterpart is DynamicPadder. Responsible for computations, parameters, loops, branches and calls with such
values, and for the module's signature. Does not depend on what an op does to sizes (`expand/dynamic/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.inlining import order_copies
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ShapeIndex
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.expand.dynamic import (
    DYNAMIC_EXPANSIONS,
    DynamicRule,
    SizeWriter,
    Value,
    packed_shape,
    unsupported,
    write_interpreter_call,
)
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.rewrite import remove_uncalled_computations

SIZE_OPS: frozenset[OpDef] = frozenset(
    {opcodes.DYNAMIC_RESHAPE, opcodes.GET_DIMENSION_SIZE, opcodes.SET_DIMENSION_SIZE}
)
"""Operations on sizes, which are resolved even if all dimensions are static."""

_CALLERS: frozenset[OpDef] = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})


@dataclass(frozen=True)
class ResolveDynamicDimensions:
    """Makes dynamic dimensions static: a value of f32[<=5] becomes the pair of an f32[5] and its size, an s32[].

    So do parameters and results of the entry computation. A size greater than its bound becomes the bound. A schedule
    is dropped. Raises `UnsupportedError` for operations that cannot be resolved (collectives, transfers, fusions).

    interpret: replace such operations by calls of `xlapy.interpret`, for platforms on which the interpreter evaluates
    them.
    """

    name: ClassVar[str] = "resolve-dynamic-dimensions"
    interpret: bool = False

    def run(self, module: Module) -> bool:
        if not any(map(_has_dynamic_result, module.instructions())):
            return False
        entry, replaced = module.entry_computation, dict[Computation, Computation]()
        for computation in computation_post_order(module):
            if _carries_sizes(computation, replaced):
                replaced[computation] = _ResolvedComputation(computation, replaced, self.interpret).copy
        _replace_entry(module, entry, replaced)
        remove_uncalled_computations(reversed(list(replaced)))
        RemoveDeadCode().run(module)
        return True


def _has_dynamic_result(instruction: Instruction) -> bool:
    return instruction.op in SIZE_OPS or instruction.shape.is_dynamic


def _has_dynamic_operands(instruction: Instruction) -> bool:
    return any(shape.is_dynamic for shape in instruction.operand_shapes)


def _carries_sizes(computation: Computation, replaced: dict[Computation, Computation]) -> bool:
    return any(_has_dynamic_result(i) or any(c in replaced for c in i.computations) for i in computation) or any(
        caller.shape.is_dynamic or _has_dynamic_operands(caller)
        for caller in computation.callers
        if caller.op in _CALLERS
    )


class _ResolvedComputation:
    """A copy of a computation on static arrays and sizes. copy: the new computation."""

    def __init__(self, computation: Computation, replaced: dict[Computation, Computation], interpret: bool) -> None:
        module = computation.module
        assert module is not None
        self.replaced = replaced
        self.interpret = interpret
        self.copy = edit.add_computation(module, computation.name)
        self.copy.execution_thread = computation.execution_thread
        self.values: dict[Instruction, Value] = {}
        self.last: dict[Instruction, Sequence[Instruction]] = {}
        parameters, result = _signature(computation)
        for parameter, shape in zip(computation.parameters, parameters, strict=True):
            self.values[parameter] = self.parameter(parameter, shape)
        for instruction in post_order(computation):
            if not is_parameter(instruction):
                self.add(instruction)
        root = computation.root_instruction
        write = SizeWriter(root, self.copy)
        edit.set_root(self.copy, write.pack(write.conform(self.values[root], result), result))

    def parameter(self, parameter: Instruction, shape: Shape) -> Value:
        write = SizeWriter(parameter, self.copy)
        made = edit.create(
            self.copy,
            opcodes.PARAMETER,
            attributes=ParameterAttributes.make(number=parameter.parameter_number),
            shape=packed_shape(shape),
            name=parameter.name,
            metadata=parameter.metadata,
        )
        return write.conform(write.unpack(made, shape), parameter.shape)

    def add(self, instruction: Instruction) -> None:
        write = SizeWriter(instruction, self.copy)
        if self.calls_sizes(instruction) and instruction.op in _CALLERS:
            value = self.call(write, instruction)
        elif self.calls_sizes(instruction) or _has_dynamic_result(instruction) or _has_dynamic_operands(instruction):
            value = self.resolved(write, instruction)
        else:
            operands = [self.values[operand] for operand in instruction.operands]
            value = edit.clone_instruction(instruction, self.copy, operands)
            write.created.append(value)
        self.values[instruction] = value
        self.keep_order(instruction, write.created)

    def calls_sizes(self, instruction: Instruction) -> bool:
        return any(computation in self.replaced for computation in instruction.computations)

    def resolved(self, write: SizeWriter, instruction: Instruction) -> Value:
        """Returns the value of an instruction, by the rule of its op or, if it has none, by the interpreter."""
        values = [self.values[operand] for operand in instruction.operands]
        try:
            if self.calls_sizes(instruction):
                where = "calls, loops and branches"
                raise unsupported(instruction, f"computations of dynamic dimensions are resolved in {where}")
            value = _rule_of(instruction)(write, instruction, values)
        except UnsupportedError:
            if not self.interpret:
                raise
            write.discard()
            value = write_interpreter_call(write, instruction, values)
        return write.conform(value, instruction.shape)

    def keep_order(self, instruction: Instruction, made: list[Instruction]) -> None:
        """Moves the control edges of an instruction to those instructions of its replacement that act."""
        if instruction.has_control_edges:
            before = [last for predecessor in instruction.control_predecessors for last in self.last[predecessor]]
            self.last[instruction] = order_copies(before, made, len(instruction.control_successors))

    def call(self, write: SizeWriter, instruction: Instruction) -> Value:
        called = [self.replaced.get(computation, computation) for computation in instruction.computations]
        wanted = _operand_shapes(instruction)
        operands = [
            write.pack(write.conform(self.values[operand], shape), shape)
            for operand, shape in zip(instruction.operands, wanted, strict=True)
        ]
        made = edit.create(
            self.copy,
            instruction.op,
            operands,
            instruction.attributes,
            called,
            shape=packed_shape(instruction.shape),
            name=instruction.name,
            metadata=instruction.metadata,
        )
        edit.copy_annotations(instruction, made)
        write.created.append(made)
        return write.unpack(made, instruction.shape)


def _rule_of(instruction: Instruction) -> DynamicRule:
    if instruction.op not in DYNAMIC_EXPANSIONS:
        raise unsupported(instruction, DYNAMIC_EXPANSIONS.refusals.get(instruction.op, "it is to be expanded first"))
    return DYNAMIC_EXPANSIONS.find(instruction.op)


def _signature(computation: Computation) -> tuple[list[Shape], Shape]:
    """Returns the shapes of parameters and result as the callers declare them.

    XLA allows f32[<=4] for f32[4] and vice versa between a loop or conditional and its computations.
    """
    parameters = [parameter.shape for parameter in computation.parameters]
    result = computation.root_instruction.shape
    for caller in computation.callers:
        if caller.op is opcodes.WHILE:
            is_body = caller.computation("body") is computation
            return [caller.shape], caller.shape if is_body else result
        if caller.op in _CALLERS:
            return parameters, caller.shape
    return parameters, result


def _operand_shapes(instruction: Instruction) -> list[Shape]:
    """Returns the operand shapes that the called computations take according to `_signature`."""
    if instruction.op is opcodes.WHILE:
        return [instruction.shape]
    called = [parameter.shape for computation in instruction.computations for parameter in computation.parameters]
    return [instruction.operands[0].shape, *called] if instruction.op is opcodes.CONDITIONAL else called


def _replace_entry(module: Module, entry: Computation, replaced: dict[Computation, Computation]) -> None:
    """Makes the copy the entry, and updates layouts, aliases and donors."""
    program, config = entry.program_shape, module.config
    module.entry = replaced[entry]
    config.is_scheduled = False
    if config.entry_computation_layout is not None:
        layout = config.entry_computation_layout
        config.entry_computation_layout = ProgramShape(
            [packed_shape(shape) for shape in layout.parameters], packed_shape(layout.result), layout.parameter_names
        )

    def moved(shape: Shape, index: ShapeIndex) -> ShapeIndex:
        part = shape.subshape(index)
        return (*index, 0) if part.is_array and part.is_dynamic else index

    config.input_output_alias = tuple(
        replace(
            alias,
            output_index=moved(program.result, alias.output_index),
            parameter_index=moved(program.parameters[alias.parameter_number], alias.parameter_index),
        )
        for alias in config.input_output_alias
    )
    config.buffer_donors = tuple(
        replace(donor, parameter_index=moved(program.parameters[donor.parameter_number], donor.parameter_index))
        for donor in config.buffer_donors
    )
