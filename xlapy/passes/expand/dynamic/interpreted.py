"""Replaces operations whose dynamic dimensions cannot be resolved by custom calls that the interpreter evaluates.

    r = c64[<=4] fft(x)   becomes   custom-call(x.array, x.size), custom_call_target="xlapy.interpret"

The `backend_config` of the call contains a program that combines arrays and sizes into dynamic arrays, applies the op
and splits its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.analysis.effects import has_side_effect
from xlapy.base.element_types import S32
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, computation_post_order
from xlapy.interpreter.builtin_targets.program import INTERPRET_TARGET
from xlapy.interpreter.core import rule_of
from xlapy.interpreter.custom import custom_call_rule
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.expand.dynamic.core import Sized, SizeWriter, Value, packed_shape, static


def write_interpreter_call(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Writes the custom call that replaces an instruction, and returns its value.

    Raises `UnsupportedError` if the interpreter does not evaluate the instruction either.
    """
    rule_of(instruction)
    if instruction.op is opcodes.CUSTOM_CALL:
        custom_call_rule(instruction)
    shapes = instruction.operand_shapes
    operands = [write.pack(write.conform(value, shape), shape) for value, shape in zip(values, shapes, strict=True)]
    attributes = CustomCallAttributes.make(
        custom_call_target=INTERPRET_TARGET, custom_call_has_side_effect=has_side_effect(instruction)
    )
    made = write.add(opcodes.CUSTOM_CALL, *operands, attributes=attributes, shape=packed_shape(instruction.shape))
    made.metadata = instruction.metadata
    made.backend_config = _program(instruction).to_text(print_large_constants=True)
    return write.unpack(made, instruction.shape)


def _program(instruction: Instruction) -> Module:
    """Returns the module that computes the packed value of an instruction from packed operands."""
    module = Module(f"interpreted_{instruction.name}")
    called = _copied(instruction, module)
    entry = edit.add_computation(module, "main", entry=True)
    write = SizeWriter(instruction, entry)
    operands: list[Instruction] = []
    for number, operand in enumerate(instruction.operands):
        attributes = ParameterAttributes.make(number=number)
        parameter = write.add(opcodes.PARAMETER, attributes=attributes, shape=packed_shape(operand.shape))
        operands.append(_to_dynamic(write, write.unpack(parameter, operand.shape), operand.shape))
    value = edit.clone_instruction(instruction, entry, operands, called)
    root = write.pack(_to_sized(write, value, instruction.shape), instruction.shape)
    edit.set_root(entry, root)
    return module


def _copied(instruction: Instruction, module: Module) -> list[Computation]:
    """Copies the computations that an instruction calls to another module."""
    assert instruction.parent is not None
    assert instruction.parent.module is not None
    reached = dict.fromkeys(instruction.computations)
    pending = list(reached)
    while pending:
        met = [c for c in called_computations(pending.pop()) if c not in reached]
        reached.update(dict.fromkeys(met))
        pending += met
    copies: dict[Computation, Computation] = {}
    for computation in computation_post_order(instruction.parent.module):
        if computation in reached:
            copies[computation] = edit.clone_computation(computation, module, copies)
    return [copies[computation] for computation in instruction.computations]


def _to_dynamic(write: SizeWriter, value: Value, shape: Shape) -> Instruction:
    """Combines an array and its sizes into an array with dynamic dimensions."""
    if isinstance(value, tuple):
        elements = zip(value, shape.tuple_shapes, strict=True)
        return write.add(opcodes.TUPLE, *[_to_dynamic(write, each, part) for each, part in elements])
    if isinstance(value, Instruction):
        return value
    sizes = [write.size(size) for size in value.sizes]
    return write.add(opcodes.CUSTOM_CALL, value.array, *sizes, attributes=_target("SliceToDynamic"), shape=shape)


def _to_sized(write: SizeWriter, value: Instruction, shape: Shape) -> Value:
    """Splits an array with dynamic dimensions into a padded array and its sizes."""
    if shape.is_static:
        return value
    if shape.is_tuple:
        parts = enumerate(shape.tuple_shapes)
        return tuple(_to_sized(write, write.get_tuple_element(value, number), part) for number, part in parts)
    both = Shape.tuple([static(shape), *[Shape.scalar(S32)] * shape.rank])
    padded = write.add(opcodes.CUSTOM_CALL, value, attributes=_target("PadToStatic"), shape=both)
    sizes = tuple(write.get_tuple_element(padded, 1 + dimension) for dimension in range(shape.rank))
    return Sized(write.get_tuple_element(padded, 0), sizes)


def _target(name: str) -> CustomCallAttributes:
    return CustomCallAttributes.make(custom_call_target=name)
